# SPDX-License-Identifier: Apache-2.0
"""Symbolic scalars: whole numbers of a program whose `/` rounds down.

    n = pto.symbolic_scalar(x.shape[0])     # or an int, or an element of an integer tensor
    n / 4, n.min(8), n > 2                  # symbolic scalars; the last is a condition

Everywhere else they stand for the number that they hold; whole.py makes them. Thread safety: as a
trace.
"""

import operator
from collections.abc import Callable
from typing import Any, NoReturn

from pto import _core
from pto.errors import Error, InvalidType, TracedCondition
from pto.language.location import fail
from pto.language.misuse import formatted, not_here, refuse_key
from pto.language.tensor import Tensor
from pto.language.trace import current


class SymbolicScalar:
    """A whole number of a program: an int, a Dim, or a traced integer of rank 0."""

    __slots__ = ("value",)
    __array_ufunc__ = None  # NumPy hands `array * n` to the reflected operator here

    def __init__(self, value: Any):
        self.value = value

    def __repr__(self) -> str:
        return f"<symbolic {self.value}>"

    def __format__(self, form: str) -> str:
        return formatted(self, str(self.value), form)

    def __hash__(self) -> int:
        if not isinstance(self.value, int):
            refuse_key(self)
        return id(self)

    def __index__(self) -> int:
        return operator.index(self.value)

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.value)

    def __bool__(self) -> bool:
        if isinstance(self.value, int):
            return bool(self.value)
        return fail(
            "a condition (if, while, and, or, not) on a symbolic scalar",
            not_here(current("a condition").steps is not None),
            "write `if` in a def under @pto.jit; pto.where and pto.cond choose values",
            TracedCondition,
        )

    def __len__(self) -> int:
        return len(self.value) if isinstance(self.value, Tensor) else _not_several(self)

    def __iter__(self) -> NoReturn:
        _not_several(self)

    def __neg__(self) -> Any:
        return wrapped(0 - self.value)

    def __pos__(self) -> "SymbolicScalar":
        return self

    def __abs__(self) -> Any:
        return wrapped(abs(self.value))

    def __divmod__(self, other: Any) -> tuple:
        return self // other, self % other

    def __round__(self, digits: int | None = None) -> "SymbolicScalar":
        return self

    __floor__ = __ceil__ = __trunc__ = __round__


def _not_several(n: SymbolicScalar) -> NoReturn:
    fail(
        f"the length or the members of {n!r}",
        "a number has none",
        "count with pto.loop(n); make a tensor of it with pto.full",
        InvalidType,
    )


def unwrapped(value: Any) -> Any:
    """The number that a symbolic scalar holds; anything else as it is."""
    return value.value if isinstance(value, SymbolicScalar) else value


def is_whole(value: Any) -> bool:
    """Says whether a value is a whole number; arrays of NumPy are none."""
    value = unwrapped(value)
    if isinstance(value, Tensor):
        return value.ndim == 0 and value.dtype.is_integer
    if isinstance(value, _core.Dim):
        return True
    if isinstance(value, bool) or hasattr(type(value), "__len__"):
        return False
    return isinstance(value, int) or hasattr(type(value), "__index__")


def simplified(value: Any) -> Any:
    """The number that a symbolic scalar holds, an int for NumPy's; anything else as it is."""
    value = unwrapped(value)
    known = is_whole(value) and not isinstance(value, Tensor | _core.Dim)
    return operator.index(value) if known else value


def wrapped(value: Any) -> Any:
    """A whole number as a symbolic scalar; anything else as it is."""
    is_number = isinstance(value, int | _core.Dim) and not isinstance(value, bool)
    if isinstance(value, Tensor):
        is_number = value.ndim == 0 and value.weak and value.dtype.is_integer
    return SymbolicScalar(value) if is_number else value


def _arithmetic(name: str, function: Callable) -> None:
    def forward(a: SymbolicScalar, b: Any) -> Any:
        return _computed(function, a.value, simplified(b))

    def reflected(a: SymbolicScalar, b: Any) -> Any:
        return _computed(function, simplified(b), a.value)

    setattr(SymbolicScalar, f"__{name}__", forward)
    setattr(SymbolicScalar, f"__r{name}__", reflected)


def _computed(function: Callable, a: Any, b: Any) -> Any:
    try:
        return wrapped(function(a, b))
    except Error:
        raise
    except TypeError:  # of Python, which knows no fix
        fail(
            f"{getattr(function, '__name__', 'the operator').strip('_')} of {a!r} and {b!r}"[:80],
            "symbolic scalars compute with whole numbers, numbers and tensors",
            "use + - * // % and comparisons with numbers",
            InvalidType,
        )


def _divided(a: Any, b: Any) -> Any:
    """a / b, which rounds down where both are whole."""
    whole = [isinstance(wrapped(n), SymbolicScalar) for n in (a, b)]
    return a // b if all(whole) else a / b


def _traced(size: _core.Dim) -> Tensor:
    trace = current("a comparison")
    return Tensor(trace, trace.here().extent(size), weak=True)


def _compared(sign: str) -> None:
    function = getattr(operator, sign)

    def compare(a: SymbolicScalar, b: Any) -> Any:
        left, right = a.value, simplified(b)
        sizes = isinstance(left, _core.Dim), isinstance(right, _core.Dim)
        if any(sizes) and isinstance(right, Tensor | _core.Dim | int | float):
            left, right = (_traced(n) if yes else n
                           for yes, n in zip(sizes, (left, right), strict=True))  # fmt: skip
        return _computed(function, left, right)

    setattr(SymbolicScalar, f"__{sign}__", compare)


for _name in ["add", "sub", "mul", "floordiv", "mod", "pow", "lshift", "rshift", "xor", "matmul"]:
    _arithmetic(_name, getattr(operator, _name))
_arithmetic("and", operator.and_)
_arithmetic("or", operator.or_)
_arithmetic("truediv", _divided)
for _sign in ("lt", "le", "gt", "ge", "eq", "ne"):
    _compared(_sign)
