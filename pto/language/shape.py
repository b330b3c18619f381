# SPDX-License-Identifier: Apache-2.0
"""Shape operations: they compute nothing, and change which element stands where."""

import math
import operator
from collections.abc import Sequence
from typing import Any, NoReturn

from pto import _core
from pto.errors import InvalidIndex, InvalidType, InvalidValue
from pto.language.location import describe, fail
from pto.language.operands import Axes, Shape, Whole
from pto.language.operation import a_sequence, method, must_be_traced, operation
from pto.language.symbol import is_whole, simplified
from pto.language.tensor import ShortPart, Tensor
from pto.language.whole import sized


def normal_axis(axis: object, rank: int, name: str) -> int:
    """An axis counted from the front; `rank` is the number of axes. Raises InvalidIndex."""
    try:
        number = None if isinstance(axis, bool | Tensor) else operator.index(axis)
    except TypeError:
        number = None
    if number is None:
        fail(
            f"{name}: the axis is {describe(axis)}",
            "an axis is an integer",
            "pass an int",
            InvalidType,
        )
    if not -rank <= number < rank:
        fail(
            f"{name}: there is no axis {number} in a tensor of {rank} axes",
            "axes count from 0, or from the end from -1"
            if rank
            else "a tensor of rank 0 has no axis",
            f"pass an axis from {-rank} to {rank - 1}" if rank else "pass a tensor with an axis",
            InvalidIndex,
        )
    return number % rank


def distinct_axes(dims: object, rank: int, name: str) -> list[int]:
    """Some axes, or one, counted from the front, in order. Raises InvalidValue if one repeats."""
    given = list(dims) if isinstance(dims, tuple | list) else [dims]
    axes = sorted(normal_axis(axis, rank, name) for axis in given)
    if len(set(axes)) != len(axes):
        fail(f"{name}: the axes {given} repeat", "an axis takes part once",
             "name each axis once", InvalidValue)  # fmt: skip
    return axes


def _sizes(name: str, x: Tensor, shape: tuple) -> list:
    """The sizes that were given, one by one or as one sequence; each an integer or a Dim."""
    given = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    given = [_from_data(name, x, size) for size in map(simplified, given)]
    for size in given:
        whole = isinstance(size, int | _core.Dim) and not isinstance(size, bool)
        if not whole or (isinstance(size, int) and abs(size) >= 1 << 63):
            fail(
                f"{name}: a size is {describe(size)}",
                "sizes are integers of 64 bits, or sizes of traced tensors",
                f"pass such sizes, as in {name}(x, (x.shape[0], 1))",
                InvalidType,
            )
    return given


def _from_data(name: str, x: Tensor, size: Any) -> Any:
    """A size that a number of the program says, as a symbol; anything else as it is."""
    return sized(x.trace, size, name) if isinstance(size, Tensor) and is_whole(size) else size


def same_size(a: object, b: object) -> bool:
    """Says whether two sizes are the same number or expression."""
    if isinstance(a, _core.Dim):
        return a.same(b)
    return isinstance(b, int) and a == b


def _shaped(x: Tensor, shape: Sequence) -> Tensor:
    return Tensor(x.trace, x.trace.here().reshape(x.value, tuple(shape)))


@method("size")
def size_along(x: Tensor, dim: int | None = None) -> Any:
    """The shape, or the size along `dim`.

    Formula: x.shape[dim]
    Shapes: any with an axis `dim`
    Example: pto.full([1], x.size(1))
    """
    return x.shape if dim is None else x.shape[normal_axis(dim, x.ndim, "size")]


@method("unsqueeze")
def unsqueeze(x: Tensor, dim: int) -> Tensor:
    """x with a new axis of size 1 before axis `dim`.

    Formula: y[0] = x for dim 0
    Shapes: the result has an axis of size 1 more, in front of axis `dim`
    Example: pto.unsqueeze(x, 0)
    """
    at = normal_axis(dim, x.ndim + 1, "unsqueeze")
    return _shaped(x, (*x.shape[:at], 1, *x.shape[at:]))


@method("squeeze")
def squeeze(x: Tensor, dim: Axes = None) -> Tensor:
    """x without these axes, or all axes, of size 1; other sizes stay, as in PyTorch.

    Formula: y = x[0] for dim 0
    Shapes: the result lacks axes of size 1
    Example: pto.squeeze(x[:1], 0)
    """
    dims = range(x.ndim) if dim is None else dim if isinstance(dim, tuple | list) else (dim,)
    gone = {normal_axis(axis, x.ndim, "squeeze") for axis in dims}
    keep = [n for axis, n in enumerate(x.shape) if axis not in gone or not same_size(n, 1)]
    return x if len(keep) == x.ndim else _shaped(x, keep)


