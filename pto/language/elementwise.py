# SPDX-License-Identifier: Apache-2.0
"""Element-wise operations. Shapes broadcast as in NumPy; types follow pto.language.types.

The functions of one operand are made from the instruction table: `pto.exp(x)`, `x.exp()`.
Maximum, minimum and their reductions propagate NaN.
"""

from collections.abc import Callable
from typing import Any

from pto import _core
from pto.errors import InvalidType
from pto.language.dtypes import boolean, f32, i64
from pto.language.dtypes import dtype as element_type
from pto.language.location import fail
from pto.language.operands import Kind, Operand
from pto.language.operation import method, operation
from pto.language.symbol import unwrapped
from pto.language.tensor import Tensor
from pto.language.types import (
    cast,
    constant,
    joined,
    number,
    number_type,
    numeric,
    operand,
    real,
    wide,
)

_KINDS = {row[0]: row[5] for row in _core.operations()}  # the element types of each operation


def _only_tensor(x: object, name: str) -> Tensor:
    return x if isinstance(x, Tensor) else joined(name, x)[0]


_NOTES = {"sigmoid": " In f32, f16 and bf16 a result below 2^-126 is 0."}


def _unary(op: str) -> Callable[[Tensor], Tensor]:
    def function(x: Tensor) -> Tensor:
        x = _only_tensor(x, op)
        if op in ("floor", "ceil", "round", "trunc") and x.dtype.is_integer:
            return x
        x = real(x) if _KINDS[op] == "Float" else numeric(x, op)
        return Tensor(x.trace, x.trace.here().unary(op, x.value), weak=x.weak)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"{op} of each element of x." + _NOTES.get(op, "")
    return method(op)(function)


exp, log, sqrt, rsqrt, reciprocal = map(_unary, ("exp", "log", "sqrt", "rsqrt", "reciprocal"))
sin, cos, tanh, sigmoid, erf = map(_unary, ("sin", "cos", "tanh", "sigmoid", "erf"))
floor, ceil, round, trunc = map(_unary, ("floor", "ceil", "round", "trunc"))
abs, neg, relu = map(_unary, ("abs", "neg", "relu"))
method("__abs__")(abs)
method("__neg__")(neg)


@method("__pos__")
def positive(x: Tensor) -> Tensor:
    """x itself.

    Formula: x
    Example: +x
    """
    return numeric(x, "positive")


def binary(op: str, a: object, b: object) -> Tensor:
    """The operation `op` of the table on two operands, at least one of them a Tensor."""
    x, y = joined(op, a, b)
    found = Tensor(x.trace, x.trace.here().binary(op, x.value, y.value))
    found.weak = x.weak and y.weak and found.dtype is not boolean
    return found


def _arithmetic(op: str, *names: str) -> Callable[[Operand, Operand], Tensor]:
    def function(a: Operand, b: Operand) -> Tensor:
        x, y = joined(op, a, b)
        return binary(op, numeric(x, op), numeric(y, op))

    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"{op} of a and b, element by element."
    return method(op, *names)(function)


add = _arithmetic("add", "__add__", "__radd__")
sub = _arithmetic("sub", "__sub__")
mul = _arithmetic("mul", "__mul__", "__rmul__")
fmod = _arithmetic("fmod")


def _is_one(x: object) -> bool:
    value = unwrapped(x)
    return type(value) is int and value == 1


@method("remainder", "__mod__")
def remainder(a: Operand, b: Operand) -> Tensor:
    """remainder of a and b, element by element."""
    x, y = (numeric(t, "remainder") for t in joined("remainder", a, b))
    if _is_one(b) and x.ndim == 0 and not x.dtype.is_float:  # the compiler knows more of a 0
        return Tensor(x.trace, x.trace.here().constant(0, x.dtype.name), weak=x.weak)
    return binary("remainder", x, y)


@method("div", "__truediv__")
def div(a: Operand, b: Operand) -> Tensor:
    """a / b; integers become f32.

    Formula: a / b
    """
    x, y = joined("div", a, b)
    return binary("div", real(x), real(y))


