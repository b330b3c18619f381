# SPDX-License-Identifier: Apache-2.0
"""Operators whose results have a size that the elements decide."""

import math

import numpy as np

from pto.language.dtypes import bf16, f16, f32, f64, i64
from pto.language.infer import Spec
from pto.language.native_kernel import cpp_kernel
from pto.language.op import op


@op("nonzero(Tensor x) -> Tensor")
class NonZero:
    """The places of the elements that are not 0, one a row, in row-major order: [n, axes of x].

    NaN is not 0, and -0 is.
    """

    types = "T -> i64 where T: any"
    bounded = ("result",)
    kernel = cpp_kernel("dynamic.cpp", "nonzero")

    def infer(x):
        return Spec((math.prod(x.shape), x.ndim), i64)

    def oracle(x):
        return np.argwhere(np.asarray(x))

    def samples(tensor):
        yield (tensor(5, 13, dtype=None, low=-1, high=2),), {}
        yield (tensor(2, 3, 4),), {}
        yield (tensor(7) * 0,), {}
        yield (tensor(1, 1),), {}
        yield (tensor(0, 3),), {}
        yield (tensor(),), {}

    tolerance = {f64: 0, f32: 0, f16: 0, bf16: 0}
