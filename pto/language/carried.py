# SPDX-License-Identifier: Apache-2.0
"""Variables of a program that go into a body, and come out of it.

    first = as_traced(trace, value)          # a number or size in front of a loop, as a tensor
    one = enter(trace, "total", first)       # one.param is what the body reads
    leaving(one, found["total"])             # the value with which an iteration ends

Invariant: what leaves a body has the type with which it came in.
Thread safety: as a trace.
"""

from typing import Any, NoReturn

from pto import _core
from pto.errors import InvalidType
from pto.language.dtypes import boolean, i64
from pto.language.location import fail
from pto.language.shape import same_size
from pto.language.symbol import unwrapped
from pto.language.tensor import Tensor
from pto.language.trace import Trace
from pto.language.types import cast, constant, number
from pto.language.whole import whole


class Undefined:
    """Stands for a variable without a value that could be used; any use is an error."""

    def __init__(self, name: str, why: str, before: str = "loop"):
        what = f"the variable {name} has no value here"
        fix = (
            f"give {name} a value in front of the {before}, of the type that the {before} gives it"
        )
        self.__dict__.update(_name=name, _told=(what, why, fix))

    @property
    def why(self) -> str:
        return self._told[1]

    def _use(self, *_: Any, **__: Any) -> NoReturn:
        fail(*self._told, InvalidType)

    def __getattr__(self, name: str) -> NoReturn:
        self._use()

    def __repr__(self) -> str:
        return f"<no value: {self._name}>"

    __bool__ = __len__ = __iter__ = __call__ = __getitem__ = __index__ = __float__ = _use
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _use
    __rtruediv__ = __matmul__ = __rmatmul__ = __floordiv__ = __rfloordiv__ = _use
    __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __abs__ = __invert__ = _use
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __and__ = __or__ = __array__ = _use
    __hash__ = object.__hash__

    def described(self) -> NoReturn:
        """An error about it is that it has no value; told() of misuse.py adds the line."""
        raise InvalidType(*self._told)


class Carried:
    """A variable that the body may change: its value in front, and as the body gets it."""

    __slots__ = ("entered", "first", "name", "param")

    def __init__(self, name: str, first: Tensor, param: Tensor):
        self.name, self.first, self.param = name, first, param
        self.entered = param.node

    @property
    def outer(self) -> int:
        """The value in front, in the scope around the body."""
        return self.first.value


def as_traced(trace: Trace, value: Any) -> Tensor | None:
    """A variable's value as a tensor, numbers as wide as the inputs; None for any other value."""
    value = unwrapped(value)
    if isinstance(value, Tensor):
        return value
    if isinstance(value, _core.Dim):
        return whole(trace, value, "loop")
    known = None if isinstance(value, Undefined) else number(value)
    if known is None:
        return None
    kind = boolean if isinstance(known, bool) else i64 if isinstance(known, int) else (
        trace.number_type)  # fmt: skip
    first = constant(trace, known, kind)
    first.weak = kind is not boolean
    return first


def enter(trace: Trace, name: str, first: Tensor) -> Carried:
    """A variable as an input of the body that is being traced; `first` is its value in front."""
    entered = trace.scope.parameter(name, first.dtype.name, first.shape)
    return Carried(name, first, Tensor(trace, entered, weak=first.weak))


def leaving(one: Carried, last: Any) -> int | None:
    """The value with which a variable leaves an iteration; None where it did not change."""
    param = one.param
    if last is param:
        return param.value if param.node != one.entered else None
    if not isinstance(last, Tensor):
        last = as_traced(param.trace, last)
    if last is not None and last.weak:
        last = cast(last, param.dtype) if takes(param, last) else last
    if last is None or last.dtype is not param.dtype or last.ndim != param.ndim:
        return _changes_type(one, last)
    for size, wanted in zip(last.shape, param.shape, strict=True):
        if not may_equal(size, wanted):
            _changes_type(one, last)
    return shaped(last, param.shape, f"the variable {one.name}, which a loop carries in one shape")


def shaped(x: Tensor, shape: tuple, what: str = "broadcast") -> int:
    """The value of x under the sizes of `shape`, which are equal to its own, or else guarded."""
    if all(map(same_size, x.shape, shape)):
        return x.value
    for size, wanted in zip(x.shape, shape, strict=True):
        x.trace.here().guard_equal(size, wanted, what)
    return x.trace.here().broadcast(x.value, shape)


def may_equal(a: Any, b: Any) -> bool:
    """Says whether two sizes may be equal: a symbol is never 1."""
    fixed = [n for n in (a, b) if isinstance(n, int)]
    return a == b if len(fixed) == 2 else fixed != [1]


def takes(strong: Tensor, number: Tensor) -> bool:
    """Says whether a number takes the type of a tensor: an int any, a float those of floats."""
    return number.dtype.is_integer or strong.dtype.is_float


def _changes_type(one: Carried, last: Tensor | None) -> NoReturn:
    after = "no tensor or number" if last is None else f"{last.dtype}{list(last.shape)}"
    fail(
        f"the variable {one.name} is {one.param.dtype}{list(one.param.shape)} in front of an "
        f"iteration and {after} behind it",
        "a loop carries a variable from one iteration to the next, with one type and shape",
        f"start with pto.zeros or pto.full of that type, or use another name than {one.name}",
        InvalidType,
    )
