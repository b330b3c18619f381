# SPDX-License-Identifier: Apache-2.0
"""./dev bench aten_model: all-MiniLM-L6-v2 in f32, plain eager with and without pto.aten.enable().

At each size of the demo; the embeddings of both are compared before. A ratio is the time without
over the time with, both the medians of calls made in turn. Each size is a record of the bench.
"""

import time

import torch

import pto.aten
from bench.demo import LARGEST_DIFFERENCE, missing
from pto.bench.runner import Measurement, Setting
from pto.bench.timing import geometric_mean

CASE, BUDGET_S, CALLS_MIN = "aten_model", 6.0, 9


def run() -> list[Measurement]:
    """Measures and prints."""
    if missing():
        print(f"{CASE}: not measured: {' and '.join(missing())} not installed; ./dev demo does it")
        return []
    from examples.demo import measure
    from examples.demo.model import embed, load, make_batch, read_sentences

    model, tokenizer = load()
    sentences = read_sentences()
    plain = embed(model, tokenizer, sentences)
    with pto.aten.enable():
        apart = float((embed(model, tokenizer, sentences) - plain).abs().max())
    right = apart <= LARGEST_DIFFERENCE
    print(f"{'' if right else 'WRONG: '}{CASE}: {len(plain)} embeddings differ by {apart:.1e}")
    records, ratios = [], []
    for threads, batch, length in measure.FULL_ROWS if right else ():
        torch.set_num_threads(threads)
        tokens = make_batch(tokenizer, sentences, batch, length)
        setting = Setting((batch, length), "f32", threads)
        seconds = in_turn(model, tokens)
        ratios.append(seconds["eager"] / seconds["enabled"])
        records += [Measurement.of(CASE, setting, n, [s], None) for n, s in seconds.items()]
        print(
            f"{CASE} {threads} threads {batch:>2} x {length:<3}"
            + "".join(f"{name:>10}{taken * 1e3:9.2f} ms" for name, taken in seconds.items())
            + f"{ratios[-1]:>8.3f}x",
            flush=True,
        )
    if ratios:
        print(f"{CASE}: geometric mean {geometric_mean(ratios):.3f}x, least {min(ratios):.3f}x")
    return records


def in_turn(model: torch.nn.Module, tokens: dict[str, torch.Tensor]) -> dict[str, float]:
    """The median seconds of a call, plain and under enable()."""
    samples: dict[str, list[float]] = {"eager": [], "enabled": []}
    on = pto.aten.enable()
    on.off()
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
    return {name: sorted(several)[len(several) // 2] for name, several in samples.items()}
