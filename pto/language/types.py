# SPDX-License-Identifier: Apache-2.0
"""The type rules, in one place.

Two tensors must have one element type: mixing is an error, since a silent cast costs accuracy or
time. A Python number takes the tensor's type, as in PyTorch: a float with an integer tensor makes
both f32, an int with a bool tensor makes both i64. Number parameters of a function, and the results
of operations on these alone, follow the same rule. Functions of real numbers, and `/`, turn integer
and bool tensors into f32; `sum` and `prod` turn them into i64.
"""

import math

from pto import _core
from pto.errors import InvalidType
from pto.language.dtypes import DType, boolean, dtype, f32, f64, i64
from pto.language.location import describe, fail
from pto.language.operation import method, operation
from pto.language.symbol import unwrapped
from pto.language.tensor import Tensor
from pto.language.trace import Trace


def constant(trace: Trace, value: object, kind: DType) -> Tensor:
    """A number as a tensor of rank 0."""
    return Tensor(trace, trace.here().constant(value, kind.name))


@operation
def cast(x: Tensor, kind: object) -> Tensor:
    """x with another element type: floats round to nearest even, to integers they truncate.

    The method and pto.cast have modes, too: casting.py.
    """
    kind = dtype(kind)
    return x if x.dtype is kind else Tensor(x.trace, x.trace.here().cast(x.value, kind.name))


@method("float")
def to_f32(x: Tensor) -> Tensor:
    """x as f32.

    Formula: cast(x, pto.f32)
    Shapes: any; the result has the same
    Example: n.float()
    """
    return cast(x, f32)


def real(x: Tensor) -> Tensor:
    """x as it is, or as f32 where it is integer or bool."""
    return x if x.dtype.is_float else cast(x, f32)


def numeric(x: Tensor, name: str) -> Tensor:
    """x, which must not be bool."""
    if x.dtype is boolean:
        fail(
            f"{name}: the operand is bool",
            f"{name} is arithmetic, and bool has none",
            f"cast it first: {name}(pto.cast(x, pto.f32)); combine conditions with & | ~",
            InvalidType,
        )
    return x


def wide(x: Tensor) -> Tensor:
    """x in the type in which sums of it are kept: f32 for f16 and bf16."""
    return cast(x, f32) if x.dtype.is_float and x.dtype.bytes < 4 else x


def number(value: object) -> bool | int | float | None:
    """A Python or NumPy number as Python's; None for everything else.

    An array of rank 0 is no number: its memory may change between calls.
    """
    if isinstance(value, Tensor):  # also one that passes for a float
        return None
    if isinstance(value, bool | int | float):
        return value
    is_array = hasattr(type(value), "__len__")
    if type(value).__module__ == "numpy" and not is_array and getattr(value, "ndim", None) == 0:
        value = value.item()
        return value if isinstance(value, bool | int | float) else None
    return None


def number_type(value: bool | int | float, like: DType) -> DType:
    """The common type of a tensor type and a Python number."""
    if isinstance(value, float):
        return like if like.is_float else f32
    return i64 if like is boolean and not isinstance(value, bool) else like


def size(trace: Trace, dim: object, kind: DType) -> Tensor:
    """A size as a number of type `kind`, rank 0."""
    if isinstance(dim, int):
        return constant(trace, dim, kind)
    b = trace.here()
    ones = b.broadcast(b.constant(1, kind.name), (dim,))
    return Tensor(trace, b.reshape(b.reduce("sum", ones, [0]), ()))


def count(x: Tensor, axes: list[int], kind: DType) -> Tensor:
    """How many elements a reduction over `axes` joins, as a tensor that broadcasts with it."""
    sizes = [x.shape[axis] for axis in axes]
    if all(isinstance(n, int) for n in sizes):
        return constant(x.trace, math.prod(sizes), kind)
    b = x.trace.here()
    ones = b.broadcast(b.constant(1, kind.name), x.shape)
    return Tensor(x.trace, b.reduce("sum", ones, axes))


def operand(value: object, like: Tensor, name: str) -> Tensor:
    """The other operand of `like`: a Tensor as it is, a number as a constant of the common type."""
    value = unwrapped(value)
    if isinstance(value, Tensor):
        if value.trace is not like.trace:
            fail(
                f"{name}: the operands belong to two functions",
                "a traced tensor stands for a value inside one compiled function only",
                "pass the tensor as an argument",
                InvalidType,
            )
        return value
    plain = number(value)
    if plain is not None:
        kind = number_type(plain, like.dtype)
        if kind.is_integer and not isinstance(plain, bool) and not kind.holds(plain):
            fail(
                f"{name}: the number {plain} does not fit {kind}",
                "a number takes the element type of the tensor that it meets",
                "cast the tensor to a wider type",
            )
        found = constant(like.trace, plain, kind)
        found.weak = like.weak
        return found
    if isinstance(value, _core.Dim) and like.weak and like.dtype is i64:
        return Tensor(like.trace, like.trace.here().extent(value), weak=True)
    if isinstance(value, _core.Dim):
        return size(like.trace, value, like.dtype if like.dtype is not boolean else i64)
    if hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__"):
        fail(
            f"{name}: the operand is {describe(value)} from outside the function",
            "a traced function reads what it captures only once, so later values are lost",
            "make it a parameter of the function",
            InvalidType,
        )
    return fail(
        f"{name}: the operand is {describe(value)}",
        "operands are traced tensors, Python numbers and sizes",
        "pass a tensor or a number",
        InvalidType,
    )


def _find(values: tuple, name: str) -> Tensor:
    for value in values:
        if isinstance(value, Tensor) and not value.weak:
            return value
    for value in values:
        if isinstance(value, Tensor):
            return value
    return fail(
        f"{name}: no operand is a traced tensor, they are {', '.join(map(describe, values))}",
        "pto's functions run inside a function decorated with @pto.jit, on its parameters",
        "call them there, or decorate the function that calls them",
        InvalidType,
    )


def joined(name: str, *values: object) -> tuple[Tensor, ...]:
    """The operands of one operation with a common type; see the rules above."""
    values = tuple(map(unwrapped, values))
    like = _find(values, name)
    found = [operand(value, like, name) for value in values]
    strong = [t for t, v in zip(found, values, strict=True) if isinstance(v, Tensor) and not v.weak]
    kinds = {t.dtype for t in strong}
    if len(kinds) > 1:
        a, b = strong[0], next(t for t in strong if t.dtype is not strong[0].dtype)
        fail(
            f"{name}: the operands have different element types, {a.dtype} and {b.dtype}",
            "pto casts nothing silently",
            f"cast one of them: pto.cast(x, pto.{_wider(a.dtype, b.dtype)})",
            InvalidType,
        )
    common = like.dtype
    for tensor, value in zip(found, values, strict=True):
        if isinstance(value, Tensor) and value.weak:
            common = number_type(1.0 if tensor.dtype.is_float else 1, common)
        elif not isinstance(value, Tensor):
            common = tensor.dtype if common.kind != tensor.dtype.kind else common
    return tuple(cast(t, common) for t in found)


def _wider(a: DType, b: DType) -> DType:
    """A type to cast to: the float one, of two floats f32 or the wider."""
    if a.is_float and b.is_float:
        return f64 if f64 in (a, b) else f32
    if a.is_float != b.is_float:
        return a if a.is_float else b
    return max(a, b, key=lambda kind: (kind.bytes, kind.name))
