# SPDX-License-Identifier: Apache-2.0
"""Nodes in groups, each of which runs as a whole.

    parts = Partition(fits=lambda nodes: len(nodes) <= 48)
    for node in nodes:                                   # producers before their readers
        parts.add(node, reads=node.inputs, makes=node.outputs, fuses=is_served(node))
    for nodes in parts.groups(): ...                     # in an order in which they can run

A node that fuses joins the groups that compute what it reads, as long as that makes no cycle: a
group runs as a whole, so nothing may lie on a path from one of its nodes to another.
"""

import heapq
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

Node = TypeVar("Node")


class Partition(Generic[Node]):
    """Nodes in groups. `above` are, as bits, all groups on which a group depends."""

    def __init__(self, fits: Callable[[list[Node]], bool]) -> None:
        self.fits = fits  # says whether nodes, in order, may be one group
        self.members: dict[int, list[Node]] = {}
        self.above: dict[int, int] = {}
        self.fuses: dict[int, bool] = {}
        self.home: dict[Hashable, int] = {}  # the group that makes a value
        self.order: dict[int, int] = {}  # id() of a node: when it was added

    def add(
        self, node: Node, reads: Iterable[Hashable], makes: Iterable[Hashable], fuses: bool
    ) -> None:
        """Puts a node, whose producers were added before, into a group."""
        own = len(self.above)
        self.order[id(node)] = own
        needed = [self.home[value] for value in reads if value in self.home]
        self.members[own], self.fuses[own] = [node], fuses
        self.above[own] = 0
        for group in needed:
            self.above[own] |= self.above[group] | 1 << group
        for value in makes:
            self.home[value] = own
        if fuses:
            for group in sorted(set(needed), reverse=True):
                if self._may_join(group, own):
                    own = self._join(group, own)

    def close(self) -> None:
        """Lets no later node join a group that exists."""
        self.fuses = dict.fromkeys(self.fuses, False)

    def groups(self) -> list[list[Node]]:
        """The groups, each behind those that it reads of; its nodes in the order they came."""
        waiting = {group: set() for group in self.members}
        for group in self.members:
            waiting[group] = {one for one in _bits(self.above[group]) if one in self.members}
        readers: dict[int, list[int]] = {group: [] for group in self.members}
        for group, above in waiting.items():
            for one in above:
                readers[one].append(group)
        last = {g: max(self.order[id(n)] for n in nodes) for g, nodes in self.members.items()}
        ready = [(last[group], group) for group, above in waiting.items() if not above]
        heapq.heapify(ready)
        found = []
        while ready:
            _, group = heapq.heappop(ready)
            found.append(sorted(self.members[group], key=lambda node: self.order[id(node)]))
            for reader in readers[group]:
                waiting[reader].discard(group)
                if not waiting[reader]:
                    heapq.heappush(ready, (last[reader], reader))
        assert len(found) == len(self.members), "groups never depend on each other in a circle"
        return found

    def _may_join(self, group: int, other: int) -> bool:
        """Says whether `other`, which reads of `group`, may become part of it."""
        if group not in self.members or not self.fuses[group] or group == other:
            return False
        between = self.above[other] & ~self.above[group] & ~(1 << group)
        for middle in _bits(between):
            if middle in self.members and self.above[middle] >> group & 1:
                return False
        return self.fits(self.members[group] + self.members[other])

    def _join(self, group: int, other: int) -> int:
        """Makes `other` part of `group`, the older one, and returns that."""
        self.members[group] += self.members.pop(other)
        joined = (self.above[group] | self.above[other]) & ~(1 << group | 1 << other)
        self.above[group] = joined
        for name, home in self.home.items():
            if home == other:
                self.home[name] = group
        for name, above in self.above.items():
            if above >> group & 1 or above >> other & 1:
                self.above[name] = above | joined | 1 << group
        return group


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest
