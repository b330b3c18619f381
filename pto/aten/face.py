# SPDX-License-Identifier: Apache-2.0
"""Operators as Python callables: a family has a name, each overload has a schema.

    add = Family("add")
    add(x, y, alpha=2)               # the overload that fits
    add.Tensor(x, y)                 # this one
    add.out(x, y, out=z)
    add.Tensor.slots("cpu")          # [0 tile, 8 aten]

Thread safety: any thread may call. An overload keeps which calls may skip its checks, until its
implementations change.
"""

import inspect
import keyword
from collections.abc import Mapping
from typing import Any

from pto.aten.binding import Bound, bind
from pto.aten.choice import chosen
from pto.aten.implementations import (
    Implementation,
    choose,
    implementations,
    is_contested,
    observer,
    on_change,
    on_observer,
)
from pto.aten.records import Record, known, library
from pto.errors import Failure, InvalidType, UnknownAttribute, nearest


def run(bound: Bound, like: Any = None, slot: int | None = None) -> Any:
    """Runs a bound call in the lowest slot that takes it."""
    one, by = choose(bound, slot), observer.get()
    return by.run(one, bound, like) if by else one.run(bound, like)


class Gone(Failure):
    """A call of an overload that PyTorch has no longer, or has defined anew."""


class Overload:
    """One overload, "add.Tensor"; `record` describes it.

    A call also takes `slot`, which asks for one implementation, and `like`, the kind of array of
    results that come from no array. It raises InvalidType for arguments that do not fit the schema,
    and PyTorch's refusal as an error of ours that also has its built-in class.
    """

    def __init__(self, record: Record):
        self.record = record
        self.__name__ = self.__qualname__ = record.full_name
        self.__doc__ = record.schema
        self.__signature__ = signature(record)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        _plan(self)
        return self._learn(args, kwargs)[0]

    def _learn(self, args: tuple, kwargs: Mapping[str, Any]) -> tuple[Any, bool]:
        """The result of a call, and whether calls of its kind may skip the checks."""
        if not library().is_current(self.record):
            self.record = self._renewed()
        named = dict(kwargs)
        like, slot = named.pop("like", None), named.pop("slot", None)
        bound = bind([self.record], args, named)
        is_free = slot is None and like is None and observer.get() is None
        is_free = is_free and not is_contested(self.record)
        skips = is_free and library().is_settled(self.record, bound.values)
        return run(bound, like, slot), skips

    def _renewed(self) -> Record:
        """The overload as PyTorch has it now; raises Gone where it has none of this schema."""
        for one in library().reread(self.record.name):
            if one.schema == self.record.schema:
                _forget(one.full_name)  # what was planned is of the one before
                return one
        raise Gone(
            f"{self.record.full_name} is not what PyTorch has now",
            "the library that registered it has ended, or has defined it anew",
            f"take it again: pto.aten.{self.record.name}",
        )

    def _fail(self, args: tuple, kwargs: Mapping[str, Any], error: BaseException) -> None:
        if not isinstance(error, Exception):
            raise error
        bound = bind([self.record], args, kwargs)
        raise library().refused(self.record, bound.values, error) from error

    def slots(self, platform: str = "cpu") -> list[Implementation]:
        """The implementations for a platform, in the order in which they are asked."""
        return [one for one in implementations(self.record) if one.platform == platform]

    def __repr__(self) -> str:
        return f"<pto.aten.{self.record.schema}>"


_planned: dict[str, list[Overload]] = {}  # by full name


def _plan(one: Overload) -> None:
    """Gives an overload the library's own callable, which calls it back where it has to learn.

    The callable becomes the `__call__` of a class of this overload alone, so that Python calls it
    without passing the overload.
    """
    call = library().planned(one.record, one._learn, one._fail)
    if call is not None:
        one.__class__ = type("Overload", (Overload,), {"__call__": call, "__module__": __name__})
        _planned.setdefault(one.record.full_name, []).append(one)


def _forget(full_name: str) -> None:
    """Lets the overloads of a name learn anew."""
    for one in _planned.pop(full_name, ()):
        one.__class__ = Overload


def _forget_all() -> None:
    for full_name in [*_planned]:
        _forget(full_name)


on_change.append(_forget)
on_observer.append(_forget_all)
_PLAIN = frozenset({int, float, bool, complex, type(None)})  # the type alone decides the overload
_KEPT = 64  # kinds of calls that a family remembers


