# SPDX-License-Identifier: Apache-2.0
"""Pages of caches for sequences of equal length, as the operators of pto.models take them."""

import copy
from collections.abc import Mapping

import torch

PAGE = 128  # rows


class Pages:
    """Caches of `sequences`, each with room for `most` tokens; `tokens` of them are there.

    Pages are shuffled, as they are in a server after a while.
    """

    def __init__(
        self,
        sequences: int,
        most: int,
        rows: Mapping[str, tuple[int, ...]],
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        """rows: the shape of a token's row in each cache, by name."""
        columns = -(-most // PAGE)
        self.table = torch.randperm(sequences * columns).view(sequences, columns).int()
        self.caches = {
            name: torch.zeros(sequences * columns, PAGE, *shape, dtype=dtype)
            for name, shape in rows.items()
        }
        self.tokens = 0

    def slots(self, first: int, count: int) -> torch.Tensor:
        """i64 [sequences, count]: where tokens from `first` on lie."""
        places = torch.arange(first, first + count)
        return self.table[:, places // PAGE].long() * PAGE + places % PAGE

    def next(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(slots, lengths) of so many more tokens of each sequence."""
        slots = self.slots(self.tokens, count)
        self.tokens += count
        return slots, torch.full((len(self.table),), self.tokens, dtype=torch.int32)

    def write(self, name: str, rows: torch.Tensor) -> None:
        """Puts rows [sequences, count, ...] to the first tokens of a cache."""
        cache = self.caches[name].flatten(0, 1)
        slots = self.slots(0, rows.shape[1])
        cache[slots.flatten()] = rows.reshape(-1, *cache.shape[1:]).to(cache.dtype)

    def fill(self, count: int) -> None:
        """Random rows for so many tokens."""
        for name, cache in self.caches.items():
            self.write(name, torch.randn(len(self.table), count, *cache.shape[2:]))
        self.tokens = count

    def read(self, name: str) -> torch.Tensor:
        """The rows [sequences, tokens, ...] that are there."""
        return self.caches[name].flatten(0, 1)[self.slots(0, self.tokens)]

    def clone(self) -> "Pages":
        other = copy.copy(self)
        other.caches = {name: cache.clone() for name, cache in self.caches.items()}
        return other
