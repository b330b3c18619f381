# SPDX-License-Identifier: Apache-2.0
from pto.adapters.mindspore import *  # noqa: F403
