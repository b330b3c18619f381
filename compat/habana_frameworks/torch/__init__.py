# SPDX-License-Identifier: Apache-2.0
"""Names under which public custom operators and their setup files look for their device."""
