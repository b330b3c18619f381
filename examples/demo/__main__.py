# SPDX-License-Identifier: Apache-2.0
"""A real model on fused tile kernels inside PyTorch: ./dev demo [--full] [--json FILE]

all-MiniLM-L6-v2 turns sentences into vectors whose angle says how near their meanings are. The
demo runs it as plain PyTorch, under torch.compile, in ONNX Runtime, under torch.compile with
backend="pto", and with its linear layers, attention and the steps between them replaced by PTO
kernels, in f32, bf16 and int8; then it compares results and times.
"""

import argparse
import copy
import dataclasses
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

START = time.perf_counter()
BUILD = Path(__file__).parents[2] / "build"
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(BUILD / "inductor"))
os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's own messages

import torch  # noqa: E402 torch.compile reads the variable when it is loaded

from examples.demo import measure, onnx_runtime  # noqa: E402
from examples.demo.fused import PtoSteps  # noqa: E402
from examples.demo.int8 import INT8, UNPADDED_INT8  # noqa: E402
from examples.demo.model import embed, load, make_batch, neighbours, read_sentences  # noqa: E402
from examples.demo.packaged import packaged  # noqa: E402

QUERIES = ["cat sleeps", "interest rates", "compiler", "snow to the hills", "the dough"]
BUDGET_S = {False: 2.5, True: 10.0}  # of a row's samples; the key is --full


def say(text: str = "") -> None:
    print(text, flush=True)


def progress(text: str) -> None:
    say(f"[{time.perf_counter() - START:5.1f} s] {text}")


def show_neighbours(sentences: list[str], embeddings: torch.Tensor) -> None:
    """The two nearest sentences of those that contain QUERIES."""
    chosen = [next(i for i, s in enumerate(sentences) if q in s) for q in QUERIES]
    say("\nNearest sentences by the PTO embeddings (cosine):")
    for query, near in zip(chosen, neighbours(embeddings, chosen), strict=True):
        say(f"  {sentences[query][:94]}")
        for index, cosine in near:
            say(f"      {cosine:.2f}  {sentences[index][:88]}")


def modes_of(
    model: torch.nn.Module,
    runtime: onnx_runtime.OnnxRuntime | None,
    example: dict[str, torch.Tensor],
) -> list[measure.Mode]:
    """f32, bf16, int8; packages are made with the example of a batch."""
    halved = copy.deepcopy(model).bfloat16()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch moves its quantisation to a package of its own
        quantize: Callable[..., torch.nn.Module] = torch.ao.quantization.quantize_dynamic
        quantised = quantize(model, {torch.nn.Linear})
    return [
        measure.Mode("f32", model, model, runtime, packaged=packaged(model, example)),
        measure.Mode("bf16", halved, halved, packaged=packaged(halved, example)),
        measure.Mode(
            "int8", quantised, model, runtime and runtime.quantised(), INT8, UNPADDED_INT8,
            compiles=False, packaged=packaged(model, example, INT8),
        ),
    ]  # fmt: skip


def embed_all(
    modes: list[measure.Mode], tokenizer: Callable[..., Any], sentences: list[str]
) -> dict[str, torch.Tensor]:
    """Embeds all sentences by every model: name -> embeddings; the first is PyTorch in f32."""
    found, example = {}, make_batch(tokenizer, sentences, *measure.PROFILED)
    for mode in modes:
        if mode.name == "f32" or not measure.is_slow(mode.plain, example):
            found[f"PyTorch {mode.name}"] = embed(mode.plain, tokenizer, sentences)
        if mode.runtime:
            run = mode.runtime.on(torch.get_num_threads())
            found[f"ONNX Runtime {mode.name}"] = embed(run, tokenizer, sentences)
        for name, replaced in ("", mode.fused), (" unpadded", mode.unpadded):
            with PtoSteps(mode.model, replaced):
                found[f"PTO {mode.name}{name}"] = embed(mode.model, tokenizer, sentences)
        found[f"PTO {mode.name} compiled"] = embed(measure.whole(mode), tokenizer, sentences)
        if mode.packaged:
            found[f"PTO {mode.name} packaged"] = embed(mode.packaged, tokenizer, sentences)
    return found


def show_accuracy(found: dict[str, torch.Tensor]) -> list[measure.Accuracy]:
    """Prints how near the embeddings are to those of plain PyTorch."""
    right = found["PyTorch f32"]
    rows = [measure.Accuracy.of(n, e, right) for n, e in found.items() if e is not right]
    say(f"\nAccuracy of {len(right)} embeddings, against PyTorch in f32")
    say(f"{'':<22}{'least cosine':>14}{'largest difference':>20}")
    for row in rows:
        say(f"{row.model:<22}{row.least_cosine:>14.8f}{row.max_difference:>20.1e}")
    return rows


