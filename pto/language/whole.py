# SPDX-License-Identifier: Apache-2.0
"""Whole numbers of a program: positions, counts and sizes, known while tracing or only at the call.

    whole(trace, x.shape[0], "pto.loop")   # an i64 of rank 0, whatever the number was
    sized(trace, n)                        # a size for shapes: int, Dim, also from data

A number is an int, a Dim (a size known at the call) or a traced integer of rank 0. Integers of
rank 0 that a program reads or counts are numbers, no tensors: they take the type of others.

Thread safety: as a trace.
"""

import builtins
import functools
import operator
from typing import Any, NoReturn

from pto import _core
from pto.errors import InvalidType, InvalidValue
from pto.language.dtypes import boolean, i64
from pto.language.elementwise import maximum, minimum
from pto.language.location import describe, fail
from pto.language.symbol import SymbolicScalar, is_whole, simplified, unwrapped, wrapped
from pto.language.tensor import Tensor
from pto.language.trace import Trace
from pto.language.types import cast, constant, number

_SYMBOL, _DIFFERENCE, _LARGER = 1, 3, 8  # of Dim.op


def plain(value: Any) -> Any:
    """A whole number as an int, a Dim, or a traced i64 that counts as a number."""
    value = unwrapped(value)
    if isinstance(value, Tensor):
        return as_number(value)
    return value if isinstance(value, _core.Dim) else operator.index(value)


def as_number(x: Tensor) -> Tensor:
    """A traced integer of rank 0 as a number."""
    if x.weak and x.dtype is i64:
        return x
    return Tensor(x.trace, cast(x, i64).value, weak=True)


def whole(trace: Trace, value: Any, name: str) -> Tensor:
    """A whole number as an i64 of rank 0; raises InvalidType for anything else."""
    if not is_whole(value):
        _not_whole(name, value)
    value = plain(value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            fail(f"{name}: the number {value} does not fit i64",
                 "positions, counts and sizes are signed 64-bit integers, of up to 2**63 - 1",
                 "use a smaller number; a loop within a loop counts further")  # fmt: skip
        return constant(trace, value, i64)
    if isinstance(value, _core.Dim):
        return Tensor(trace, trace.here().extent(value), weak=True)
    return value


def _not_whole(name: str, value: Any) -> NoReturn:
    kind = f"a tensor {value!r}" if isinstance(value, Tensor) else describe(value)
    fail(
        f"{name}: {kind} is no whole number",
        "positions, counts and sizes are integers: Python's, sizes, or elements of rank 0",
        "index an integer tensor to its element, or cast: pto.cast(x, pto.i64)",
        InvalidType,
    )


def sized(trace: Trace, value: Any, name: str) -> Any:
    """A whole number as a size of shapes; one that data give defines a symbol.

    A difference of sizes gets a guard: calls where it is negative are refused.
    """
    size = simplified(value)
    if isinstance(size, _core.Dim):
        if _may_be_negative(size):
            trace.here().guard_equal(size.min(0), 0, f"{name}, whose sizes are at least 0")
        return size
    if not isinstance(size, int) or isinstance(size, bool):
        return trace.size(whole(trace, size, name))
    if not 0 <= size < 2**63:
        fail(f"{name}: a size is {size}", "sizes are numbers from 0 to 2**63 - 1",
             "pass such a size, pto.max(n, 0) where n may be negative", InvalidValue)  # fmt: skip
    return size


def _may_be_negative(size: Any) -> bool:
    """Says whether some sizes, which are not negative themselves, make the expression negative."""
    if isinstance(size, int):
        return size < 0
    if size.op == _SYMBOL:
        return False
    parts = _may_be_negative(size.left), _may_be_negative(size.right)
    return size.op == _DIFFERENCE or (all(parts) if size.op == _LARGER else any(parts))


def _smaller_or_larger(name: str, of_ints: Any, of_tensors: Any) -> Any:
    of_sizes = getattr(_core.Dim, name)

    def of_two(a: Any, b: Any) -> Any:
        if isinstance(a, SymbolicScalar) or isinstance(b, SymbolicScalar):
            return wrapped(of_two(unwrapped(a), unwrapped(b)))
        for value in (a, b):
            if not isinstance(value, Tensor | _core.Dim) and number(value) is None:
                fail(f"{name}: {describe(value)} is no number", f"pto.{name} compares two numbers",
                     f"pass numbers or sizes; pto.a{name} reduces a tensor",
                     InvalidType)  # fmt: skip
        if isinstance(a, Tensor) or isinstance(b, Tensor):
            return of_tensors(a, b)
        for value, other in ((a, b), (b, a)):
            if isinstance(other, _core.Dim) and not (is_whole(value) or isinstance(value, bool)):
                fail(f"{name}: {describe(value)} and the size {other}",
                     "a size is a whole number, and so is what it is compared with",
                     "pass an integer", InvalidType)  # fmt: skip
        if isinstance(a, _core.Dim):
            return of_sizes(a, b)
        return of_sizes(b, a) if isinstance(b, _core.Dim) else of_ints(a, b)

    def function(a: Any, b: Any, *others: Any) -> Any:
        return functools.reduce(of_two, others, of_two(a, b))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"The {name}imum of numbers or sizes; of tensors element by element.\n\n"
        f"Example: pto.{name}(x, y)"
    )
    return function


min = _smaller_or_larger("min", builtins.min, minimum)
max = _smaller_or_larger("max", builtins.max, maximum)


def _rounded(x: Tensor, digits: int | None = None) -> Tensor:
    if is_number(x):
        return x
    raise TypeError("type Tensor doesn't define __round__ method")  # misuse.py says the rest


Tensor.__round__ = _rounded


def _of_numbers(name: str, function: Any) -> None:
    """Gives whole numbers of every kind a method; a tensor of other ranks has none of the name."""

    def found(x: Tensor) -> Any:
        if not (is_number(x) and x.weak):
            raise AttributeError  # Tensor.__getattr__ says the rest
        return functools.partial(function, x)

    setattr(Tensor, name, property(found))
    for kind in (SymbolicScalar, _core.Dim):
        setattr(kind, name, lambda n, *others: function(n, *others))


_of_numbers("min", min)
_of_numbers("max", max)
_of_numbers("as_variable", lambda n: n)  # a number that the call knows is one already


def symbolic_scalar(value: Any) -> SymbolicScalar:
    """An int, a size or an element of an integer tensor as a number whose `/` rounds down.

    A bool is 0 or 1.

    Formula: value
    Shapes: a number has no axes
    Example: pto.full([1], pto.symbolic_scalar(x.shape[1]) / 2)
    """
    value = int(value) if isinstance(value, bool) else value
    if not is_whole(value):
        _not_whole("symbolic_scalar", value)
    return SymbolicScalar(plain(value))


def ceildiv(a: Any, b: Any) -> Any:
    """a / b of whole numbers, rounded up; b is above 0.

    Formula: (a + b - 1) // b
    Shapes: numbers have no axes
    Example: pto.full([1], pto.ceildiv(x.shape[1], 2))
    """
    for value in (a, b):
        if not is_whole(value):
            _not_whole("ceildiv", value)
    if not isinstance(unwrapped(b), Tensor | _core.Dim) and unwrapped(b) < 1:
        fail(f"ceildiv: b is {b}", "pieces have a positive size", "pass a positive b")
    return (a + b - 1) // b


def is_number(x: Tensor) -> bool:
    """Says whether an element that a program reads counts as a number."""
    return x.ndim == 0 and x.dtype.is_integer and x.dtype is not boolean
