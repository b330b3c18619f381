# SPDX-License-Identifier: Apache-2.0
"""Sizes in a traced function: the operators of a Dim, and errors for those that it cannot have.

    n = x.shape[0]              # a Dim, known when the kernel runs
    n * 2 + 1, n // 4, n ** 2   # sizes again
    x / n, n * x                # a tensor, with the size as a number
    n > 4, n / 2, range(n)      # InvalidType: what, why, fix, and the user's line

C++ computes (base/dims.hpp); this module adds Python's operators.
"""

import contextlib
import operator
from collections.abc import Callable
from typing import Any, NoReturn

from pto._core import Dim
from pto.errors import Error, InvalidType, InvalidValue, TracedCondition
from pto.language.location import describe, fail
from pto.language.misuse import formatted, refuse_key
from pto.language.symbol import SymbolicScalar
from pto.language.tensor import Tensor

_MOST = 64  # factors of a power


def _shown(value: object) -> str:
    if isinstance(value, int) and abs(value) >= 1 << 63:
        return "a number beyond 64 bits"  # long ones have no text in Python
    return str(value) if isinstance(value, int | float | Dim) else describe(value)


def _number(value: Any, expression: str) -> Any:
    """A size or an integer, NumPy's too; fails for anything else."""
    if isinstance(value, Dim):
        return value
    number = None
    if not hasattr(type(value), "__len__"):  # an array of rank 0 may change between calls
        with contextlib.suppress(TypeError):
            number = operator.index(value)
    if number is None:
        fail(
            f"the size {expression}: {describe(value)} is no whole number",
            "sizes are computed with + - * // % ** min and max, from sizes and integers",
            "use an integer; for real numbers compute with the tensor, as in x * n or x / n",
            InvalidType,
        )
    if not -(1 << 63) <= number < 1 << 63:
        fail(
            f"the size {expression}: a number beyond 64 bits",
            "sizes are signed 64-bit numbers",
            "use a smaller number",
        )
    return number


def _arithmetic(name: str, sign: str) -> None:
    """Checks the operand of an operator; a tensor computes with a size in its own operator."""
    forward, reflected = getattr(Dim, f"__{name}__"), getattr(Dim, f"__r{name}__")

    def of_size(n: Dim, other: Any) -> Any:
        if isinstance(other, Tensor | SymbolicScalar):
            return NotImplemented
        return forward(n, _number(other, f"{n} {sign} {_shown(other)}"))

    def of_number(n: Dim, other: Any) -> Any:
        if isinstance(other, Tensor | SymbolicScalar):
            return NotImplemented
        return reflected(n, _number(other, f"{_shown(other)} {sign} {n}"))

    setattr(Dim, f"__{name}__", of_size)
    setattr(Dim, f"__r{name}__", of_number)


def _power(n: Dim, exponent: Any) -> Any:
    if isinstance(exponent, Tensor):
        return NotImplemented
    times = _number(exponent, f"{n} ** {_shown(exponent)}")
    if isinstance(times, Dim) or not 0 <= times <= _MOST:
        fail(
            f"the size {n} ** {_shown(exponent)}",
            f"a power of a size is a product of 0 to {_MOST} factors",
            "use a small whole exponent",
            InvalidType,
        )
    result: Any = 1
    for _ in range(times):
        result = n * result
    return result


def _refused(name: str, sign: str, fix: str) -> None:
    """Says that an operator gives no size."""

    def refuse(left: str, right: str) -> NoReturn:
        fail(
            f"the size {left} {sign} {right}",
            f"sizes are whole numbers; + - * // % ** min and max give sizes, {sign} does not",
            fix,
            InvalidType,
        )

    def of_size(n: Dim, other: Any) -> Any:
        if isinstance(other, Tensor | SymbolicScalar):
            return NotImplemented
        return refuse(str(n), _shown(other))

    def of_number(n: Dim, other: Any) -> Any:
        return NotImplemented if isinstance(other, Tensor) else refuse(_shown(other), str(n))

    if name != "pow":
        setattr(Dim, f"__{name}__", of_size)
    setattr(Dim, f"__r{name}__", of_number)


