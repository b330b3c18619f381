# SPDX-License-Identifier: Apache-2.0
"""Rows of comparisons, conditions and bits, and of choices by them, element by element."""

import operator
from collections.abc import Callable
from typing import Any

from pto import language as tile
from pto.aten.rows import EVERY, INTEGERS, NUMBERS, row
from pto.aten.table.sizes import value_has_axes
from pto.formulas import numbers

_BOOL: dict[str, Any] = {"ulp": 0, "in_place": False, "results": ("bool",)}
_BITS = (*INTEGERS, "bool")


def _binary(name: str, function: Callable[[Any, Any], Any]) -> Any:
    """A function of two values as a formula."""

    def formula(self, other):  # type: ignore[no-untyped-def]
        return function(self, other)

    formula.__name__ = formula.__qualname__ = name
    return formula


def _as_number(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The comparison with 1 or 0 of its first argument's type as its result."""
    return lambda x, y: tile.where(compare(x, y), tile.ones_like(x), tile.zeros_like(x))


# eq_ has a row of its own: its result is 1 or 0 in self's type, and that of eq is bool. It takes
# over where eq does.
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _compare = getattr(operator, _name)
    row(f"{_name}.Tensor", f"{_name}.Scalar", types=NUMBERS, **_BOOL)(_binary(_name, _compare))
    for _form in ("Tensor", "Scalar"):
        row(f"{_name}_.{_form}", types=NUMBERS, ulp=0, base=f"{_name}.{_form}")(
            _binary(f"{_name}_", _as_number(_compare))
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


def _unless_bool(values):
    is_bool = any(isinstance(one, bool) for one in values.values())
    return "a bool beside integers" if is_bool else None


for _name in ("and", "or", "xor"):
    for _form in ("Tensor", "Scalar", "Scalar_Tensor"):
        row(f"bitwise_{_name}.{_form}", types=_BITS if _form == "Tensor" else INTEGERS, ulp=0,
            unless=_unless_bool)(
            _binary(f"bitwise_{_name}", getattr(operator, f"__{_name}__"))
        )  # fmt: skip


def _not_all_bits(values):
    n = values["other"]
    return None if isinstance(n, int) and 0 <= n < 7 else "ATen shifts by other amounts as the CPU"


for _name in ("left_shift", "right_shift"):
    row(f"bitwise_{_name}.Tensor_Scalar", types=INTEGERS, ulp=0, unless=_not_all_bits)(
        _binary(_name, getattr(tile, f"bitwise_{_name}"))
    )
    row(f"bitwise_{_name}.Tensor", f"bitwise_{_name}.Scalar_Tensor", types=INTEGERS, ulp=0)(
        _binary(_name, getattr(numbers, _name))
    )


_CHOICE: dict[str, Any] = {"ulp": 0, "others": {"condition": ("bool",)}}
_MASKED: dict[str, Any] = {"ulp": 0, "others": {"mask": ("bool",)}, "types": NUMBERS}


def _where_sample(tensor, rows, columns):
    return {"condition": tensor(rows, columns, dtype="bool"), "self": tensor(rows, columns),
            "other": tensor(rows, columns)}  # fmt: skip


@row("where.self", types=EVERY, **_CHOICE, sample=_where_sample)
@row("where.ScalarOther", types=NUMBERS, **_CHOICE,
     sample=lambda t, m, n: {**_where_sample(t, m, n), "other": 2})  # fmt: skip
@row("where.ScalarSelf", types=NUMBERS, **_CHOICE,
     sample=lambda t, m, n: {**_where_sample(t, m, n), "self": 2})  # fmt: skip
def where(condition, self, other):
    return tile.where(condition, self, other)


@row("masked_fill.Scalar", **_MASKED,
     sample=lambda t, m, n: {"self": t(m, n), "mask": t(m, n, dtype="bool"),
                             "value": 2})  # fmt: skip
@row("masked_fill.Tensor", **_MASKED, unless=value_has_axes,
     sample=lambda t, m, n: {"self": t(m, n), "mask": t(m, n, dtype="bool"),
                             "value": t(1).reshape([])})  # fmt: skip
def masked_fill(self, mask, value):
    return tile.where(mask, value, self)
