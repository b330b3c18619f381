# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on whole tensors."""

from pto.language.dtypes import bf16, f16, f32, f64
from pto.language.op import op


@op("add(Tensor x, Tensor y) -> Tensor")
class Add:
    """x + y; shapes broadcast."""

    def build(x, y):
        return x + y

    def grad(ctx, d_result):
        return d_result, d_result

    def oracle(x, y):
        return x + y

    tolerance = {f64: 0, f32: 1e-7, f16: 1e-3, bf16: 8e-3}
