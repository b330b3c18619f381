# SPDX-License-Identifier: Apache-2.0
"""./dev bench [CASE...] [--size ROWSxCOLUMNS] [--threads N] [--json FILE] [--list]"""

import argparse
import functools
import importlib
import importlib.util
import json
import sys

import torch

from bench import (
    aten,
    aten_calls,
    busy_core,
    calls,
    compile_time,
    demos,
    frameworks_mindspore,
    frameworks_npu,
    host_tasks,
    instructions,
    kernels,
    language_programs,
    matmul,
    report,
)
from bench import attention as attention  # registers cases
from bench import compile as compile_models
from bench import convolution as convolution
from bench import fused as fused
from bench import gemm as gemm
from bench import language as language
from bench import language_layers as language_layers
from bench import language_scan as language_scan
from bench import models as models
from bench import quantized as quantized
from bench import tasks as tasks
from bench import tiles as tiles
from pto.bench.peers import set_threads
from pto.bench.runner import CASES, Outcome, Setting, measure

if importlib.util.find_spec("jax"):
    importlib.import_module("bench.frameworks_jax")  # registers cases
if importlib.util.find_spec("tensorflow"):
    importlib.import_module("bench.frameworks_tensorflow")
if importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx"):
    importlib.import_module("bench.frameworks_onnxruntime")

# Benches that measure, and print, by themselves; each returns its records.
PROGRAMS = {
    "aten_calls": aten_calls.run,
    "first_call": calls.first_calls,
    "busy_core": busy_core.run,
    "enqueue_npu": frameworks_npu.enqueue_npu,
    "mindspore": frameworks_mindspore.run,
    "compile_time": compile_time.run,
    "compile_first": compile_models.first_calls,
    "demos": demos.run,
    "instructions": instructions.run,
    "matmul": matmul.run,
    "tasks": tasks.run,
    "language_programs": language_programs.run,
    "host_tasks": host_tasks.run,
    "aten": aten.run,
}

SHARES = dict.fromkeys(("gemm", "few_rows", "linear"), report.PRODUCTS)
ATTENTION = ("attention", "causal", "gradients", "causal_gradients")
SHARES |= dict.fromkeys(("linear_int8", "linear_int4"), report.QUANTISED)
SHARES |= {"conv2d": report.CONVOLUTIONS, "scaled_matmul": report.BYTES}
SHARES |= dict.fromkeys(ATTENTION, report.ATTENTION) | {"decode": report.DECODE}
GROUPS = {
    "models": [name for name, one in CASES.items() if one.contenders.__module__ == models.__name__],
    "language": [*(name for name in CASES if name.startswith("language_")), "language_programs"],
}
SHARES |= dict.fromkeys(GROUPS["models"], report.MODELS)
ROWS = {name: table.row for name, table in SHARES.items()}
TABLE = {kernel.name for kernel in kernels.KERNELS} | {f"{k.name}_half" for k in kernels.KERNELS}
ROWS |= dict.fromkeys(TABLE, report.row)


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("case", nargs="*", help="names, see --list; all where none is given")
    parser.add_argument("--size", action="append", help="only this size, as in 4096x1024")
    parser.add_argument("--threads", type=int, action="append", help="only this many threads")
    parser.add_argument("--rounds", type=int, default=0, help="samples a contender, at least 10")
    parser.add_argument("--json", help="write one JSON line per measurement to this file")
    parser.add_argument("--row", action="append", help="aten: only this row, as add.Tensor")
    parser.add_argument("--kind", action="append", help="aten: only this type, as float32")
    parser.add_argument("--table", action="store_true", help="aten: write the table of what wins")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    chosen = parser.parse_args(argv)
    known = [*CASES, *PROGRAMS, *GROUPS]
    chosen.case = [one for name in chosen.case for one in GROUPS.get(name, (name,))]
    for name in chosen.case:
        if name not in known:
            parser.error(f"no case is named {name!r}; there are: {', '.join(known)}")
    if chosen.rounds and chosen.rounds < 10 and chosen.case != ["aten"]:
        parser.error(f"--rounds {chosen.rounds}: a median of fewer than 10 samples says little")
    return chosen


def wanted(setting: Setting, chosen: argparse.Namespace) -> bool:
    size = "x".join(map(str, setting.size))
    return (not chosen.size or size in chosen.size) and (
        not chosen.threads or setting.threads in chosen.threads
    )


def run_case(name: str, chosen: argparse.Namespace) -> list[Outcome]:
    """All settings of one case that the command line asks for, printed as they come."""
    outcomes = []
    for setting in CASES[name].settings():
        if not wanted(setting, chosen):
            continue
        set_threads(setting.threads)
        with torch.set_grad_enabled(name == "call_gradient"):
            outcome = measure(CASES[name], setting, chosen.rounds)
        torch._dynamo.reset()
        outcomes.append(outcome)
        if outcome.records:
            has_row = name in ROWS and "pto" in outcome.seconds()  # a wrong one is not measured
            for line in [ROWS[name](outcome)] if has_row else report.plain(outcome):
                print(line, flush=True)
        for line in outcome.wrong:
            print(f"WRONG: {line}", flush=True)
    return outcomes


def main(argv: list[str]) -> int:
    chosen = arguments(argv)
    if chosen.list:
        print("\n".join([*CASES, *PROGRAMS, *GROUPS]))
        return 0
    outcomes: list[Outcome] = []
    programs = PROGRAMS | {
        "aten": functools.partial(
            aten.run,
            chosen.row or (),
            chosen.rounds or 9,
            chosen.threads or (1,),
            chosen.kind or aten.KINDS,
            chosen.table,
        )
    }
    names = chosen.case or [*CASES, *PROGRAMS]
    if any(n in TABLE for n in names):
        print(f"{len(kernels.KERNELS)} kernels; a ratio is the other's time over ours\n")
        print(report.HEADER, flush=True)
    header = None
    for name in names:
        if name in SHARES and SHARES[name].header != header:
            header = SHARES[name].header
            print(header, flush=True)
        if name in PROGRAMS:
            outcomes.append(Outcome(programs[name]()))
        else:
            outcomes += run_case(name, chosen)
    print("\n" + "\n".join(report.summary(outcomes)))
    if chosen.json:
        with open(chosen.json, "w", encoding="utf-8") as file:
            for line in (line for o in outcomes for line in o.lines()):
                file.write(json.dumps(line) + "\n")
    return int(any(o.wrong for o in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
