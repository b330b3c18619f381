# SPDX-License-Identifier: Apache-2.0
"""The frameworks of the conformance matrix whose gradients it compares."""

from collections.abc import Callable
from typing import Any

import numpy as np
from conformance.cases import Case, flat, mapped, members, record_of, wanted
from conformance.framework import (
    Framework,
    Skipped,
    in_threads,
    needs_gradient,
    needs_second_gradient,
)

from pto.language.samples import numpy_type


def _is_int_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], int)


class PyTorch(Framework):
    name, module = "PyTorch", "torch"
    device = "cpu"

    def __init__(self) -> None:
        import pto.torch  # noqa: F401
        import torch

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

    def array(self, tensor: Any) -> np.ndarray:
        tensor = tensor.detach().cpu()
        if tensor.dtype == self.torch.bfloat16:
            return tensor.view(self.torch.int16).numpy().view(numpy_type("bf16"))
        return tensor.numpy()

    def function(self, case: Case) -> Callable:
        return getattr(self.torch.ops.pto, case.operator.name).default

    def call(self, case: Case, function: Callable) -> list[np.ndarray]:
        record = record_of(case.operator)
        args = mapped(self.tensor, case.args)
        results = function(*args, **case.kwargs)
        if record.mutates:
            results = args[0]
        return [self.array(t) for t in flat(results)]

    def eager(self, case: Case) -> list[np.ndarray]:
        return self.call(case, self.function(case))

    def compiled(self, case: Case, backend: str) -> list[np.ndarray]:
        operator = self.function(case)
        constants = {i: a for i, a in enumerate(case.args) if isinstance(a, int | float | str)}
        attributes = {i: a for i, a in enumerate(case.args) if _is_int_list(a)} | constants

        def of_tensors(*args: Any, **_: Any) -> Any:
            """Attributes are constants of the compiled function."""
            filled = [attributes.get(i, a) for i, a in enumerate(args)]
            return operator(*filled, **case.kwargs)

        function = self.torch.compile(of_tensors, backend=backend, fullgraph=True, dynamic=True)
        try:  # numbers of a closure are constants, as literals are
            with self.torch._dynamo.config.patch(specialize_int=True):
                return self.call(case, function)
        finally:
            self.torch._dynamo.reset()

    def aot_eager(self, case: Case) -> list[np.ndarray]:
        return self.compiled(case, "aot_eager")

    def inductor(self, case: Case) -> list[np.ndarray]:
        return self.compiled(case, "inductor")

    def pulled(self, case: Case, twice: bool) -> tuple[Any, Any]:
        """(the gradients of the arguments, the gradients of the results that they come from)."""
        args = mapped(self.tensor, case.args)
        inputs = [
            t.requires_grad_() for place in wanted(case) for t in members(args[place])
        ]  # fmt: skip
        results = [t for t in flat(self.function(case)(*args, **case.kwargs)) if t.requires_grad]
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

    def threads(self, case: Case) -> list[np.ndarray]:
        return in_threads(lambda: self.eager(case))

    modes = {
        "eager": eager, "gradient": gradient, "gradient twice": gradient_twice,
        "aot_eager": aot_eager, "inductor": inductor, "threads": threads,
    }  # fmt: skip
    full = ("eager", "gradient")


class Npu(PyTorch):
    name, module, device = "PyTorch npu", "torch", "npu"
    modes = {
        "eager": PyTorch.eager, "gradient": PyTorch.gradient,
        "gradient twice": PyTorch.gradient_twice, "aot_eager": PyTorch.aot_eager,
    }  # fmt: skip

    @classmethod
    def is_installed(cls) -> bool:
        if not super().is_installed():
            return False
        import pto.torch  # noqa: F401
        import torch

        return hasattr(torch, "npu")


