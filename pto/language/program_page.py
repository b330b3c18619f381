# SPDX-License-Identifier: Apache-2.0
"""Gathers what the studio shows of programs, for traces and packages: studio/document.py says how.

    trace = trace_of(recorded, report)            # the JSON of the trace of a call
    packed = packed_texts(name, graph, strides, target)   # for the header of a package
    unpacked(packed)["stages"]

Thread safety: pure functions.
"""

import base64
import json
import linecache
import math
import tempfile
import zlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pto import _core
from pto.language.plan import Plan, Step
from pto.language.rooflines import copy_rate, peak, read_rate

if TYPE_CHECKING:
    from pto.language.explanation import Explanation
    from pto.language.recording import Recorded
    from pto.language.report import ProgramReport

TEXTS_MAX = 64 << 20  # bytes of one program's texts
_FAR = 64 << 20  # bytes of the working set whose bandwidth is that of the memory


def texts(name: str, found: "Explanation") -> dict[str, Any]:
    """Stages, C++, sources and statements of a program."""
    return _texts(name, found.levels, found.cpp, list(found.every_step()))


def _texts(name: str, stages: dict[str, str], cpp: str, steps: list[Step]) -> dict[str, Any]:
    files = {line.rpartition(":")[0] for step in steps for line in step.lines}
    sources = {file: "".join(linecache.getlines(file)) for file in sorted(files)}
    return {
        "name": name,
        "stages": list(stages.items()),
        "cpp": [["C++", cpp]] if cpp else [],
        "sources": {file: text for file, text in sources.items() if text},
        "statements": [_statement(step) for step in steps if not step.is_quiet],
    }


def _statement(step: Step) -> dict[str, Any]:
    symbol = step.name if step.kind == "kernel" else ""
    return {"title": step.title, "step": step.number, "lines": list(step.lines), "symbol": symbol}


def packed_texts(name: str, graph: _core.Graph, strides: list[int], target: str) -> str:
    """The same of a graph that is compiled for a target: compressed, in base64."""
    stages: dict[str, str] = {}
    found = _core.explain(graph, lambda stage, text: stages.update({stage: text.rstrip()}), strides,
                          target=target)  # fmt: skip
    cpp = stages.pop("C++", "")
    plan = Plan(found, {}, [about[0] for about in graph.inputs if not about[3]])
    steps = [one for top in plan.steps for one in top.all()]
    return packed(name, stages, cpp, steps)


def packed(name: str, stages: dict[str, str], cpp: str, steps: list[Step]) -> str:
    made = json.dumps(_texts(name, stages, cpp, steps))
    return base64.b64encode(zlib.compress(made.encode(), 9)).decode()


def unpacked(packed: str) -> dict[str, Any]:
    """Reads what packed_texts() made; raises ValueError for other texts, and for many megabytes."""
    try:
        reader = zlib.decompressobj()
        made = reader.decompress(base64.b64decode(packed, validate=True), TEXTS_MAX)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    return json.loads(made)


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
                **_statement(one.step),
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
        "rates": rates(found, report),
    }
    return trace


def rates(found: "Recorded", report: "ProgramReport") -> dict[str, float]:
    """The roofs: no statement's own roofline is above those in a cache."""
    threads = found.threads
    sizes = [_FAR, *(one.bytes for one in report.statements if one.bytes)]
    graphs = found.plan.graphs
    operands = [(one.step.block, v) for one in report.of("product")
                for v in graphs[one.step.block][one.step.value]["operands"]]  # fmt: skip
    kinds = {"f32", *(graphs[block][v]["type"][0] for block, v in operands)}
    return {
        "operations": max(filter(math.isfinite, (peak(kind, threads) for kind in kinds))),
        "bytes": copy_rate(_FAR, threads),
        "near_bytes": max(rate(size, threads) for size in sizes for rate in (copy_rate, read_rate)),
    }
