# SPDX-License-Identifier: Apache-2.0
"""Calls with ever new numbers are left to ATen: each costs a plan, and often a kernel.

    reason = why_left(bound)      # None: the call has no numbers, known ones, or is among the first
    note(bound, jit)              # after a run: its numbers are known from now on

For each overload, element types and types of numbers the first numbers are known: MOST_KERNELS
where each of them is a constant of a kernel, else MOST_PLANS. Numbers that are defaults of the
schema count for nothing. Calls of pto.aten that ask for a slot run with any numbers.
Thread safety: any thread; where several note at once, all are known.
"""

from typing import Any

from pto.aten.binding import Bound

MOST_KERNELS, MOST_PLANS = 4, 16
_NUMBERS = ("Scalar", "Scalar?", "float", "float?")
_known: dict[tuple, set[tuple]] = {}
_steering: set[tuple] = set()  # kinds of calls whose numbers are constants of kernels


def why_left(bound: Bound) -> str | None:
    """Why a row leaves a call with such numbers to ATen; None: it does not."""
    numbers = _numbers(bound)
    if not numbers:
        return None
    kind = _kind(bound, numbers)
    known, most = _known.get(kind, ()), MOST_KERNELS if kind in _steering else MOST_PLANS
    if len(known) < most or numbers in known:
        return None
    shown = ", ".join(f"{name}={value!r}" for name, value in numbers)
    return f"{shown} is new after {len(known)} others, and each costs a plan or a kernel"


def note(bound: Bound, jit: Any) -> None:
    """Makes the numbers of a call known that a jitted function ran, if there is room; `jit` is None
    where none ran."""
    if not (numbers := _numbers(bound)):
        return
    kind = _kind(bound, numbers)
    if jit is not None and kind not in _steering:
        compiled = {jit.parameters[place]: values for place, values in jit.values.items()}
        if any(repr(value) in compiled.get(name, ()) for name, value in numbers):
            _steering.add(kind)
    known = _known.setdefault(kind, set())
    if len(known) < MOST_PLANS:
        known.add(numbers)


def _numbers(bound: Bound) -> tuple:
    """(name, value) of each number that is no default."""
    values = bound.values
    return tuple([
        (one.name, values[one.name]) for one in bound.record.arguments
        if one.type in _NUMBERS and isinstance(values.get(one.name), int | float)
        and (one.is_required or values[one.name] != one.default)
    ])  # fmt: skip


def _kind(bound: Bound, numbers: tuple) -> tuple:
    """The overload and the types of its tensors and numbers."""
    types = [str(one.dtype) for one in bound.values.values() if hasattr(one, "dtype")]
    return bound.record.full_name, *types, *[(name, type(value)) for name, value in numbers]
