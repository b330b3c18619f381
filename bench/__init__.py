# SPDX-License-Identifier: Apache-2.0
"""Benches: speed as ratios to named competitors and to ceilings measured in the same run."""
