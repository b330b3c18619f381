# SPDX-License-Identifier: Apache-2.0
"""The ONNX Runtime adapter: an execution provider that compiles groups of nodes to tile kernels.

    import onnxruntime, pto.onnxruntime
    session = onnxruntime.InferenceSession("model.onnx", providers=pto.onnxruntime.providers)

Loading it registers the provider with ONNX Runtime. Python plans when a session is made; no Python
runs in a call whose kernel exists.
"""

import sys

import onnxruntime
from pto.adapters.onnxruntime import library, plan

__all__ = ["PROVIDER", "describe", "providers"]

PROVIDER = "PtoExecutionProvider"
providers = (PROVIDER, "CPUExecutionProvider")


def describe() -> str:
    """One line: the version served, and how."""
    return f"ONNX Runtime {onnxruntime.__version__}, {PROVIDER}"


library.set_planner(plan.plan, plan.build)
onnxruntime.register_execution_provider_library(PROVIDER, library.PATH)
sys.modules.setdefault("pto.onnxruntime", sys.modules[__name__])