def show_row(row: measure.Row) -> None:
    """Prints sentences per second."""

    def rate(ms: float | None) -> str:
        return f"{1e3 * row.batch / ms:.1f}" if ms else "-"

    size = f"{row.batch} x {row.length}"
    say(
        f"{row.threads:>8}{size:>16}{rate(row.eager_ms):>10}{rate(row.compile_ms):>10}"
        f"{rate(row.onnxruntime_ms):>14}{rate(row.pto_eager_ms):>12}"
        f"{rate(row.pto_compile_ms):>13}{rate(row.pto_packaged_ms):>14}"
        f"{row.others_ms / row.pto_ms:>8.2f}x"
        f"{rate(row.pto_unpadded_ms):>14}{row.others_ms / row.pto_unpadded_ms:>8.2f}x"
    )


def measure_rows(
    mode: measure.Mode,
    tokenizer: Callable[..., Any],
    sentences: list[str],
    chosen: list[tuple[int, int, int]],
    budget_s: float,
) -> list[measure.Row]:
    """The table of a mode, a line as soon as it is measured; slow rows only in f32."""
    say(f"\n{mode.name}: sentences per second; a ratio is PTO over the best without it")
    say("unpadded: without what lies beyond the ends of sentences, which all others compute")
    say(
        f"{'threads':>8}{'batch x length':>16}{'eager':>10}{'compile':>10}{'ONNX Runtime':>14}"
        f"{'PTO eager':>12}{'PTO compile':>13}{'PTO packaged':>14}{'ratio':>9}"
        f"{'PTO unpadded':>14}{'ratio':>9}"
    )
    rows = []
    for threads, batch, length in chosen:
        tokens = make_batch(tokenizer, sentences, batch, length)
        torch.set_num_threads(threads)
        if mode.name != "f32" and measure.is_slow(mode.plain, tokens):
            size = f"{batch} x {length}"
            say(f"{threads:>8}{size:>16}  left out: over {measure.SLOW_S:.0f} s in PyTorch")
            continue
        rows.append(measure.measure_row(mode, tokens, threads, budget_s))
        show_row(rows[-1])
    if rows:
        for name, ours in (("PTO", "pto_ms"), ("PTO unpadded", "pto_unpadded_ms")):
            mean, lowest = measure.speedup(rows, ours)
            say(f"{name}: geometric mean {mean:.2f}x, least {lowest:.2f}x")
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


def explain(model: torch.nn.Module, tokens: dict[str, torch.Tensor]) -> None:
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
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="./dev demo", description=about)
    parser.add_argument("--full", action="store_true", help="all 18 rows, with more samples")
    parser.add_argument("--json", metavar="FILE", help="write the results as JSON too")
    chosen = parser.parse_args(argv)
    progress("loading the model")
    model, tokenizer = load()
    sentences = read_sentences()
    if onnx_runtime.missing():
        say(f"no ONNX Runtime: {' and '.join(onnx_runtime.missing())} not installed")
    else:
        progress("exporting it to ONNX, slowly the first time")
    example = make_batch(tokenizer, sentences, *measure.PROFILED)
    runtime = onnx_runtime.OnnxRuntime.of(model, example)
    progress(f"embedding {len(sentences)} sentences by every model")
    modes = modes_of(model, runtime, example)
    embeddings = embed_all(modes, tokenizer, sentences)
    show_neighbours(sentences, embeddings["PTO f32"])
    accuracy = show_accuracy(embeddings)
    progress("timing; torch.compile compiles for each row, slowly the first time")
    rows = []
    for mode in modes:
        shown = measure.FEW_ROWS if mode.name == "bf16" else measure.SHOWN_ROWS
        shown = measure.FULL_ROWS if chosen.full else shown
        rows += measure_rows(mode, tokenizer, sentences, shown, BUDGET_S[chosen.full])
    kernels = measure.measure_kernels(model, 2)
    show_kernels(kernels)
    explain(model, example)
    if chosen.json:
        result = {
            "max_difference": next(a.max_difference for a in accuracy if a.model == "PTO f32"),
            "rows": [dataclasses.asdict(row) for row in rows],
            "kernels": [dataclasses.asdict(kernel) for kernel in kernels],
            "accuracy": [dataclasses.asdict(row) for row in accuracy],
        }
        Path(chosen.json).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    progress("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
