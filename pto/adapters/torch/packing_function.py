# SPDX-License-Identifier: Apache-2.0
"""Operators of a packaged model that read its weights packed.

    own = {id(one) for about, one in weights if is_packed(about, one)}
    run = PackingFunction(linear, pack_weight, own, 1, "weight", "packed")
    run(x, weight)                       # linear(x, weight, packed=pack_weight(weight))

Thread safety: any thread may call; two that meet may pack a weight twice.
"""

import weakref
from typing import Any

import torch
from pto import _core
from pto.language.package import PackagedFunction


def is_packed(about: dict[str, Any], weight: torch.Tensor) -> bool:
    """Whether operators take an input packed: a weight that is a matrix and that nobody writes. A
    large one of f32 is worth it for many rows alone (operators/weights.cpp), and none of f64 is
    packed."""
    if "weight" not in about or "written" in about or weight.ndim != 2:
        return False
    is_large = weight.dtype == torch.float32 and weight.numel() > 1 << 20
    return not is_large and weight.dtype != torch.float64


class PackingFunction:
    """A packaged operator that takes weights of its model packed, from the first call on: those
    whose identities are in `own`."""

    def __init__(self, function: PackagedFunction, packer: PackagedFunction, own: set[int],
                 place: int, weight: str, packed: str):  # fmt: skip
        self.function, self.packer, self.own = function, packer, own
        self.place, self.weight, self.packed = place, weight, packed
        self._copies: dict[tuple[int, str], torch.Tensor] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        weight = args[self.place] if self.place < len(args) else kwargs[self.weight]
        if id(weight) in self.own:
            kwargs[self.packed] = self._copy_of(weight)
        return self.function(*args, **kwargs)

    def _copy_of(self, weight: torch.Tensor) -> torch.Tensor:
        key = id(weight), _core.matmul_precision()
        if (copy := self._copies.get(key)) is None:
            copy = self._copies[key] = self.packer(weight)
            _core.count_packed_weight(copy.nbytes)
            weakref.finalize(copy, _core.count_packed_weight, -copy.nbytes).atexit = False
        return copy