@method("__floordiv__")
def floor_divide(a: Operand, b: Operand) -> Tensor:
    """The quotient rounded down, as in NumPy: x less its remainder, divided by y.

    f16 and bf16 are computed in f32 and rounded once.

    Formula: floor(a / b)
    """
    given = [numeric(t, "floor_divide") for t in joined("floor_divide", a, b)]
    if _is_one(b) and not given[0].dtype.is_float:
        return given[0]
    x, y = map(wide, given)
    rest = binary("fmod", x, y)
    quotient = binary("div", x - rest, y)
    below = (rest != 0) & ((rest < 0) ^ (y < 0)) if x.dtype.kind != "unsigned" else rest != rest
    quotient = where(below, quotient - 1, quotient)
    if not x.dtype.is_float:
        return quotient
    # A whole number but for a rounding, which is undone; a zero has the sign of x / y.
    lower, plain = floor(quotient), div(x, y)
    whole = where(quotient - lower > 0.5, lower + 1, lower)
    whole = where(quotient == 0, plain * 0.0, whole)
    return cast(where(y == 0, plain, whole), given[0].dtype)


@method("pow", "__pow__")
def pow(a: Operand, b: Operand) -> Tensor:
    """a to the power b; with a bool or integer a and a float b, f32.

    Formula: a ** b
    """
    if isinstance(b, Tensor) and b.weak and b.trace.has_numbers:
        b.item()  # a power by 2 is a product: the value steers
    if isinstance(a, Tensor) and not isinstance(b, Tensor) and a.dtype.is_float:
        fixed = {
            2: lambda: a * a,
            3: lambda: a * a * a,
            0.5: a.sqrt,
            1: lambda: a,
            -1: a.reciprocal,
        }
        plain = number(b)
        if plain is not None and plain in fixed:
            return fixed[plain]()
    x, y = joined("pow", a, b)
    return binary("pow", numeric(x, "pow"), numeric(y, "pow"))


def _reflected(name: str, function: Callable) -> None:
    def reflected(a: Any, b: Any) -> Any:
        return function(b, a)

    reflected.__annotations__ = function.__annotations__
    method(name)(reflected)


_reflected("__rsub__", sub)
_reflected("__rtruediv__", div)
_reflected("__rfloordiv__", floor_divide)
_reflected("__rmod__", remainder)
_reflected("__rpow__", pow)


@method("__divmod__")
def divided_with_rest(a: Operand, b: Operand) -> tuple[Tensor, Tensor]:
    """(a // b, a % b), as divmod.

    Formula: (floor(a / b), a - b * floor(a / b))
    Shapes: any that broadcast, as in NumPy
    Example: divmod(x, y)
    """
    return floor_divide(a, b), remainder(a, b)


_reflected("__rdivmod__", divided_with_rest)


def _in_place(name: str, symbol: str, function: Callable) -> None:
    def update(a: Tensor, b: Operand) -> Tensor:
        if a.is_input:
            fail(
                f"writing into an input with {symbol}=",
                "a traced function computes new tensors and returns them; it changes none",
                f"write y = x {symbol} ... and return y",
                InvalidType,
            )
        return function(a, b)

    method(name)(update)


_in_place("__iadd__", "+", add)
_in_place("__isub__", "-", sub)
_in_place("__imul__", "*", mul)
_in_place("__itruediv__", "/", div)


def _logical(name: str, symbol: str, on_bool: str, on_integers: str) -> Callable:
    def function(a: Operand, b: Operand) -> Tensor:
        x, y = joined(name, a, b)
        if x.dtype.is_float:
            fail(
                f"{name}: the operands are {x.dtype}",
                f"{symbol} combines conditions, or the bits of integers",
                "compare first: (x > 0) & (y > 0)",
                InvalidType,
            )
        return binary(on_bool if x.dtype is boolean else on_integers, x, y)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"a {symbol} b on conditions, or on the bits of integers."
    return function


bitwise_and = method("__and__", "__rand__")(
    _logical("bitwise_and", "&", "logical_and", "bitwise_and")
)
bitwise_or = method("__or__", "__ror__")(_logical("bitwise_or", "|", "logical_or", "bitwise_or"))


@method("__xor__", "__rxor__")
def bitwise_xor(a: Operand, b: Operand) -> Tensor:
    """a ^ b on conditions, or on the bits of integers."""
    x, y = joined("bitwise_xor", a, b)
    if x.dtype is boolean:
        return (x | y) & ~(x & y)
    return binary("bitwise_xor", x, y)


@method("bitwise_not", "__invert__")
def bitwise_not(x: Tensor) -> Tensor:
    """~x on conditions, or on the bits of integers."""
    x = _only_tensor(x, "bitwise_not")
    op = "logical_not" if x.dtype is boolean else "bitwise_not"
    return Tensor(x.trace, x.trace.here().unary(op, x.value))


