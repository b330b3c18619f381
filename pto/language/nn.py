# SPDX-License-Identifier: Apache-2.0
"""Compositions that models use. f16 and bf16 are computed in f32 and round once, at the end."""

import math
from collections.abc import Callable

from pto.language.elementwise import (
    clip,
    erf,
    exp,
    log,
    maximum,
    minimum,
    mul,
    reciprocal,
    relu,
    rsqrt,
    sigmoid,
    square,
    tanh,
    where,
)
from pto.language.exponentials import expm1, softplus
from pto.language.location import fail
from pto.language.operation import method, operation
from pto.language.reduce import Axes, _axes, _reduce, average, centred, shifted_by_largest, sum
from pto.language.tensor import Tensor
from pto.language.types import cast, joined, real, wide


def _alike(result: Tensor, x: Tensor) -> Tensor:
    return cast(result, x.dtype)


@method("softmax")
def softmax(x: Tensor, dim: Axes = -1) -> Tensor:
    """exp(x) times the reciprocal of its sum along `dim`, without overflow.

    Formula: exp(x) / sum(exp(x), dim, keepdim=True)
    """
    wider = wide(real(x))
    e = exp(shifted_by_largest(wider, dim, "softmax"))
    return _alike(e * reciprocal(sum(e, dim, True)), real(x))


@method("log_softmax")
def log_softmax(x: Tensor, dim: Axes = -1) -> Tensor:
    """The logarithm of softmax, without overflow.

    Formula: x - log(sum(exp(x), dim, keepdim=True))
    """
    wider = wide(real(x))
    shifted = shifted_by_largest(wider, dim, "log_softmax")
    return _alike(shifted - log(sum(exp(shifted), dim, True)), real(x))


def _scaled(name: str, y: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    y = y if weight is None else mul(y, wide(joined(name, x, weight)[1]))
    return _alike(y if bias is None else y + wide(joined(name, x, bias)[1]), x)


@operation
def layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, dim: Axes = -1,
) -> Tensor:  # fmt: skip
    """x with mean 0 and variance 1 along `dim`, times weight, plus bias.

    The variance is that of centred values, divided by the number of elements.

    Formula: (x - mean(x, dim)) / sqrt(var(x, dim, 0) + eps) * weight + bias
    Shapes: any; `weight` and `bias` broadcast, the result has that of x
    Example: pto.layer_norm(x, v)
    """
    axes = _axes("layer_norm", x.ndim, dim, None)
    c = centred(x, axes)
    y = mul(c, rsqrt(average(square(c), axes) + eps))
    return _scaled("layer_norm", y, x, weight, bias)


@operation
def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6, dim: Axes = -1) -> Tensor:
    """x divided by the root of its mean square along `dim`, times weight.

    Formula: x / sqrt(mean(x * x, dim) + eps) * weight
    Shapes: any; `weight` broadcasts, the result has that of x
    Example: pto.rms_norm(x, v)
    """
    axes, wider = _axes("rms_norm", x.ndim, dim, None), wide(x)
    scale = rsqrt(average(square(wider), axes) + eps)
    return _scaled("rms_norm", mul(wider, scale), x, weight, None)


@method("gelu")
def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution function of x; "tanh" takes PyTorch's approximation.

    Formula: 0.5 * x * (1 + erf(x / sqrt(2)))
    """
    if approximate not in ("none", "tanh"):
        fail(
            f"gelu: approximate is {approximate!r}",
            "gelu is the exact function or PyTorch's approximation of it",
            "pass 'none' or 'tanh'",
        )
    wider = wide(real(x))
    if approximate == "tanh":
        # 0.5 (1 + tanh u) is sigmoid(2u), with u = sqrt(2 / pi) (x + 0.044715 x^3).
        scale = 2 * math.sqrt(2 / math.pi)
        twice_u = wider * (scale + scale * 0.044715 * square(wider))
        return _alike(wider * sigmoid(twice_u), real(x))
    return _alike(0.5 * wider * (1 + erf(wider * math.sqrt(0.5))), real(x))


@method("silu")
def silu(x: Tensor) -> Tensor:
    """x * sigmoid(x)."""
    wider = wide(real(x))
    return _alike(wider * sigmoid(wider), real(x))


def _simple(name: str, text: str, compute: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function of numbers in f32 or f64 as one of all element types, and a method."""

    def function(x: Tensor) -> Tensor:
        return _alike(compute(wide(real(x))), real(x))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return method(name)(function)


relu6 = _simple("relu6", "x between 0 and 6.", lambda x: minimum(relu(x), 6))
hardsigmoid = _simple(
    "hardsigmoid", "x / 6 + 1/2 between 0 and 1.", lambda x: clip(x + 3, 0, 6) / 6
)
hardswish = _simple("hardswish", "x * hardsigmoid(x).", lambda x: x * clip(x + 3, 0, 6) / 6)
mish = _simple("mish", "x * tanh(softplus(x)).", lambda x: x * tanh(softplus(x)))
logsigmoid = _simple("logsigmoid", "log(sigmoid(x)), without overflow.", lambda x: 0 - softplus(-x))


@method("leaky_relu")
def leaky_relu(x: Tensor, negative_slope: float | Tensor = 0.01) -> Tensor:
    """x, times negative_slope below 0, which may be a tensor (prelu).

    Formula: x if x > 0 else negative_slope * x
    """
    return where(x > 0, x, x * negative_slope)


@method("elu")
def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x above 0, else alpha * (exp(x) - 1).

    Formula: x if x > 0 else alpha * (exp(x) - 1)
    """
    wider = wide(real(x))
    return _alike(where(wider > 0, wider, alpha * expm1(where(wider > 0, 0.0, wider))), real(x))


@operation
def online_softmax(s: Tensor, m: Tensor, l: Tensor) -> tuple[Tensor, ...]:  # noqa: E741
    """One block of a softmax along the last axis: (p, old, m, l).

    m and l are the maximum and the sum of the blocks so far, [..., 1], -inf and 0 at first. p has
    the weights of this block, and `old` the factor for what was accumulated: o = o * old + p @ v;
    behind the last block the result is o / l. Rows that are -inf throughout have weights of 0.

    Formula: m1 = maximum(m, amax(s)); p = exp(s - m1); old = exp(m - m1); l1 = l * old + sum(p)
    Shapes: s is `[..., n]`, m and l are `[..., 1]`; p has the shape of s, the others that of m
    Example: pto.online_softmax(x, y[:, :1], y[:, :1])
    """
    most = maximum(m, _reduce("amax", s, [s.ndim - 1], True))
    shift = where(most == -math.inf, 0.0, most)
    p, old = exp(s - shift), exp(m - shift)
    return p, old, most, l * old + sum(p, -1, True)
