# SPDX-License-Identifier: Apache-2.0
"""Measures a call on tensors of PyTorch's npu device.

`call_npu`: an operator against itself on CPU tensors, on 16 elements.
`enqueue_npu`: how long a call takes whose kernel waits in its stream: on 16 elements, and with a
fresh output of 4 MB.
"""

import ctypes
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from bench import report
from bench.reference import libpto
from pto.adapters.torch import activation
from pto.bench.runner import Expected, Goal, Measurement, Outcome, Setting, case

CALLS = {(16,): 200, (1 << 20,): 32}  # by size
SAMPLES = 21


@case("call_npu", sizes=[(16,)], dtypes=["f32"], threads=(1,))
def call_npu(setting: Setting):
    operator = torch.ops.pto.add.default
    x, y = torch.randn(setting.size), torch.randn(setting.size)
    yield "pto_cpu", lambda: operator(x, y)
    if activation.is_active():
        on_npu, other = x.npu(), y.npu()
        yield "pto_npu", lambda: operator(on_npu, other)
        yield Goal("pto_npu", "pto_cpu", at_most=1.2)
    yield Expected(lambda rows: (x + y)[rows].double())


class _Job(ctypes.Structure):
    """pto_device_job of pto/abi/device_queue.h."""

    _fields_ = [
        ("run", ctypes.c_void_p),
        ("error", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("tensors", ctypes.c_void_p),
        ("n_tensors", ctypes.c_int32),
        ("bytes", ctypes.c_int64),
        ("pointers", ctypes.c_void_p),
        ("n_pointers", ctypes.c_int32),
    ]


@contextmanager
def shut_stream() -> Iterator[None]:
    """The current stream of npu:0 runs nothing meanwhile: its thread waits for a semaphore."""
    libc, queue = ctypes.CDLL(None), ctypes.CDLL(str(libpto()))
    semaphore = ctypes.create_string_buffer(64)
    libc.sem_init(semaphore, 0, 0)
    address = [ctypes.cast(f, ctypes.c_void_p).value for f in (libc.sem_wait, libc.sem_trywait)]
    long = 1 << 30  # bytes: not to be run by the caller
    job = _Job(address[0], None, address[1], ctypes.addressof(semaphore), None, 0, long)
    if queue.pto_device_submit(0, None, ctypes.byref(job)):
        raise RuntimeError("the npu device took no job; see pto/abi/device_queue.h")
    try:
        yield
    finally:
        libc.sem_post(semaphore)
        torch.npu.synchronize()


def enqueue_seconds(operator: Callable, x: torch.Tensor, y: torch.Tensor) -> float:
    """The seconds to queue one call of many on a blocked stream; the results are checked.

    The calls on small tensors before are not timed: they find the caches as the results before
    them left them.
    """
    calls = range(CALLS[tuple(x.shape)])
    small = torch.zeros(16, device="npu")
    with shut_stream():
        for _ in range(200):
            operator(small, small)
        start = time.perf_counter()
        results = [operator(x, y) for _ in calls]
        seconds = (time.perf_counter() - start) / len(calls)
        if torch.npu.current_stream().query():
            raise RuntimeError("the kernels ran at once: this is not the time of an enqueue")
    if not all(torch.equal(r, x + y) for r in results):
        raise ValueError("the queued kernels gave wrong results")
    return seconds


def enqueue_npu() -> list[Measurement]:
    """Records of both sizes, printed."""
    records: list[Measurement] = []
    if not activation.is_active():
        return records
    torch.set_num_threads(1)
    operator = torch.ops.pto.add.default
    for size in CALLS:
        setting = Setting(size, "f32", 1)
        x, y = torch.randn(size, device="npu"), torch.randn(size, device="npu")
        enqueue_seconds(operator, x, y)
        seconds = [enqueue_seconds(operator, x, y) for _ in range(SAMPLES)]
        record = Measurement.of("enqueue_npu", setting, f"output_{x.nbytes}_bytes", seconds, None)
        goal = Goal(record.contender, "", at_most=3e-6)
        print("\n".join(report.plain(Outcome([record], goals=[goal]))), flush=True)
        records.append(record)
    return records