_ON_BOOL = {
    "eq": lambda a, b: ~(a ^ b),
    "ne": lambda a, b: a ^ b,
    "lt": lambda a, b: ~a & b,
    "le": lambda a, b: ~a | b,
    "gt": lambda a, b: a & ~b,
    "ge": lambda a, b: a | ~b,
}


def _compare(op: str, *names: str) -> Callable[[Operand, Operand], Tensor]:
    def function(a: Operand, b: Operand) -> Tensor:
        x, y = joined(op, a, b)
        return _ON_BOOL[op](x, y) if x.dtype is boolean else binary(op, x, y)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"The condition a {op} b, a bool tensor; with NaN only ne holds."
    return method(op, *names)(function)


eq, ne = _compare("eq", "__eq__"), _compare("ne", "__ne__")
lt, le = _compare("lt", "__lt__"), _compare("le", "__le__")
gt, ge = _compare("gt", "__gt__"), _compare("ge", "__ge__")


def _extreme(op: str, on_bool: Callable) -> Callable[[Operand, Operand], Tensor]:
    def function(a: Operand, b: Operand) -> Tensor:
        x, y = joined(op, a, b)
        return on_bool(x, y) if x.dtype is boolean else binary(op, x, y)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"The {op} of a and b, element by element; NaN if one of them is."
    return method(op)(function)


maximum, minimum = _extreme("maximum", bitwise_or), _extreme("minimum", bitwise_and)


@method("clip", "clamp")
def clip(x: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """x, but not below `min` and not above `max`; None leaves a side open.

    Formula: minimum(maximum(x, min), max)
    Shapes: any; `min` and `max` broadcast
    Example: pto.clip(x, 0, 1)
    """
    low = x if min is None else maximum(min, x)  # of two zeros the second is taken: that of x
    return low if max is None else minimum(max, low)


clamp = clip


@operation
def where(condition: Tensor, a: Operand, b: Operand) -> Tensor:
    """a where the condition holds, else b: what `if` would be, element by element.

    condition is bool; the shapes of all three broadcast; two numbers give f32 or i64.

    Formula: a if condition else b
    Shapes: `condition`, `a` and `b` broadcast
    Example: pto.where(c, x, y)
    """
    condition = _only_tensor(condition, "where")
    if condition.dtype is not boolean:
        fail(
            f"where: the condition is {condition.dtype}",
            "a condition is a bool tensor",
            "compare: pto.where(x != 0, a, b)",
            InvalidType,
        )
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        x, y = joined("where", a, b)
        operand(x, condition, "where")
    else:
        plain = [number(v) for v in (a, b)]
        floats = any(isinstance(v, float) for v in plain)
        kind = f32 if floats else number_type(plain[0] if plain[0] is not None else 0, boolean)
        kind = i64 if kind is boolean and not isinstance(plain[1], bool) else kind
        x, y = (
            operand(v, condition, "where") if n is None else constant(condition.trace, n, kind)
            for v, n in zip((a, b), plain, strict=True)
        )
    is_number = x.weak and y.weak and x.dtype.is_integer  # of whole numbers, as their sum is
    chosen = x.trace.here().where(condition.value, x.value, y.value)
    return Tensor(x.trace, chosen, weak=is_number)


@method("square")
def square(x: Tensor) -> Tensor:
    """x * x."""
    return mul(x, x)


@operation
def full_like(x: Tensor, value: Operand, dtype: Kind | None = None) -> Tensor:
    """A tensor of x's shape, and its type unless given, filled with a number.

    The number may be a size, or a tensor of rank 0.

    Formula: y[...] = value
    Shapes: any; the result has that of x
    Example: pto.full_like(x, 1)
    """
    kind, value = x.dtype if dtype is None else element_type(dtype), unwrapped(value)
    if isinstance(value, Tensor | _core.Dim):
        filled = cast(operand(value, x, "full_like"), kind)
    else:
        filled = constant(x.trace, value, kind)
    if filled.ndim:
        fail(
            f"full_like: the value has the shape {list(filled.shape)}",
            "full_like fills a tensor with one number",
            "pass a number or a tensor of rank 0; pto.broadcast_to repeats others",
        )
    return Tensor(x.trace, x.trace.here().broadcast(filled.value, x.shape))


@operation
def zeros_like(x: Tensor, dtype: Kind | None = None) -> Tensor:
    """Zeros of x's shape."""
    return full_like(x, 0, dtype)


@operation
def ones_like(x: Tensor, dtype: Kind | None = None) -> Tensor:
    """Ones of x's shape."""
    return full_like(x, 1, dtype)
