# SPDX-License-Identifier: Apache-2.0
from pto.adapters.tensorflow import *  # noqa: F403
