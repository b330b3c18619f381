# SPDX-License-Identifier: Apache-2.0
"""The fused row kernels against PyTorch eager, torch.compile and the hand-fused C++ reference.

One row of KERNELS is one case. Contenders that share one output buffer, for the quality of code:
`pto`, `torch_out` (where PyTorch has an out= form), `compile_out`, `reference` and, for large
outputs, `reference_stream`. Contenders with a fresh output, for what a user sees: `pto_fresh`,
`torch`. The copies give the ceiling.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch.nn import functional as F

import pto.torch  # noqa: F401 registers torch.ops.pto
from bench import direct
from bench.reference import Reference
from pto.bench.ceilings import STREAM_BYTES, copies
from pto.bench.runner import Expected, Setting, case

SIZES = [(32, 384), (256, 1536), (4096, 1024), (65536, 1024)]
HALF_SIZES = [(4096, 1024)]
TORCH_DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
EPS = 1e-5


@dataclass(frozen=True)
class Data:
    """The kernels' operands: x and y [rows, columns], gain and bias [columns]."""

    x: torch.Tensor
    y: torch.Tensor
    gain: torch.Tensor
    bias: torch.Tensor

    def double(self, rows: torch.Tensor) -> "Data":
        return Data(
            self.x[rows].double(), self.y[rows].double(), self.gain.double(), self.bias.double()
        )


@dataclass(frozen=True)
class Kernel:
    name: str  # of the case and of the reference's kernel
    operator: str  # torch.ops.pto.<operator>
    tensors: Callable  # Data -> the operator's tensors
    attributes: tuple
    torch: Callable  # Data -> result, as a user writes it
    torch_out: Callable | None = None  # (Data, out), where PyTorch has such a form
    reads: int = 1  # arrays of full size


KERNELS = [
    Kernel(
        "softmax", "softmax", lambda d: [d.x], (-1,),
        lambda d: torch.softmax(d.x, -1),
        lambda d, out: torch.softmax(d.x, -1, out=out),
    ),
    Kernel(
        "layernorm", "layer_norm", lambda d: [d.x, d.gain, d.bias], (EPS,),
        lambda d: F.layer_norm(d.x, d.gain.shape, d.gain, d.bias, EPS),
        lambda d, out: torch.ops.aten.native_layer_norm.out(
            d.x, d.gain.shape, d.gain, d.bias, EPS, out0=out,
            out1=d.x.new_empty(d.x.shape[0], 1), out2=d.x.new_empty(d.x.shape[0], 1),
        )[0],
    ),
    Kernel(
        "residual_layernorm", "add_layer_norm", lambda d: [d.x, d.y, d.gain, d.bias], (EPS,),
        lambda d: F.layer_norm(d.x + d.y, d.gain.shape, d.gain, d.bias, EPS), reads=2,
    ),
    Kernel(
        "bias_gelu", "bias_gelu", lambda d: [d.x, d.bias], ("none",),
        lambda d: F.gelu(d.x + d.bias),
    ),
    Kernel(
        "bias_gelu_tanh", "bias_gelu", lambda d: [d.x, d.bias], ("tanh",),
        lambda d: F.gelu(d.x + d.bias, approximate="tanh"),
    ),
    Kernel(
        "rmsnorm", "rms_norm", lambda d: [d.x, d.gain], (EPS,),
        lambda d: F.rms_norm(d.x, d.gain.shape, d.gain, EPS),
    ),
    Kernel(
        "silu_mul", "silu_mul", lambda d: [d.x, d.y], (),
        lambda d: F.silu(d.x) * d.y, reads=2,
    ),
]  # fmt: skip


@cache
def reference() -> Reference:
    return Reference()


@cache
def data(size: tuple[int, int], dtype: str) -> Data:
    """Random inputs, the same for all cases of a size; the last sizes asked for are kept."""
    generator = torch.Generator().manual_seed(3)
    kind = TORCH_DTYPES[dtype]
    rows, columns = size
    full = [torch.randn(rows, columns, generator=generator).to(kind) for _ in range(2)]
    row = [torch.randn(columns, generator=generator).to(kind) for _ in range(2)]
    return Data(*full, *row)


@cache
def buffer(size: tuple[int, int], dtype: str) -> torch.Tensor:
    return torch.zeros(size, dtype=TORCH_DTYPES[dtype])


def fresh(kernel: Kernel, d: Data) -> Callable:
    """The registered operator as a user calls it."""
    operator = getattr(torch.ops.pto, kernel.operator)
    tensors = kernel.tensors(d)
    options = {}
    attributes = kernel.attributes
    if kernel.operator == "bias_gelu":
        options, attributes = {"approximate": attributes[0]}, ()
    return lambda: operator(*tensors, *attributes, **options)


def compiled_into(kernel: Kernel, d: Data, out: torch.Tensor) -> Callable:
    """torch.compile of the plain function with its result stored into `out`."""

    def store(d_x, d_y, d_gain, d_bias, result):
        result.copy_(kernel.torch(Data(d_x, d_y, d_gain, d_bias)))

    function = torch.compile(store, dynamic=False)
    function(d.x, d.y, d.gain, d.bias, out)

    def run():
        function(d.x, d.y, d.gain, d.bias, out)
        return out

    return run


def by_hand(kernel: str, reads: int, d: Data, out: torch.Tensor, threads: int):
    """(name, function) of the reference: plain stores, for large outputs also past the cache."""
    y = d.y if reads == 2 else None
    for stream in (False, True):
        if not stream or out.nbytes >= STREAM_BYTES:
            yield "reference" + "_stream" * stream, reference().contender(
                kernel, d.x, out=out, y=y, gain=d.gain, bias=d.bias, eps=EPS,
                threads=threads, stream=stream,
            )  # fmt: skip


def contenders(kernel: Kernel, setting: Setting):
    d = data(setting.size, setting.dtype)
    out = buffer(setting.size, setting.dtype)
    into = direct.contender(
        kernel.operator, kernel.tensors(d), kernel.attributes, out, reference().place
    )
    yield "pto", into
    yield "pto_fresh", fresh(kernel, d)
    yield "torch", lambda: kernel.torch(d)
    if kernel.torch_out:
        yield "torch_out", lambda: kernel.torch_out(d, out)
    if setting.dtype == "f32":
        yield "compile_out", compiled_into(kernel, d, out)
        yield from by_hand(kernel.name, kernel.reads, d, out, setting.threads)
        yield from copies(out, d.x, setting.threads, (kernel.reads + 1) * out.nbytes)
    yield Expected(
        lambda rows: kernel.torch(d.double(rows)),
    )


def register() -> None:
    for kernel in KERNELS:
        for name, sizes, dtypes in (
            (kernel.name, SIZES, ["f32"]),
            (kernel.name + "_half", HALF_SIZES, ["f16", "bf16"]),
        ):
            case(name, sizes, dtypes)(lambda setting, k=kernel: contenders(k, setting))


register()
