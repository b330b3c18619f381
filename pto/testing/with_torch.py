# SPDX-License-Identifier: Apache-2.0
"""PyTorch in the matrix of modes, on the CPU and on the npu device."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from pto.language.samples import numpy_type
from pto.testing.cases import Case, flat
from pto.testing.framework import (
    Framework,
    Skipped,
    batch_of_two,
    needs_gradient,
    needs_known_sizes,
    needs_second_gradient,
    one_of_two,
    wanted_tensors,
)


class PyTorch(Framework):
    name, module = "PyTorch", "torch"
    device = "cpu"

    def __init__(self) -> None:
        import torch

        import pto.torch  # noqa: F401

        self.torch = torch

    def tensor(self, x: np.ndarray) -> Any:
        if any(s < 0 for s in x.strides):
            raise Skipped("PyTorch has no negative strides")
        x = x if x.flags.writeable else np.lib.stride_tricks.as_strided(
            np.array(x[:1]), x.shape, x.strides)  # fmt: skip
        if x.dtype.name == "bfloat16":
            tensor = self.torch.from_numpy(x.view(np.int16)).view(self.torch.bfloat16)
        else:
            tensor = self.torch.from_numpy(x)
        return tensor.to(self.device)

    def tensors(self, case: Case) -> list[Any]:
        return [self.tensor(x) for x in case.tensors]

    def array(self, tensor: Any) -> np.ndarray:
        tensor = tensor.detach().cpu()
        if tensor.dtype == self.torch.bfloat16:
            return tensor.view(self.torch.int16).numpy().view(numpy_type("bf16"))
        return tensor.numpy()

    def function(self, case: Case) -> Callable:
        return case.of_tensors(getattr(self.torch.ops.pto, case.operator.name).default)

    def call(self, function: Callable, tensors: list[Any]) -> list[np.ndarray]:
        return [self.array(t) for t in flat(function(*tensors))]

    def eager(self, case: Case) -> list[np.ndarray]:
        return self.call(self.function(case), self.tensors(case))

    def compiled(self, case: Case, backend: str) -> list[np.ndarray]:
        function = self.torch.compile(
            self.function(case), backend=backend, fullgraph=True, dynamic=True
        )
        try:  # numbers of a closure are constants, as literals are
            with self.torch._dynamo.config.patch(specialize_int=True):
                return self.call(function, self.tensors(case))
        finally:
            self.torch._dynamo.reset()

    def aot_eager(self, case: Case) -> list[np.ndarray]:
        return self.compiled(case, "aot_eager")

    def inductor(self, case: Case) -> list[np.ndarray]:
        return self.compiled(case, "inductor")

    def export(self, case: Case) -> list[np.ndarray]:
        """A program for any sizes, saved and loaded."""
        function = self.function(case)

        class Program(self.torch.nn.Module):
            def forward(self, *tensors: Any) -> Any:
                return function(*tensors)

        tensors = self.tensors(case)
        sizes = tuple({axis: self.torch.export.Dim.AUTO for axis in range(t.ndim)} for t in tensors)
        program = self.torch.export.export(Program(), tuple(tensors), dynamic_shapes=(sizes,))
        kept = io.BytesIO()
        self.torch.export.save(program, kept)
        kept.seek(0)
        return self.call(self.torch.export.load(kept).module(), self.tensors(case))

    def vmap(self, case: Case) -> list[np.ndarray]:
        needs_known_sizes(case, "rows of a tensor have one size")
        tensors = [self.tensor(batch_of_two(x)) for x in case.tensors]
        return one_of_two(self.call(self.torch.vmap(self.function(case)), tensors))

    def pulled(self, case: Case, twice: bool) -> tuple[Any, Any]:
        """(the gradients of the arguments, the gradients of the results that they come from)."""
        tensors = self.tensors(case)
        inputs = [tensors[place].requires_grad_() for place in wanted_tensors(case)]
        results = [t for t in flat(self.function(case)(*tensors)) if t.requires_grad]
        ones = [self.torch.ones_like(t).requires_grad_(twice) for t in results]
        return self.torch.autograd.grad(results, inputs, ones, create_graph=twice), ones

    def gradient(self, case: Case) -> list[np.ndarray]:
        needs_gradient(case)
        return [self.array(d) for d in self.pulled(case, twice=False)[0]]

    def gradient_twice(self, case: Case) -> list[np.ndarray]:
        needs_second_gradient(case)
        found, ones = self.pulled(case, twice=True)
        seeds = [self.torch.ones_like(d) for d in found]
        return [self.array(d) for d in self.torch.autograd.grad(found, ones, seeds)]

    modes = {
        "eager": eager, "gradient": gradient, "gradient twice": gradient_twice, "vmap": vmap,
        "aot_eager": aot_eager, "inductor": inductor, "export": export,
        "threads": Framework.threads,
    }  # fmt: skip
    full = ("eager", "gradient")


class Npu(PyTorch):
    name, module, device = "PyTorch npu", "torch", "npu"
    modes = {
        "eager": PyTorch.eager, "gradient": PyTorch.gradient,
        "gradient twice": PyTorch.gradient_twice, "vmap": PyTorch.vmap,
        "aot_eager": PyTorch.aot_eager, "threads": Framework.threads,
    }  # fmt: skip

    @classmethod
    def is_installed(cls) -> bool:
        if not super().is_installed():
            return False
        import torch

        import pto.torch  # noqa: F401

        return hasattr(torch, "npu")
