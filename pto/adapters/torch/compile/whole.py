# SPDX-License-Identifier: Apache-2.0
"""Overloads that stay one node of a graph, and one step of ATen, though PyTorch decomposes them.

    with kept_whole():                     # while PyTorch traces
        exported.run_decompositions(decompositions(of_export=True))

Resizing a picture, putting a border of reflections around it, or adding its patches decomposes into
reads and writes at computed positions; kernels of ATen run 1.5 to 30 times as fast as programs of
these, but for pixels that repeat whole times (resizes.py). So do those that shuffle pixels whose
channels lie innermost; programs, which are faster, shuffle other pixels. A border of the opposite
edges is joined of parts, where PyTorch writes one after the other into a new tensor. The
decompositions stand in the table of core ATen, and in Python kernels that the dispatcher asks
before it (torch.export overrides those in the same way). Thread safety: that of PyTorch's tracing,
which one thread does at a time.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from pto.adapters.torch.compile.rows import Kind, Out, row
from pto.formulas import NotExpressible
from torch._C import DispatchKey
from torch._decomp.decompositions import upsample_compute_output_size
from torch._prims_common import suggest_memory_format
from torch.fx.experimental.symbolic_shapes import statically_known_true

AT_OTHER_PLACES = "pixels at other places, which ATen reads faster"
_CHANNELS = ("channel_shuffle", "native_channel_shuffle")
_PIXELS = (torch.ops.aten.pixel_shuffle.default, torch.ops.aten.pixel_unshuffle.default)
_RESIZES = [name for name in dir(torch._C._nn) if name.startswith(("upsample_", "_upsample_"))]
_BORDERS = [f"{kind}_pad{axes}d" for kind in ("reflection", "replication") for axes in (1, 2, 3)]
_PICTURES = [*_RESIZES, *_BORDERS]
_NAMES = ("col2im", *_CHANNELS, *_PICTURES, *(f"{name}_backward" for name in _PICTURES))
_PACKETS = [getattr(torch.ops.aten, name) for name in _NAMES]
WHOLE = tuple(getattr(packet, name) for packet in _PACKETS for name in packet.overloads())
_KEEP_FORMAT = ("upsample_bilinear2d_backward", "upsample_trilinear3d_backward")  # of d
_DECOMPOSING = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)
_CIRCULAR = torch.ops.aten._pad_circular.default
# Its decomposition takes what stands behind a row's first -1 for class 0.
_WRONG = torch.ops.aten.multilabel_margin_loss_forward.default
_WINDOWS = torch.ops.aten.im2col.default  # pools.py joins parts, in the place of positions
_LEFT_WHOLE = (_WRONG, _WINDOWS)


def without_whole(table: dict) -> dict:
    """A table of decompositions that leaves these overloads whole."""
    kept = {one: decompose for one, decompose in table.items() if one not in (*WHOLE, *_LEFT_WHOLE)}
    return kept | {one: partial(_in_planes, table[one]) for one in _PIXELS}


def _in_planes(decompose: Callable, x: torch.Tensor, factor: int) -> Any:
    is_in_planes = suggest_memory_format(x) is torch.contiguous_format
    return decompose(x, factor) if is_in_planes else NotImplemented


@contextmanager
def kept_whole() -> Iterator[None]:
    """Lets PyTorch trace these overloads without its decompositions in Python."""
    before = {one: dict(one.py_kernels) for one in (*WHOLE, *_LEFT_WHOLE, _CIRCULAR)}
    for one in (*WHOLE, *_LEFT_WHOLE):
        for key in _DECOMPOSING:
            one.py_kernels.pop(key, None)
        one.py_kernels |= _kernels_for_symbols(one)
        one._dispatch_cache.clear()
    _CIRCULAR.py_kernels[DispatchKey.CompositeImplicitAutograd] = _circular
    _CIRCULAR._dispatch_cache.clear()
    try:
        yield
    finally:
        for one, kernels in before.items():
            one.py_kernels.clear()
            one.py_kernels |= kernels
            one._dispatch_cache.clear()


def _kernels_for_symbols(one: torch._ops.OpOverload) -> dict[DispatchKey, Callable]:
    """Python kernels in the places of those in C++ that take no symbols as sizes."""
    name, _, overload = one.name().removeprefix("aten::").partition(".")
    if overload == "vec":
        return dict.fromkeys(_DECOMPOSING, partial(_resized, one.overloadpacket.default))
    if name.endswith("_backward") and not overload and DispatchKey.Meta not in one.py_kernels:
        return {DispatchKey.Meta: partial(_gradient, name in _KEEP_FORMAT)}
    return {}


def _resized(resize: Callable, x: torch.Tensor, size: Any, *options: Any) -> torch.Tensor:
    *align_corners, factors = options
    size = upsample_compute_output_size(x.size(), size, factors)
    if statically_known_true(x.shape[0] == 0):  # PyTorch's kernels of shapes fail there
        return x.reshape(*x.shape[:2], *size)
    return resize(x, size, *align_corners, *(factors or ()))


def _gradient(
    keeps_format: bool, d: torch.Tensor, size: Any, input_size: Any, *options: Any
) -> torch.Tensor:
    found = d.new_empty(input_size)
    return found.to(memory_format=suggest_memory_format(d)) if keeps_format else found


def _circular(x: torch.Tensor, pads: Any) -> torch.Tensor:
    edges = list(zip(pads[::2], pads[1::2], strict=True))
    axes = range(x.ndim - 1, 1, -1)
    if len(edges) != len(axes) or any(
        not 0 <= count <= x.shape[axis] for axis, pair in zip(axes, edges, strict=True)
        for count in pair
    ):  # fmt: skip
        return _CIRCULAR._op_dk(DispatchKey.CompositeImplicitAutograd, x, pads)
    for axis, (front, behind) in zip(axes, edges, strict=True):
        parts = [x.narrow(axis, x.shape[axis] - front, front)] if front else []
        parts += [x, x.narrow(axis, 0, behind)] if behind else [x]
        x = torch.cat(parts, axis)
    return x.clone(memory_format=torch.contiguous_format)


@row(Kind.COPY, *(one.name().removeprefix("aten::") for one in (*WHOLE, *_PIXELS)))
def whole(out: Out, *args: Any, **options: Any) -> None:
    raise NotExpressible(AT_OTHER_PLACES)
