# SPDX-License-Identifier: Apache-2.0
"""The frameworks of the conformance matrix, in the order of its page."""

from conformance.cases import Case
from conformance.framework import Framework, Skipped, in_threads
from conformance.with_jax import Jax
from conformance.with_mindspore import MindSpore
from conformance.with_onnxruntime import OnnxRuntime
from conformance.with_tensorflow import TensorFlow
from conformance.with_torch import Npu, PyTorch


class NumPy(Framework):
    name, module = "NumPy", "numpy"

    def eager(self, case: Case) -> list:
        return case.results()

    def threads(self, case: Case) -> list:
        return in_threads(case.results)

    modes = {"eager": eager, "threads": threads}
    full = ("eager",)


FRAMEWORKS = (NumPy, PyTorch, Npu, Jax, TensorFlow, OnnxRuntime, MindSpore)

__all__ = ["FRAMEWORKS", "Skipped"]
