# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own operator samples on the npu device against the CPU.

    python tests/npu_samples.py [NAME ...]     all of them take some minutes

Every operator of PyTorch's test database runs with its samples: forward, in place, and the
gradients of the first samples. A child process per group of operators with a deadline for each, so
that a crash or a hang is one operator's. Exit code 1 where an operator differs that is not in
npu_samples_table.py, or is in it and does not.
"""

import contextlib
import os
import re
import select
import signal
import sys
import time
import warnings
from collections.abc import Iterator

import torch
from npu_samples_table import DIFFERENT, UNINITIALISED
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import SampleInput

import pto.torch  # noqa: F401 makes the device

SECONDS = 120  # for one operator
SAMPLES, GRADIENT_SAMPLES = 12, 3


def name_of(op) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


OPERATORS = {name_of(op): op for op in op_db if op.supported_dtypes("cpu")}


def dtype_of(op) -> torch.dtype:
    supported = op.supported_dtypes("cpu")
    wanted = (torch.float32, torch.float64, torch.int64, torch.bool, torch.complex64)
    return next((dtype for dtype in wanted if dtype in supported), torch.float32)


def moved(value: object) -> object:
    """The same argument for the npu: tensors keep their strides, devices change their name."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return value.to("npu")
        base = torch.empty(0, dtype=value.dtype, device="npu")
        storage = value.untyped_storage().npu(0)
        made = base.set_(storage, value.storage_offset(), value.shape, value.stride())
        made = made.conj() if value.is_conj() else made
        made = made._neg_view() if value.is_neg() else made
        return made.requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        items = [moved(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: moved(item) for key, item in value.items()}
    if isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu"):
        return torch.device("npu:0") if torch.device(value).type == "cpu" else value
    return value


def moved_sample(sample: SampleInput) -> SampleInput:
    return SampleInput(moved(sample.input), args=moved(sample.args), kwargs=moved(sample.kwargs))


def has_tensor(sample: SampleInput) -> bool:
    values = flat([sample.input, sample.args, list(sample.kwargs.values())])
    return any(isinstance(value, torch.Tensor) for value in values)


def flat(value: object) -> Iterator[object]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from flat(item)
    else:
        yield value


def differences(want: object, got: object, with_values: bool = True) -> Iterator[str]:
    """Says what is wrong with `got`, a result of the npu."""
    for a, b in zip(flat(want), flat(got), strict=True):
        if not isinstance(a, torch.Tensor):
            if isinstance(a, (int, float, bool, torch.Size, torch.dtype)) and a != b and a == a:
                yield f"{b!r} instead of {a!r}"
            continue
        if b.device.type != "npu" and a.layout is torch.strided:
            yield f"the result is on {b.device}"
        if (a.shape, a.dtype, a.layout) != (b.shape, b.dtype, b.layout):
            yield f"{b.shape} {b.dtype} instead of {a.shape} {a.dtype}"
        elif a.layout is torch.strided and a.stride() != b.stride() and a.numel() > 1:
            yield f"strides {b.stride()} instead of {a.stride()}"
        elif with_values:
            a, b = a.detach(), b.detach().cpu()
            if a.dtype.itemsize == 1 and a.dtype.is_floating_point:
                a, b = a.float(), b.float()
            try:
                torch.testing.assert_close(b, a, rtol=2e-5, atol=1e-5, equal_nan=True)
            except AssertionError as error:
                yield " ".join(str(error).split())


def run(function, sample: SampleInput, device: str) -> tuple[object, object]:
    """The result, or the exception; what has no tensor is made on the device."""
    torch.manual_seed(7)
    try:
        with contextlib.nullcontext() if has_tensor(sample) else torch.device(device):
            return function(sample.input, *sample.args, **sample.kwargs), None
    except Exception as error:  # noqa: BLE001 the CPU's errors are the reference
        return None, error


def gradients(result: object, sample) -> list:
    tensors = [t for t in flat([sample.input, sample.args, list(sample.kwargs.values())])
               if isinstance(t, torch.Tensor) and t.requires_grad and t.is_leaf]  # fmt: skip
    outputs = [t for t in flat(result) if isinstance(t, torch.Tensor) and t.requires_grad]
    if not tensors or not outputs:
        return []
    total = sum(t.abs().sum() if t.is_complex() else t.sum() for t in outputs)
    found = torch.autograd.grad(total, tensors, allow_unused=True)
    return [g for g in found if g is not None]


def compare(function, sample, other, with_values: bool, with_gradients: bool) -> Iterator[str]:
    want, expected = run(function, sample, "cpu")
    got, raised = run(function, other, "npu")
    if expected is not None or raised is not None:
        if type(expected) is not type(raised):
            yield f"raised {type(raised).__name__}: {raised} instead of {expected!r}"
        return
    yield from differences(want, got, with_values)
    if with_gradients:
        yield from differences(gradients(want, sample), gradients(got, other))


def check(name: str) -> Iterator[str]:
    """Lists what differs on the npu for one operator."""
    op, values = OPERATORS[name], name not in UNINITIALISED
    dtype = dtype_of(op)
    differentiable = op.supports_autograd and dtype.is_floating_point
    torch.manual_seed(5)
    samples = op.sample_inputs("cpu", dtype, requires_grad=differentiable)
    for index, sample in zip(range(SAMPLES), samples, strict=False):
        other = moved_sample(sample)
        yield from compare(op, sample, other, values, differentiable and index < GRADIENT_SAMPLES)
    if op.inplace_variant is None:
        return
    samples = op.sample_inputs("cpu", dtype, requires_grad=False)
    for _, sample in zip(range(SAMPLES), samples, strict=False):
        if sample.broadcasts_input or not isinstance(sample.input, torch.Tensor):
            continue
        other = moved_sample(sample)
        yield from compare(op.inplace_variant, sample, other, values, False)
        yield from differences(sample.input, other.input)


def child(names: list[str], out: int) -> None:
    """Writes a line for every operator before and after it."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    sys.stderr.flush()
    for name in names:
        os.write(out, f"run {name}\n".encode())
        try:
            found = next(check(name), "")
        except Exception as error:  # noqa: BLE001 a failure is this operator's
            found = f"{type(error).__name__}: {error}"
        os.write(out, f"end {name}: {' '.join(found.split())[:300]}\n".encode())
    os._exit(0)


def lines(reader: int, seconds: float) -> Iterator[str | None]:
    """Lines from a pipe; None where none came in time."""
    text = b""
    while True:
        if not select.select([reader], [], [], seconds)[0]:
            yield None
            return
        piece = os.read(reader, 1 << 16)
        if not piece:
            return
        text += piece
        *whole, text = text.split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)


def run_group(names: list[str]) -> Iterator[tuple[str, str]]:
    """(operator, what is wrong or "") for each; starts another child behind one that died."""
    while names:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            child(names, writer)
        os.close(writer)
        current, hung = "", False
        for line in lines(reader, SECONDS):
            if line is None:
                os.kill(pid, signal.SIGKILL)
                hung = True
            elif line.startswith("run "):
                current = line[4:]
            else:
                name, _, found = line[4:].partition(": ")
                yield name.rstrip(":"), found
                names = names[names.index(current) + 1 :]
                current = ""
        os.close(reader)
        _, status = os.waitpid(pid, 0)
        if current:
            yield current, "hung" if hung else f"crashed with signal {os.WTERMSIG(status)}"
            names = names[names.index(current) + 1 :]


def main(patterns: list[str]) -> int:
    names = [n for n in OPERATORS if not patterns or any(re.fullmatch(p, n) for p in patterns)]
    begin, results = time.monotonic(), {}
    for start in range(0, len(names), 60):
        for name, found in run_group(names[start : start + 60]):
            results[name] = found
            if found and name not in DIFFERENT:
                print(f"{name}: {found}", flush=True)
    bad = {name for name, found in results.items() if found}
    crashed = [n for n in bad if results[n].startswith(("crashed", "hung"))]
    new = sorted(bad - set(DIFFERENT))
    mended = sorted(set(DIFFERENT) & set(results) - bad)
    equal = len(results) - len(bad)
    print(f"{len(results)} operators: {equal} equal ({100 * equal / len(results):.1f} %), "
          f"{len(bad) - len(new)} differ as listed, {len(new)} differ, {len(crashed)} crashed; "
          f"{time.monotonic() - begin:.0f} s")  # fmt: skip
    if mended:
        print("listed as different, but equal:", ", ".join(mended))
    return 1 if new or mended or crashed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
