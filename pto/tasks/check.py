# SPDX-License-Identifier: Apache-2.0
"""CheckReport: mistakes of a program that one order of its tasks hides and another shows.

    report = rt.check("attention", args)      # runs it, one task after another
    assert report.is_clean, report

Races: two tasks touch common bytes, one of them writes, and no path of edges orders them; only
no_dep and manual submissions can cause one. Writes: a task changed bytes that it did not declare.
Surplus: an explicit `after` that nothing needs. Not seen: a write that leaves the old value, and an
undeclared read.
"""

from dataclasses import dataclass
from typing import Any

from pto.cells import ShownAsText
from pto.errors import Failure

_VERBS = ("reads", "writes", "reads and writes", "reduces into")
_KINDS = (
    "a tensor that it declared as input or no_dep",
    "beside its declared tensors",
    "memory that is none of its arguments",
    "beyond the end of the memory",
)
_SHOWN = 20  # faults in the text


@dataclass(frozen=True)
class TaskName:
    """A task of a program; id 0 is the orchestration itself. `site`: "file:line"."""

    id: int
    kernel: str
    site: str

    def __str__(self) -> str:
        if self.id == 0:
            return "the orchestration"
        return f"task {self.id} ({self.kernel}){f' at {self.site}' if self.site else ''}"


@dataclass(frozen=True)
class ByteRange:
    """`count` of the bytes from `begin` to before `end`; memory: "argument 0", "tensor 1"."""

    memory: str
    begin: int
    end: int
    count: int

    def __str__(self) -> str:
        return f"{self.count} bytes of {self.memory}, from {self.begin} to {self.end - 1}"


@dataclass(frozen=True)
class Race:
    """Two tasks that no path orders; accesses as "reads", "writes", ..."""

    first: TaskName
    second: TaskName
    first_access: str
    second_access: str
    bytes: ByteRange

    def __str__(self) -> str:
        return (
            f"race: {self.first} {self.first_access} and {self.second} {self.second_access} "
            f"{self.bytes}; no path of edges orders them"
        )


@dataclass(frozen=True)
class UndeclaredWrite:
    """A task that changed bytes it did not declare to write."""

    task: TaskName
    where: str
    bytes: ByteRange

    def __str__(self) -> str:
        return f"write: {self.task} changed {self.where}: {self.bytes}"


@dataclass(frozen=True)
class SurplusEdge:
    """An explicit edge that nothing needs."""

    first: TaskName
    second: TaskName
    is_implied: bool

    def __str__(self) -> str:
        why = "other edges order them" if self.is_implied else "nothing that they touch needs it"
        return f"surplus: {self.second} is told to follow {self.first}, but {why}"


@dataclass(frozen=True)
class CheckReport(ShownAsText):
    """The mistakes of one program on one set of arguments.

    `unexamined` counts edges that would have taken too long to check.
    """

    program: str
    tasks: int
    edges: int
    races: tuple[Race, ...]
    writes: tuple[UndeclaredWrite, ...]
    surplus: tuple[SurplusEdge, ...]
    unexamined: int

    @property
    def is_clean(self) -> bool:
        """Says whether there is neither a race nor a write; surplus edges only cost time."""
        return not self.races and not self.writes

    def __str__(self) -> str:
        found = [*self.races, *self.writes, *self.surplus]
        head = (
            f"{self.program}: {self.tasks} tasks, {self.edges} edges: {len(self.races)} races, "
            f"{len(self.writes)} undeclared writes, {len(self.surplus)} surplus edges"
        )
        lines = [head, *(f"  {one}" for one in found[:_SHOWN])]
        if len(found) > _SHOWN:
            lines.append(f"  and {len(found) - _SHOWN} more")
        if self.unexamined:
            lines.append(f"  {self.unexamined} explicit edges were not examined")
        return "\n".join(lines)

    def raise_faults(self) -> None:
        """Raises the first race or write."""
        if self.is_clean:
            return
        first = [*self.races, *self.writes][0]
        more = len(self.races) + len(self.writes) - 1
        raise Failure(
            f"{self.program}: {first}",
            f"in another order of its tasks the result may differ; {more} more such faults"
            if more else "in another order of its tasks the result may differ",
            "add the edge with after, or track and declare what the task touches",
        )  # fmt: skip


def checked(program: str, found: dict[str, Any]) -> CheckReport:
    """The report of the result of _core.check_chip()."""
    races = (
        Race(TaskName(*a), TaskName(*b), _VERBS[first], _VERBS[second], ByteRange(*shared))
        for a, b, first, second, shared in found["races"]
    )
    writes = (
        UndeclaredWrite(TaskName(*task), _KINDS[kind], ByteRange(*changed))
        for task, kind, changed in found["writes"]
    )
    surplus = (
        SurplusEdge(TaskName(*a), TaskName(*b), implied) for a, b, implied in found["surplus"]
    )
    return CheckReport(
        program, found["tasks"], found["edges"], tuple(races), tuple(writes), tuple(surplus),
        found["unexamined"],
    )  # fmt: skip