def _why(n: Dim) -> str:
    """The reason why no line of Python gets the value of a size."""
    from pto.language.trace import current, is_tracing  # it imports this file

    trace = current("a size") if is_tracing() else None
    if trace is None or trace.steps is None:
        return "one kernel serves all sizes, so the size is known only when the kernel runs"
    value = f"{n} is {trace.steps.value(n)} in this call; " if trace.is_stepping else ""
    return f"{value}compiled, one kernel serves all sizes, so no line could depend on one"


def _compared(n: Dim, other: Any) -> NoReturn:
    fail(
        f"the size {n} was compared with {_shown(other)} while tracing",
        _why(n),
        "use operations that work for every size, or make the number a parameter of the function",
        TracedCondition,
    )


def _equal(n: Dim, other: Any) -> Any:
    if isinstance(other, Tensor | SymbolicScalar):
        return NotImplemented
    if isinstance(other, Dim) and n.same(other):
        return True
    if isinstance(other, float) and not other.is_integer():
        return False
    if isinstance(other, Dim | int | float) or hasattr(other, "__array__"):
        _compared(n, other)
    return False  # None, a text: what no size can be


def _comparison(name: str, of_same: bool) -> None:
    def compare(n: Dim, other: Any) -> Any:
        if isinstance(other, Tensor | SymbolicScalar):
            return NotImplemented
        if isinstance(other, Dim) and n.same(other):
            return of_same
        _compared(n, other)

    setattr(Dim, f"__{name}__", compare)


def _value(name: str, use: str, kind: type[Error] = InvalidType) -> None:
    """Refuses a use of the size as a number."""

    def ask(n: Dim) -> NoReturn:
        fail(
            f"{use} the size {n} while tracing",
            _why(n),
            "use operations on whole tensors; sizes and tensors combine, as in x / n; count with "
            "pto.loop(n); make what steers the program a parameter of the function",
            kind,
        )

    setattr(Dim, name, ask)


def _hash(n: Dim) -> int:
    from pto.language.trace import is_tracing  # it imports this file

    if is_tracing():
        refuse_key(n, may_be_kept=True)  # equal sizes are one key of a dict
    return hash(str(n))


def _put(**members: Callable) -> None:
    for name, member in members.items():
        setattr(Dim, f"__{name}__", member)


for _name, _sign in {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}.items():
    _arithmetic(_name, _sign)
for _name, _sign, _fix in (
    ("truediv", "/", "use //, which rounds down; x / n divides a tensor"),
    ("pow", "**", "a size is no exponent: make the number a parameter of the function"),
    ("matmul", "@", "use *"),
    ("and", "&", "use %: n % 2 is the lowest bit"),
    ("or", "|", "use + or max"),
    ("xor", "^", "use the operations of sizes"),
    ("lshift", "<<", "multiply: n * 2"),
    ("rshift", ">>", "divide: n // 2"),
):
    _refused(_name, _sign, _fix)
for _name, _of_same in {"lt": False, "le": True, "gt": False, "ge": True}.items():
    _comparison(_name, _of_same)
_value("__bool__", "a condition (if, while, and, or, not) was made of", TracedCondition)
for _name, _use in {
    "__index__": "an integer (range, an index, the length of a list) was asked of",
    "__len__": "a length was asked of",
    "__iter__": "members were asked of",
    "__float__": "a real number was asked of",
    "__complex__": "a complex number was asked of",
}.items():
    _value(_name, _use)
_value("__int__", "an integer was asked of", InvalidValue)  # % hides a TypeError
_put(
    pow=_power, eq=_equal, format=lambda n, form: formatted(n, str(n), form), hash=_hash,
    pos=lambda n: n, neg=lambda n: 0 - n,
    abs=lambda n: n.max(0 - n), round=lambda n, digits=None: n, floor=lambda n: n,
    ceil=lambda n: n, trunc=lambda n: n,
    divmod=lambda n, other: (n // other, n % other),
    rdivmod=lambda n, other: (other // n, other % n),
)  # fmt: skip
Dim.__array_ufunc__ = None  # NumPy hands `array * n` to the reflected operator here
