# SPDX-License-Identifier: Apache-2.0
"""The element types: pto.f32 and its like, and how other libraries' types name them."""

from typing import Any

from pto import _core
from pto.errors import InvalidType


class DType:
    """An element type. One object per type, so `is` compares; `str()` gives the short name.

    `==` also takes a type of NumPy or torch and a name, and is an error for an unknown name.
    """

    __slots__ = ("bytes", "cpp", "kind", "long_name", "name")

    def __init__(self, row: _core.ElementType):
        self.name, self.bytes, self.kind = row.name, row.bytes, row.kind
        self.long_name, self.cpp = row.numpy, row.cpp

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("signed", "unsigned")

    def holds(self, value: int) -> bool:
        """Says whether an integer type can represent this value."""
        bits = self.bytes * 8
        low, high = (-(1 << bits - 1), 1 << bits - 1) if self.kind == "signed" else (0, 1 << bits)
        return low <= value < high

    def __eq__(self, other: object) -> bool:
        if self is other or isinstance(other, DType):
            return self is other
        if isinstance(other, str):
            return dtype(other) is self
        name = _name(other)
        return _LONG.get(name, name) == self.name if name else NotImplemented

    __hash__ = object.__hash__

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"pto.{self.name}"

    def __reduce__(self):
        return (dtype, (self.name,))


_BY_NAME = {row.name: DType(row) for row in _core.dtypes()}
KNOWN = f"the element types are {', '.join(_BY_NAME)}, in native byte order"
boolean = _BY_NAME["bool"]
i8, i16, i32, i64 = (_BY_NAME[f"i{bits}"] for bits in (8, 16, 32, 64))
u8, u16, u32, u64 = (_BY_NAME[f"u{bits}"] for bits in (8, 16, 32, 64))
f16, bf16, f32, f64 = (_BY_NAME[name] for name in ("f16", "bf16", "f32", "f64"))
float16, bfloat16, float32, float64 = f16, bf16, f32, f64
int8, int16, int32, int64 = i8, i16, i32, i64

_LONG = {row.numpy: row.name for row in _core.dtypes()} | {"bool_": "bool"}


def _name(what: object) -> str:
    """How another library names an element type, "" for what is none."""
    if what is bool:
        return "bool"
    library = (what if isinstance(what, type) else type(what)).__module__.partition(".")[0]
    if library not in ("numpy", "torch", "ml_dtypes", "jax", "tensorflow", "mindspore"):
        return ""
    name = getattr(what, "name", None)
    if not isinstance(name, str):
        name = what.__name__ if isinstance(what, type) else str(what)
    return name.removeprefix("torch.")


def dtype(what: object) -> DType:
    """The DType of a DType, a name ("f32", "float32"), a torch or a NumPy type.

    Raises InvalidType, listing the names, for anything else.

    Example: print(pto.dtype("float32"), pto.dtype(x.dtype) is pto.f32)
    """
    if isinstance(what, DType):
        return what
    name = (what if isinstance(what, str) else _name(what)).removeprefix("torch.")
    name = _LONG.get(name, name)
    if name not in _BY_NAME:
        raise InvalidType(
            f"unknown element type {what!r}",
            KNOWN,
            "pass a type such as pto.f32, or its name",
        )
    return _BY_NAME[name]


def numpy_type(what: object) -> Any:
    """NumPy's dtype of an element type; that of bf16 comes from ml_dtypes."""
    import numpy

    name = dtype(what).long_name
    if name != "bfloat16":
        return numpy.dtype(name)
    import ml_dtypes

    return numpy.dtype(ml_dtypes.bfloat16)
