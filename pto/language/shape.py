# SPDX-License-Identifier: Apache-2.0
"""Shape operations: they insert, remove and repeat axes of size 1, and move no data."""

import operator
from collections.abc import Sequence

from pto import _core
from pto.errors import InvalidIndex, InvalidType
from pto.language.location import describe, fail
from pto.language.operation import method
from pto.language.tensor import Tensor


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


def _sizes(name: str, shape: tuple) -> list:
    """The sizes that were given, one by one or as one sequence; each an integer or a Dim."""
    given = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    for size in given:
        whole = isinstance(size, int | _core.Dim) and not isinstance(size, bool)
        if not whole or (isinstance(size, int) and abs(size) >= 1 << 63):
            fail(
                f"{name}: a size is {describe(size)}",
                "sizes are integers of 64 bits, or sizes of traced tensors",
                f"pass such sizes, as in {name}(x, (x.shape[0], 1))",
                InvalidType,
            )
    return list(given)


def same_size(a: object, b: object) -> bool:
    """Says whether two sizes are the same number or expression."""
    if isinstance(a, _core.Dim):
        return a.same(b)
    return isinstance(b, int) and a == b


def _shaped(x: Tensor, shape: Sequence) -> Tensor:
    return Tensor(x.trace, x.trace.here().reshape(x.value, tuple(shape)))


@method("unsqueeze")
def unsqueeze(x: Tensor, dim: int) -> Tensor:
    """x with a new axis of size 1 before axis `dim`."""
    at = normal_axis(dim, x.ndim + 1, "unsqueeze")
    return _shaped(x, (*x.shape[:at], 1, *x.shape[at:]))


@method("squeeze")
def squeeze(x: Tensor, dim: int | tuple[int, ...] | None = None) -> Tensor:
    """x without these axes, or all axes, of size 1; other sizes stay, as in PyTorch."""
    dims = range(x.ndim) if dim is None else dim if isinstance(dim, tuple | list) else (dim,)
    gone = {normal_axis(axis, x.ndim, "squeeze") for axis in dims}
    keep = [n for axis, n in enumerate(x.shape) if axis not in gone or not same_size(n, 1)]
    return x if len(keep) == x.ndim else _shaped(x, keep)


@method("reshape", "view")
def reshape(x: Tensor, *shape: object) -> Tensor:
    """x with axes of size 1 put in or taken out; -1 stands for the one size left over."""
    sizes = _sizes("reshape", shape)
    old = [n for n in x.shape if not same_size(n, 1)]
    for place, n in enumerate(sizes):
        if same_size(n, -1):
            rest = [m for m in sizes[:place] + sizes[place + 1 :] if not same_size(m, 1)]
            left = [m for m in old if not any(same_size(m, r) for r in rest)]
            sizes[place] = left[0] if len(left) == 1 else 1
    new = [n for n in sizes if not same_size(n, 1)]
    if len(old) != len(new) or not all(map(same_size, old, new)):
        text = ", ".join(map(str, shape))
        fail(
            f"reshape: {list(x.shape)} does not become [{text.strip('()[]')}]",
            "inside a traced function reshape puts in or takes out axes of size 1",
            "reshape the argument before the call",
        )
    return _shaped(x, sizes)


@method("broadcast_to", "expand")
def broadcast_to(x: Tensor, *shape: object) -> Tensor:
    """x repeated along axes of size 1, and along new leading ones, up to `shape`."""
    sizes = tuple(_sizes("broadcast_to", shape))
    return Tensor(x.trace, x.trace.here().broadcast(x.value, sizes))


@method("expand_as")
def broadcast_like(x: Tensor, like: Tensor) -> Tensor:
    """x repeated up to the shape of `like`."""
    return broadcast_to(x, like.shape)


@method("__getitem__")
def index(x: Tensor, key: object) -> Tensor:
    """x[..., None]: None puts an axis of size 1 in, `:` and `...` keep axes."""
    keys = key if isinstance(key, tuple) else (key,)
    kept = sum(1 for k in keys if isinstance(k, slice) and k == slice(None))
    shape, axis = [], 0
    for k in keys:
        if k is None:
            shape.append(1)
        elif k is Ellipsis:
            stop = axis + x.ndim - kept
            shape += x.shape[axis:stop]
            axis = stop
        elif isinstance(k, slice) and k == slice(None) and axis < x.ndim:
            shape.append(x.shape[axis])
            axis += 1
        else:
            fail(
                f"the index {k!r}"[:60],
                "a traced tensor is indexed with None, : and ... only",
                "take the part before the call and pass it as an argument",
                InvalidIndex,
            )
    return _shaped(x, (*shape, *x.shape[axis:]))
