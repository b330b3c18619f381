# SPDX-License-Identifier: Apache-2.0
"""Streams of the npu device: what may be pending, in which order it runs, how errors come back."""

import ctypes
import gc
import pathlib
import subprocess
import threading

import pytest
import torch

from pto import _core, build_config
from pto.adapters.torch import activation

pytestmark = pytest.mark.skipif(not activation.is_active(), reason="the npu device is not built")


@pytest.fixture(scope="session")
def kernels(tmp_path_factory) -> ctypes.CDLL:
    """Operators whose kernels wait (npu_kernels.cpp)."""
    library = tmp_path_factory.mktemp("kernels") / "npu_kernels.so"
    source = pathlib.Path(__file__).with_name("npu_kernels.cpp")
    subprocess.run(
        ["g++", *build_config.cxxflags(), "-std=c++20", "-O1", "-shared", "-fPIC", str(source),
         "-o", str(library), *build_config.ldflags()],
        check=True,
    )  # fmt: skip
    before = _core.operator_count()
    loaded = ctypes.CDLL(str(library))
    _core.announce_operators(before)
    return loaded


@pytest.fixture
def gate(kernels):
    """A gate that is shut at first, and open behind the test whatever happens."""
    kernels.shut_gate()
    yield kernels
    kernels.open_gate()
    torch.npu.synchronize()


def large(value: float = 1.0, device: str = "npu") -> torch.Tensor:
    """Too large to run on the thread that calls."""
    return torch.full((1 << 20,), value, device=device)


def test_a_launch_returns_before_its_kernel_has_run(gate):
    x = large()
    y = torch.ops.pto.test_npu_gate(x)
    assert y.shape == x.shape and not torch.npu.current_stream().query()
    gate.open_gate()
    torch.npu.synchronize()
    assert torch.npu.current_stream().query() and torch.equal(y.cpu(), x.cpu())


def test_kernels_of_two_streams_run_at_the_same_time(kernels):
    kernels.shut_gate()
    results = []
    for stream in (torch.npu.Stream(), torch.npu.Stream()):
        with torch.npu.stream(stream):
            results.append(torch.ops.pto.test_npu_meet(large(3.0), 2))
    torch.npu.synchronize()
    assert [r[0].item() for r in results] == [3.0, 3.0]


def test_kernels_of_two_devices_run_at_the_same_time(kernels):
    kernels.shut_gate()
    results = [torch.ops.pto.test_npu_meet(large(2.0, f"npu:{d}"), 2) for d in (0, 1)]
    for device in (0, 1):
        torch.npu.synchronize(device)
    assert [str(r.device) for r in results] == ["npu:0", "npu:1"] and results[1][7].item() == 2.0


def test_kernels_of_one_stream_run_in_the_order_of_their_launch(gate):
    x = torch.ops.pto.test_npu_gate(large(1.0))
    x.add_(1).mul_(3)
    y = torch.relu(x - 8) + x[0]
    x.fill_(0)
    gate.open_gate()
    assert y[5].item() == 6.0 and x.sum().item() == 0


def test_what_reads_a_number_or_copies_to_the_host_waits(gate):
    x = torch.ops.pto.test_npu_gate(large(4.0))
    threading.Timer(0.2, gate.open_gate).start()
    assert x.cpu()[0] == 4.0
    gate.shut_gate()
    x = torch.ops.pto.test_npu_gate(large(5.0))
    threading.Timer(0.2, gate.open_gate).start()
    assert torch.cumsum(x, 0)[1].item() == 10.0  # no kernel of ours: it waits itself


def test_an_event_makes_another_stream_wait_but_not_the_host(gate):
    first, second = torch.npu.Stream(), torch.npu.Stream()
    with torch.npu.stream(first):
        x = torch.ops.pto.test_npu_gate(large(6.0))
        event = first.record_event()
    second.wait_event(event)
    with torch.npu.stream(second):
        y = x * 2
    assert not event.query() and not second.query()
    gate.open_gate()
    second.synchronize()
    assert event.query() and y.cpu()[9] == 12.0


def test_events_know_the_time_between_them(gate):
    before, after = (torch.npu.Event(enable_timing=True) for _ in range(2))
    before.record()
    torch.ops.pto.test_npu_gate(large())
    after.record()
    with pytest.raises(RuntimeError, match="must be completed"):
        before.elapsed_time(after)
    gate.open_gate()
    after.synchronize()
    assert before.elapsed_time(after) > 0 > after.elapsed_time(before)


