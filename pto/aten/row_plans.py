# SPDX-License-Identifier: Apache-2.0
"""Plans of rows: how later calls of PyTorch with the same types, sizes and numbers run.

    plan(ROWS["exp"], bound)      # (a bound call, (0,), None): its argument 0, into a new result

A compiled row runs without Python, as a bound call (abi/bound_call.h); one that calls operators of
the library runs in Python. Thread safety: pure functions.
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pto.aten.binding import Bound
from pto.aten.implementations import BoundPlan, CallPlan, ProgramPlan
from pto.aten.records import Record, library

if TYPE_CHECKING:
    from pto.aten.rows import Row


def plan(row: "Row", bound: Bound) -> CallPlan | None:
    """The plan of a call that the row has run.

    None where the order in memory counts, or where the formula takes tensors that are no arguments:
    such calls ask again.
    """
    if not row.order(bound).is_plain:
        return None
    given = row.formula_arguments(bound)
    given |= {name: bound.values[name] for name in bound.record.output_names}
    names = [a.name for a in bound.record.arguments]
    places = {}
    for name, value in given.items():
        at = [n for n, one in bound.values.items() if _are_same(one, value)]
        if not _holds_arrays(value):
            places[name] = -1
        elif name in at or len(at) == 1:
            places[name] = names.index(name if name in at else at[0])
        else:
            return None
    return _bound(row, bound, places) or _in_python(row, bound.record, given, places)


def _bound(row: "Row", bound: Bound, places: Mapping[str, int]) -> BoundPlan | None:
    """The plan as one run of the row's program; None: there is no such."""
    if not row.is_compiled:
        return None
    is_in_place = bound.record.name.endswith("_")
    program = row.in_place_program if is_in_place else row.program
    call = program.bound_call(**row.formula_arguments(bound))
    if call is None:
        return None
    outputs = ("self",) if is_in_place else bound.record.output_names
    inputs = tuple(places[n] for n in row.parameters if places.get(n, -1) >= 0)
    return call, inputs, tuple(places[name] for name in outputs) or None


def _in_python(
    row: "Row", record: Record, given: Mapping[str, Any], places: Mapping[str, int]
) -> ProgramPlan:
    """The plan as a call of the row's program from Python."""
    program = row.program if record.is_functional else _writing(row, record.output_names)
    constants = tuple(None if places[name] >= 0 else value for name, value in given.items())
    return program, tuple(given), tuple(places.values()), constants


def _writing(row: "Row", outputs: tuple[str, ...]) -> Callable[..., Any]:
    """The program of a plan that writes these outputs, or `self` where there is none."""

    def in_place(**given: Any) -> Any:
        row.in_place_program(**given)
        return given["self"]

    def into_outputs(**given: Any) -> Any:
        places = tuple(given.pop(name) for name in outputs)
        row.program(**given, out=places[0] if len(places) == 1 else places)
        return places

    return into_outputs if outputs else in_place


def _flat(values: Iterable[Any]) -> list[Any]:
    """The values, and those of lists among them."""
    return [one for v in values for one in (v if isinstance(v, list | tuple) else (v,))]


def _holds_arrays(value: Any) -> bool:
    return any(library().dense_type(one) is not None for one in _flat([value]))


def _are_same(one: Any, other: Any) -> bool:
    """Whether two values are one array, or lists of the same ones."""
    first, second = _flat([one]), _flat([other])
    return len(first) == len(second) and all(map(operator.is_, first, second))
