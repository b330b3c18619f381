# SPDX-License-Identifier: Apache-2.0
"""Formulas of overloads that make, move or view elements."""

from typing import Any

from pto import language as tile
from pto.adapters.torch.compile.rows import Kind, Out, axis_of, only, row
from pto.formulas.positions import padded, part, strided
from pto.language.shape import same_size
from pto.language.tensor import Tensor
from pto.language.types import cast

# --- what makes and moves elements ---------------------------------------------------------------


@row(Kind.COPY, "_to_copy")
def to_copy(out: Out, x: Tensor, **options: Any) -> Tensor:
    if out.dtype is tile.boolean:
        return x if x.dtype is tile.boolean else x != 0
    only(not (x.dtype.is_float and out.dtype.is_integer and out.dtype.bytes < 4),
         "a cast of floats to small integers, whose results beyond the range differ")  # fmt: skip
    return cast(x, out.dtype)


@row(Kind.COPY, "prims::convert_element_type")
def convert(out: Out, x: Tensor, dtype: Any) -> Tensor:
    return to_copy(out, x)


@row(Kind.COPY, "clone", "lift_fresh_copy", "lift_fresh")
def clone(out: Out, x: Tensor, memory_format: Any = None) -> Tensor:
    return x


@row(Kind.COPY, "cat")
def cat(out: Out, tensors: list, dim: int = 0) -> Tensor:
    # ATen skips vectors without elements beside tensors of another rank.
    tensors = [x for x in tensors if x.ndim == len(out.shape) or x.shape != (0,)]
    only(all(x.ndim for x in tensors) and len(tensors) <= 32, "that many tensors to join")
    return tile.concat([cast(x, out.dtype) for x in tensors], dim)


@row(Kind.COPY, "constant_pad_nd")
def pad(out: Out, x: Tensor, sizes: list, value: Any = 0) -> Tensor:
    only(all(isinstance(n, int) for n in sizes), "a padding that is known only at the call")
    return padded(x, sizes, value)


def _filled(place: int | None, number: Any) -> Any:
    def build(out: Out, *args: Any, **options: Any) -> Tensor:
        value = number if place is None else args[place]
        only(isinstance(value, bool | int | float), "a tensor filled with what is no number")
        kind = out.dtype
        if kind is tile.boolean:
            value = bool(value)
        elif kind.is_integer:
            value = int(value)
        return tile.full(list(out.shape), value, kind)

    return build


for _names, _place, _number in (
    (("full", "full_like"), 1, None),
    (("scalar_tensor",), 0, None),
    (("ones_like", "ones"), None, 1),
    (("zeros_like", "zeros"), None, 0),
    # Any elements will do.
    (("empty.memory_format", "new_empty_strided", "empty_permuted"), None, 0),
):
    row(Kind.MAKE, *_names)(_filled(_place, _number))


@row(Kind.MAKE, "arange.start_step", "iota")
def arange(out: Out, start: Any, end: Any, step: Any = 1, **options: Any) -> Tensor:
    only(all(isinstance(n, int | float) for n in (start, step)), "a range from a size")
    count = tile.arange(out.shape[0])
    if not out.dtype.is_integer:
        only(out.dtype in (tile.f32, tile.f64), "a range that ATen rounds on its way")
        return cast(cast(count, tile.f64) * step + start, out.dtype)
    only(start == int(start) and step == int(step), "a range of fractions as integers")
    start, step = int(start), int(step)
    count = count if step == 1 else count * step
    return cast(count if start == 0 else count + start, out.dtype)


# --- views ----------------------------------------------------------------------------------------


@row(Kind.VIEW, "view", "_unsafe_view", "unsqueeze", "squeeze.dim", "squeeze.dims", "squeeze")
def reshape(out: Out, x: Tensor, *sizes: Any) -> Tensor:
    return tile.reshape(x, *out.shape) if out.shape else tile.reshape(x, [])


@row(Kind.VIEW, "alias", "detach")
def alias(out: Out, x: Tensor) -> Tensor:
    return x


@row(Kind.VIEW, "as_strided")  # where Promise.is_alike() says so
def alike(out: Out, x: Tensor, size: list, stride: list, offset: Any = None) -> Tensor:
    return x


@row(Kind.VIEW, "permute")
def permute(out: Out, x: Tensor, axes: list) -> Tensor:
    return tile.permute(x, tuple(axes)) if x.ndim > 1 else x


@row(Kind.VIEW, "t")
def transposed(out: Out, x: Tensor) -> Tensor:
    return tile.transpose(x, 0, 1) if x.ndim > 1 else x


@row(Kind.VIEW, "transpose.int")
def transpose(out: Out, x: Tensor, a: int, b: int) -> Tensor:
    return tile.transpose(x, a, b) if x.ndim > 1 else x


@row(Kind.VIEW, "expand")
def expand(out: Out, x: Tensor, sizes: list, implicit: bool = False) -> Tensor:
    return tile.broadcast_to(x, *out.shape) if out.shape else x


def begin_of(n: Any, start: Any) -> Any:
    """Where a slice begins, counted from the front and cut to the axis; Translation refuses what a
    call might count from the end, or cut."""
    if start is None:
        return 0
    if isinstance(n, int) and isinstance(start, int):
        return min(max(start + n if start < 0 else start, 0), n)
    return n + start if isinstance(start, int) and start < 0 else start


@row(Kind.VIEW, "slice.Tensor")
def slice_(
    out: Out, x: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Tensor:
    only(isinstance(step, int), "a step that is known only at the call")
    axis = axis_of(x, dim)
    if same_size(out.shape[axis], x.shape[axis]):
        return x
    return strided(x, axis, begin_of(x.shape[axis], start), out.shape[axis], step)


@row(Kind.VIEW, "select.int")
def select(out: Out, x: Tensor, dim: int, index: Any) -> Tensor:
    axis = axis_of(x, dim)
    only(isinstance(index, int), "an index that is known only at the call")
    start = index if index >= 0 else x.shape[axis] + index
    return reshape(out, part(x, axis, start, 1))


def _split(out: Out, x: Tensor, how: Any, dim: int = 0) -> tuple:
    axis, start, parts = axis_of(x, dim), 0, []
    for one in out.parts:
        parts.append(part(x, axis, start, one.shape[axis]))
        start = start + one.shape[axis]
    return tuple(parts)


def _unbind(out: Out, x: Tensor, dim: int = 0) -> tuple:
    axis = axis_of(x, dim)
    return tuple(reshape(one, part(x, axis, at, 1)) for at, one in enumerate(out.parts))


row(Kind.VIEW, "split.Tensor", "split_with_sizes", "unsafe_split.Tensor")(_split)
row(Kind.VIEW, "unbind.int")(_unbind)


# --- attention ------------------------------------------------------------------------------------

row(Kind.ATTENTION, "_scaled_dot_product_flash_attention_for_cpu")(None)
