# SPDX-License-Identifier: Apache-2.0
"""Costs of programs of the tile language beside their bodies, each with its goal.

Time a task, compilation, default options against pto.tune, 64 simulated cores, and memory.
`PTO_TUNE_S=60` says for how long each program is tuned; 5 s without it.
"""

import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

import pto
from bench import language, language_layers
from pto.bench.peers import set_threads
from pto.bench.runner import Measurement, Setting
from pto.bench.timing import geometric_mean, interleave
from pto.config import config
from pto.language.recording import JOB, PART, Span, after_a_call, record, recordable
from pto.language.replay import Replay, iterations, makespan
from pto.language.tuned import form_of

TASKS, WIDTH, CORES, COLD, RUNS = 1000, 64, 64, 3, 5
CACHE = (32, 4, 8, 128)


@pto.jit
def tasks(x, out):
    for i in pto.loop(x.shape[0]):
        out[i] = x[i] * 2 + 1


@pto.jit
def at_once(x, out):
    out[:] = x * 2 + 1


@pto.jit
def leaf(x):
    return x * 2 + 1


def line(what: str, found: float, goal: float, unit: str, larger: bool = False) -> None:
    """Prints one figure beside its goal."""
    reached = found >= goal if larger else found <= goal
    word = "at least" if larger else "at most"
    mark = "reached" if reached else "MISSED "
    print(f"  {mark} {what}: {found:.3g} {unit}, goal {word} {goal:.3g}", flush=True)


def measured(name: str, functions: dict[str, Callable], rounds: int = 11) -> list[Measurement]:
    taken = interleave(functions, rounds)
    setting = Setting((1,), "f32", 1)
    return [Measurement.of(name, setting, one, samples.seconds, None)
            for one, samples in taken.items()]  # fmt: skip


def seconds(function: Callable) -> float:
    """The time of one call."""
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def launches() -> Iterator[Measurement]:
    """A task beside its body; a call of one kernel."""
    x, few = torch.randn(TASKS, WIDTH), torch.randn(16)
    out = torch.empty_like(x)
    tasks(x, out)
    torch.testing.assert_close(out, x * 2 + 1)
    found = measured("language_tasks", {"pto": lambda: tasks(x, out),
                                        "at once": lambda: at_once(x, out)})  # fmt: skip
    line("a task beside its body", (found[0].median_s - found[1].median_s) / TASKS * 1e9, 30, "ns")
    call = measured("language_call", {"pto": lambda: leaf(few), "torch": lambda: few * 2 + 1})
    ratio = call[0].median_s / call[1].median_s
    line(f"a call of one kernel, {call[0].median_s * 1e6:.2f} us, over PyTorch's two", ratio, 1, "")
    yield from (*found, *call)


