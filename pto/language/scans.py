# SPDX-License-Identifier: Apache-2.0
"""Scans: each element joins those up to its own position along an axis.

    starts = pto.cumsum(lengths, 0) - lengths

f16 and bf16 are folded in f32 and rounded once an element; NaN propagates.
Thread safety: as a trace.
"""

from collections.abc import Callable

from pto.language.dtypes import i64
from pto.language.elementwise import numeric
from pto.language.operation import method
from pto.language.shape import normal_axis
from pto.language.tensor import Tensor
from pto.language.types import cast, wide


def _scan(op: str, total: bool) -> Callable[..., Tensor]:
    def function(x: Tensor, dim: int) -> Tensor:
        axis = normal_axis(dim, x.ndim, op)
        if total and not x.dtype.is_float:
            given, kind = cast(x, i64), i64
        else:
            given, kind = wide(x) if total else numeric(x, op), x.dtype
        found = x.trace.here().along(op, [given.value], axis)
        return cast(Tensor(x.trace, found), kind)

    function.__name__ = function.__qualname__ = op
    of = {"sum": "sum", "prod": "product", "max": "maximum", "min": "minimum"}[op[3:]]
    function.__doc__ = f"The {of} of the elements up to each position along `dim`. " + (
        "Integers and bool give i64." if total else "The element type stays."
    )
    return method(op)(function)


cumsum, cumprod = _scan("cumsum", True), _scan("cumprod", True)
cummax, cummin = _scan("cummax", False), _scan("cummin", False)
