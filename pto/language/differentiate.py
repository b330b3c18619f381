# SPDX-License-Identifier: Apache-2.0
"""Reverse-mode differentiation of a trace, in the same trace.

    y = exp(x) * x
    (d_x,) = differentiate([y], [d_y], [x])      # d_y * (exp(x) * x + exp(x)), as more nodes

It walks the nodes from the outputs back to the inputs and adds up what each operation passes on. At
a jump of a derivative it follows PyTorch: relu, abs and rounding give 0 there; equal operands of
maximum, and equal largest elements, share the gradient. Each of the elements that scatter wrote to
one place gets that place's gradient.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pto.errors import InvalidType
from pto.language import elementwise as e
from pto.language.dtypes import i64
from pto.language.matrix import matmul
from pto.language.reduce import sum, sum_to
from pto.language.reverse_bodies import branch_gradient, loop_gradient, zeros
from pto.language.selection import along, flip
from pto.language.shape import broadcast_to
from pto.language.tensor import Tensor
from pto.language.trace import Trace
from pto.language.types import cast, constant
from pto.language.whole import whole


def differentiate(
    outputs: Sequence[Tensor], d_outputs: Sequence[Tensor], inputs: Sequence[Tensor]
) -> list[Tensor]:
    """The gradients by `inputs` of outputs whose gradients are `d_outputs`.

    Raises InvalidType for an operation without a rule.
    """
    reverse = _Reverse(outputs[0].trace, {x.value for x in inputs}, {})
    reverse.run(zip(outputs, d_outputs, strict=True))
    return reverse.gradients(inputs)


class _Reverse:
    """One way back through the nodes of the scope that is being traced."""

    def __init__(self, trace: Trace, wanted: set[int], seeds: dict[int, Tensor]):
        self.trace, self.wanted, self.found = trace, wanted, dict(seeds)
        self.results: dict[int, dict[int, Tensor]] = {}  # of nodes with several, by their numbers
        self.depends = self.dependence(wanted)

    def dependence(self, wanted: set[int]) -> "_Dependence":
        return _Dependence(self.trace, wanted)

    def reaches(self, x: Tensor) -> bool:
        """Says whether a tensor passes a gradient on."""
        return x.dtype.is_float and self.depends(x.value)

    def nested(self, ends: Sequence[tuple[Tensor, Tensor]], inputs: Sequence[Tensor],
               seeds: dict[int, Tensor]) -> list[Tensor]:  # fmt: skip
        """The gradients by `inputs` in the body that is being traced, added to the seeds."""
        reverse = _Reverse(self.trace, {x.value for x in inputs}, seeds)
        reverse.run(ends)
        return reverse.gradients(inputs)

    def gradients(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        return [self.found[x.value] if x.value in self.found else zeros(x) for x in inputs]

    def add(self, value: int, part: Tensor) -> None:
        self.found[value] = self.found[value] + part if value in self.found else part

    def run(self, ends: Iterable[tuple[Tensor, Tensor]]) -> None:
        for y, d in ends:
            if y.dtype.is_float:
                self.add(y.value, d)
        # An operand's number is smaller than its node's; rules add larger ones.
        for value in range(max(self.found, default=-1), -1, -1):
            is_met = value in self.found or value in self.results
            if is_met and value not in self.wanted and self.depends(value):
                self._pass_on(value)

    def _pass_on(self, value: int) -> None:
        y = Tensor(self.trace, value)
        op, operands, axes = self.trace.builder.node(value)
        if op == "result":
            of, index = operands[0], self.trace.builder.index(value)
            self.results.setdefault(of, {})[index] = self.found[value]
            return
        if op in _OF_BODIES:
            given = self.results.get(value, {})
            if value in self.found:
                given[0] = given[0] + self.found[value] if 0 in given else self.found[value]
            _OF_BODIES[op](self, value, given)
            return
        xs = [Tensor(self.trace, x) for x in operands]
        if op in _INTO_PARTS:
            if self.reaches(xs[0]):
                (into,) = self.gradients(xs[:1])
                self.found[operands[0]] = _INTO_PARTS[op](self.found[value], into, axes, *xs[1:])
            return
        if op == "tile":
            for x, part in zip(xs, self._of_tile(value, y, xs), strict=True):
                if part is not None and self.reaches(x):
                    self.add(x.value, part)
            return
        if op not in _RULES:
            _refuse(op, self.trace.builder.location(value))
        for x, part in zip(xs, _RULES[op](self.found[value], y, axes, *xs), strict=False):
            if part is not None and self.reaches(x):
                self.add(x.value, part)

    def _of_tile(self, value: int, y: Tensor, xs: list[Tensor]) -> list[Tensor | None]:
        """Asks a user's operation for its gradients, or differentiates its body."""
        b, d = self.trace.builder, self.found[value]
        name, bodies = b.name(value), b.bodies(value)
        if name in TILE_GRADIENTS:
            return TILE_GRADIENTS[name](d, y, xs)
        if not bodies:
            _refuse(name, b.location(value), "give it a grad")
        result = _made(y, lambda b: b.inline_tile(bodies[0], [x.value for x in xs]))
        different = list({x.value: x for x in xs}.values())
        found = dict(zip((x.value for x in different), self.nested([(result, d)], different, {}),
                         strict=True))  # fmt: skip
        return [found.pop(x.value, None) for x in xs]


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


