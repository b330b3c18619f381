# SPDX-License-Identifier: Apache-2.0
"""Adds to the trace of a recorded call what the studio shows of its program: studio/document.py.

Thread safety: pure functions.
"""

import json
import linecache
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pto.language.rooflines import copy_rate, peak

if TYPE_CHECKING:
    from pto.language.explanation import Explanation
    from pto.language.recording import Recorded
    from pto.language.report import ProgramReport

_FAR, _NEAR = 64 << 20, 64 << 10  # bytes of the working sets whose bandwidth a roofline shows


def texts(name: str, found: "Explanation") -> dict[str, Any]:
    """Stages, C++ and sources of a program."""
    files = {line.rpartition(":")[0] for step in found.every_step() for line in step.lines}
    sources = {file: "".join(linecache.getlines(file)) for file in sorted(files)}
    return {
        "name": name,
        "stages": list(found.levels.items()),
        "cpp": [["C++", found.cpp]] if found.cpp else [],
        "sources": {file: text for file, text in sources.items() if text},
    }


def trace_of(found: "Recorded", report: "ProgramReport") -> dict[str, Any]:
    """The JSON of the trace of a call, with all that its report knows."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        found.write(str(path))
        trace = json.loads(path.read_text())
    taken: Counter[int] = Counter()
    for value in found.plan.memory.values:
        taken[value.step] += value.bytes or 0
    trace["otherData"]["program"] |= {
        "statements": [
            {
                "title": one.step.title,
                "lines": one.step.lines,
                "symbol": one.step.name if one.step.kind == "kernel" else "",
                "calls": one.calls,
                "total_s": one.total_s,
                "share": one.share,
                "bytes": one.bytes,
                "operations": one.operations,
                "limit_s": one.roofline_s,
                "taken_bytes": taken[one.step.number],
            }
            for one in report.statements
        ],
        "rates": {
            "operations": peak("f32", found.threads),
            "bytes": copy_rate(_FAR, found.threads),
            "near_bytes": copy_rate(_NEAR, found.threads),
        },
    }
    return trace
