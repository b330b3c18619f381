# SPDX-License-Identifier: Apache-2.0
"""Functions of the public package that are a few of the language's: pypto.ceil_div."""

from typing import Any

import pto
from pto.language import Tensor
from pto.language.location import fail


def axpy_(y: Any, x: Any, alpha: Any = 1.0) -> Any:
    pto.move(y + x * alpha, y)
    return y


def ceil_div(a: Any, b: Any) -> Any:
    """The least whole number that is not below a / b; integers wrap nowhere on the way."""
    down = pto.floor_divide(a, b)
    if not isinstance(down, Tensor) or down.dtype.is_float:
        return -pto.floor_divide(-a, b)
    return down + pto.cast(pto.remainder(a, b) != 0, down.dtype)


def scatter_update(x: Any, dim: int, index: Any, src: Any) -> Any:
    """The language's scatter_update: rows along the last axis but one."""
    if dim not in (-2, x.ndim - 2):
        fail(
            f"scatter_update along axis {dim} of {x!r}",
            "rows are put along the last axis but one",
            f"pass -2 or {x.ndim - 2}, or use index_add or scatter for another axis",
        )
    return pto.scatter_update(x, index, src)