def chain(x, operations: int, salt: float):
    """Six operations a round."""
    for _ in range(operations // 6):
        x = x + pto.tanh((x - pto.mean(x, -1, keepdim=True)) * salt)
    return x


def compilations() -> Iterator[Measurement]:
    """From the call to the result, with an empty folder of objects and with one that has it."""
    x, salts, before = torch.randn(8, 64), itertools.count(1), config.cache_dir
    with tempfile.TemporaryDirectory() as folder:
        places = map(str, itertools.count())

        def made(salt: float):
            pto.jit(chain, constants=("salt",))(x, operations, salt)

        def cold():
            config.cache_dir = str(Path(folder) / next(places))
            made(0.5 + next(salts) / 1024)

        for operations, goal in ((60, 0.6), (200, 1.2)):
            found = Measurement.of(f"language_compile_{operations}", Setting((1,), "f32", 1), "pto",
                                   [seconds(cold) for _ in range(COLD)], None)  # fmt: skip
            line(f"{operations} operations, cold", found.median_s, goal, "s")
            kernels = pto.jit(chain, constants=("salt",)).explain(x, operations, 0.5)
            line(f"their kernels, {operations}", len(kernels.steps_of("kernel")), 4, "")
            made(0.25)
            warm = measured(f"language_warm_{operations}", {"pto": lambda: made(0.25)})
            line(f"{operations} operations, from disk", warm[0].median_s * 1e3, 5, "ms")
            yield from (found, *warm)
    config.cache_dir = before


# --- the programs of the other cases -------------------------------------------------------------


def programs() -> Iterator[tuple[str, Callable, tuple, int]]:
    """Name, program and arguments; and the bytes that must live at once beside them, a thread."""
    lengths = torch.linspace(16, 4096, CACHE[0]).long()
    cache = language.Cache(CACHE, lengths, torch.float32)
    given = (cache.q, *cache.memory, cache.table, lengths, cache.out)
    queries, width = CACHE[2:]
    page = language.PAGE
    # maximum, sum, result and weights of each head of a page; scores of one
    head, scores = queries * (2 + width + page), queries * page
    yield "attention", language.attend, given, 4 * (CACHE[1] * head + scores)
    x, gamma = torch.randn(4096, 1024), torch.rand(language_layers.BLOCKS, 1024)
    yield "tower", language_layers.tower, (x, gamma), 0
    rows, depth, columns = 512, 4096, 4096
    w = torch.randint(-127, 128, (depth, columns), dtype=torch.int8)
    layer = (torch.randn(rows, depth).bfloat16(), w, torch.rand(columns))
    yield "quantised", language_layers.quantised, layer, rows * (depth + 4)


def memory() -> None:
    for name, program, args, least in programs():
        peak = program.explain(*args).memory.peak(1)
        line(f"{name}: peak of memory, bytes", float("inf") if peak is None else peak,
             1.1 * least, "")  # fmt: skip


def tuning() -> None:
    ratios, before = [], config.cache_dir
    budget_s = float(os.environ.get("PTO_TUNE_S", "5"))
    with tempfile.TemporaryDirectory() as folder:
        config.cache_dir = folder
        for name, program, args, _ in programs():
            found = pto.tune(program, *args, budget_s=budget_s)
            ratios.append(found.seconds / found.default_seconds)
            line(f"{name}: the best of pto.tune over the defaults", ratios[-1], 0.75, "", True)
    config.cache_dir = before
    line("the geometric mean", geometric_mean(ratios), 0.9, "", True)


def busy(program: Callable, args: tuple, cores: int) -> float:
    """The share of busy time on so many cores, by the times of a run here."""
    plan = recordable("simulate", program, args, {})
    made, values = after_a_call(program, args, {})
    found = record(plan, made, values)
    replay = Replay(found)

    def taken(span: Span) -> float:
        if span.kind != JOB:
            return span.ns + sum(taken(one) - one.ns for one in span.inside)
        pieces = [piece for part in replay.parts[id(span)]
                  for piece in (iterations(part) if part.kind == PART else [part])]  # fmt: skip
        return makespan((piece.ns for piece in pieces), cores)

    return replay.work(found.call) / (cores * taken(found.call))


def simulated() -> None:
    for name, program, args, _ in many_programs():
        sizes = {"workers": CORES, "tiles_per_task": 1}  # as many tasks as cores, on this machine
        form = form_of(program, chosen=sizes)
        share = max(busy(form, args, CORES) for _ in range(RUNS))  # others take cores from some
        line(f"{name}: busy on {CORES} simulated cores", share, 0.75, "", True)


def many_programs() -> Iterator[tuple[str, Callable, tuple, int]]:
    """The programs with work for many cores: 4096 rows of the layer, and 64 sequences."""
    _, tower, quantised = programs()
    yield tower
    name, program, (x, *others), _ = quantised
    yield name, program, (x.repeat(8, 1), *others), 0
    lengths = torch.linspace(16, 16384, 64).long()
    cache = language.Cache((64, *CACHE[1:]), lengths, torch.float32)
    given = (cache.q, *cache.memory, cache.table, lengths, cache.out)
    yield "attention", language.attend, given, 0


def run() -> list[Measurement]:
    """Measures and prints one after another."""
    set_threads(1)
    found = [*launches(), *compilations()]
    memory()
    simulated()
    tuning()
    return found
