# SPDX-License-Identifier: Apache-2.0
"""JAX in the matrix of modes."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pto.testing.cases import Case, adapter_record
from pto.testing.framework import (
    Framework,
    batch_of_two,
    needs_gradient,
    needs_known_sizes,
    needs_second_gradient,
    one_of_two,
    wanted_tensors,
)


def with_doubles(mode: Callable) -> Callable:
    """The mode with 64-bit types, for its own calls only."""

    @functools.wraps(mode)
    def run(self: Any, case: Case) -> list[np.ndarray]:
        with self.jax.enable_x64(True):
            return mode(self, case)

    return run


class Jax(Framework):
    name, module = "JAX", "jax"

    def __init__(self) -> None:
        import jax

        import pto.jax

        self.jax, self.face = jax, pto.jax

    def tensors(self, case: Case) -> list[Any]:
        needs_known_sizes(case, "JAX wants it before")
        return [self.jax.numpy.asarray(x) for x in case.tensors]

    def leaves(self, results: Any) -> list[np.ndarray]:
        return [np.asarray(t) for t in self.jax.tree.leaves(results)]

    @with_doubles
    def eager(self, case: Case) -> list[np.ndarray]:
        return self.leaves(self.function(case)(*self.tensors(case)))

    @with_doubles
    def jit(self, case: Case) -> list[np.ndarray]:
        return self.leaves(self.jax.jit(self.function(case))(*self.tensors(case)))

    @with_doubles
    def vmap(self, case: Case) -> list[np.ndarray]:
        needs_known_sizes(case, "JAX wants it before")
        tensors = [self.jax.numpy.asarray(batch_of_two(x)) for x in case.tensors]
        return one_of_two(self.leaves(self.jax.vmap(self.function(case))(*tensors)))

    @with_doubles
    def export(self, case: Case) -> list[np.ndarray]:
        """A program in bytes."""
        tensors = self.tensors(case)
        checks = [self.jax.export.DisabledSafetyCheck.custom_call(self.face.TARGET)]
        export = self.jax.export.export(self.jax.jit(self.function(case)), disabled_checks=checks)
        kept = export(*tensors).serialize()
        return self.leaves(self.jax.export.deserialize(kept).call(*tensors))

    def pull(self, case: Case) -> tuple[Callable, Any]:
        """(gradients of results -> gradients of arguments, gradients of 1)."""
        tensors, places = self.tensors(case), wanted_tensors(case)
        function, outputs = self.function(case), adapter_record(case.operator).outputs

        def of_wanted(*arrays: Any) -> Any:
            filled = list(tensors)
            for place, array in zip(places, arrays, strict=True):
                filled[place] = array
            results = function(*filled)
            results = (results,) if len(outputs) == 1 else tuple(results)
            return [r for r, o in zip(results, outputs, strict=True) if o.is_differentiable]

        results, pull = self.jax.vjp(of_wanted, *(tensors[i] for i in places))
        return pull, self.ones(results)

    def ones(self, like: Any) -> Any:
        return self.jax.tree.map(self.jax.numpy.ones_like, like)

    @with_doubles
    def gradient(self, case: Case) -> list[np.ndarray]:
        needs_gradient(case)
        pull, ones = self.pull(case)
        return self.leaves(pull(ones))

    @with_doubles
    def gradient_twice(self, case: Case) -> list[np.ndarray]:
        needs_second_gradient(case)
        found, pull = self.jax.vjp(*self.pull(case))
        return self.leaves(pull(self.ones(found)))

    modes = {
        "eager": eager, "jit": jit, "gradient": gradient, "gradient twice": gradient_twice,
        "vmap": vmap, "export": export, "threads": Framework.threads,
    }  # fmt: skip
    full = ("eager",)
