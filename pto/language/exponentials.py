# SPDX-License-Identifier: Apache-2.0
"""Exponentials and logarithms in other forms, composed of exp, log, tanh and pow.

    pto.log1p(x), pto.expm1(x), pto.exp2(x), pto.softplus(x)

Errors: f32 within 8 ULP, f64 within 16, of the result; log1p and expm1 near 0 too. f16 and bf16 are
computed in f32 and rounded once. Thread safety: as a trace.
"""

import math
from typing import Any

from pto.language.elementwise import abs, exp, log, maximum, pow, tanh, where
from pto.language.operation import method, operation
from pto.language.reduce import Axes, _axes, _reduce, sum, without
from pto.language.tensor import Tensor
from pto.language.types import cast, joined, real, wide


@method("expm1")
def expm1(x: Tensor) -> Tensor:
    """exp(x) - 1, also for small x: with t = tanh(x / 2) it is 2 t / (1 - t).

    Formula: exp(x) - 1
    """
    wider = wide(real(x))
    is_small = abs(wider) < 1
    t = tanh(where(is_small, wider, 0.0) * 0.5)
    return cast(where(is_small, 2 * t / (1 - t), exp(wider) - 1), real(x).dtype)


@method("log1p")
def log1p(x: Tensor) -> Tensor:
    """log(1 + x), also for small x: what 1 + x rounds off is made good (Kahan).

    Formula: log(1 + x)
    """
    wider = wide(real(x))
    u = 1 + wider
    seen = u - 1  # the x that u stands for
    is_exact = (seen == wider) | (seen == 0)  # of infinities, too: their quotient has no slope
    ratio = where(is_exact, 1.0, wider) / where(is_exact, 1.0, seen)
    return cast(where(seen == 0, wider, log(u) * ratio), real(x).dtype)


@method("exp2")
def exp2(x: Tensor) -> Tensor:
    """2 to the power x."""
    return pow(2.0, real(x))


def _log_by(name: str, base: float) -> Any:
    def function(x: Tensor) -> Tensor:
        wider = wide(real(x))
        return cast(log(wider) * (1 / math.log(base)), real(x).dtype)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The logarithm of each element of x by the base {base:g}."
    return method(name)(function)


log2, log10 = _log_by("log2", 2), _log_by("log10", 10)


@method("softplus")
def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), without overflow."""
    wider = wide(real(x))
    return cast(maximum(wider, 0.0) + log1p(exp(-abs(wider))), real(x).dtype)


@operation
def logaddexp(a: Tensor, b: Tensor) -> Tensor:
    """log(exp(a) + exp(b)), without overflow."""
    x, y = map(real, joined("logaddexp", a, b))
    most, apart = maximum(wide(x), wide(y)), abs(wide(x) - wide(y))
    same = wide(x) == wide(y)  # also of infinities
    return cast(most + where(same, math.log(2), log1p(exp(-apart))), x.dtype)


@method("logsumexp")
def logsumexp(x: Tensor, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """The logarithm of the sum of exp(x) over axes, without overflow; -inf of no elements.

    Formula: log(sum(exp(x), dim))
    """
    wider = wide(real(x))
    axes = _axes("logsumexp", x.ndim, dim, None)
    most = _reduce("amax", wider, axes, True)  # -inf of no elements
    shift = where(abs(most) == math.inf, 0.0, most)
    total = log(sum(exp(wider - shift), axes, True)) + shift
    if not keepdim:
        total = total.reshape(without(x.shape, axes))
    return cast(total, real(x).dtype)
