# SPDX-License-Identifier: Apache-2.0
"""A row: an overload of ATen as a formula of the tile language, with the forms that follow from it.

    @row("add.Tensor", ulp=1)
    def add(self, other, alpha=1):
        return self + other * alpha

The formula's parameters are the overload's arguments. The in-place name (`add_.Tensor`) and the
overload with `out` (`add.out`) are the same program with another place for the result, so that all
three have the same bits. A program computes f16 and bf16 in f32 and rounds once. A row takes dense
tensors of one element type, but for those that `others` names; a number beside them widens nothing.
It leaves other calls to ATen, with a reason. Thread safety: any thread may ask and run a row.
"""

import inspect
import linecache
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pto import _core
from pto.aten import new_numbers
from pto.aten.binding import Bound
from pto.aten.implementations import Implementation, implement
from pto.aten.orders import Order, is_pointwise
from pto.aten.records import Library, Record, arrays_in, library
from pto.aten.row_plans import plan
from pto.aten.wins import may_win, why_not
from pto.kept import kept
from pto.language.dtypes import dtype, f32
from pto.language.jit import ProgramJit, jit
from pto.language.operation import names_of
from pto.language.program import Program, is_program
from pto.language.tensor import Tensor
from pto.language.types import cast, wide

SLOT = 0
# The bits of the fraction of each float type, and the exponent of its smallest normal number.
FORMS = {"float32": (23, -126), "float16": (10, -14), "bfloat16": (7, -126), "float64": (52, -1022)}
FLOATS = tuple(FORMS)  # float64 for who asks for the slot
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
NUMBERS = (*FLOATS, *INTEGERS)
EVERY = (*NUMBERS, "bool")
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """An overload and its formula.

    `ulp` bounds the distance to ATen's result, in units of the last place of the element type. With
    `is_sum` the unit is that of the largest element of the arguments, since terms may cancel; with
    `factors`, two names whose products are summed along the last axis of the first, that of the
    product of their largest elements; both grow with the root of the number of terms, and so do the
    units of an `is_product`. `types` lists the element types that all tensors of a call share;
    `others` has, by name, the types of tensors that may have another one. `results` names the type
    of each result: "" is the tensors' type, "total" is int64 for integers and bool, else the
    tensors' type. `unless` gives the reason why the row does not take the values of a call, or
    None. `ignored` are arguments that change no result. `given` makes the formula's arguments from
    the call's. A formula with a parameter `out` calls operators of the library, and is not
    compiled. `sample` makes arguments, see samples.py.
    """

    overload: str
    formula: Callable[..., Any]
    types: tuple[str, ...] = FLOATS
    ulp: float = 1
    is_sum: bool = False
    factors: tuple[str, ...] = ()
    is_product: bool = False
    widens: bool = True  # False: the formula itself rounds f16 and bf16 once
    in_place: bool = True  # whether there is a form that writes its result into `self`
    others: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    results: tuple[str, ...] = ("",)
    unless: Callable[[Values], str | None] | None = None
    ignored: tuple[str, ...] = ()
    given: Callable[[Values], dict[str, Any]] | None = None
    sample: Callable[..., dict[str, Any]] | None = None
    base: str = ""  # the overload of which this is another name

    @kept
    def is_pointwise(self) -> bool:
        """Whether each element of the result depends on those at its place alone."""
        return is_pointwise(self.base or self.overload)

    @property
    def is_compiled(self) -> bool:
        return "out" not in self.parameters

    @kept
    def program(self) -> Any:
        if not self.is_compiled:
            return self.formula
        return jit(self._written("") if self._is_wide else self.formula)

    @property
    def _is_wide(self) -> bool:
        return self.widens and bool(self.ulp)

    @kept
    def in_place_program(self) -> Any:
        """The program that writes its result into `self`.

        Its numbers are those of calls, as far as the formula's are: programs with loops, whose
        numbers are constants, are none of these.
        """
        function = self._written("self[:] = ")
        if is_program(self.formula):
            return jit(function)
        return Program(function, ProgramJit)

    def _written(self, place: str) -> Callable[..., Any]:
        """A function that computes the formula on wide tensors; errors show lines of its text."""
        names, verb = ", ".join(self.parameters), place or "return "
        takes = inspect.signature(self.formula)
        computed = f"rounded(formula, {names})" if self._is_wide else f"formula({names})"
        name = self.formula.__name__ + "_" * bool(place)
        text = f"def {name}{takes}:\n    {verb}{computed}\n"
        file = f"<row {self.overload}{' in place' if place else ''}>"
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        space = {"formula": self.formula, "rounded": rounded}
        exec(compile(text, file, "exec"), space)
        return space[name]

    @kept
    def parameters(self) -> tuple[str, ...]:
        return names_of(self.formula)

    def result_types(self, kind: str) -> list[str]:
        """The element types of the results for tensors of a type."""
        total = "int64" if kind in INTEGERS or kind == "bool" else kind
        return [{"": kind, "total": total}.get(one, one) for one in self.results]

    def refuses(self, bound: Bound) -> str | None:
        """Why the row does not take a call; None: it takes it."""
        outputs = bound.record.output_names
        inputs = {n: v for n, v in bound.values.items() if n not in outputs}
        known = self.parameters if self.given is None else inputs
        for name, value in inputs.items():
            if name not in known and name not in self.ignored and value is not None:
                return f"it has no formula for {name}"
        if sum(1 for _ in arrays_in(bound.values)) > _core.MAX_TENSORS:
            return f"its program takes at most {_core.MAX_TENSORS} tensors"
        kind, reason = self._kind(inputs)
        return (
            reason
            or self._refuses_numbers(bound.record, inputs, kind)
            or (self.unless and self.unless(inputs))
            or self._refuses_places(bound, outputs, inputs, kind)
            or self.order(bound).refuses()
        )

    def order(self, bound: Bound) -> Order:
        """How the results of a call lie in memory."""
        outputs = bound.record.output_names
        written = "self" if bound.record.name.endswith("_") else outputs[0] if outputs else ""
        return Order(bound, self.is_pointwise, bound.values.get(written))

    def _kind(self, inputs: Values) -> tuple[str, str | None]:
        """The element type that the tensors of a call have, and why the row does not take it."""
        types = set()
        names_axes = inputs.get("dim") is not None or bool(inputs.get("dims"))
        for name, value in arrays_in(inputs):
            found = library().dense_type(value)
            if found == "":
                return "", f"{name} is no dense array of the CPU without gradient"
            if not library().shape(value) and names_axes:
                return "", f"{name} has no axes"
            if len(library().shape(value)) > _core.MAX_RANK:
                return "", f"{name} has more axes than {_core.MAX_RANK}"
            if name not in self.others:
                types.add(found)
            elif found not in self.others[name]:
                return "", f"{name} is {found}, not {' or '.join(self.others[name])}"
        if len(types) != 1:
            return "", f"its tensors are of the types {', '.join(sorted(types)) or 'none'}, not one"
        kind = types.pop()
        return kind, None if kind in self.types else f"it has no formula for {kind}"

    def _refuses_numbers(self, record: Record, inputs: Values, kind: str) -> str | None:
        numbers = {a.name for a in record.arguments if a.type in ("Scalar", "Scalar?", "Tensor")}
        for name, value in inputs.items():
            if isinstance(value, complex):
                return f"{name} is complex"
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            if name not in numbers:
                continue
            if isinstance(value, int) and abs(value) >= 1 << 63:
                return f"{name} is {value}, which 64 bits do not hold"
            if kind in FLOATS:
                bits, least = FORMS[kind]
                if (2 - 2.0**-bits) * 2.0 ** (1 - least) < abs(value) < math.inf:
                    return f"{name} is {value}, which {kind} does not hold"
                continue
            if isinstance(value, float) or kind == "bool":
                return f"{name} is {value}, which gives {kind} another type"
            if not dtype(kind).holds(value):
                return f"{name} is {value}, which {kind} does not hold"
        return None

    def _refuses_places(
        self, bound: Bound, outputs: tuple[str, ...], inputs: Values, kind: str
    ) -> str | None:
        """Why the results cannot be written where the call wants them."""
        types = self.result_types(kind)
        if bound.record.name.endswith("_"):
            me = bound.values["self"]
            if not library().shape(me):
                return "self has no axes, and no part that could be written"
            if not library().is_writable(me):
                return "self cannot be written where it lies"
            if types[0] != kind:
                return f"its result is {types[0]}, not {kind}"
            for name, one in arrays_in(inputs):
                if one is not me and library().overlap(me, one) and not library().is_same(me, one):
                    return f"{name} shares a part of self, which is written"
        for name, type_ in zip(outputs, types, strict=True) if outputs else ():
            place = bound.values[name]
            found = library().dense_type(place)
            if not found:
                return f"{name} is no dense array of the CPU without gradient"
            if found != type_:
                return f"{name} is {found}, not {type_}"
            if not library().is_writable(place):
                return f"{name} cannot be written where it lies"
            if 0 in library().shape(place):
                return f"{name} has no elements, and may have to be resized"
            if any(library().overlap(place, one) for _, one in arrays_in(inputs)):
                return f"{name} shares memory with an input"
        is_written = outputs or bound.record.name.endswith("_")
        if is_written and library().fit(bound.record, bound.values) is False:
            return "what it writes has another size than the result"
        return None

    def formula_arguments(self, bound: Bound) -> dict[str, Any]:
        """The formula's arguments by name, made from those of a call."""
        values = bound.values if self.given is None else self.given(bound.values)
        given = {n: values[n] for n in self.parameters if n in values and n != "out"}
        if self.is_compiled:
            given = {n: tuple(v) if isinstance(v, list) else v for n, v in given.items()}
        return given

    def run(self, bound: Bound, like: Any) -> Any:
        """Runs the program, which writes into the outputs, into `self`, or into new arrays."""
        is_in_place = bound.record.name.endswith("_")
        program = self.in_place_program if is_in_place else self.program
        made = self._made_by(program, bound, is_in_place)
        new_numbers.note(bound, program.compiled if self.is_compiled else None)
        return made

    def _made_by(self, program: Any, bound: Bound, is_in_place: bool) -> Any:
        outputs = [bound.values[name] for name in bound.record.output_names]
        lies, given = self.order(bound), self.formula_arguments(bound)
        given = given if lies.is_plain else lies.taken(given)
        if is_in_place:
            program(**given)
            return bound.values["self"]
        if not outputs:
            return lies.placed(program(**given))
        places = tuple(map(lies.place, outputs))
        program(**given, out=places[0] if len(places) == 1 else places)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


