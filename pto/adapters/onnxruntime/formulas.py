# SPDX-License-Identifier: Apache-2.0
"""Formulas of standard operators in the tile language, where no single function computes them.

Each formula takes the node, for its attributes and constants, and its inputs as traced tensors. The
caller widens f16 and bf16 to f32 before, and rounds the values that leave the kernel. A formula
that cannot express a node raises, and ONNX Runtime keeps the node. Thread safety: pure functions.
"""

import functools
from collections.abc import Callable

from pto import language as tile
from pto.adapters.onnxruntime.graph import OnnxNode
from pto.formulas import NotExpressible, activations, norms, numbers, reductions
from pto.language.elementwise import binary
from pto.language.reduce import centred, extreme
from pto.language.shape import same_size
from pto.language.tensor import Tensor
from pto.language.types import cast


def of(function: Callable) -> Callable:
    """The formula of a function of the language that takes the inputs alone."""
    return lambda node, *tensors: function(*tensors)


def joined_by(function: Callable) -> Callable:
    """The formula that joins any number of inputs by a function of two."""
    return lambda node, *tensors: functools.reduce(function, tensors)


def mean_of(node: OnnxNode, *tensors: Tensor) -> Tensor:
    return joined_by(tile.add)(node, *tensors) / len(tensors)


def divide(node: OnnxNode, a: Tensor, b: Tensor) -> Tensor:
    """a / b; the quotient of integers is truncated."""
    return binary("div", a, b)


def modulo(node: OnnxNode, a: Tensor, b: Tensor) -> Tensor:
    return tile.fmod(a, b) if node.get("fmod", 0) else tile.remainder(a, b)


def power(node: OnnxNode, a: Tensor, b: Tensor) -> Tensor:
    """a to the power b in a's type, whatever b's is."""
    exponent = node.data(1)
    if a.dtype.is_float:
        if exponent is not None and exponent.size == 1 and exponent.ndim <= a.ndim:
            return tile.pow(a, exponent.item())
        return tile.pow(a, cast(b, a.dtype))
    if b.dtype.is_float:
        return cast(tile.trunc(tile.pow(cast(a, tile.f64), cast(b, tile.f64))), a.dtype)
    return tile.pow(a, cast(b, a.dtype))


def clip(
    node: OnnxNode, x: Tensor, low: Tensor | None = None, high: Tensor | None = None
) -> Tensor:
    low = node.get("min", None) if low is None else low
    high = node.get("max", None) if high is None else high
    return tile.clip(x, low, high)


def cast_to(node: OnnxNode, x: Tensor, *_: Tensor) -> Tensor:
    """x in the element type of the output; a bool says whether x is not zero."""
    kind = tile.dtype(node.outputs[0].dtype)
    if kind is x.dtype:
        return x
    return x != 0 if kind is tile.boolean else cast(x, kind)


def cast_by_attribute(node: OnnxNode, x: Tensor) -> Tensor:
    if node.outputs[0].dtype is None:
        raise NotExpressible
    return cast_to(node, x)


def elu(node: OnnxNode, x: Tensor) -> Tensor:
    return activations.elu(x, node.get("alpha", 1.0))


def celu(node: OnnxNode, x: Tensor) -> Tensor:
    return activations.celu(x, node.get("alpha", 1.0))


def selu(node: OnnxNode, x: Tensor) -> Tensor:
    alpha, gamma = node.get("alpha", 1.6732632423543772), node.get("gamma", 1.0507009873554805)
    return activations.elu(x, alpha, gamma)


def leaky_relu(node: OnnxNode, x: Tensor) -> Tensor:
    return tile.leaky_relu(x, node.get("alpha", 0.01))


def thresholded_relu(node: OnnxNode, x: Tensor) -> Tensor:
    return tile.where(x > node.get("alpha", 1.0), x, 0)


def shrink(node: OnnxNode, x: Tensor) -> Tensor:
    """ONNX gives 0 for NaN, and for what lies between the limits."""
    limit, bias = node.get("lambd", 0.5), node.get("bias", 0.0)
    return tile.where(x < -limit, x + bias, tile.where(x > limit, x - bias, 0))


