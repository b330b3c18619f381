# SPDX-License-Identifier: Apache-2.0
"""The demo's measurements: whole batches, single kernels, shares of time, accuracy.

Contenders of one row run in one process, interleaved; times are medians. torch.compile, with its
defaults and with backend="pto", takes the model as it is and compiles anew for each row, so that
its code knows the row's sizes; for int8 backend="pto" takes the model with PTO's modules. A
packaged model is compiled once, for all rows.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F

from examples.demo.fused import REPLACED, Classes, PtoSteps
from examples.demo.unpadded import UNPADDED
from pto.bench.timing import geometric_mean, interleave

FULL_ROWS = [(t, b, n) for t in (1, 2) for b in (1, 8, 32) for n in (16, 64, 128)]
SHOWN_ROWS = [(1, 1, 16), (1, 1, 128), (1, 8, 64), (2, 1, 16), (2, 8, 64), (2, 32, 64)]
FEW_ROWS = [(1, 1, 16), (2, 8, 64)]  # of bf16, which PyTorch computes slowly on some CPUs
SLOW_S = 1.0  # a row whose batch takes PyTorch longer is left out, where so allowed
ROUNDS_MIN, ROUNDS_MAX = 5, 15
PAUSE_S = 0.1  # ONNX Runtime's idle workers spin that long
PROFILED = (8, 64)  # batch x length of the parts below the table
HEADS, HEAD_WIDTH = 12, 32
PTO = ("pto_eager", "pto_compile", "pto_packaged")  # the contenders that compute the padding too

Batch = dict[str, torch.Tensor]
Step = tuple[str, int, int, Callable[..., Any], Callable[..., Any], tuple[torch.Tensor, ...]]


@dataclass(frozen=True)
class Row:
    """Milliseconds per batch."""

    mode: str
    threads: int
    batch: int
    length: int
    eager_ms: float
    compile_ms: float | None
    pto_eager_ms: float
    pto_compile_ms: float
    pto_ms: float  # the fastest with PTO
    pto_unpadded_ms: float  # without the padding, which all others compute
    onnxruntime_ms: float | None = None  # where it is installed; it has no bf16
    pto_packaged_ms: float | None = None

    @property
    def others_ms(self) -> float:
        """The fastest without PTO."""
        return min(t for t in (self.eager_ms, self.compile_ms, self.onnxruntime_ms) if t)


@dataclass(frozen=True)
class KernelTime:
    """Microseconds per call with a fresh output."""

    kernel: str
    rows: int
    columns: int
    threads: int
    pto_us: float
    eager_us: float
    compile_us: float


def compiled(model: Callable[..., Any], batch: Batch, **options: Any) -> Callable[..., Any]:
    """torch.compile, already called once."""
    function: Callable[..., Any] = torch.compile(model, **options)
    function(**batch)
    return function


@dataclass(frozen=True)
class Mode:
    """A type of numbers, and who computes the model with it."""

    name: str
    plain: Any  # PyTorch's model
    model: Any  # whose modules PTO's replace
    runtime: Any = None  # ONNX Runtime's, where it has one
    fused: Classes = field(default_factory=lambda: REPLACED)
    unpadded: Classes = field(default_factory=lambda: UNPADDED)
    compiles: bool = True  # torch.compile takes the plain model
    packaged: Callable[..., Any] | None = None  # the model in a file of PTO's


def whole(mode: Mode) -> Callable[..., Any]:
    """torch.compile with backend="pto", of the plain model, or of that with PTO's modules where
    torch.compile does not take the plain one."""
    if mode.compiles:
        return torch.compile(mode.plain, backend="pto")
    steps, function = PtoSteps(mode.model, mode.fused), torch.compile(mode.model, backend="pto")

    def run(**batch: torch.Tensor) -> Any:
        with steps:
            return function(**batch)

    return run


def contenders(mode: Mode, batch: Batch, threads: int) -> dict[str, Callable[[], object]]:
    """Name -> function; the model's classes change only inside those with PTO's modules."""
    model, plain = mode.model, mode.plain
    steps, unpadded = PtoSteps(model, mode.fused), PtoSteps(model, mode.unpadded)

    def within(steps: PtoSteps, function: Callable[..., object]) -> Callable[[], None]:
        def run() -> None:
            with steps:
                function(**batch)

        return run

    found: dict[str, Callable[[], object]] = {
        "eager": lambda: plain(**batch),
        "pto_eager": within(steps, model),
        "pto_unpadded": within(unpadded, model),
    }
    if mode.compiles:
        fast = compiled(plain, batch)
        found["compile"] = lambda: fast(**batch)
    ours = whole(mode)
    ours(**batch)
    found["pto_compile"] = lambda: ours(**batch)
    if mode.packaged:
        found["pto_packaged"] = partial(mode.packaged, **batch)
    if mode.runtime:
        run = mode.runtime.on(threads)
        found["onnxruntime"] = lambda: run(**batch)
    return found


@torch.inference_mode()
def is_slow(model: Callable[..., object], batch: Batch) -> bool:
    """Says whether one batch takes PyTorch longer than SLOW_S."""
    start = time.perf_counter()
    model(**batch)
    return time.perf_counter() - start > SLOW_S


@torch.inference_mode()
def measure_row(mode: Mode, batch: Batch, threads: int, budget_s: float) -> Row:
    """One row of the table; `budget_s` bounds the number of samples from above."""
    torch.set_num_threads(threads)
    torch._dynamo.reset()
    functions = contenders(mode, batch, threads)
    start = time.perf_counter()
    for function in functions.values():
        function()
    round_s = time.perf_counter() - start
    rounds = max(ROUNDS_MIN, min(ROUNDS_MAX, int(budget_s / round_s)))
    pause_s = PAUSE_S if threads > 1 else 0
    samples = interleave(functions, rounds, sample_s=0.02, pause_s=pause_s)
    ms = {name: 1e3 * taken.median for name, taken in samples.items()}
    sentences, length = batch["input_ids"].shape
    return Row(
        mode.name,
        threads,
        sentences,
        length,
        eager_ms=ms["eager"],
        compile_ms=ms.get("compile"),
        pto_eager_ms=ms["pto_eager"],
        pto_compile_ms=ms["pto_compile"],
        pto_ms=min(taken for name, taken in ms.items() if name in PTO),
        pto_unpadded_ms=ms["pto_unpadded"],
        onnxruntime_ms=ms.get("onnxruntime"),
        pto_packaged_ms=ms.get("pto_packaged"),
    )


def speedup(rows: list[Row], ours: str = "pto_ms") -> tuple[float, float]:
    """Geometric mean and minimum of the best other time over ours, a field of Row."""
    ratios = [row.others_ms / getattr(row, ours) for row in rows]
    return geometric_mean(ratios), min(ratios)


@dataclass(frozen=True)
class Accuracy:
    """Embeddings beside those of PyTorch in f32."""

    model: str
    least_cosine: float
    max_difference: float

    @staticmethod
    def of(model: str, found: torch.Tensor, right: torch.Tensor) -> "Accuracy":
        cosines = torch.nn.functional.cosine_similarity(found.double(), right.double())
        return Accuracy(model, cosines.min().item(), (found - right).abs().max().item())


def _steps(model: Any, rows: int) -> Iterator[Step]:
    """(name, rows, columns, PTO function, PyTorch function, arguments) of each fused step."""
    layer = model.encoder.layer[0]
    norm, out = layer.output.LayerNorm, layer.output.dense
    middle = layer.intermediate.dense
    width, wide = norm.weight.numel(), middle.bias.numel()
    x, residual = torch.randn(2, rows, width).unbind()
    heads = torch.randn(3, *PROFILED, HEADS, HEAD_WIDTH).unbind()

    def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, weight.shape, weight, bias, norm.eps)

    def attended(*heads: torch.Tensor) -> torch.Tensor:
        q, k, v = [x.transpose(1, 2) for x in heads]
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2)

    ops = torch.ops.pto
    yield (
        "linear + bias + GELU", rows, wide,
        lambda x, w, b: ops.linear(x, w, b, activation="gelu"),
        lambda x, w, b: F.gelu(F.linear(x, w, b)), (x, middle.weight, middle.bias),
    )  # fmt: skip
    yield (
        "bias + residual + LayerNorm", rows, width,
        lambda x, b, r, w, c: ops.bias_add_layer_norm(x, b, r, w, c, norm.eps),
        lambda x, b, r, w, c: layer_norm(x + b + r, w, c),
        (x, out.bias, residual, norm.weight, norm.bias),
    )  # fmt: skip
    yield (
        "residual + LayerNorm", rows, width,
        lambda x, r, w, c: ops.add_layer_norm(x, r, w, c, norm.eps),
        lambda x, r, w, c: layer_norm(x + r, w, c),
        (x, residual, norm.weight, norm.bias),
    )  # fmt: skip
    yield "attention", rows, width, lambda *x: ops.attention(*x, layout="LHD"), attended, heads


@torch.inference_mode()
def measure_kernels(model: torch.nn.Module, threads: int) -> list[KernelTime]:
    """Each fused step alone, at the sizes of a batch of PROFILED."""
    torch.set_num_threads(threads)
    torch._dynamo.reset()
    found = []
    for name, rows, columns, ours, theirs, arguments in _steps(model, PROFILED[0] * PROFILED[1]):
        fast = torch.compile(theirs)
        functions: dict[str, Callable[[], object]] = {
            "pto": partial(ours, *arguments),
            "eager": partial(theirs, *arguments),
            "compile": partial(fast, *arguments),
        }
        us = {n: 1e6 * s.median for n, s in interleave(functions, pause_s=PAUSE_S).items()}
        times = (us["pto"], us["eager"], us["compile"])
        found.append(KernelTime(name, rows, columns, threads, *times))
    return found


PARTS = {  # the first part whose names begin an event's name has it
    "PTO linear": ("pto::linear",),
    "PTO attention": ("pto::attention",),
    "matmul": ("aten::addmm", "aten::mm", "aten::bmm", "aten::linear", "mkl"),
    "attention": ("aten::_scaled_dot_product", "aten::scaled_dot_product"),
    "PTO": ("pto::",),
    "GELU": ("aten::gelu",),
    "LayerNorm": ("aten::native_layer_norm", "aten::layer_norm"),
    "add": ("aten::add", "aten::add_"),
    "other": ("",),
}


@torch.inference_mode()
def measure_shares(run: Callable[[], object], calls: int = 3) -> dict[str, float]:
    """Part -> share of the time inside operators, by PyTorch's profiler."""
    run()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(calls):
            run()
    spent = dict.fromkeys(PARTS, 0.0)
    for event in profile.key_averages():
        names = (part for part, starts in PARTS.items() if event.key.startswith(starts))
        spent[next(names)] += event.self_cpu_time_total
    total = sum(spent.values())
    return {part: time_us / total for part, time_us in spent.items()}