class Jax(Framework):
    name, module = "JAX", "jax"

    def __init__(self) -> None:
        import jax
        import pto.jax

        self.jax, self.face = jax, pto.jax
        jax.config.update("jax_enable_x64", True)

    def function(self, case: Case) -> Callable:
        function = getattr(self.face, case.operator.name)
        return lambda *args: function(*args, **case.kwargs)

    def tensors(self, case: Case) -> tuple:
        return mapped(self.jax.numpy.asarray, case.args)

    def leaves(self, results: Any) -> list[np.ndarray]:
        return [np.asarray(t) for t in self.jax.tree.leaves(results)]

    def eager(self, case: Case) -> list[np.ndarray]:
        return self.leaves(self.function(case)(*self.tensors(case)))

    def jit(self, case: Case) -> list[np.ndarray]:
        function, args = self.function(case), self.tensors(case)
        places = [
            i
            for i, a in enumerate(args)
            if not isinstance(a, int | float | str) and not _is_int_list(a)
        ]

        def of_arrays(*arrays: Any) -> Any:
            filled = list(args)
            for place, array in zip(places, arrays, strict=True):
                filled[place] = array
            return function(*filled)

        return self.leaves(self.jax.jit(of_arrays)(*(args[i] for i in places)))

    def pull(self, case: Case) -> tuple[Callable, Any]:
        """(gradients of results -> gradients of arguments, gradients of 1)."""
        args, places = self.tensors(case), wanted(case)
        function, outputs = self.function(case), record_of(case.operator).outputs

        def of_wanted(*arrays: Any) -> Any:
            filled = list(args)
            for place, array in zip(places, arrays, strict=True):
                filled[place] = array
            results = function(*filled)
            results = (results,) if len(outputs) == 1 else tuple(results)
            return [r for r, o in zip(results, outputs, strict=True) if o.is_differentiable]

        results, pull = self.jax.vjp(of_wanted, *(args[i] for i in places))
        return pull, self.ones(results)

    def ones(self, like: Any) -> Any:
        return self.jax.tree.map(self.jax.numpy.ones_like, like)

    def gradient(self, case: Case) -> list[np.ndarray]:
        needs_gradient(case)
        pull, ones = self.pull(case)
        return self.leaves(pull(ones))

    def gradient_twice(self, case: Case) -> list[np.ndarray]:
        needs_second_gradient(case)
        found, pull = self.jax.vjp(*self.pull(case))
        return self.leaves(pull(self.ones(found)))

    def threads(self, case: Case) -> list[np.ndarray]:
        return in_threads(lambda: self.eager(case))

    modes = {
        "eager": eager, "jit": jit, "gradient": gradient, "gradient twice": gradient_twice,
        "threads": threads,
    }  # fmt: skip
    full = ("eager",)


class TensorFlow(Framework):
    name, module = "TensorFlow", "tensorflow"

    def __init__(self) -> None:
        import pto.tensorflow
        import tensorflow

        from pto.adapters.tensorflow import build

        build.build()
        self.tf, self.face = tensorflow, pto.tensorflow

    def function(self, case: Case) -> Callable:
        function = getattr(self.face, case.operator.name)
        return lambda *args: function(*args, **case.kwargs)

    def tensors(self, case: Case) -> tuple:
        return mapped(self.tf.constant, case.args)

    def leaves(self, results: Any) -> list[np.ndarray]:
        return [t.numpy() for t in flat(results)]

    def eager(self, case: Case) -> list[np.ndarray]:
        return self.leaves(self.function(case)(*self.tensors(case)))

    def graph(self, case: Case) -> list[np.ndarray]:
        """A tf.function of tensors with unknown sizes."""
        function, args = self.function(case), self.tensors(case)
        tensors = [t for a in args for t in members(a) if isinstance(t, self.tf.Tensor)]
        unknown = [self.tf.TensorSpec([None] * t.ndim, t.dtype) for t in tensors]

        def of_tensors(*given: Any) -> Any:
            rest = iter(given)

            def next_of(a: Any) -> Any:
                return next(rest) if isinstance(a, self.tf.Tensor) else a

            return function(
                *([next_of(t) for t in a] if isinstance(a, list) else next_of(a) for a in args)
            )

        traced = self.tf.function(of_tensors, input_signature=unknown, autograph=False)
        return self.leaves(traced(*tensors))

    def pulled(self, case: Case) -> tuple[list[Any], list[Any], Any]:
        """(gradients of the arguments, those of the results, a tape from these to those)."""
        args = self.tensors(case)
        inputs = [t for place in wanted(case) for t in members(args[place])]
        with self.tf.GradientTape() as outer:
            with self.tf.GradientTape() as tape:
                tape.watch(inputs)
                results = [t for t in flat(self.function(case)(*args)) if t.dtype.is_floating]
            ones = [self.tf.ones_like(t) for t in results]
            outer.watch(ones)
            found = tape.gradient(results, inputs, ones)
            return [self.tf.convert_to_tensor(d) for d in found], ones, outer

    def gradient(self, case: Case) -> list[np.ndarray]:
        needs_gradient(case)
        return self.leaves(self.pulled(case)[0])

    def gradient_twice(self, case: Case) -> list[np.ndarray]:
        needs_second_gradient(case)
        found, ones, tape = self.pulled(case)
        seeds = [self.tf.ones_like(d) for d in found]
        return self.leaves(tape.gradient(found, ones, seeds))

    def threads(self, case: Case) -> list[np.ndarray]:
        return in_threads(lambda: self.eager(case))

    modes = {
        "eager": eager, "graph": graph, "gradient": gradient, "gradient twice": gradient_twice,
        "threads": threads,
    }  # fmt: skip
    full = ("eager",)
