# SPDX-License-Identifier: Apache-2.0
"""Tracing: which runs of a runtime are traced, where to, and the trace of the last one.

    tracing.set("t.json", 3)

Levels: 0 counts calls; 1 keeps a record of each task; 2 also the cost of each submission; 3 also
each edge and its reason, which the critical path and all simulations need.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pto.errors import Failure, InvalidType, InvalidValue
from pto.tasks.origin import Origin, joined
from pto.tasks.report import TraceReport, report_of

LEVELS = range(4)


@dataclass(frozen=True)
class TraceRequest:
    """The trace that one run writes: its path, and its level; -1 for none."""

    path: str = ""
    level: int = -1


class Tracing:
    """The tracing of one runtime; any thread may use it."""

    def __init__(self) -> None:
        self._request = TraceRequest()
        # Program, _core.ChipTrace, or None if the run failed, and path.
        self._last: tuple[str, Any, str] | None = None
        self._origins: dict[str, Origin] = {}  # of each program
        self.files: set[str] = set()  # of the Python that submits tasks

    def set(self, path: str | os.PathLike | None, level: int) -> None:
        if type(level) is not int or level not in LEVELS:
            raise InvalidValue(
                f"trace: level is {level!r}",
                "level 0 counts, 1 records tasks, 2 also submissions, 3 also edges",
                "pass a number from 0 to 3",
            )
        name = os.fspath(path) if isinstance(path, os.PathLike) else path
        if name is not None and not (isinstance(name, str) and name and "\0" not in name):
            raise (InvalidValue if isinstance(name, str) else InvalidType)(
                f"trace: the path is {path!r:.60}, of type {type(path).__name__}",
                "each run writes its trace to a file",
                "pass its path, a str or a Path, without a NUL; None ends tracing",
            )
        self._request = TraceRequest() if name is None else TraceRequest(name, level)

    def add_program(self, name: str, origins: Iterable[Origin]) -> None:
        """Notes the C++ of a program, which replaces one of the same name."""
        self._origins[name] = joined(origins)

    def request(self) -> TraceRequest:
        """The request for a run that begins now."""
        return self._request

    def keep(self, name: str, run: Callable[[], dict], request: TraceRequest) -> dict[str, Any]:
        """Runs a program with this request, and takes the trace out of what it reports."""
        trace = None
        try:
            counts = run()
            trace = counts.pop("trace", None)
        finally:
            if request.level >= 0:
                self._last = name, trace, request.path
        return counts

    def report(self) -> TraceReport:
        name, trace, path = self._last or ("", None, "")
        if trace is None:
            what, fix = "no run of this runtime was traced", "call trace(path) before run()"
            if self._last is not None:
                what = f"the last traced run, of {name!r}, failed"
                fix = (
                    f"mend the cause; python -m pto studio {path} shows what ran, if it got so far"
                )
            raise Failure(what, "a report describes a whole run", fix)
        folders = tuple(sorted({Path(file).parent for file in self.files}))
        return report_of(name, trace, path, self._origins.get(name, Origin()), folders)
