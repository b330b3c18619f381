# SPDX-License-Identifier: Apache-2.0
"""Reverse-mode differentiation of a trace, in the same trace.

    y = exp(x) * x
    (d_x,) = differentiate([y], [d_y], [x])      # d_y * (exp(x) * x + exp(x)), as more nodes

It walks the nodes from the outputs back to the inputs and adds up what each operation passes on. At
a jump of a derivative it follows PyTorch: relu, abs and rounding give 0 there; equal operands of
maximum, and equal largest elements, share the gradient. Of elements that scatter wrote to one place
each gets that place's gradient.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from pto.errors import InvalidType
from pto.language import elementwise as e
from pto.language.dtypes import i64
from pto.language.reduce import sum, sum_to
from pto.language.selection import flip
from pto.language.shape import broadcast_to
from pto.language.tensor import Tensor
from pto.language.types import cast, constant
from pto.language.whole import whole


def zeros(like: Tensor) -> Tensor:
    """Zeros of the shape and type of a traced tensor."""
    return broadcast_to(constant(like.trace, 0, like.dtype), like.shape)


def differentiate(
    outputs: Sequence[Tensor], d_outputs: Sequence[Tensor], inputs: Sequence[Tensor]
) -> list[Tensor]:
    """The gradients by `inputs` of outputs whose gradients are `d_outputs`.

    Raises InvalidType for an operation without a rule.
    """
    found: dict[int, Tensor] = {}
    wanted = {x.value for x in inputs}

    def add(value: int, part: Tensor) -> None:
        found[value] = found[value] + part if value in found else part

    for y, d in zip(outputs, d_outputs, strict=True):
        if y.dtype.is_float:
            add(y.value, d)
    depends = _Dependence(outputs[0].trace, wanted)
    # An operand's number is smaller than its node's; rules add larger ones.
    for value in range(max(found, default=-1), -1, -1):
        if value not in found or value in wanted or not depends(value):
            continue
        y = Tensor(outputs[0].trace, value)
        op, operands, axes = y.trace.builder.node(value)
        if op not in _RULES:
            _refuse(op)
        xs = [Tensor(y.trace, x) for x in operands]
        for x, part in zip(xs, _RULES[op](found[value], y, axes, *xs), strict=False):
            if part is not None and x.dtype.is_float and depends(x.value):
                add(x.value, part)
    return [found[x.value] if x.value in found else zeros(x) for x in inputs]


class _Dependence:
    """Says whether a value depends on one of those wanted."""

    def __init__(self, trace: Any, wanted: set[int]):
        self.builder, self.known = trace.builder, dict.fromkeys(wanted, True)

    def __call__(self, value: int) -> bool:
        waiting = [value]
        while waiting:
            top = waiting[-1]
            operands = [] if top in self.known else self.builder.node(top)[1]
            unknown = [x for x in operands if x not in self.known]
            waiting += unknown
            if not unknown:
                waiting.pop()
                self.known.setdefault(top, any(self.known[x] for x in operands))
        return self.known[value]


def _refuse(op: str) -> None:
    raise InvalidType(
        f"the derivative of {op} is not known",
        "automatic gradients pass through element-wise operations, moves of elements, sums, amax, "
        "amin, sort and cumsum",
        "give the operator a grad without it, or take no second derivative of it",
    )


def _masked(condition: Tensor, d: Tensor) -> Tensor:
    return e.where(condition, d, zeros(d))


def _abs(d: Tensor, y: Tensor, _: Any, x: Tensor) -> tuple:
    return (_masked(x > 0, d) - _masked(x < 0, d),)


def _power(d: Tensor, y: Tensor, _: Any, a: Tensor, b: Tensor) -> tuple:
    by_base = e.where(b == 0, zeros(d), d * b * e.pow(a, b - 1))
    by_exponent = e.where((a == 0) & (b >= 0), zeros(d), d * y * e.log(a))
    return by_base, by_exponent


def _larger(d: Tensor, y: Tensor, _: Any, a: Tensor, b: Tensor) -> tuple:
    share = _masked(a == b, d * 0.5)
    return _masked((y == a) & (a != b), d) + share, _masked((y == b) & (a != b), d) + share


def _largest(d: Tensor, y: Tensor, axes: list[int], x: Tensor) -> tuple:
    chosen = cast(x == broadcast_to(y, x.shape), x.dtype)
    return (broadcast_to(d / sum(chosen, axes, True), x.shape) * chosen,)


def _made(like: Tensor, record: Callable[..., int], *operands: Any) -> Tensor:
    """A tensor that a function of the builder of `like` records."""
    return Tensor(like.trace, record(like.trace.here(), *operands))


def _along(op: str, axis: int, *operands: Tensor) -> Tensor:
    values = [x.value for x in operands]
    return _made(operands[0], lambda b: b.along(op, values, axis))


def _read_at(d: Tensor, axis: int, index: Tensor) -> Tensor:
    """The gradient at written positions; 0 at -1, where nothing was written."""
    written = _along("gather", axis, d, e.maximum(index, 0))
    return _masked(broadcast_to(index >= 0, written.shape), written)


def _scattered(d: Tensor, y: Tensor, axes: list[int], into: Tensor, index: Tensor,
               part: Tensor) -> tuple:  # fmt: skip
    kept = _along("scatter", axes[0], d, index, zeros(part))
    return kept, None, _read_at(d, axes[0], index)


def _cumulated(d: Tensor, y: Tensor, axes: list[int], x: Tensor) -> tuple:
    """An element is part of the sums from its own position on."""
    return (flip(_along("cumsum", axes[0], flip(d, axes[0])), axes[0]),)


def _sorted(d: Tensor, y: Tensor, _: Any, x: Tensor) -> tuple:
    positions = _made(y, lambda b: b.result(y.value, 1))
    return (_along("scatter", x.ndim - 1, zeros(x), positions, d),)


def _part(d: Tensor, like: Tensor, offsets: Sequence[Any]) -> Tensor:
    at = [offset.value if isinstance(offset, Tensor) else offset for offset in offsets]
    return _made(d, lambda b: b.view(d.value, at, tuple(like.shape)))


def _put(into: Tensor, part: Tensor, offsets: Sequence[Tensor]) -> Tensor:
    return _made(into, lambda b: b.update(into.value, part.value, [at.value for at in offsets]))


def _joined(d: Tensor, y: Tensor, axes: list[int], *parts: Tensor) -> tuple:
    found, start = [], 0
    for part in parts:
        at: list[Any] = [constant(d.trace, 0, i64)] * d.ndim
        at[axes[0]] = whole(d.trace, start, "concat")
        found.append(_part(d, part, at))
        start = part.shape[axes[0]] + start
    return tuple(found)


def _turned(d: Tensor, y: Tensor, axes: list[int], x: Tensor) -> tuple:
    back = [axes.index(axis) for axis in range(x.ndim)]
    return (_made(d, lambda b: b.transpose(d.value, back)),)


def _none(*_: Any) -> tuple:
    return ()


def _of_one(slope: Callable[[Tensor, Tensor], Any]) -> Callable[..., tuple]:
    """The rule of a function whose slope is computed from its result and its operand."""
    return lambda d, y, _, x: (d * slope(y, x),)


_RULES: dict[str, Callable[..., tuple]] = {
    # (gradient of the result, result, axes, operands...) -> gradients of the operands
    "abs": _abs,
    "neg": lambda d, *_: (-d,),
    "relu": lambda d, y, _, x: (_masked(x > 0, d),),
    "exp": _of_one(lambda y, x: y),
    "log": lambda d, y, _, x: (d / x,),
    "sqrt": lambda d, y, _, x: (d * 0.5 / y,),
    "rsqrt": _of_one(lambda y, x: -0.5 * y * y * y),
    "reciprocal": _of_one(lambda y, x: -(y * y)),
    "sin": _of_one(lambda y, x: e.cos(x)),
    "cos": _of_one(lambda y, x: -e.sin(x)),
    "tanh": _of_one(lambda y, x: 1 - y * y),
    "sigmoid": _of_one(lambda y, x: y * (1 - y)),
    "erf": _of_one(lambda y, x: e.exp(-(x * x)) * (2 / math.sqrt(math.pi))),
    **dict.fromkeys(
        ("floor", "ceil", "round", "trunc", "constant", "scalar", "input", "iota"), _none
    ),
    "add": lambda d, *_: (d, d),
    "sub": lambda d, *_: (d, -d),
    "mul": lambda d, y, _, a, b: (d * b, d * a),
    "div": lambda d, y, _, a, b: (d / b, -d * y / b),
    "pow": _power,
    "maximum": _larger,
    "minimum": _larger,
    "fmod": lambda d, y, _, a, b: (d, -d * e.trunc(a / b)),
    "remainder": lambda d, y, _, a, b: (d, -d * e.floor(a / b)),
    "where": lambda d, y, _, c, a, b: (None, _masked(c, d), e.where(c, zeros(d), d)),
    "cast": lambda d, y, _, x: (cast(d, x.dtype),),
    "broadcast": lambda d, y, _, x: (sum_to(d, x),),
    "reshape": lambda d, y, _, x: (
        Tensor(d.trace, d.trace.here().reshape(d.value, tuple(x.shape))),
    ),
    "sum": lambda d, y, _, x: (broadcast_to(d, x.shape),),
    "amax": _largest,
    "amin": _largest,
    "transpose": _turned,
    "view": lambda d, y, _, x, *at: (_put(zeros(x), d, at),),
    "update": lambda d, y, _, x, part, *at: (_put(d, zeros(part), at), _part(d, part, at)),
    "concat": _joined,
    "gather": lambda d, y, axes, x, index: (_along("scatter_add", axes[0], zeros(x), index, d),),
    "scatter": _scattered,
    "scatter_add": lambda d, y, axes, x, index, part: (d, None, _read_at(d, axes[0], index)),
    "cumsum": _cumulated,
    "sort": _sorted,
    "sort_descending": _sorted,
}
