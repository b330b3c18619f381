# SPDX-License-Identifier: Apache-2.0
"""Measures a call inside MindSpore on 16 elements, and a fused operator on a million.

`pto_custom` goes through ops.Custom, as where `python -m pto adapters build mindspore` did not run;
`pto_built` through what that builds; `bare_custom` is an ops.Custom of three lines, the least
that the first way can cost. It waits for MindSpore's queue to get Python's lock, for longer the
busier the machine is; in `call_mindspore_sync` MindSpore runs calls at once. MindSpore wants a
NumPy of its own, hence an environment and a process of its own, which runs calls_mindspore.py.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

from bench import report
from bench.fused import FASTER
from pto.bench.runner import Goal, Measurement, Outcome, Setting

ROOT = Path(__file__).resolve().parents[1]
OWN = ROOT / ".venv-mindspore/bin/python"  # made by ./dev test
GOALS = (
    Goal("pto_custom", "ms_add", at_most=1.3),
    Goal("pto_custom", "bare_custom", at_most=1.15),
    Goal("pto_built", "ms_add", at_most=0.6),
    Goal("pto_custom", "ms_add_relu", at_most=round(1 / FASTER, 2)),
    Goal("pto_built", "ms_add_relu", at_most=round(1 / FASTER, 2)),
)


def interpreter() -> str | None:
    """A Python that has MindSpore."""
    if importlib.util.find_spec("mindspore"):
        return sys.executable
    return str(OWN) if OWN.exists() else None


def outcomes(lines: str) -> list[Outcome]:
    """The results of calls_mindspore.py by case, with the goal of each."""
    found: dict[str, Outcome] = {}
    for line in map(json.loads, filter(None, lines.splitlines())):
        setting = Setting(tuple(line["size"]), "f32", 0)
        record = Measurement.of(line["case"], setting, line["contender"], line["seconds"], None)
        found.setdefault(record.case, Outcome()).records.append(record)
    for outcome in found.values():
        outcome.goals = [g for g in GOALS if {g.ours, g.theirs} <= outcome.seconds().keys()]
    return list(found.values())


def run() -> list[Measurement]:
    """Records of both cases, printed; none where there is no MindSpore."""
    python = interpreter()
    if python is None:
        print(f"mindspore: skipped, since there is no MindSpore: neither here nor in {OWN}")
        return []
    path = os.pathsep.join([str(Path(python).parent), os.environ.get("PATH", "")])
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "GLOG_v": "3"}
    command = [python, "-m", "bench.calls_mindspore"]
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, check=True)
    found = outcomes(done.stdout.decode())
    for outcome in found:
        print("\n".join(report.plain(outcome)), flush=True)
        if "pto_built" not in outcome.seconds():
            print("  pto_built was not measured: python -m pto adapters build mindspore")
    return [record for outcome in found for record in outcome.records]