def _refuse(
    op: str, location: str,
    fix: str = "give the operator a grad without it, or take no second derivative of it",
) -> None:  # fmt: skip
    raise InvalidType(
        f"the derivative of {op} is not known",
        "automatic gradients pass through element-wise operations, products, moves of elements, "
        "writes, loops, branches, sums, amax, amin, sort and cumsum",
        fix,
        location,
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


def _read_at(d: Tensor, axis: int, index: Tensor) -> Tensor:
    """The gradient at written positions; 0 at -1, where nothing was written."""
    written = along("gather", axis, d, e.maximum(index, 0))
    return _masked(broadcast_to(index >= 0, written.shape), written)


def _scattered(d: Tensor, y: Tensor, axes: list[int], into: Tensor, index: Tensor,
               part: Tensor) -> tuple:  # fmt: skip
    kept = along("scatter", axes[0], d, index, zeros(part))
    return kept, None, _read_at(d, axes[0], index)


def _cumulated(d: Tensor, y: Tensor, axes: list[int], x: Tensor) -> tuple:
    """An element is part of the sums from its own position on."""
    return (flip(along("cumsum", axes[0], flip(d, axes[0])), axes[0]),)


def _sorted(d: Tensor, y: Tensor, _: Any, x: Tensor) -> tuple:
    positions = _made(y, lambda b: b.result(y.value, 1))
    return (along("scatter", x.ndim - 1, zeros(x), positions, d),)


def _part(d: Tensor, like: Tensor, offsets: Sequence[Any], steps: Sequence[int] = ()) -> Tensor:
    at = [offset.value if isinstance(offset, Tensor) else offset for offset in offsets]
    return _made(d, lambda b: b.view(d.value, at, tuple(like.shape), steps))


def _put(into: Tensor, part: Tensor, offsets: Sequence[Tensor], steps: Sequence[int]) -> Tensor:
    at = [offset.value for offset in offsets]
    return _made(into, lambda b: b.update(into.value, part.value, at, steps))


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


def _updated(d: Tensor, y: Tensor, steps: list[int], x: Tensor, part: Tensor,
             *at: Tensor) -> tuple:  # fmt: skip
    d_part = _part(d, part, at, steps)  # first, so that the next may lie in the place of d
    return _put(d, zeros(part), at, steps), d_part


def _multiplied(d: Tensor, y: Tensor, _: Any, a: Tensor, b: Tensor) -> tuple:
    left, right = cast(a, y.dtype), cast(b, y.dtype)
    by_a = cast(sum_to(matmul(d, right, b_trans=True), a), a.dtype)
    if not b.dtype.is_float:  # bytes
        return by_a, None
    return by_a, cast(sum_to(matmul(left, d, a_trans=True), b), b.dtype)


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
    "update": _updated,
    "matmul": _multiplied,
    "concat": _joined,
    "scatter": _scattered,
    "scatter_add": lambda d, y, axes, x, index, part: (d, None, _read_at(d, axes[0], index)),
    "cumsum": _cumulated,
    "sort": _sorted,
    "sort_descending": _sorted,
}
_INTO_PARTS: dict[str, Callable[..., Tensor]] = {
    # (gradient of the result, that of what it reads, axes, positions...) -> the latter, added to
    "view": lambda d, into, steps, *at: _put(into, _part(into, d, at, steps) + d, at, steps),
    "gather": lambda d, into, axes, index: along("scatter_add", axes[0], into, index, d),
}
TILE_GRADIENTS: dict[str, Callable[..., list]] = {}  # of tile_operation.py, by name
_OF_BODIES = {"loop": loop_gradient, "repeat": loop_gradient, "branch": branch_gradient}
