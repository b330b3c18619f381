# SPDX-License-Identifier: Apache-2.0
"""./dev bench [CASE...] [--size ROWSxCOLUMNS] [--threads N] [--json FILE] [--list]

`./dev bench gemm attention demo` prints the table of products, attention and the demo: each row
ends with "met" or what it missed, and the run with how many rows met their goals.
"""

import argparse
import functools
import importlib
import importlib.util
import json
import sys

import torch

from bench import (
    architectures,
    aten,
    aten_calls,
    aten_model,
    busy_core,
    calls,
    compile_first,
    compile_time,
    demo,
    demos,
    frameworks_mindspore,
    frameworks_npu,
    host_tasks,
    instructions,
    kernels,
    language_programs,
    matmul,
    onnx_models,
    product_goals,
    report,
    verdicts,
)
from bench import attention as attention  # registers cases
from bench import compile as compile_models
from bench import convolution as convolution
from bench import epilogues as epilogues
from bench import fused as fused
from bench import gemm as gemm
from bench import language as language
from bench import language_layers as language_layers
from bench import language_scan as language_scan
from bench import models as models
from bench import quantized as quantized
from bench import tasks as tasks
from bench import tiles as tiles
from pto.bench.command import check_writable
from pto.bench.peers import missing, set_threads
from pto.bench.runner import CASES, Outcome, Setting, measure
from pto.errors import Failure

if importlib.util.find_spec("jax"):
    importlib.import_module("bench.frameworks_jax")  # registers cases
if importlib.util.find_spec("tensorflow"):
    importlib.import_module("bench.frameworks_tensorflow")
if importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx"):
    importlib.import_module("bench.frameworks_onnxruntime")

# Benches that measure, and print, by themselves; each returns its records, or judged outcomes.
PROGRAMS = {
    "aten_calls": aten_calls.run,
    "aten_model": aten_model.run,
    "first_call": calls.first_calls,
    "busy_core": busy_core.run,
    "enqueue_npu": frameworks_npu.enqueue_npu,
    "mindspore": frameworks_mindspore.run,
    "compile_time": compile_time.run,
    "compile_architectures": architectures.run,
    "compile_first": compile_first.of_minilm,
    "compile_first_architectures": compile_first.of_architectures,
    "compile_tiny": compile_models.tiny_calls,
    "demo": demo.run,
    "demos": demos.run,
    "instructions": instructions.run,
    "matmul": matmul.run,
    "onnx_models": onnx_models.run,
    "tasks": tasks.run,
    "language_programs": language_programs.run,
    "host_tasks": host_tasks.run,
    "aten": aten.run,
}

SHARES = {
    **dict.fromkeys(("squares", "odd_shapes"), report.UNPACKED),
    **dict.fromkeys(("linear", "few_rows_unpacked"), report.PRODUCTS),
    **dict.fromkeys(("few_rows_f32", "few_rows_bf16"), report.FEW_ROWS),
    **dict.fromkeys(("linear_int8", "linear_int4"), report.QUANTISED),
    **{"half_products": report.HALVES, "byte_products": report.INTEGERS},
    **dict.fromkeys(("linear_gelu", "linear_layer_norm"), report.EPILOGUES),
    **{"scaled_matmul": report.BYTES, "conv2d": report.CONVOLUTIONS},
}
PRODUCTS, ATTENTION = list(SHARES), ["not_causal", "causal", "not_causal_bf16", "causal_bf16"]
ATTENTION += ["gradients", "causal_gradients"]
SHARES |= dict.fromkeys(ATTENTION, report.ATTENTION) | {"decode": report.DECODE}
GROUPS = {
    "gemm": PRODUCTS,
    "few_rows": [name for name in PRODUCTS if name.startswith("few_rows")],
    "attention": [*ATTENTION, "decode"],
    "models": [name for name, one in CASES.items() if one.contenders.__module__ == models.__name__],
    "language": [*(name for name in CASES if name.startswith("language_")), "language_programs"],
}
SHARES |= dict.fromkeys(GROUPS["models"], report.MODELS)
ROWS = {name: table.row for name, table in SHARES.items()}
CEILING_WIDTH = 28  # of its name, which ends a row before the verdict
TABLE = {kernel.name for kernel in kernels.KERNELS} | {f"{k.name}_half" for k in kernels.KERNELS}
ROWS |= dict.fromkeys(TABLE, report.row)


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__.partition("\n")[0])
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
    settings = [one for name in chosen.case if name in CASES for one in CASES[name].settings()]
    has_program = any(name in PROGRAMS for name in chosen.case)
    if settings and not has_program and not any(wanted(one, chosen) for one in settings):
        sizes = sorted({size_text(one) for one in settings})
        threads = sorted({one.threads for one in settings})
        parser.error(f"no setting has this --size and --threads; there are: {sizes}, {threads}")
    try:
        check_writable("--json", chosen.json)
    except Failure as error:
        parser.error(str(error))
    return chosen


def size_text(setting: Setting) -> str:
    return "x".join(map(str, setting.size))


def wanted(setting: Setting, chosen: argparse.Namespace) -> bool:
    return (not chosen.size or size_text(setting) in chosen.size) and (
        not chosen.threads or setting.threads in chosen.threads
    )


@functools.cache
def here() -> frozenset[str]:
    return product_goals.hardware()


def judged_row(outcome: Outcome) -> str:
    """The row of a case, which ends with whether it met its goals."""
    name = outcome.records[0].case
    row, said = ROWS[name](outcome), ""
    if outcome.goals or product_goals.lines_of(outcome):
        said = verdicts.verdict(outcome, product_goals.needed(outcome, here()))
        row = f"{row:<{len(SHARES[name].header) + CEILING_WIDTH}}"
    return f"{row}{said}".rstrip()


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
        outcome.goals = product_goals.goals(outcome, here())
        if outcome.records:
            has_row = name in ROWS and "pto" in outcome.seconds()  # a wrong one is not measured
            for line in [judged_row(outcome)] if has_row else report.plain(outcome):
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
        ),
        "demo": functools.partial(demo.run, lambda setting: wanted(setting, chosen)),
    }
    names = chosen.case or [*CASES, *PROGRAMS]
    if any(n in TABLE for n in names):
        print(f"{len(kernels.KERNELS)} kernels; a ratio is the other's time over ours\n")
        print(report.HEADER, flush=True)
    if not set(names).isdisjoint(PRODUCTS):
        print("\n".join(f"not on this machine: {one}" for one in missing(is_product=True)))
    header = None
    for name in names:
        if name in SHARES and SHARES[name].header != header:
            header = SHARES[name].header
            print(header, flush=True)
        if name in PROGRAMS:
            found = programs[name]()
            is_judged = bool(found) and isinstance(found[0], Outcome)
            outcomes += found if is_judged else [Outcome(found)]
        else:
            outcomes += run_case(name, chosen)
    print("\n" + "\n".join(report.summary(outcomes)))
    cases = {*names, *(["demo_mean"] if "demo" in names else [])}
    lines = verdicts.tally(outcomes, product_goals.reasons(cases, here()))
    print("\n".join(lines))
    if chosen.json:
        with open(chosen.json, "w", encoding="utf-8") as file:
            for line in (line for o in outcomes for line in o.lines()):
                file.write(json.dumps(line) + "\n")
    return int(any(o.wrong for o in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