@method()
def reshape(
    x: Tensor, *shape: Shape, inplace: bool = False, valid_shape: Sequence[Whole] | None = None
) -> Tensor:
    """x with other sizes, the same number of elements in order; -1 stands for what is left over.

    A reshape moves no data, unless it regroups the elements of a tensor with gaps. `valid_shape` is
    the shape of the part at the front that is wanted; an x that data end early has its elements
    alone. `inplace` says that x is not used any more; the compiler sees that itself.

    Formula: y.reshape(-1)[k] = x.reshape(-1)[k]
    Shapes: the result has `shape`, with as many elements as x
    Example: pto.reshape(x, 3, -1)
    """
    if valid_shape is None:
        return _reshaped(x, shape)
    valid = a_sequence("reshape", "the valid shape", valid_shape)
    sizes = _sizes("reshape", x, shape)
    if len(valid) != len(sizes):
        fail(f"reshape: the valid shape has {len(valid)} sizes for {len(sizes)} axes",
             "it is a part of the result", "pass a size for each axis")  # fmt: skip
    if _ends_early(x, sizes):
        return ShortPart(_reshaped(x, (valid,)), tuple(sizes))
    found = _reshaped(x, shape)
    return ShortPart(found[tuple(slice(0, size) for size in valid)], found.shape)


def _ends_early(x: Tensor, sizes: list) -> bool:
    """Says whether x has fewer elements than sizes say: a part, or computed from one."""
    if any(same_size(n, -1) for n in sizes) or same_size(math.prod(x.shape), math.prod(sizes)):
        return False
    return isinstance(x, ShortPart) or any(x.trace.is_from_data(n) for n in x.shape)


def _reshaped(x: Tensor, shape: tuple) -> Tensor:
    sizes = _sizes("reshape", x, shape)
    negative = [n for n in sizes if isinstance(n, int) and n < 0]
    if negative not in ([], [-1]):
        _does_not_become(x, sizes)
    old = [n for n in x.shape if not same_size(n, 1)]
    for place, n in enumerate(sizes):
        if same_size(n, -1):
            sizes[place] = _left_over(x, old, sizes[:place] + sizes[place + 1 :])
    are_known = all(isinstance(n, int) for n in (*x.shape, *sizes))
    if are_known and math.prod(x.shape) != math.prod(sizes):
        _does_not_become(x, sizes)
    return _shaped(x, sizes)


def _left_over(x: Tensor, old: list, others: list) -> Any:
    """The size for which -1 stands beside the others."""
    rest = [m for m in others if not same_size(m, 1)]
    left = [m for m in old if not any(same_size(m, r) for r in rest)]
    if len(old) - len(rest) == len(left) <= 1:
        return left[0] if left else 1
    total, given = math.prod(x.shape), math.prod(others)
    if isinstance(given, int) and (given == 0 or (isinstance(total, int) and total % given)):
        _does_not_become(x, [*others, -1])
    return total // given


def _does_not_become(x: Tensor, sizes: list) -> NoReturn:
    fail(
        f"reshape: {list(x.shape)} does not become {sizes}",
        "a reshape keeps the number of elements; sizes are not negative, but for one -1",
        "choose sizes with the same product",
    )


@method("flatten")
def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """x with the axes from `start_dim` to `end_dim` as one.

    Formula: y[i * x.shape[1] + j] = x[i, j]
    Shapes: axes from `start_dim` to `end_dim` become one, of the product of their sizes
    """
    if not x.ndim:
        return _shaped(x, [1])
    first = normal_axis(start_dim, x.ndim, "flatten")
    last = normal_axis(end_dim, x.ndim, "flatten")
    if last < first:
        fail(f"flatten: axes {first} to {last}", "they are neighbours in their order",
             "exchange the two")  # fmt: skip
    return _shaped(
        x, [*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :]]
    )


@method("clone")
def clone(x: Tensor) -> Tensor:
    """x as a tensor of its own: what is written into one of the two does not change the other.

    Formula: x
    """
    return Tensor(x.trace, x.value, weak=x.weak)


