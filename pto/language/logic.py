# SPDX-License-Identifier: Apache-2.0
"""Functions of truth: a tensor of any type is a condition, true where it is not 0.

    pto.logical_not(x)         # x == 0; NaN is not 0
    pto.logical_and(x, n)      # (x != 0) & (n != 0), whatever types x and n have

`&`, `|` and `~` are functions of bits on integers: elementwise.py.
"""

from pto.language.dtypes import boolean
from pto.language.elementwise import bitwise_and, bitwise_not, bitwise_or, eq, ne
from pto.language.operands import Operand
from pto.language.operation import method
from pto.language.symbol import unwrapped
from pto.language.tensor import Tensor
from pto.language.types import constant, number, operand


@method()
def logical_not(x: Tensor) -> Tensor:
    """True where x is 0 or False.

    Formula: np.logical_not(x)
    Shapes: any; the result has the same
    Example: pto.logical_not(x)
    """
    return bitwise_not(x) if x.dtype is boolean else eq(x, 0)


@method()
def logical_and(a: Operand, b: Operand) -> Tensor:
    """True where neither a nor b is 0 or False; their types may differ.

    Formula: np.logical_and(a, b)
    Shapes: any that broadcast, as in NumPy
    Example: pto.logical_and(x, y)
    """
    return bitwise_and(*_conditions("logical_and", a, b))


@method()
def logical_or(a: Operand, b: Operand) -> Tensor:
    """True where a or b is neither 0 nor False; their types may differ.

    Formula: np.logical_or(a, b)
    Shapes: any that broadcast, as in NumPy
    Example: pto.logical_or(x, y)
    """
    return bitwise_or(*_conditions("logical_or", a, b))


def _conditions(name: str, *values: Operand) -> list[Tensor]:
    like = next(value for value in map(unwrapped, values) if isinstance(value, Tensor))
    return [_condition(name, unwrapped(value), like) for value in values]


def _condition(name: str, value: object, like: Tensor) -> Tensor:
    plain = number(value)
    if plain is not None:
        return constant(like.trace, bool(plain), boolean)
    found = operand(value, like, name)
    return found if found.dtype is boolean else ne(found, 0)
