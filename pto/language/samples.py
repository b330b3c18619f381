# SPDX-License-Identifier: Apache-2.0
"""Makes sample arguments of an operator for tests, from its definition.

    def samples(tensor):                     # of a class under @op
        yield (tensor(5, 13), tensor(13)), {"eps": 1e-3}
        yield (tensor(10, 4), tensor(2, 3, dtype="i64", low=0, high=10)), {}

Each sample is (positional, keyword) arguments. `tensor(*shape)` makes a NumPy array of the asked
type: normally distributed, or whole numbers in [low, high). Without `samples` all tensors have one
shape, except that `vectors = ("weight", ...)` have the size of its last axis.
"""

from collections.abc import Iterator

import numpy as np

from pto.language.dtypes import numpy_type
from pto.language.op import Operator

SHAPES = ((5, 13), (2, 3, 4), (7,), (1, 1), (0, 3))  # odd, deep, flat, one element, none


class TensorMaker:
    """The argument of `samples`; equal seeds give equal tensors."""

    def __init__(self, dtype: str, seed: int):
        self.dtype = dtype
        self.random = np.random.default_rng(seed)

    def __call__(
        self, *shape: int, dtype: str | None = None, low: int | None = None, high: int | None = None
    ) -> np.ndarray:
        kind = numpy_type(dtype or self.dtype)
        if low is not None and high is not None:
            return self.random.integers(low, high, shape).astype(kind)
        values = self.random.standard_normal(shape)
        if np.issubdtype(kind, np.integer):
            values = np.round(4 * values)
            values = np.abs(values) if np.issubdtype(kind, np.unsignedinteger) else values
        return np.asarray(values).astype(kind)


def samples(operator: Operator, dtype: str, seed: int = 0) -> Iterator[tuple[tuple, dict]]:
    """The operator's samples with tensors of this element type."""
    tensor = TensorMaker(dtype, seed)
    own = operator.member("samples")
    if own is not None:
        yield from own(tensor)
        return
    vectors = operator.member("vectors") or ()
    for shape in SHAPES if vectors else (*SHAPES, ()):
        sizes = [shape[-1:] if name in vectors else shape for name in operator.tensor_names]
        yield tuple(tensor(*size) for size in sizes), {}
