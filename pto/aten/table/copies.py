# SPDX-License-Identifier: Apache-2.0
"""Rows of copies that join tensors, take a part of one, or repeat what stands at its border."""

from typing import Any

from pto import _core, ops
from pto import language as tile
from pto.aten.records import library
from pto.aten.rows import EVERY, FLOATS, NUMBERS, row
from pto.aten.table.sizes import no_axis
from pto.formulas import positions as f

_EXACT: dict[str, Any] = {"ulp": 0, "in_place": False}


def _two(tensor, rows, columns):
    return {"tensors": [tensor(rows, columns), tensor(rows, columns)]}


def _unless_equal(values):
    """Leaves to ATen, which says what is wrong, an empty list and tensors of several sizes."""
    shapes = {tuple(library().shape(one)) for one in values["tensors"]}
    return None if len(shapes) == 1 else "its tensors have several sizes"


def _unless_alike(values):
    """Leaves to ATen an empty list, and tensors of several ranks, of which it skips empty ones."""
    ranks = {len(library().shape(one)) for one in values["tensors"]}
    return None if len(ranks) == 1 and 0 not in ranks else "its tensors are of several ranks"


_JOIN: dict[str, Any] = {**_EXACT, "types": EVERY, "unless": _unless_equal, "sample": _two}


def _unless_stacked(values):
    if reason := _unless_equal(values):
        return reason
    rank, dim = len(library().shape(values["tensors"][0])) + 1, values.get("dim", 0)
    if rank > _core.MAX_RANK:
        return f"the result has more axes than {_core.MAX_RANK}"
    return None if -rank <= dim < rank else f"the result has {rank} axes, none of which is {dim}"


def _joined(tensors: Any, dim: int, out: Any) -> Any:
    if out is None:
        return ops.concat(tensors, dim=dim)
    flat = [library().as_numpy(one) for one in tensors]  # PyTorch's operator of lists has no `out`
    ops.concat(flat, dim=dim, out=library().as_numpy(out))
    return out


@row("cat", **{**_JOIN, "unless": _unless_alike,
     "sample": lambda t, m, n: {**_two(t, m, n), "dim": -1}})  # fmt: skip
def cat(tensors, dim=0, out=None):
    return _joined(tensors, dim, out)


@row("stack", **{**_JOIN, "unless": _unless_stacked})
def stack(tensors, dim=0, out=None):
    axis = dim % (len(library().shape(tensors[0])) + 1)
    place = (*[slice(None)] * axis, None)
    return _joined([one[place] for one in tensors], axis, out)


def _raised(tensors: Any, rank: int) -> list[Any]:
    """The tensors with leading axes of size 1 up to a rank."""
    return [one[(None,) * (rank - len(library().shape(one)))] for one in tensors]


@row("hstack", **_JOIN)
def hstack(tensors, out=None):
    flat = _raised(tensors, 1)
    return _joined(flat, min(1, len(library().shape(flat[0])) - 1), out)


@row("vstack", **_JOIN)
def vstack(tensors, out=None):
    return _joined(_raised(tensors, 2), 0, out)


def _deepened(tensors: Any, rank: int) -> list[Any]:
    """The tensors with leading axes up to a rank, and one behind where they have no more."""
    flat = _raised(tensors, rank)
    is_deep = len(library().shape(flat[0])) > rank
    return flat if is_deep else [one[..., None] for one in flat]


@row("dstack", **_JOIN)
def dstack(tensors, out=None):
    return _joined(_deepened(tensors, 2), 2, out)


@row("column_stack", **_JOIN)
def column_stack(tensors, out=None):
    return _joined(_deepened(tensors, 1), 1, out)


def _unless_inside(values):
    if reason := no_axis(values):
        return reason
    dim, start, length = (values[name] for name in ("dim", "start", "length"))
    size = library().shape(values["self"])[dim]
    is_inside = start >= 0 and length >= 0 and start + length <= size
    return None if is_inside else f"axis {dim} has {size} elements"


@row("narrow_copy", types=EVERY, **_EXACT, unless=_unless_inside,
     sample=lambda t, m, n: {"self": t(m, n), "dim": -1, "start": 1,
                             "length": n - 2})  # fmt: skip
def narrow_copy(self, dim, start, length):
    return tile.clone(f.part(self, dim % self.ndim, start, length))


@row("take", types=NUMBERS, **_EXACT, others={"index": ("int64",)},
     sample=lambda t, m, n: {"self": t(m, n),
                             "index": t(m, n, dtype="int64", high=m * n)})  # fmt: skip
def take(self, index):
    flat = tile.reshape(self, -1)
    return f.at(flat, [index])


def _pairs(padding: Any) -> list[tuple[int, int]]:
    return list(zip(padding[::2], padding[1::2], strict=True))


def _unless_bordered(axes: int, reflects: bool) -> Any:
    """Leaves to ATen other ranks, parts that are cut off, and borders that are wider than self."""

    def unless(values):  # type: ignore[no-untyped-def]
        shape, padding = library().shape(values["self"]), values["padding"]
        if len(shape) not in (axes + 1, axes + 2) or len(padding) != 2 * axes or 0 in shape:
            return "self has other axes than the padding, or no elements"
        wanted = list(shape)
        for axis, (front, behind) in enumerate(_pairs(padding), 1):
            if min(front, behind) < 0:
                return "it cuts elements off"
            if reflects and max(front, behind) >= shape[-axis]:
                return "the padding is not smaller than self"
            wanted[-axis] += front + behind
        d = values.get("grad_output")
        is_alike = d is None or list(library().shape(d)) == wanted
        return None if is_alike else "grad_output has other sizes than the result"

    return unless


def _border_sample(axes: int, is_backward: bool) -> Any:
    def sample(tensor, rows, columns):  # type: ignore[no-untyped-def]
        shape = (rows, *[2] * (axes - 1), columns // 2 ** (axes - 1))
        padding = [1, 2] + [0, 1] * (axes - 1)
        made = {"self": tensor(*shape), "padding": padding}
        if not is_backward:
            return made
        wider = [n + 1 for n in shape[1:-1]]
        return {"grad_output": tensor(rows, *wider, shape[-1] + 3), **made}

    return sample


def _border(axes: int, reflects: bool) -> None:
    """Puts the row of a pad over the last axes, and that of its gradient, into the table."""
    name = f"{'reflection' if reflects else 'replication'}_pad{axes}d"
    unless = _unless_bordered(axes, reflects)

    def pad(self, padding):  # type: ignore[no-untyped-def]
        return f.bordered(self, _pairs(padding), reflects)

    def backward(grad_output, self, padding):  # type: ignore[no-untyped-def]
        return f.without_border(grad_output, _pairs(padding), reflects)

    pad.__name__, backward.__name__ = name, f"{name}_backward"
    row(name, **_EXACT, unless=unless, sample=_border_sample(axes, False))(pad)
    row(f"{name}_backward", types=FLOATS, is_sum=True, ulp=8, in_place=False, unless=unless,
        sample=_border_sample(axes, True))(backward)  # fmt: skip


for _axes in (1, 2, 3):
    _border(_axes, True)
    _border(_axes, False)
