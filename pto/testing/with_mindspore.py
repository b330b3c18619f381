# SPDX-License-Identifier: Apache-2.0
"""MindSpore in the matrix of modes, in PyNative and graph mode."""

import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from pto.testing.cases import Case, adapter_record, flat
from pto.testing.framework import (
    Framework,
    Skipped,
    needs_gradient,
    needs_known_sizes,
    wanted_tensors,
)


class MindSpore(Framework):
    name, module = "MindSpore", "mindspore"

    def __init__(self) -> None:
        import mindspore

        import pto.mindspore

        self.ms, self.face = mindspore, pto.mindspore

    def tensors(self, case: Case) -> list[Any]:
        needs_known_sizes(case, "MindSpore wants it before")
        if case.dtype == "bf16":
            raise Skipped("MindSpore makes no bfloat16 tensor of an array")
        return [self.ms.Tensor(np.asarray(x, order="C")) for x in case.tensors]

    def leaves(self, results: Any) -> list[np.ndarray]:
        return [t.asnumpy() for t in flat(results)]

    def eager(self, case: Case) -> list[np.ndarray]:
        return self.leaves(self.function(case)(*self.tensors(case)))

    def graph(self, case: Case) -> list[np.ndarray]:
        return self.leaves(self.ms.jit(self.function(case))(*self.tensors(case)))

    def mindir(self, case: Case) -> list[np.ndarray]:
        """A graph in a file."""
        function, tensors = self.function(case), self.tensors(case)

        class Net(self.ms.nn.Cell):
            def construct(self, *tensors: Any) -> Any:
                return function(*tensors)

        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder) / "net.mindir")
            self.ms.export(Net(), *tensors, file_name=path, file_format="MINDIR")
            net = self.ms.nn.GraphCell(self.ms.load(path))
        return self.leaves(net(*tensors))

    def loss(self, case: Case) -> Callable:
        """The sum of the elements of all differentiable results."""
        function, outputs = self.function(case), adapter_record(case.operator).outputs
        places = [i for i, o in enumerate(outputs) if o.is_differentiable]
        is_list = [o.is_list for o in outputs]

        def loss(*tensors: Any) -> Any:
            results = function(*tensors)
            if len(is_list) == 1:
                results = (results,)
            total = 0
            for place in places:
                for one in results[place] if is_list[place] else (results[place],):
                    total = total + one.sum()
            return total

        return loss

    def gradient(self, case: Case) -> list[np.ndarray]:
        needs_gradient(case)
        tensors = self.tensors(case)
        return self.leaves(self.ms.grad(self.loss(case), tuple(wanted_tensors(case)))(*tensors))

    modes = {
        "eager": eager, "graph": graph, "gradient": gradient, "MindIR": mindir,
        "threads": Framework.threads,
    }  # fmt: skip
    full = ("eager",)
