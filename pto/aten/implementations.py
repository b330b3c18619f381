# SPDX-License-Identifier: Apache-2.0
"""Implementations of an overload: slots 0 to 7 are ours, slot 8 is ATen's kernel.

    choose(bind(records, args, kwargs)).run(...)

The lowest slot that takes the call runs it. An implementation that refuses gives its reason, which
`explain` prints; one that fails raises, and no other is tried.

Thread safety: any thread may ask and call; a change of a slot counts for the calls that begin
later.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from pto.aten.binding import Bound
from pto.aten.records import Record, library
from pto.errors import InvalidType, InvalidValue

ATEN = 8


# (program, names, places, constants): program(name=value), each value the call's argument at its
# place, or the constant where the place is -1.
ProgramPlan = tuple[Callable[..., Any], tuple[str, ...], tuple[int, ...], tuple[Any, ...]]
# (bound call, inputs, outputs): what Callable.bound_call() returned runs on the arguments at the
# places of `inputs`, and writes into those at the places of `outputs`, or into new results (None).
BoundPlan = tuple[object, tuple[int, ...], tuple[int, ...] | None]
CallPlan = ProgramPlan | BoundPlan


@dataclass(frozen=True, slots=True)
class Implementation:
    """`refuses` gives the reason why it does not take a call, or None; `run` takes it.

    `run(bound, like)` returns results of the kind of the call's arrays, or of `like` where the call
    has none. `plan(bound)` says how later calls of the same types, sizes and numbers run; None:
    they ask again. `waits(bound)` gives the reason why the implementation runs only calls that ask
    for its slot, or None. `may_win(None)` is False where `waits` has a reason for every call,
    `may_win(bound)` where it has one for every call whose tensors have the types of this one's.
    """

    slot: int
    name: str
    platform: str
    refuses: Callable[[Bound], str | None]
    run: Callable[[Bound, Any], Any]
    waits: Callable[[Bound], str | None] | None = None
    may_win: Callable[[Bound | None], bool] = lambda bound: True
    plan: "Callable[[Bound], CallPlan | None]" = lambda bound: None

    def reason(self, bound: Bound, slot: int | None = None) -> str | None:
        """Why it does not run a call that asks for `slot`, None: for no slot. None: it runs it."""
        refused = self.refuses(bound)
        return self.waits(bound) if refused is None and slot is None and self.waits else refused

    def __repr__(self) -> str:
        return f"{self.slot} {self.name}"


class Observer:
    """Runs the chosen implementations of its thread, as a shadow or a recording does.

    `outer` is the one that was there before, which sees the calls, too.
    """

    outer: "Observer | None" = None

    def run(self, one: Implementation, bound: Bound, like: Any) -> Any:
        """Runs the implementation and returns its result; calls that it makes are not seen."""
        if self.outer:
            return self.outer.run(one, bound, like)
        token = observer.set(_nobody)
        try:
            return one.run(bound, like)
        finally:
            observer.reset(token)

    def left(self, bound: Bound) -> None:
        """Hears of a call of PyTorch that no implementation of ours takes."""
        if self.outer:
            self.outer.left(bound)


_nobody = Observer()
observer: ContextVar[Observer | None] = ContextVar("observer", default=None)
# Called where calls that are planned have to be asked for again.
on_observer: list[Callable[[], None]] = []


@contextmanager
def observed(by: Observer) -> Iterator[None]:
    """Lets this observer run the calls of the thread in the block."""
    by.outer = observer.get()
    token = observer.set(by)
    for forget in on_observer:
        forget()
    try:
        yield
    finally:
        observer.reset(token)


_ours: dict[str, list[Implementation]] = {}  # by full name; a change makes a new list
# Called with the full name of an overload whose implementations changed.
on_change: list[Callable[[str], None]] = []


def implement(full_name: str, implementation: Implementation) -> None:
    """Puts an implementation of an overload into its slot.

    Raises InvalidValue for a slot that is taken or does not exist.
    """
    taken = ours(full_name)
    if not 0 <= implementation.slot < ATEN:
        raise InvalidValue(
            f"slot {implementation.slot} of {full_name}",
            f"slots 0 to {ATEN - 1} are for implementations, {ATEN} is ATen's kernel",
            "choose another",
        )
    if any(one.slot == implementation.slot for one in taken):
        raise InvalidValue(
            f"slot {implementation.slot} of {full_name} is taken",
            f"{', '.join(map(repr, taken))} are there",
            "choose another",
        )
    _ours[full_name] = sorted([*taken, implementation], key=lambda one: one.slot)
    _tell(full_name)


def withdraw(full_name: str, slot: int) -> None:
    """Takes an implementation out of its slot; running calls go on.

    Raises InvalidValue for an empty slot.
    """
    one = next((one for one in ours(full_name) if one.slot == slot), None)
    if one is None:
        raise InvalidValue(
            f"slot {slot} of {full_name} is empty",
            f"{', '.join(map(repr, ours(full_name))) or 'none of ours'} are there",
            "name one of these",
        )
    _ours[full_name] = [other for other in ours(full_name) if other is not one]
    _tell(full_name)


def _tell(full_name: str) -> None:
    for told in on_change:
        told(full_name)


def tell_all() -> None:
    """Tells on_change of every overload: other implementations than before may run its calls."""
    for full_name in _ours:
        _tell(full_name)


def ours(full_name: str) -> Sequence[Implementation]:
    """Our implementations of an overload, by slot."""
    return _ours.get(full_name, ())


def is_contested(record: Record) -> bool:
    """Whether one of ours may run a call that asks for no slot."""
    return any(one.may_win(None) for one in ours(record.full_name))


def implementations(record: Record) -> Sequence[Implementation]:
    """All implementations of an overload, by slot; ATen's kernel is the last."""
    aten = Implementation(
        ATEN,
        "aten",
        "cpu",
        lambda bound: library().refuses(bound.record, bound.values),
        lambda bound, like: library().call(bound.record, bound.values, like),
    )
    return [*ours(record.full_name), aten]


def check_slot(slot: Any, where: str) -> None:
    """Raises InvalidType for a slot that is no number and not None."""
    if slot is not None and (isinstance(slot, bool) or not isinstance(slot, int)):
        raise InvalidType(
            f"{where}: slot is {slot!r}",
            f"slots are numbers: 0 to {ATEN - 1} are ours, {ATEN} is ATen's kernel",
            "give one of these, or None",
        )


def choose(bound: Bound, slot: int | None = None) -> Implementation:
    """The implementation that runs a call: the lowest slot that takes it, or the one asked for.

    Raises InvalidValue with the reasons of all where none takes it, InvalidType for a slot that is
    no number.
    """
    check_slot(slot, bound.record.full_name)
    reasons = []
    for one in implementations(bound.record):
        if slot is not None and one.slot != slot:
            continue
        reason = one.reason(bound, slot)
        if reason is None:
            return one
        reasons.append(f"slot {one!r}: {reason}")
    name = bound.record.full_name
    if not reasons:
        there = ", ".join(map(repr, implementations(bound.record)))
        raise InvalidValue(
            f"{name} has no slot {slot}", f"its slots are {there}", "ask for one of these"
        )
    raise InvalidValue(
        f"nothing takes this call of {name}",
        "; ".join(reasons),
        "call another operator" if slot is None else f"leave slot={slot} out",
    )
