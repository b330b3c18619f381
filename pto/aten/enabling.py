# SPDX-License-Identifier: Apache-2.0
"""Our implementations in front of PyTorch's own kernels: PyTorch's own calls take them.

    with pto.aten.enable(exclude=["exp"]): model(batch)   # this thread, and PyTorch's for gradients
    on = pto.aten.enable(only=["mul", "add.out"])         # the process, until on.off()

enable() turns on the implementations that take calls by themselves; `slot=0` turns on all of a
slot, as tests do. Autograd, autocast, vmap and torch.compile stay what they are: fronts stand
behind them. A call that an implementation refuses goes to PyTorch's kernel.

Thread safety: any thread may enable and call; enable() calls run one after another.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, NoReturn

from pto.aten import new_numbers
from pto.aten.binding import Bound
from pto.aten.implementations import check_slot, observer, on_observer, ours
from pto.aten.implementations import on_change as on_implementation
from pto.aten.records import Fronts, Record, library, listed, record_of
from pto.config import on_change as on_setting
from pto.errors import InvalidType, InvalidValue, nearest
from pto.locks import Lock

_fronts: Fronts | None = None
_records: list[Record] = []  # of each front
_failed: dict[str, str] = {}  # why a front could not be put there
_installed: set[str] = set()
_on_taken: list[Callable[[str], Any]] = []  # told the full name of a call that takes a row
_process: list["Enabled"] = []  # those on for the process, the last one counts
_chosen: dict[tuple, tuple[str, ...]] = {}  # what enable() turned on, by its arguments
_lock = Lock()  # of all of these


class Enabled:
    """The overloads that enable() turned on; `names` are their full names.

    `slot` is what their calls ask for. As a context manager it holds for the thread that enters it,
    and may end before others that began inside it, as those of other tasks of asyncio do. Leaving
    raises Failure on another thread, or before a profiler that began inside it has ended.
    """

    def __init__(self, names: Sequence[str], slot: int | None = None):
        self.names, self.slot = tuple(names), slot
        self._here = threading.local()  # `entered`: the numbers of the thread's enter()

    def off(self) -> None:
        """Turns it off for the process, where it is on."""
        with _lock:
            if self in _process:
                _process.remove(self)
                last = _process[-1] if _process else Enabled(())
                _loaded().process(last.names or None, last.slot)

    def __enter__(self) -> "Enabled":
        self.off()
        entered = self._here.__dict__.setdefault("entered", [])
        entered.append(_loaded().enter(self.names, self.slot))
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        entered = self._here.__dict__.get("entered") or [0]
        _loaded().leave(entered[-1])
        entered.pop()

    def __repr__(self) -> str:
        return f"<pto.aten.enable: {len(self.names)} overloads>"


def enable(
    only: Iterable[str] | None = None, exclude: Iterable[str] = (), *, slot: int | None = None
) -> Enabled:
    """Puts our implementations before PyTorch's kernels, for the process or in a `with`.

    A `with` turns them on for the process until it is entered.
    `only` and `exclude` name operators ("exp") or overloads ("exp.out"). Raises InvalidValue, with
    the reason, for a name or a slot that has nothing to enable, InvalidType for a slot that is no
    number or a name that is no text; Failure where the fronts are not built.
    """
    check_slot(slot, "pto.aten.enable")
    fronts = _loaded()
    key = (None if only is None else _texts("only", only), _texts("exclude", exclude), slot)
    known = _chosen  # a change in between leaves it behind
    names = known.get(key)
    if names is None:
        names = known[key] = _choose(fronts, *key)
    with _lock:
        made = Enabled(names, slot)
        _process.append(made)
        fronts.process(made.names, slot)
    return made


def _texts(argument: str, names: Any) -> tuple[str, ...]:
    """The names of an argument. Raises InvalidType for anything else."""
    found = listed(names) if isinstance(names, Iterable) else [names]
    for one in found:
        if not isinstance(one, str):
            raise InvalidType(
                f"pto.aten.enable: {argument} has {one!r}",
                "it names operators or overloads",
                f'pass texts: {argument}=["exp", "add.out"]',
            )
    return tuple(found)


def _choose(
    fronts: Fronts, only: tuple[str, ...] | None, exclude: tuple[str, ...], slot: int | None
) -> tuple[str, ...]:
    """The full names that enable() turns on; their fronts are installed."""
    ready = [full for full in fronts.names if _serves(full, slot)]
    if slot is not None and not ready:
        _refuse(f"nothing in slot {slot} can be enabled",
                "no operator has an implementation of ours there", "take slot=0")  # fmt: skip
    if only is not None:
        for name in only:
            _check(name, ready, slot)
        ready = [full for full in ready if any(_means(name, full) for name in only)]
    for name in exclude:
        _check(name, fronts.names, slot)
    ready = [full for full in ready if not any(_means(name, full) for name in exclude)]
    with _lock:
        return tuple(full for full in ready if _install(full, only is not None))


def reaches(on: Enabled, call: Callable[[], Any]) -> bool:
    """Whether a call of PyTorch reaches a row that `on` turns on; it makes the call."""
    taken: list[str] = []
    told = taken.append
    _on_taken.append(told)
    _loaded().forget()
    try:
        with on:
            call()
    finally:
        _on_taken.remove(told)
    return not set(taken).isdisjoint(on.names)


def _loaded() -> Fronts:
    global _fronts
    with _lock:
        if _fronts is None:
            fronts = library().fronts(_run)
            _records.extend(record_of(full) for full in fronts.names)
            on_implementation.append(lambda full_name: _forget(fronts))
            on_setting.append(partial(_forget, fronts))
            on_observer.append(fronts.forget)
            _fronts = fronts
    return _fronts


def _forget(fronts: Fronts) -> None:
    """Others may run calls now, and be turned on."""
    global _chosen
    _chosen = {}
    fronts.forget()


def _serves(full_name: str, slot: int | None) -> bool:
    there = ours(full_name)
    return any(one.may_win(None) if slot is None else one.slot == slot for one in there)


def _means(name: str, full_name: str) -> bool:
    """Whether a name is this overload's own or its operator's; "exp" also means exp_ (in place)."""
    return full_name == name or full_name.partition(".")[0] in (name, f"{name}_")


def _check(name: str, known: Sequence[str], slot: int | None) -> None:
    if any(_means(name, full) for full in known):
        return
    families = sorted({full.partition(".")[0] for full in known})
    there = [one for full in _loaded().names if _means(name, full) for one in ours(full)]
    waits = "no cell of the table of what wins says that ours is faster" if there else ""
    _refuse(f"nothing of {name} can be enabled",
            waits or f"no row of ours serves it; {nearest(name, families)}",
            "leave the name out" if slot is not None else "leave it out, or enable a slot: slot=0"
    )  # fmt: skip


def _refuse(what: str, why: str, fix: str) -> NoReturn:
    raise InvalidValue(f"pto.aten.enable: {what}", why, fix)


def _install(full_name: str, is_named: bool) -> bool:
    if full_name not in _installed and full_name not in _failed:
        reason = _loaded().install(full_name)
        if reason is None:
            _installed.add(full_name)
        else:
            _failed[full_name] = reason
    if full_name in _failed and is_named:
        _refuse(f"{full_name} cannot be enabled", _failed[full_name],
                "name another overload, or call pto.aten with slot=0")  # fmt: skip
    return full_name in _installed


def _run(index: int, slot: int | None, values: tuple) -> tuple[Any, Any]:
    """The result of a call of PyTorch's dispatcher, and how later calls like it run.

    NotImplemented as the result leaves the call to PyTorch's kernel. Later calls, which share
    memory as this one does, follow a CallPlan; NotImplemented leaves them to the kernel, Ellipsis
    also all others with tensors of these types; None asks again.
    """
    record = _records[index]
    given = {}
    for argument, value in zip(record.arguments, values, strict=True):
        if not _is_default(argument, value):
            is_name = argument.type == "ScalarType"
            given[argument.name] = library().convert(argument.type, value)[1] if is_name else value
    bound, by = Bound(record, given, 0), observer.get()
    if new_numbers.why_left(bound):  # before all that costs more, also where a slot is asked for
        if by:
            by.left(bound)
        return NotImplemented, None
    for one in ours(record.full_name):
        is_asked = slot in (None, one.slot) and one.reason(bound, slot) is None
        if is_asked and library().fit(record, bound.values):
            for told in _on_taken:
                told(record.full_name)
            if by:
                return by.run(one, bound, None), None
            return one.run(bound, None), one.plan(bound)
    if by:
        by.left(bound)
        return NotImplemented, None
    is_left = slot is None and not any(one.may_win(bound) for one in ours(record.full_name))
    return NotImplemented, Ellipsis if is_left else NotImplemented


def _is_default(argument: Any, value: Any) -> bool:
    if argument.is_required:
        return False
    return value is None or (type(value) is type(argument.default) and value == argument.default)
