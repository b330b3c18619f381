# SPDX-License-Identifier: Apache-2.0
"""Decides which float parameters of a compiled function can be numbers of the call.

    tensors, constants, numbers = [("f32", (n,)), None], [None, 2.0], [False, True]
    graph, form, steering = traced("scaled", scaled, tensors, constants, numbers)

The function is traced with the values, and again with traced numbers in their places. If both
traces compute the same, one kernel serves all values; if they differ, the value steers the function
(a condition, a power, a look-up) and must be a constant: its bit in `steering` is set.

Arithmetic among numbers is as wide as the tensors, as in @op. Thread safety: as a trace.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pto import _core
from pto.errors import InvalidType
from pto.language.location import fail
from pto.language.results import Form
from pto.language.stepping import Steps
from pto.language.tensor import Tensor
from pto.language.trace import Trace


class Number(Tensor):
    """A traced number that passes for a float; asking for its value shows that it steers."""

    __slots__ = ()
    __class__ = property(lambda self: float)  # isinstance(factor, float) stays true

    def _value(self, *_: object) -> str:
        if not self.trace.open:
            return "<a number of a tracing that has ended>"
        return fail(
            "a function asks for the value of a number while it is traced",
            "one kernel serves all values of this number, so none is known yet",
            "make it a constant: @pto.jit(constants=(its name,))",
            InvalidType,
        )

    __str__ = __repr__ = __format__ = _value

    def __hash__(self) -> int:
        self._value()
        return id(self)


def as_number(x: Tensor) -> Number:
    """A traced number, as a parameter of a function."""
    return Number(x.trace, x.value, weak=True)


class Tracing:
    """One run of a function on symbols: `outputs`, and in which `form` it returned them.

    It runs in steps where the values of its tensors are given, `packed` as interpret() takes them.
    """

    def __init__(self, name: str, function: Callable, tensors: list, constants: list,
                 numbers: Sequence[int], writes: bool, short_writes: bool,
                 packed: list | None = None):  # fmt: skip
        code = function.__code__
        self.trace = Trace(name)
        self.trace.has_numbers = bool(numbers)
        self.trace.can_write = writes
        self.trace.short_writes = short_writes
        values = list(constants)
        for place, about in enumerate(tensors):
            if about:
                values[place] = self.trace.input(code.co_varnames[place], *about[:2], *about[3:])
        self.numbers: dict[int, float] = {}
        for place in numbers:
            number = self.trace.scalar(code.co_varnames[place], self.trace.number_type)
            values[place] = as_number(number)
            self.numbers[number.value] = constants[place]
        self.trace.steps = Steps(self.trace, packed) if packed is not None else None
        with self.trace.active():
            result = called(function, values)
        result = self.trace.with_written(result) if writes else result
        self.outputs, self.form = self.trace.outputs_of(result)

    def finish(self) -> tuple[_core.Graph, Form]:
        graph, _ = self.trace.finish(self.outputs)
        return graph, self.form


def called(function: Callable, values: list) -> Any:
    """The result of a function for the values of all its parameters."""
    code = function.__code__
    count = code.co_argcount
    named = dict(zip(code.co_varnames[count:], values[count:], strict=False))
    return function(*values[:count], **named)


def traced(
    name: str, function: Callable, tensors: list, constants: list, numbers: list[bool],
    writes: bool = False, short_writes: bool = False,
) -> tuple[_core.Graph | None, Form, int]:  # fmt: skip
    """(graph, form, 0), or (None, form, bits of the parameters that have to be constants).

    A function that `writes` into tensors returns what Trace.with_written() makes of its result.
    """
    fixed = Tracing(name, function, tensors, constants, (), writes, short_writes)
    chosen = [place for place, yes in enumerate(numbers) if yes]
    if not chosen:
        return *fixed.finish(), 0

    def numbered(places: list[int]) -> Tracing | None:
        try:
            found = Tracing(name, function, tensors, constants, places, writes, short_writes)
        except Exception:  # noqa: BLE001 whatever a function does with a value that it cannot have
            return None
        return found if _same(fixed, found) else None

    if found := numbered(chosen):
        return *found.finish(), 0
    steering = [place for place in chosen if len(chosen) == 1 or not numbered([place])]
    return None, fixed.form, sum(1 << place for place in steering or chosen)


_TOLERANCE = {"f64": 1e-14, "f32": 1e-6, "f16": 2e-3, "bf16": 2e-2}  # of their values
# Operations with bodies: how many operands stand in front of those that become inputs of these.
_BODIES = {"loop": 3, "branch": 1, "repeat": 0}
# Operations whose operands may be exchanged, and which they are then.
_MIRRORED = {"add": "add", "mul": "mul", "eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge",
             "ge": "le"}  # fmt: skip
_ON_NUMBERS: dict[str, Callable[..., float]] = {
    "cast": lambda a: a,
    "neg": lambda a: -a,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": lambda a, b: a**b,
    "abs": abs,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
}


def _same(fixed: Tracing, numbered: Tracing) -> bool:
    """True if both tracings compute the same from the same operands, numbers by their value."""
    free = max(fixed.trace.symbols, numbered.trace.symbols)
    nodes = [_Nodes(one.trace.builder, [x.value for x in one.outputs], free, one.numbers)
             for one in (fixed, numbered)]  # fmt: skip
    return fixed.form == numbered.form and _equal(*nodes)


def _equal(left: "_Nodes", right: "_Nodes") -> bool:
    if len(left.outputs) != len(right.outputs):
        return False
    waiting = [*zip(left.outputs, right.outputs, strict=True)]
    seen = set(waiting)
    while waiting:
        a, b = waiting.pop()
        if left.type(a) != right.type(b):
            return False
        if a in left.numbers or b in right.numbers:
            if not _close(left.numbers.get(a), right.numbers.get(b), left.type(a)[0]):
                return False
            continue
        (op, *about), operands = left.node(a)
        (other, *others_about), others = right.node(b)
        mirrored = _MIRRORED.get(other)
        if mirrored and left.is_number(operands[0]) != right.is_number(others[0]):
            # 2.0 * x is Tensor.__rmul__, factor * x is Number.__mul__; x > factor is Number.__lt__
            other, others = mirrored, others[::-1]
        if (op, about) != (other, others_about):
            return False
        if op in _BODIES and not all(map(_equal, left.bodies(a), right.bodies(b))):
            return False
        pairs = {*zip(operands, others, strict=True)} - seen
        seen |= pairs
        waiting += pairs
    return True


def _close(a: float | None, b: float | None, kind: str) -> bool:
    if a is None or b is None:
        return False
    if a == 0 or b == 0:
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    return (a != a and b != b) or math.isclose(a, b, rel_tol=_TOLERANCE.get(kind, 0))


class _Nodes:
    """The nodes of a tracing or body, and which of them are numbers whose value is known."""

    def __init__(self, builder: Any, outputs: list[int], free: int, numbers: dict[int, float]):
        self.builder, self.outputs, self.free, self.numbers = builder, outputs, free, {**numbers}
        self.inputs: dict[int, int] = {}
        for value in range(len(builder)):
            op, operands, _ = builder.node(value)
            if value in self.numbers:
                continue
            if op == "input":
                self.inputs[value] = len(self.inputs)
            elif op == "constant":
                self.numbers[value] = builder.number(value)
            elif operands and all(x in self.numbers for x in operands) and self._is_scalar(value):
                self._evaluate(value, op, operands)

    def type(self, value: int) -> tuple[str, str]:
        kind, shape = self.builder.type(value)
        return kind, str(shape)

    def is_number(self, value: int) -> bool:
        """True for a number whose value is known, also where it is broadcast."""
        op, operands, _ = self.builder.node(value)
        return value in self.numbers or (op == "broadcast" and operands[0] in self.numbers)

    def node(self, value: int) -> tuple[tuple, list[int]]:
        """Its operation and operands, without numbers that its bodies take as they are."""
        op, operands, axes = self.builder.node(value)
        bodies = self.builder.bodies(value)
        if op in _BODIES:
            first, bodies = self._first_taken(op, bodies), []
            operands = operands[:first] + [x for x in operands[first:] if x not in self.numbers]
        return (op, self.inputs.get(value), tuple(axes), len(operands), *bodies), operands

    def _first_taken(self, op: str, bodies: list[_core.Graph]) -> int:
        """The first operand that bodies take as it is: those in front a loop carries."""
        return _BODIES[op] + (0 if op == "branch" else len(bodies[-1].outputs))

    def bodies(self, value: int) -> "Iterator[_Nodes]":
        op, operands, _ = self.builder.node(value)
        bodies = self.builder.bodies(value)
        taken = operands[self._first_taken(op, bodies) :]
        for body in bodies:
            b = _core.GraphBuilder(body.name)
            inputs = [b.input(*about[:3]) for about in body.inputs]
            pairs = zip(inputs[len(inputs) - len(taken) :], taken, strict=True)
            numbers = {x: self.numbers[outer] for x, outer in pairs if outer in self.numbers}
            yield _Nodes(b, *b.inline(body, inputs, self.free), numbers)

    def _is_scalar(self, value: int) -> bool:
        kind, shape = self.builder.type(value)
        return shape == () and kind in _TOLERANCE

    def _evaluate(self, value: int, op: str, operands: list[int]) -> None:
        rule = _ON_NUMBERS.get(op)
        try:
            if rule is not None:
                self.numbers[value] = float(rule(*(self.numbers[x] for x in operands)))
        except (ArithmeticError, ValueError, TypeError):
            return
