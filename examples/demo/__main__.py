# SPDX-License-Identifier: Apache-2.0
"""A real model on fused tile kernels inside PyTorch: ./dev demo [--full] [--json FILE]

all-MiniLM-L6-v2 turns sentences into vectors whose angle says how near their meanings are. The
demo runs it as plain PyTorch, under torch.compile, and with its linear layers and the steps between
them replaced by PTO kernels; then it compares results and times.
"""

import argparse
import dataclasses
import json
import os
import sys
import time
from pathlib import Path

START = time.perf_counter()
BUILD = Path(__file__).parents[2] / "build"
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(BUILD / "inductor"))
os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's own messages

from examples.demo import measure  # noqa: E402 torch.compile reads the variable when it is loaded
from examples.demo.fused import PtoSteps  # noqa: E402
from examples.demo.model import embed, load, make_batch, neighbours, read_sentences  # noqa: E402

QUERIES = ["cat sleeps", "interest rates", "compiler", "snow to the hills", "the dough"]
BUDGET_S = {False: 2.5, True: 10.0}  # of a row's samples; the key is --full


def say(text: str = "") -> None:
    print(text, flush=True)


def progress(text: str) -> None:
    say(f"[{time.perf_counter() - START:5.1f} s] {text}")


def show_neighbours(sentences: list[str], embeddings) -> None:
    """The two nearest sentences of those that contain QUERIES."""
    chosen = [next(i for i, s in enumerate(sentences) if q in s) for q in QUERIES]
    say("\nNearest sentences by the PTO embeddings (cosine):")
    for query, near in zip(chosen, neighbours(embeddings, chosen), strict=True):
        say(f"  {sentences[query][:94]}")
        for index, cosine in near:
            say(f"      {cosine:.2f}  {sentences[index][:88]}")


def compare_embeddings(model, tokenizer, sentences: list[str]) -> float:
    """Embeds all sentences both ways; prints neighbours; returns the largest difference."""
    plain = embed(model, tokenizer, sentences)
    with PtoSteps(model):
        fused = embed(model, tokenizer, sentences)
    show_neighbours(sentences, fused)
    largest = (plain - fused).abs().max().item()
    say(f"\nLargest difference of {len(sentences)} embeddings from plain PyTorch: {largest:.1e}")
    return largest


def measure_rows(model, tokenizer, sentences: list[str], full: bool) -> list[measure.Row]:
    """The table, a line as soon as it is measured."""
    say("\nMilliseconds per batch (median); a ratio is the better of PyTorch's two over ours")
    say(
        f"{'threads':>8}{'batch x length':>16}{'eager':>10}{'compile':>10}"
        f"{'PTO eager':>12}{'PTO compile':>13}{'PTO':>10}{'ratio':>9}"
    )
    rows = []
    for threads, batch, length in measure.FULL_ROWS if full else measure.SHOWN_ROWS:
        tokens = make_batch(tokenizer, sentences, batch, length)
        row = measure.measure_row(model, tokens, threads, BUDGET_S[full])
        rows.append(row)
        size = f"{batch} x {length}"
        say(
            f"{threads:>8}{size:>16}{row.eager_ms:>10.2f}{row.compile_ms:>10.2f}"
            f"{row.pto_eager_ms:>12.2f}{row.pto_compile_ms:>13.2f}{row.pto_ms:>10.2f}"
            f"{row.torch_ms / row.pto_ms:>8.2f}x"
        )
    mean, lowest = measure.speedup(rows)
    say(f"geometric mean {mean:.2f}x, lowest {lowest:.2f}x")
    return rows


def show_kernels(kernels: list[measure.KernelTime]) -> None:
    say(f"\nEach fused kernel alone, microseconds, {kernels[0].threads} threads, fresh outputs")
    titles = f"{'PTO':>9}{'eager':>9}{'compile':>9}{'vs eager':>10}{'vs compile':>12}"
    say(f"{'':<30}{'size':>12}{titles}")
    for k in kernels:
        size = f"{k.rows} x {k.columns}"
        say(
            f"{k.kernel:<30}{size:>12}{k.pto_us:>9.1f}{k.eager_us:>9.1f}{k.compile_us:>9.1f}"
            f"{k.eager_us / k.pto_us:>9.2f}x{k.compile_us / k.pto_us:>11.2f}x"
        )


def packed_mb() -> float:
    import pto

    return pto.memory()["packed_weights"] / 1e6


def explain(model, tokens) -> None:
    """Shows where the time goes."""
    batch, length = measure.PROFILED
    say(f"\nShares of the time of a batch of {batch} x {length}, 2 threads")
    steps = PtoSteps(model)
    plain = measure.measure_shares(lambda: model(**tokens))
    with steps:
        fused = measure.measure_shares(lambda: model(**tokens))
    for name, shares in (("PyTorch eager", plain), ("with PTO", fused)):
        parts = ", ".join(f"{part} {share:.0%}" for part, share in shares.items() if share >= 0.005)
        say(f"  {name:<14} {parts}")
    say(f"  Weights of linear layers are packed once: {packed_mb():.0f} MB.")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="all 18 rows, with more samples")
    parser.add_argument("--json", metavar="FILE", help="write the results as JSON too")
    chosen = parser.parse_args(argv)
    progress("loading the model")
    model, tokenizer = load()
    sentences = read_sentences()
    progress(f"embedding {len(sentences)} sentences with PyTorch and with PTO kernels")
    largest = compare_embeddings(model, tokenizer, sentences)
    progress("timing; torch.compile compiles for each row, slowly the first time")
    rows = measure_rows(model, tokenizer, sentences, chosen.full)
    kernels = measure.measure_kernels(model, 2)
    show_kernels(kernels)
    explain(model, make_batch(tokenizer, sentences, *measure.PROFILED))
    if chosen.json:
        result = {
            "max_difference": largest,
            "rows": [dataclasses.asdict(row) for row in rows],
            "kernels": [dataclasses.asdict(kernel) for kernel in kernels],
        }
        Path(chosen.json).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    progress("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
