# SPDX-License-Identifier: Apache-2.0
"""Rows of comparisons, conditions and bits, and of choices by them, element by element."""

import operator
from typing import Any

from pto import language as tile
from pto.aten.records import library
from pto.aten.rows import EVERY, INTEGERS, NUMBERS, ROWS, Row, row
from pto.formulas import numbers

_BOOL: dict[str, Any] = {"ulp": 0, "in_place": False, "results": ("bool",)}
_BITS = (*INTEGERS, "bool")


def _comparison(name: str) -> Any:
    function = getattr(operator, name)

    def formula(self, other):  # type: ignore[no-untyped-def]
        return function(self, other)

    formula.__name__ = formula.__qualname__ = name
    return formula


def _comparison_in_place(name: str) -> Any:
    function = getattr(operator, name)

    def formula(self, other):  # type: ignore[no-untyped-def]
        return tile.where(function(self, other), tile.ones_like(self), tile.zeros_like(self))

    formula.__name__ = formula.__qualname__ = f"{name}_"
    return formula


# eq_ has a row of its own: its result is 1 or 0 in self's type, and that of eq is bool. It takes
# over where eq does.
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    row(f"{_name}.Tensor", f"{_name}.Scalar", types=NUMBERS, **_BOOL)(_comparison(_name))
    for _form in ("Tensor", "Scalar"):
        row(f"{_name}_.{_form}", types=NUMBERS, ulp=0, base=f"{_name}.{_form}")(
            _comparison_in_place(_name)
        )


def _truth(x: Any) -> Any:
    return x if x.dtype is tile.boolean else x != 0


@row("logical_not", types=EVERY, **_BOOL)
def logical_not(self):
    return ~self if self.dtype is tile.boolean else self == 0


@row("logical_and", types=EVERY, **_BOOL)
def logical_and(self, other):
    return _truth(self) & _truth(other)


@row("logical_or", types=EVERY, **_BOOL)
def logical_or(self, other):
    return _truth(self) | _truth(other)


@row("logical_xor", types=EVERY, **_BOOL)
def logical_xor(self, other):
    return _truth(self) ^ _truth(other)


@row("isnan", types=NUMBERS, **_BOOL)
def isnan(self):
    return self != self


@row("isinf", types=NUMBERS, **_BOOL)
def isinf(self):
    return tile.isinf(self)


@row("isfinite", types=NUMBERS, **_BOOL)
def isfinite(self):
    return tile.isfinite(self)


@row("isposinf", **_BOOL)
def isposinf(self):
    return numbers.is_infinite(self, below=False)


@row("isneginf", **_BOOL)
def isneginf(self):
    return numbers.is_infinite(self, above=False)


@row("signbit", types=INTEGERS, **_BOOL)
def signbit(self):
    return self < 0


@row("bitwise_not", types=_BITS, ulp=0)
def bitwise_not(self):
    return ~self


_PAIRS = {"bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor}


def _bitwise(name: str) -> Any:
    function = _PAIRS[name]

    def formula(self, other):  # type: ignore[no-untyped-def]
        return function(self, other)

    formula.__name__ = formula.__qualname__ = name
    return formula


for _name in _PAIRS:
    for _form in ("Tensor", "Scalar", "Scalar_Tensor"):
        ROWS[f"{_name}.{_form}"] = Row(
            f"{_name}.{_form}", _bitwise(_name), ulp=0,
            types=_BITS if _form == "Tensor" else INTEGERS,
            unless=lambda v: "a bool beside integers" if any(
                isinstance(one, bool) for one in v.values()) else None,
        )  # fmt: skip


def _shift(function: Any) -> Any:
    def formula(self, other):  # type: ignore[no-untyped-def]
        return function(self, other)

    return formula


def _not_all_bits(values):
    n = values["other"]
    return None if isinstance(n, int) and 0 <= n < 7 else "ATen shifts by other amounts as the CPU"


for _name in ("left_shift", "right_shift"):
    row(f"bitwise_{_name}.Tensor_Scalar", types=INTEGERS, ulp=0, unless=_not_all_bits)(
        _shift(getattr(tile, f"bitwise_{_name}"))
    )
    row(f"bitwise_{_name}.Tensor", f"bitwise_{_name}.Scalar_Tensor", types=INTEGERS, ulp=0)(
        _shift(getattr(numbers, _name))
    )


_CONDITION = {"condition": ("bool",)}
_MASK = {"mask": ("bool",)}


def _where_sample(tensor, rows, columns):
    return {"condition": tensor(rows, columns, dtype="bool"), "self": tensor(rows, columns),
            "other": tensor(rows, columns)}  # fmt: skip


@row("where.self", types=EVERY, ulp=0, others=_CONDITION, sample=_where_sample)
def where(condition, self, other):
    return tile.where(condition, self, other)


@row("where.ScalarOther", types=NUMBERS, ulp=0, others=_CONDITION,
     sample=lambda t, m, n: {**_where_sample(t, m, n), "other": 2})  # fmt: skip
def where_other(condition, self, other):
    return tile.where(condition, self, other)


@row("where.ScalarSelf", types=NUMBERS, ulp=0, others=_CONDITION,
     sample=lambda t, m, n: {**_where_sample(t, m, n), "self": 2})  # fmt: skip
def where_self(condition, self, other):
    return tile.where(condition, self, other)


@row("masked_fill.Scalar", types=NUMBERS, ulp=0, others=_MASK,
     sample=lambda t, m, n: {"self": t(m, n), "mask": t(m, n, dtype="bool"),
                             "value": 2})  # fmt: skip
def masked_fill(self, mask, value):
    return tile.where(mask, value, self)


def _unless_one(values):
    return "value has axes" if library().shape(values["value"]) else None


@row("masked_fill.Tensor", types=NUMBERS, ulp=0, others=_MASK, unless=_unless_one,
     sample=lambda t, m, n: {"self": t(m, n), "mask": t(m, n, dtype="bool"),
                             "value": t(1).reshape([])})  # fmt: skip
def masked_fill_by_tensor(self, mask, value):
    return tile.where(mask, value, self)
