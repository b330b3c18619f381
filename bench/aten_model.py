# SPDX-License-Identifier: Apache-2.0
"""./dev bench aten_model: all-MiniLM-L6-v2 in f32, plain eager with and without pto.aten.enable().

At each size of the demo; the embeddings of both are compared before. A ratio is the time without
over the time with, both the lower quartiles of calls made in turn: what else runs on a shared
machine only adds. Each size has a process of its own, since pages that others left in the heap
change how many a call has to ask the system for. Each is a record of the bench.
"""

import subprocess
import sys
import time

import torch

import pto.aten
from bench.demo import LARGEST_DIFFERENCE, missing
from pto.bench.runner import Measurement, Setting
from pto.bench.timing import geometric_mean

CASE, BUDGET_S, CALLS_MIN = "aten_model", 8.0, 12
NAMES = ("eager", "enabled")


def run() -> list[Measurement]:
    """Measures and prints."""
    if missing():
        print(f"{CASE}: not measured: {' and '.join(missing())} not installed; ./dev demo does it")
        return []
    from examples.demo import measure

    if not _is_right():
        return []
    records, ratios = [], []
    for threads, batch, length in measure.FULL_ROWS:
        seconds = _in_a_process(threads, batch, length)
        setting = Setting((batch, length), "f32", threads)
        ratios.append(seconds["eager"] / seconds["enabled"])
        records += [Measurement.of(CASE, setting, n, [s], None) for n, s in seconds.items()]
        print(
            f"{CASE} {threads} threads {batch:>2} x {length:<3}"
            + "".join(f"{name:>10}{taken * 1e3:9.2f} ms" for name, taken in seconds.items())
            + f"{ratios[-1]:>8.3f}x",
            flush=True,
        )
    print(f"{CASE}: geometric mean {geometric_mean(ratios):.3f}x, least {min(ratios):.3f}x")
    return records


def _is_right() -> bool:
    """Compares the embeddings of all sentences."""
    from examples.demo.model import embed, load, read_sentences

    model, tokenizer = load()
    sentences = read_sentences()
    plain = embed(model, tokenizer, sentences)
    with pto.aten.enable():
        apart = float((embed(model, tokenizer, sentences) - plain).abs().max())
    right = apart <= LARGEST_DIFFERENCE
    print(f"{'' if right else 'WRONG: '}{CASE}: {len(plain)} embeddings differ by {apart:.1e}")
    return right


def _in_a_process(*size: int) -> dict[str, float]:
    """in_turn() in a process of its own."""
    command = [sys.executable, "-m", "bench.aten_model", *map(str, size)]
    made = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(zip(NAMES, map(float, made.stdout.split()[-2:]), strict=True))


def in_turn(threads: int, batch: int, length: int) -> dict[str, float]:
    """The seconds of a call, plain and under enable(): the lower quartile of each."""
    from examples.demo.model import load, make_batch, read_sentences

    torch.set_num_threads(threads)
    model, tokenizer = load()
    tokens = make_batch(tokenizer, read_sentences(), batch, length)
    samples: dict[str, list[float]] = {name: [] for name in NAMES}
    on = pto.aten.enable()
    on.off()
    with torch.no_grad(), on:
        model(**tokens)
    until = time.perf_counter() + BUDGET_S
    with torch.no_grad():
        while time.perf_counter() < until or len(samples["eager"]) < CALLS_MIN:
            begin = time.perf_counter()
            model(**tokens)
            middle = time.perf_counter()
            with on:
                model(**tokens)
            samples["enabled"].append(time.perf_counter() - middle)
            samples["eager"].append(middle - begin)
    return {name: sorted(several)[len(several) // 4] for name, several in samples.items()}


if __name__ == "__main__":
    print(*in_turn(*map(int, sys.argv[1:])).values())