def rounded(formula: Callable[..., Any], *values: Any) -> Any:
    """The formula's results; it computes f16 and bf16 tensors in f32, and rounds results once."""
    narrow = [v.dtype for v in values if isinstance(v, Tensor) and wide(v) is not v]
    made = formula(*[wide(v) if isinstance(v, Tensor) else v for v in values])
    if not narrow:
        return made
    several = made if isinstance(made, tuple) else (made,)
    kept = tuple(cast(one, narrow[0]) if one.dtype is f32 else one for one in several)
    return kept if isinstance(made, tuple) else kept[0]


ROWS: dict[str, Row] = {}


def row(*overloads: str, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes the decorated formula the row of these overloads."""

    def add(formula: Callable[..., Any]) -> Callable[..., Any]:
        for overload in overloads:
            ROWS[overload] = Row(overload, formula, **options)
        return formula

    return add


def forms(one: Row, of: Library | None = None) -> list[str]:
    """The full names of a row's forms in a library: its overload, in place, with `out`."""
    name, of = one.overload.partition(".")[0], of or library()
    records = {r.full_name: r for n in (name, name + "_") for r in of.records(n)}
    functional = records[one.overload]
    wanted = [(a.name, a.type) for a in functional.arguments]
    found = [one.overload]
    for full, record in records.items():
        inputs = [(a.name, a.type) for a in record.arguments if a not in record.outputs]
        is_twin = record.name == name if record.outputs else one.in_place and record.name != name
        if full != one.overload and is_twin and inputs == wanted:
            found.append(full)
    return found


_row_of: dict[str, Row] = {}


def row_of(full_name: str) -> Row | None:
    """The row that serves an overload, of whatever form."""
    return _row_of.get(full_name)


def install(rows: Mapping[str, Row], of: Library) -> None:
    """Puts rows into their slot, for all their forms in a library."""
    for one in rows.values():
        for full in forms(one, of):
            _row_of[full] = one
            measured = one.base or one.overload
            waits, wins = why_not(measured, one.others), may_win(measured, one.others)
            ours = Implementation(SLOT, "tile", "cpu", one.refuses, one.run,
                                  partial(_waits, waits), wins, partial(plan, one))  # fmt: skip
            implement(full, ours)


def _waits(not_ahead: Callable[[Bound], str | None], bound: Bound) -> str | None:
    """Why a row runs a call only where its slot is asked for; None: it runs it."""
    return new_numbers.why_left(bound) or not_ahead(bound)