class Family:
    """All overloads of a name; a call raises InvalidType, with their schemas, where none fits."""

    def __init__(self, name: str, records: tuple[Record, ...]):
        self.__name__ = self.__qualname__ = name
        self._take(records)

    def _take(self, records: tuple[Record, ...]) -> None:
        self._records = records
        self._overloads = {record.overload or "default": Overload(record) for record in records}
        self.__doc__ = "\n".join(record.schema for record in records)
        self._nearest: dict[tuple, Overload] = {}
        for variant, overload in self._overloads.items():  # found without __getattr__
            if not hasattr(Family, variant):
                self.__dict__.setdefault(variant, overload)

    def _renew(self) -> bool:
        """Reads the overloads again; whether PyTorch has other ones than before.

        Raises UnknownAttribute where it has the name no longer.
        """
        before, found = self._records, library().reread(self.__name__)
        if found == before:
            return False
        for variant, overload in self._overloads.items():
            if self.__dict__.get(variant) is overload:
                del self.__dict__[variant]
        if not found:
            _families.pop(self.__name__, None)
            raise _unknown(self.__name__)
        self._take(found)
        return True

    @property
    def overloads(self) -> Mapping[str, Overload]:
        """The overloads by name; the one without a name is "default"."""
        return self._overloads

    def bind(self, args: tuple, kwargs: Mapping[str, Any]) -> Bound:
        """The overload that a call means, with its values."""
        return bind(self._records, args, kwargs)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._call(args, kwargs)
        except (Gone, InvalidType):
            if not self._renew():  # nothing was registered since
                raise
        return self._call(args, kwargs)

    def _call(self, args: tuple, kwargs: Mapping[str, Any]) -> Any:
        kind = (len(args), *map(type, args), *kwargs, *map(type, kwargs.values()))
        overload = self._nearest.get(kind)
        if overload is None:
            named = {n: v for n, v in kwargs.items() if n not in ("like", "slot")}
            overload = self._overload(self.bind(args, named).record)
            values = (*args, *named.values())
            if all(type(v) in _PLAIN or library().dense_type(v) is not None for v in values):
                if len(self._nearest) >= _KEPT:
                    self._nearest.clear()
                self._nearest[kind] = overload
        return overload(*args, **kwargs)

    def _overload(self, record: Record) -> Overload:
        return self._overloads[record.overload or "default"]

    def __getattr__(self, name: str) -> Overload:
        overloads = self.__dict__.get("_overloads", {})
        if name in overloads:
            return overloads[name]
        if name.startswith("__"):
            raise AttributeError(name)
        if self._renew() and name in self._overloads:
            return self._overloads[name]
        raise UnknownAttribute(
            f"pto.aten.{self.__name__} has no overload {name}",
            nearest(name, overloads),
            f"take one of these: {known(self._records)}",
        )

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._overloads})

    def __repr__(self) -> str:
        return f"<pto.aten.{self.__name__}: {known(self._records)}>"


def signature(record: Record) -> inspect.Signature:
    """The schema as a signature of Python, for help() and completion."""
    parameters = []
    for argument in record.arguments:
        kind = inspect.Parameter.KEYWORD_ONLY
        if not argument.is_keyword_only:
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = inspect.Parameter.empty if argument.is_required else argument.default
        name = argument.name + "_" * keyword.iskeyword(argument.name)  # "from_"
        parameters.append(inspect.Parameter(name, kind, default=default))
    return inspect.Signature(parameters)


def explain(name: str, /, *args: Any, **kwargs: Any) -> str:
    """The overload and the implementation that a call would run, and why no other one.

    `name` is an operator ("add") or an overload ("add.out"). Nothing is run. Raises
    UnknownAttribute for an unknown name, InvalidType for a call that no overload takes.
    """
    operator, _, overload = name.partition(".")
    wanted = family(operator)
    one = getattr(wanted, overload) if overload else None
    bound = bind([one.record], args, kwargs) if one else wanted.bind(args, kwargs)
    lines, first = [bound.record.schema], None
    for one in implementations(bound.record):
        reason = one.reason(bound)
        if reason is None and first is None:
            first = one
            lines.append(f"  chosen: slot {one!r}")
        else:
            lines.append(f"  not slot {one!r}: {reason or f'slot {first.slot} comes first'}")
    return "\n".join(lines)


_families: dict[str, Family] = {}  # by name, once somebody asked for it


def family(name: str) -> Family:
    """The operator of this name. Raises UnknownAttribute with the nearest names.

    One that an extension has registered is found by its namespace, too: "torchvision::nms".
    """
    restricted = None if "::" in name else chosen()
    if restricted and name not in restricted[1]:
        raise UnknownAttribute(
            f"pto.aten has no operator {name}",
            f"it is restricted to the {len(restricted[1])} names of {restricted[0]};"
            f" {nearest(name, restricted[1])}",
            "add the name to that file, or lift it: pto.aten.restrict(None)",
        )
    found = _families.get(name)
    if found is None:
        records = library().records(name)
        if not records:
            raise _unknown(name)
        found = _families.setdefault(name, Family(name, records))
    return found


def _unknown(name: str) -> UnknownAttribute:
    space, is_another, _ = name.partition("::")
    if is_another:
        return UnknownAttribute(
            f"the PyTorch of this process has no operator {name}",
            nearest(name, library().names(space)),
            f"import the extension that registers it; pto.aten.names({space!r}) has what is there",
        )
    return UnknownAttribute(
        f"ATen of PyTorch {library().version} has no operator {name}",
        nearest(name, library().names()),
        "pto.aten.names() has all",
    )