def hard_sigmoid(node: OnnxNode, x: Tensor) -> Tensor:
    return activations.hard_sigmoid(x, node.get("alpha", 0.2), node.get("beta", 0.5))


def hard_swish(node: OnnxNode, x: Tensor) -> Tensor:
    return x * activations.hard_sigmoid(x, 1 / 6, 0.5)


def swish(node: OnnxNode, x: Tensor) -> Tensor:
    return x * tile.sigmoid(node.get("alpha", 1.0) * x)


def gelu(node: OnnxNode, x: Tensor) -> Tensor:
    return tile.gelu(x, node.get("approximate", "none"))


def is_infinite(node: OnnxNode, x: Tensor) -> Tensor:
    above, below = node.get("detect_positive", 1), node.get("detect_negative", 1)
    return numbers.is_infinite(x, bool(above), bool(below))


def _of_all(node: OnnxNode, *numbers: Tensor | None) -> None:
    """Raises NotExpressible where slices have a scale each."""
    if node.get("block_size", 0) or any(one is not None and one.ndim for one in numbers):
        raise NotExpressible


def quantize(node: OnnxNode, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    """x / scale to the nearest integer, even in the middle, plus the zero point, saturated."""
    _of_all(node, scale, zero)
    kind = tile.dtype(node.outputs[0].dtype)
    if x.dtype is not tile.f32 or kind.is_float or kind.bytes > 2:
        raise NotExpressible
    least = 0.0 if kind.kind == "unsigned" else -(2.0 ** (8 * kind.bytes - 1))
    whole = tile.round(x / scale)
    whole = whole if zero is None else whole + cast(zero, tile.f32)
    return cast(tile.clip(whole, least, least + 2.0 ** (8 * kind.bytes) - 1), kind)


def dequantize(node: OnnxNode, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    """(x - zero point) * scale."""
    _of_all(node, scale, zero)
    if node.outputs[0].dtype != "f32" or x.dtype.bytes > 2:
        raise NotExpressible
    whole = cast(x, tile.f32)
    return (whole if zero is None else whole - cast(zero, tile.f32)) * scale


# --- shapes ---------------------------------------------------------------------------------------


def expand(node: OnnxNode, x: Tensor, *_: Tensor) -> Tensor:
    """x broadcast with the sizes that input 1, a constant, holds."""
    target = [int(n) for n in node.data(1)]
    rank = max(len(target), x.ndim)
    wanted, have = [1] * (rank - len(target)) + target, [1] * (rank - x.ndim) + [*x.shape]
    sizes = []
    for size, old in zip(wanted, have, strict=True):
        if size != 1 and not same_size(old, 1):
            x.trace.builder.guard_equal(old, size, "expand")
        sizes.append(size if same_size(old, 1) else old)
    return tile.broadcast_to(x, sizes)


def _axes(node: OnnxNode, place: int) -> list[int]:
    """The axes that input `place` holds, or, in older versions, the attribute."""
    data = node.data(place)
    return [int(a) for a in (node.get("axes", ()) if data is None else data.reshape(-1))]


def unsqueeze(node: OnnxNode, x: Tensor, *_: Tensor) -> Tensor:
    axes = _axes(node, 1)
    rank = x.ndim + len(axes)
    for axis in sorted(a % rank for a in axes):
        x = tile.unsqueeze(x, axis)
    return x


def squeeze(node: OnnxNode, x: Tensor, *_: Tensor) -> Tensor:
    axes = _axes(node, 1)
    gone = {a % x.ndim for a in axes} if axes else {
        a for a, n in enumerate(node.input(0).shape) if n == 1
    }  # fmt: skip
    for axis in gone:
        x.trace.builder.guard_equal(x.shape[axis], 1, "squeeze")
    return tile.squeeze(x, tuple(gone)) if gone else x


# --- reductions -----------------------------------------------------------------------------------


def reduction(function: Callable[[Tensor, tuple[int, ...] | None, bool], Tensor]) -> Callable:
    """A reduction of the standard, over the axes of input 1 or of the attribute; none: all axes."""

    def build(node: OnnxNode, x: Tensor, *_: Tensor) -> Tensor:
        axes = tuple(_axes(node, 1)) or None
        if axes is None and node.get("noop_with_empty_axes", 0):
            axes = ()
        return function(x, axes, bool(node.get("keepdims", 1)))

    return build


def over(function: Callable, before: Callable | None = None, after: Callable | None = None):
    """Reduces before(x) over the axes by a function, then applies `after`."""

    def reduce(x: Tensor, axes: tuple[int, ...] | None, keep: bool) -> Tensor:
        x = x if before is None else before(x)
        kind = x.dtype
        x = x if axes == () else cast(function(x, axes, keep), kind)
        return x if after is None else after(x)

    return reduce


def extreme_of(op: str) -> Callable:
    """amax or amin; over no elements, of numbers, the end of their type."""
    checked = over(getattr(tile, op))

    def reduce(x: Tensor, axes: tuple[int, ...] | None, keep: bool) -> Tensor:
        is_number = axes != () and x.dtype is not tile.boolean
        return extreme(op, x, axes, keep) if is_number else checked(x, axes, keep)

    return reduce


def log_sum_exp(x: Tensor, axes: tuple[int, ...] | None, keep: bool) -> Tensor:
    return x if axes == () else tile.logsumexp(x, axes, keep)


def _from(node: OnnxNode, rank: int, default: int) -> tuple[int, ...]:
    """The axes from that of the attribute `axis` to the last."""
    return tuple(range(node.get("axis", default) % max(rank, 1), rank))


def _softmax_axes(node: OnnxNode, x: Tensor) -> tuple[int, ...]:
    """The axis of the attribute; before version 13 also all axes behind it."""
    if node.since < 13:
        return _from(node, x.ndim, 1)
    return (node.get("axis", -1) % x.ndim,)


def softmax(node: OnnxNode, x: Tensor) -> Tensor:
    return tile.softmax(x, _softmax_axes(node, x))


def log_softmax(node: OnnxNode, x: Tensor) -> Tensor:
    return tile.log_softmax(x, _softmax_axes(node, x))


# --- normalisations -------------------------------------------------------------------------------


def _of_rank(x: Tensor, y: Tensor) -> Tensor:
    """y. Raises NotExpressible where a scale or bias gave y more axes than x has."""
    if y.ndim != x.ndim:
        raise NotExpressible
    return y


def layer_norm(node: OnnxNode, x: Tensor, scale: Tensor, bias: Tensor | None = None):
    """(y, mean, reciprocal of the deviation), as many of them as the model uses."""
    first = node.get("axis", -1) % max(x.ndim, 1)
    results = norms.layer_norm(x, first, scale, bias, node.get("epsilon", 1e-5))
    _of_rank(x, results[0])
    return results[: len(node.outputs)]


def rms_norm(node: OnnxNode, x: Tensor, scale: Tensor) -> Tensor:
    epsilon = node.get("epsilon", 1e-5)
    return _of_rank(x, tile.rms_norm(x, scale, epsilon, _from(node, x.ndim, -1)))


def instance_norm(node: OnnxNode, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return norms.instance_norm(x, scale, bias, node.get("epsilon", 1e-5))


def batch_norm(
    node: OnnxNode, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor
) -> Tensor:
    if node.get("training_mode", 0) or len(node.outputs) > 1:
        raise NotExpressible
    return norms.batch_norm(x, scale, bias, mean, variance, node.get("epsilon", 1e-5))


def mean_variance_norm(node: OnnxNode, x: Tensor) -> Tensor:
    axes = tuple(node.get("axes", (0, 2, 3)))
    centre = centred(x, [a % x.ndim for a in axes])
    return centre / (tile.sqrt(tile.mean(tile.square(centre), axes, True)) + 1e-9)


def lp_norm(node: OnnxNode, x: Tensor) -> Tensor:
    size = reductions.vector_norm(x, node.get("p", 2), node.get("axis", -1), True)
    return tile.where(size == 0, 0.0, x / size)


def dropout(node: OnnxNode, x: Tensor, *_: Tensor) -> Tensor:
    """x: in inference nothing is dropped."""
    training = node.data(2)
    if len(node.outputs) > 1 or (node.input(2) is not None and (training is None or training)):
        raise NotExpressible
    return x
