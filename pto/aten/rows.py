# SPDX-License-Identifier: Apache-2.0
"""A row: an overload of ATen as a formula of the tile language, with the forms that follow from it.

    @row("add.Tensor", ulp=1)
    def add(self, other, alpha=1):
        return self + other * alpha

The formula's parameters are the overload's arguments. The in-place name (`add_.Tensor`) and the
overload with `out` (`add.out`) are the same program with another place for the result, so that all
three have the same bits. A row takes dense tensors of one element type; a number beside them widens
nothing. A call that it does not take falls through to ATen, with the reason.
"""

import inspect
import linecache
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pto.aten.binding import Bound
from pto.aten.implementations import Implementation, implement
from pto.aten.records import Record, library
from pto.language.jit import jit

SLOT = 0
UNMEASURED = "nobody has measured on this kind of machine whether it is faster; ask for slot=0"
FLOATS = ("float32", "float16", "bfloat16", "float64")  # float64 for who asks for the slot


@dataclass(frozen=True)
class Row:
    """An overload and its formula.

    `ulp` bounds the distance to ATen's result in units of the last place of the element type; of a
    sum, whose terms may cancel, in those of the largest term. `types` are those of all tensors.
    """

    overload: str
    formula: Callable[..., Any]
    types: tuple[str, ...] = FLOATS
    ulp: float = 1
    is_sum: bool = False
    in_place: bool = True  # whether the result has the type of `self`

    @cached_property
    def program(self) -> Any:
        return jit(self.formula)

    @cached_property
    def in_place_program(self) -> Any:
        """The program that writes its result into `self`; its text is made, and kept to be read."""
        names = ", ".join(self.parameters)
        takes = inspect.signature(self.formula)
        text = f"def {self.formula.__name__}_{takes}:\n    self[:] = formula({names})\n"
        file = f"<row {self.overload} in place>"
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        space = {"formula": self.formula}
        exec(compile(text, file, "exec"), space)
        return jit(space[f"{self.formula.__name__}_"])

    def refuses(self, bound: Bound) -> str | None:
        """Why a call is not this row's."""
        inputs = {n: v for n, v in bound.values.items() if n not in _outputs(bound.record)}
        for name, value in inputs.items():
            if name not in self.parameters and value is not None:
                return f"it has no formula for {name}"
        types = set()
        for name, value in inputs.items():
            found = library().dense_type(value)
            if found is None and isinstance(value, complex):
                return f"{name} is complex"
            if found == "":
                return f"{name} is no dense array of the CPU without gradient"
            if found:
                types.add(found)
        if len(types) != 1:
            return f"its tensors are of the types {', '.join(sorted(types)) or 'none'}, not of one"
        if not types <= set(self.types):
            return f"it has no formula for {types.pop()}"
        for name in _outputs(bound.record):
            if not library().dense_type(bound.values[name]):
                return f"{name} is no dense array of the CPU without gradient"
            if any(library().overlap(bound.values[name], one) for one in inputs.values()):
                return f"{name} shares memory with an input"
        return None

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        code = self.formula.__code__
        return code.co_varnames[: code.co_argcount]

    def run(self, bound: Bound, like: Any) -> Any:
        """Runs the program into the call's place: an output, the tensor itself, or a new one."""
        given = {n: bound.values[n] for n in self.parameters if n in bound.values}
        outputs = [bound.values[name] for name in _outputs(bound.record)]
        if bound.record.name.endswith("_"):
            self.in_place_program(**given)
            return given["self"]
        if not outputs:
            return self.program(**given)
        return self.program(**given, out=outputs[0] if len(outputs) == 1 else tuple(outputs))


def _outputs(record: Record) -> list[str]:
    return [argument.name for argument in record.outputs]


ROWS: dict[str, Row] = {}


def row(*overloads: str, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes the decorated formula the row of these overloads."""

    def add(formula: Callable[..., Any]) -> Callable[..., Any]:
        for overload in overloads:
            ROWS[overload] = Row(overload, formula, **options)
        return formula

    return add


def forms(one: Row) -> list[str]:
    """The full names of the forms of a row: its overload, that in place, that with `out`."""
    overload = one.overload
    name, _, variant = overload.partition(".")
    records = {r.full_name: r for n in (name, name + "_") for r in library().records(n)}
    functional = records[overload]
    wanted = [(a.name, a.type) for a in functional.arguments]
    found = [overload]
    for full, record in records.items():
        inputs = [(a.name, a.type) for a in record.arguments if a not in record.outputs]
        is_twin = record.name == name if record.outputs else one.in_place and record.name != name
        if full != overload and is_twin and inputs == wanted:
            found.append(full)
    return found


def install(rows: Mapping[str, Row]) -> None:
    """Puts rows into their slot, for all their forms."""
    for one in rows.values():
        for full in forms(one):
            implement(full, Implementation(SLOT, "tile", "cpu", one.refuses, one.run, UNMEASURED))
