# SPDX-License-Identifier: Apache-2.0
from pto.adapters.torch import *  # noqa: F403