@operation
def expand_clone(x: Tensor, shape: Sequence[Whole]) -> Tensor:
    """x repeated up to `shape`, where -1 keeps a size, as a tensor of its own.

    Formula: y[i, j] = x[j] for a vector x
    Shapes: the result has `shape`, to which x broadcasts
    Example: pto.expand_clone(v, [2, -1])
    """
    sizes = _sizes("expand_clone", x, a_sequence("expand_clone", "the shape", shape))
    for place in range(1, min(len(sizes), x.ndim) + 1):
        if same_size(sizes[-place], -1):
            sizes[-place] = x.shape[-place]
    return Tensor(x.trace, broadcast_to(x, sizes).value)


@method("broadcast_to", "expand")
def broadcast_to(x: Tensor, *shape: Shape) -> Tensor:
    """x repeated along axes of size 1, and along new leading ones, up to `shape`.

    Formula: y[i, j] = x[j] for a vector x
    Shapes: the result has `shape`, to which x broadcasts
    Example: pto.broadcast_to(v, 2, 3)
    """
    sizes = tuple(_sizes("broadcast_to", x, shape))
    if any(isinstance(size, int) and size < 0 for size in sizes):
        fail(f"broadcast_to: {list(x.shape)} repeated up to {list(sizes)}",
             "sizes are not negative", "pass x.shape[i] for a size that stays")  # fmt: skip
    return Tensor(x.trace, x.trace.here().broadcast(x.value, sizes))


@method("expand_as")
def broadcast_like(x: Tensor, like: Tensor) -> Tensor:
    """x repeated up to the shape of `like`.

    Formula: broadcast_to(x, like.shape)
    Shapes: the result has that of `like`, to which x broadcasts
    Example: pto.broadcast_like(v, x)
    """
    return broadcast_to(x, like.shape)


@method("transpose")
def transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    """x with two axes exchanged.

    Formula: y[j, i] = x[i, j]
    Shapes: the sizes of two axes change places
    Example: pto.transpose(x, 0, 1)
    """
    a, b = normal_axis(dim0, x.ndim, "transpose"), normal_axis(dim1, x.ndim, "transpose")
    axes = list(range(x.ndim))
    axes[a], axes[b] = axes[b], axes[a]
    return x if a == b else Tensor(x.trace, x.trace.here().transpose(x.value, axes))


@method("permute")
def permute(x: Tensor, axes: Sequence[int]) -> Tensor:
    """x with its axes in another order: axis i of the result is axis axes[i] of x.

    Formula: y[j, i] = x[i, j] for the axes (1, 0)
    Shapes: size k of the result is size `axes[k]` of x
    Example: pto.permute(x, (1, 0))
    """
    chosen = a_sequence("permute", "the axes", axes)
    order = [normal_axis(axis, x.ndim, "permute") for axis in chosen]
    return Tensor(x.trace, x.trace.here().transpose(x.value, order))


def concat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors one behind the other along an axis; the other sizes are equal.

    Formula: y = the elements of the first, then those of the next, along dim
    Shapes: sizes along `dim` add up, the others are equal
    Example: pto.concat([x, y], 1)
    """
    given = _listed("concat", tensors)
    first = given[0]
    axis = normal_axis(dim, first.ndim, "concat")
    values = [x.value for x in given]
    return Tensor(first.trace, first.trace.here().concat(values, axis))


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors beside each other along a new axis; their sizes are equal.

    Formula: y[..., i, ...] = tensors[i], i along dim
    Shapes: those of the tensors, and at `dim` an axis with an element for each of them
    Example: pto.stack([x, y], -1)
    """
    given = _listed("stack", tensors)
    at = normal_axis(dim, given[0].ndim + 1, "stack")
    for x in given:
        if x.ndim != given[0].ndim:
            fail(f"stack: tensors of the shapes {list(given[0].shape)} and {list(x.shape)}",
                 "tensors beside each other along a new axis have equal sizes",
                 "pass tensors of one shape, or join them with pto.concat")  # fmt: skip
    return concat([unsqueeze(x, at) for x in given], at)


def _listed(name: str, tensors: Sequence[Tensor]) -> list[Tensor]:
    given = a_sequence(name, "the tensors", tensors)
    if not given:
        fail(f"{name}: a list without tensors", "the result has the type of the first one",
             "pass at least one tensor; pto.zeros makes one without elements")  # fmt: skip
    for x in given:
        must_be_traced(name, x, "pass a list of tensors; join arrays with NumPy or torch")
    return given
