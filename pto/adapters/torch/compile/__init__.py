# SPDX-License-Identifier: Apache-2.0
"""torch.compile(model, backend="pto"): what Dynamo captures as programs of the tile language.

PyTorch finds the backend by the entry point `pto` of the group torch_dynamo_backends, so that no
import is needed. capture.py takes graphs from AOTAutograd, plan.py cuts them into steps, replay.py
writes the function that runs them.
"""

from pto.adapters.torch.compile.capture import backend

__all__ = ["backend"]
