# SPDX-License-Identifier: Apache-2.0
"""TensorFlow in the matrix of modes."""

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from pto.testing.cases import Case, flat
from pto.testing.framework import (
    Framework,
    needs_gradient,
    needs_second_gradient,
    wanted_tensors,
)


class TensorFlow(Framework):
    name, module = "TensorFlow", "tensorflow"

    def __init__(self) -> None:
        import tensorflow

        import pto.tensorflow
        from pto.adapters.tensorflow import build

        build.build()
        self.tf, self.face = tensorflow, pto.tensorflow

    def tensors(self, case: Case) -> list[Any]:
        return [self.tf.constant(x) for x in case.tensors]

    def leaves(self, results: Any) -> list[np.ndarray]:
        return [t.numpy() for t in flat(results)]

    def eager(self, case: Case) -> list[np.ndarray]:
        return self.leaves(self.function(case)(*self.tensors(case)))

    def traced(self, case: Case) -> Callable:
        """A tf.function of tensors with unknown sizes."""
        unknown = [self.tf.TensorSpec([None] * t.ndim, t.dtype) for t in self.tensors(case)]
        return self.tf.function(self.function(case), input_signature=unknown, autograph=False)

    def graph(self, case: Case) -> list[np.ndarray]:
        return self.leaves(self.traced(case)(*self.tensors(case)))

    def saved_model(self, case: Case) -> list[np.ndarray]:
        kept = self.tf.Module()
        kept.call = self.traced(case)
        with tempfile.TemporaryDirectory() as folder:
            self.tf.saved_model.save(kept, folder)
            loaded = self.tf.saved_model.load(folder)
        return self.leaves(loaded.call(*self.tensors(case)))

    def pulled(self, case: Case) -> tuple[list[Any], list[Any], Any]:
        """(gradients of the arguments, those of the results, a tape from these to those)."""
        tensors = self.tensors(case)
        inputs = [tensors[place] for place in wanted_tensors(case)]
        with self.tf.GradientTape() as outer:
            with self.tf.GradientTape() as tape:
                tape.watch(inputs)
                results = [t for t in flat(self.function(case)(*tensors)) if t.dtype.is_floating]
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

    modes = {
        "eager": eager, "graph": graph, "gradient": gradient, "gradient twice": gradient_twice,
        "SavedModel": saved_model, "threads": Framework.threads,
    }  # fmt: skip
    full = ("eager",)
