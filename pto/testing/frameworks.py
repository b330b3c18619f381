# SPDX-License-Identifier: Apache-2.0
"""The frameworks of the matrix of modes, in the order of its page."""

from pto.testing.cases import Case
from pto.testing.framework import Framework, Skipped, in_threads
from pto.testing.with_jax import Jax
from pto.testing.with_mindspore import MindSpore
from pto.testing.with_onnxruntime import OnnxRuntime
from pto.testing.with_tensorflow import TensorFlow
from pto.testing.with_torch import Npu, PyTorch


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