def test_a_copy_from_pinned_memory_is_pending_and_keeps_its_source(gate):
    stream = torch.npu.Stream()
    with torch.npu.stream(stream):
        torch.ops.pto.test_npu_gate(large())
        host = torch.arange(1000.0).pin_memory()
        assert host.is_pinned()
        x = host.npu(non_blocking=True)
        back = x.to("cpu", non_blocking=True)
        assert back.is_pinned() and not stream.query()
        del host
        gc.collect()
    gate.open_gate()
    stream.synchronize()
    assert torch.equal(back, torch.arange(1000.0)) and torch.equal(x.cpu(), back)


def test_memory_of_a_pending_kernel_is_not_given_to_others(gate):
    x = large(7.0)
    y = torch.ops.pto.test_npu_gate(x)
    address = x.data_ptr()
    del x
    others = [large(8.0) for _ in range(3)]
    assert address not in [o.data_ptr() for o in others]
    gate.open_gate()
    assert y[3].item() == 7.0


def test_an_error_of_a_pending_kernel_comes_with_the_next_wait_once(kernels):
    y = torch.ops.pto.test_npu_refuse(large())
    with pytest.raises(RuntimeError, match="asynchronous kernel on npu:0.*the kernel says no"):
        torch.npu.synchronize()
    torch.npu.synchronize()
    assert y.shape == (1 << 20,)
    torch.ops.pto.test_npu_refuse(large())
    with pytest.raises(RuntimeError, match="the kernel says no"):
        large().cpu()
    with pytest.raises(RuntimeError, match="test_npu_refuse.*the kernel says no"):
        torch.ops.pto.test_npu_refuse(torch.ones(3, device="npu"))  # short: at once


def test_many_threads_share_a_device(kernels):
    totals = []

    def work(value: float) -> None:
        with torch.npu.stream(torch.npu.Stream()):
            x = large(value)
            for _ in range(20):
                x = x + value
            totals.append((value, x[11].item()))

    threads = [threading.Thread(target=work, args=(float(i),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(totals) == [(float(i), 21.0 * i) for i in range(4)]


def test_streams_and_devices_are_current_for_a_thread_and_a_block():
    stream = torch.npu.Stream(device="npu:1")
    with torch.npu.stream(stream):
        assert torch.npu.current_stream(1) == stream and torch.npu.current_device() == 1
        assert torch.npu.current_stream(0) == torch.npu.default_stream(0)
        thread = threading.Thread(target=lambda: seen.append(torch.npu.current_stream(1).stream_id))
        seen: list[int] = []
        thread.start()
        thread.join()
        assert seen == [0]
    assert torch.npu.current_device() == 0
    with torch.npu.device(1):
        assert torch.ones(1, device="npu").device.index == 1
    torch.npu.set_device(1)
    assert torch.npu.current_device() == 1 == torch.accelerator.current_device_index()
    torch.npu.set_device(0)
    with pytest.raises(RuntimeError, match="npu:9 does not exist"):
        torch.accelerator.memory.memory_stats(9)
    for ask in (torch.npu.set_device, torch.npu.memory_stats, torch.npu.get_rng_state,
                torch.npu.mem_get_info, torch.npu.get_device_name):  # fmt: skip
        for number in (9, -1):
            with pytest.raises(RuntimeError, match=f"npu:{number} does not exist"):
                ask(number)
    with torch.npu.device(-1):
        assert torch.npu.current_device() == 0


def test_what_is_no_stream_is_refused_by_its_type():
    for given in (5, "npu:0", torch.device("npu")):
        with pytest.raises(
            TypeError, match=r"torch.npu.stream: .* is of type .*\n.*\n.*Stream\(\)"
        ):
            torch.npu.stream(given)
    with torch.npu.stream(None):
        assert torch.npu.current_stream() == torch.npu.default_stream()


def test_c_takes_a_stream_by_its_handle(kernels):
    assert isinstance(torch.npu.current_stream(), torch.npu.Stream | torch.Stream)
    stream = torch.npu.Stream(device="npu:1")
    with torch.npu.stream(stream):
        current = torch.npu.current_stream()
        assert current == stream and current.npu_stream == stream.npu_stream != 0
        assert current._as_parameter_.value == current.npu_stream
    assert torch.npu.current_stream(1).npu_stream == torch.npu.default_stream(1).npu_stream
    assert torch.npu.current_stream(0).npu_stream != torch.npu.current_stream(1).npu_stream
    of_stream = kernels.pto_device_of_stream
    of_stream.argtypes = [ctypes.c_void_p]
    assert of_stream(stream.npu_stream) == of_stream(stream._as_parameter_) == 1
    assert of_stream(ctypes.c_void_p(0)) == -1
