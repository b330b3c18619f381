# SPDX-License-Identifier: Apache-2.0
from pto.adapters.onnxruntime import *  # noqa: F403
