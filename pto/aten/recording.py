# SPDX-License-Identifier: Apache-2.0
"""Who ran each call, who refused it and why, and what failed.

    with pto.aten.enable(), pto.aten.record() as seen:
        model(batch)
    print(seen)          # calls of each kind, the most frequent first
    seen.calls           # Counter({Call("exp", "0 tile", (), ""): 12})

It sees calls of pto.aten, and in pto.aten.enable() those of PyTorch for which there is a row that
may take them: tensors that lie in another order, or are of several types, go by unseen. Calls are
slower meanwhile: none skips what an earlier one did. Thread safety: a recording sees the calls of
its own thread, but for those of PyTorch that follow what another thread's equal call has planned
meanwhile.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pto.aten.binding import Bound
from pto.aten.implementations import (
    ATEN,
    Implementation,
    Observer,
    implementations,
    observed,
)


@dataclass(frozen=True)
class Call:
    """A kind of call: `ran` is the implementation, as "0 tile".

    `refused` has those before it, with their reasons; `failed` is the text of its error, or "".
    """

    overload: str
    ran: str
    refused: tuple[tuple[str, str], ...]
    failed: str


@dataclass
class Recording(Observer):
    """`calls` counts the calls of each kind; printed, it is a table of them."""

    calls: Counter[Call] = field(default_factory=Counter)

    def run(self, one: Implementation, bound: Bound, like: Any) -> Any:
        """Runs the implementation, and counts the call."""
        refused = _refused(bound, one)  # asked before the call changes what it writes
        try:
            made = super().run(one, bound, like)
        except Exception as error:
            failed = str(error).partition("\n")[0] or type(error).__name__
            self.calls[Call(bound.record.full_name, repr(one), refused, failed)] += 1
            raise
        self.calls[Call(bound.record.full_name, repr(one), refused, "")] += 1
        return made

    def left(self, bound: Bound) -> None:
        """Counts a call of PyTorch that goes to its kernel."""
        super().left(bound)
        aten = implementations(bound.record)[-1]
        self.calls[Call(bound.record.full_name, repr(aten), _refused(bound, aten), "")] += 1

    def __str__(self) -> str:
        lines = []
        for call, count in self.calls.most_common():
            lines.append(f"{count:7} {call.overload:28} {call.ran}")
            lines += [f"{'':8}not {who}: {why}" for who, why in call.refused]
            lines += [f"{'':8}failed: {call.failed}"] * bool(call.failed)
        ours = sum(n for call, n in self.calls.items() if call.ran != f"{ATEN} aten")
        return "\n".join([*lines, f"{ours} of {self.calls.total()} calls ran on our kernels"])


def _refused(bound: Bound, ran: Implementation) -> tuple[tuple[str, str], ...]:
    """The implementations before the one that runs a call, and why they do not."""
    before = (one for one in implementations(bound.record) if one.slot < ran.slot)
    return tuple((repr(o), o.reason(bound) or "another slot was asked for") for o in before)


@contextmanager
def record() -> Iterator[Recording]:
    """Records the calls of the block, see the head of this file."""
    seen = Recording()
    with observed(seen):
        yield seen
