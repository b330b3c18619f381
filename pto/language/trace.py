# SPDX-License-Identifier: Apache-2.0
"""Trace: runs a Python function on symbolic tensors and keeps what it computes as a Graph.

    trace = Trace("double")
    x = trace.input("x", "f32", (Dim.symbol(0), 384))
    graph, form = trace.finish(x * 2)

Thread safety: a trace belongs to one thread; several may run at once.
"""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from pto import _core
from pto.errors import InvalidType, InvalidValue
from pto.language.dtypes import DType, f32, f64
from pto.language.dtypes import dtype as element_type
from pto.language.location import describe, fail, traced_line
from pto.language.results import Form, taken_apart
from pto.language.scope import Captured, Scope
from pto.language.tensor import Tensor
from pto.language.upper_bounds import symbols_of

_of_thread = threading.local()


class Trace:
    """One tracing: inputs first, then the operations that its Tensors record, then `finish`."""

    def __init__(self, name: str):
        self.name = name
        self.scope = Scope(name)
        self.open = True
        self.can_write = False  # into its inputs: a program, see program.py
        self.short_writes = False  # a value that is smaller than its part: parts.py
        self.skipped = 0  # loops without an iteration: what they would write is not known
        self.written: dict[str, Tensor] = {}  # inputs that were written, by name
        self.inputs: list[Tensor] = []
        self.constant_names: list[str] = []  # of inputs whose elements stay as they are
        self.input_names: dict[int, str] = {}  # id() of an input -> its name
        self.symbols = 0  # the number of the first that is free
        self.hints: Any = None  # in force: tile_hints.py
        self.hints_made: list[tuple] = []
        self.has_numbers = False  # parameters that may turn out to steer: call_numbers.py
        self.steps: Any = None  # the values, where the function runs in steps: stepping.py
        self.trials = 0  # tracings in progress of which only errors and types count

    @property
    def builder(self) -> _core.GraphBuilder:
        return self.scope.builder

    @property
    def is_stepping(self) -> bool:
        """Says whether values are known of what is recorded here."""
        return self.steps is not None and self.scope.parent is None

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Makes it the trace of functions without a tensor among their arguments: pto.zeros."""
        before, _of_thread.trace = getattr(_of_thread, "trace", None), self
        try:
            yield
        finally:
            _of_thread.trace = before

    def enter(self, name: str) -> Scope:
        """Begins a body: what is recorded from now on belongs to it."""
        self.scope = Scope(name, self.scope, self.symbols)
        return self.scope

    def leave(self) -> list[Captured]:
        """Ends the body; returns what it took from outside. The caller builds its graph."""
        body = self.scope
        if self.hints is not None:
            self.hints.check(body)
        assert body.parent is not None
        self.scope = body.parent
        return list(body.captured.values())

    def size(self, count: Tensor, condition: int = -1) -> Any:
        """The size that an i64 of rank 0 says, a symbol; it may count where a condition fails."""
        scope, value = self.scope, count.value
        if value not in scope.sizes:
            scope.sizes[value] = _core.Dim.symbol(self.symbols)
            self.symbols += 1
            self.here().size(value, scope.sizes[value], condition)
        return scope.sizes[value]

    def is_from_data(self, size: Any) -> bool:
        """Says whether a size has a symbol that data define."""
        found = symbols_of(size)
        scope: Scope | None = self.scope
        while scope is not None:
            if not found.isdisjoint(symbol.value for symbol in scope.sizes.values()):
                return True
            scope = scope.parent
        return False

    def check_open(self) -> None:
        """Raises InvalidType where the tracing has ended: its tensors are of no use any more."""
        if not self.open:
            fail(
                f"a traced tensor of {self.name} was used after its tracing ended",
                "a traced tensor stands for a value inside one compiled function only",
                "return it from the function; don't keep it in a variable outside",
                InvalidType,
            )

    def here(self) -> _core.GraphBuilder:
        """The builder, told the user's line, for the node that is recorded next."""
        self.check_open()
        b = self.scope.builder
        b.set_location(*traced_line())
        if self.scope.hints is not self.hints_made:
            self.scope.hints = self.hints_made
            b.set_hints(self.hints_made)
        return b

    def input(self, name: str, dtype: object, shape: Sequence, constant: bool = False) -> Tensor:
        """A tensor parameter; sizes are int, or Dim where known only at the call.

        The elements of a `constant` one stay as they are: a hint of the node says so.
        """
        for size in shape:
            if isinstance(size, _core.Dim) and size.op == 1:
                self.symbols = max(self.symbols, size.value + 1)
        if constant:
            self.constant_names.append(name)
            self.builder.set_hints([("constant", (1,), "")])
        value = self.builder.input(name, str(element_type(dtype)), tuple(shape))
        self.builder.set_hints([])
        found = Tensor(self, value, is_input=True)
        self.inputs.append(found)
        self.input_names[id(found)] = name
        return found

    @property
    def number_type(self) -> DType:
        """The type of real numbers that are no constants: f64 where an input has it, else f32."""
        return f64 if any(x.dtype is f64 for x in self.inputs) else f32

    def scalar(self, name: str, dtype: object) -> Tensor:
        """A number given at each call; it takes the element type of what it meets."""
        return Tensor(self, self.builder.scalar(name, str(element_type(dtype))), weak=True)

    def outputs_of(self, result: object) -> tuple[list[Tensor], Form]:
        """The tensors of `result`, one or a container of them, and how they stand in it.

        Raises InvalidType where one was never computed by the function.
        """
        outputs, form = taken_apart(result)
        if not outputs:
            self._not_computed(f"an empty {'dict' if form.kind is dict else 'sequence'}")
        for place, output in enumerate(outputs):
            at = "" if form.is_leaf else f" at {form.path_of(place)}"
            if isinstance(output, _core.Dim):
                self._not_computed(f"the size {output}{at}",
                                   "make a tensor of it: pto.full([], x.shape[0])")  # fmt: skip
            if not isinstance(output, Tensor) or output.trace is not self:
                self._not_computed(f"{describe(output)}{at}")
            if output.ndim > _core.MAX_RANK:
                raise InvalidValue(
                    f"{self.name} returned a tensor of {output.ndim} axes{at}",
                    f"a tensor has at most {_core.MAX_RANK}",
                    "join axes with reshape in front of the return",
                )
        return outputs, form

    def finish(self, result: object) -> tuple[_core.Graph, Form]:
        """The graph that returns `result`, and its form; see outputs_of()."""
        outputs, form = self.outputs_of(result)
        if self.hints is not None:
            self.hints.check_all()
        for output in outputs:
            self.builder.output(output.value)
        self.open = False
        return self.builder.build(), form

    def with_written(self, result: object) -> object:
        """The result of a program: what it returns, and the inputs that it wrote.

        One whose sizes of 0 leave it nothing to write has a number that nobody reads.
        """
        if result is None and not self.written:
            sizes = [n for x in self.inputs for n in x.shape]
            if self.skipped or any(isinstance(n, int) and n == 0 for n in sizes):
                return {"idle": Tensor(self, self.builder.constant(0, "i64"))}
            raise InvalidType(
                f"{self.name} writes none of its parameters and returns nothing",
                "what a program computes leaves it by a parameter or as its result",
                "write an output: out[:] = value, or return the value",
            )
        parts = {"returned": result} if result is not None or not self.written else {}
        return parts | ({"written": dict(self.written)} if self.written else {})

    def _not_computed(self, found: str, fix: str = "") -> NoReturn:
        raise InvalidType(
            f"{self.name} returned {found}, which it did not compute",
            "every output is a tensor computed from the inputs; what is not returned is lost",
            fix or "return the result, a tensor, or a tuple, list or dict of tensors",
        )


def current(name: str) -> Trace:
    """The trace of the function that runs; `name` is the function of pto that asks."""
    found = getattr(_of_thread, "trace", None)
    if found is None:
        fail(
            f"{name}: no function is being traced",
            f"pto.{name} has a meaning in a traced function alone",
            "call it in a function under @pto.jit; outside make arrays by NumPy or torch",
            InvalidType,
        )
    return found


def is_tracing() -> bool:
    """Says whether this thread traces a function."""
    return getattr(_of_thread, "trace", None) is not None
