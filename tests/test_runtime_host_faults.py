# SPDX-License-Identifier: Apache-2.0
"""Level host: whatever fails, the error names it, the runtime goes on, nothing is left behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import python_kernels
from host_cases import In, Inout, Number, good_run, run

import pto
from pto.errors import TaskFailure
from pto.tasks.turn import RunCancelled, Turn

# --- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how, text, number", [
    ("throws", "as it was told", 0),
    ("crashes", r"process \d+ was killed by signal 6 \(SIGABRT\)", signal.SIGABRT)])  # fmt: skip
def test_a_failed_task_is_named_and_others_finish(two, kernels, how, text, number, tmp_path):
    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)

    def orch(ctx, args):
        ctx.submit(3, how, [Inout(x)])
        ctx.submit(3, "sleeps", [Inout(x), Number(0)])
        ctx.submit(8, "sleeps", [Inout(y), Number(20)])

    two.trace(tmp_path / "t.json")
    with pytest.raises(TaskFailure, match=text) as raised:
        run(two, orch, kernels)
    two.trace(None)
    failure = raised.value
    assert (failure.name, failure.device, failure.signal) == (how, 0, number)
    assert failure.site.startswith("test_runtime_host_faults.py:") and failure.site in str(failure)
    assert "1 task follows it" in failure.why
    assert x[0] == 0 and y[0] == 1  # copied back though the run failed
    slices = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    failed = {one["name"]: one["args"]["failed"] for one in slices if "cname" in one}
    # A worker that dies leaves no record of its task.
    assert failed == ({} if number else {how: "as it was told"}), failed
    good_run(two, kernels)


def test_a_python_kernel_that_raises_is_named(two, kernels):
    made = {**kernels, "raises": python_kernels.raises, "writes": python_kernels.writes_input}
    for name, text in (("raises", "ValueError: as it was told"), ("writes", "read-only")):
        with pytest.raises(TaskFailure, match=text):
            run(two, lambda ctx, args, n=name: ctx.submit(3, n, [In(args)]) and None, made,
                np.ones(3))  # fmt: skip
    good_run(two, kernels)


@pytest.mark.parametrize("waits_for", ["the task", "its tensor", "a task that follows"])
def test_a_failed_task_is_named_also_where_the_orchestration_waits_for_it(two, kernels, waits_for):
    def orch(ctx, args):
        failed = ctx.submit(3, "raises", [Inout(args)])
        after = ctx.submit(8, "sleeps", [Inout(args), Number(0)])
        ctx.wait({"the task": failed, "its tensor": args}.get(waits_for, after))

    with pytest.raises(TaskFailure, match="ValueError: as it was told") as raised:
        run(two, orch, {**kernels, "raises": python_kernels.raises}, np.zeros(4, np.float32))
    assert raised.value.name == "raises"
    assert raised.value.site.startswith("test_runtime_host_faults.py:")
    good_run(two, kernels)


def test_an_orchestration_that_raises_raises_that(two, kernels):
    x = np.zeros(1, np.float32)

    def orch(ctx, args):
        ctx.submit(3, "sleeps", [Inout(x), Number(30)])
        ctx.submit(3, "sleeps", [Inout(x), Number(1000)])
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        run(two, orch, kernels)
    good_run(two, kernels)


@pytest.mark.parametrize("what", ["a task", "a wait", "the orchestration"])
def test_a_deadline_ends_what_never_returns(two, kernels, what):
    def orch(ctx, args):
        task = ctx.submit(3, "hangs", [Inout(np.zeros(1, np.float32))])
        while what != "a task":
            ctx.wait(task) if what == "a wait" else time.sleep(0.01)

    with pytest.raises(TaskFailure, match="deadline of 0.1 s has passed"):
        run(two, orch, kernels, deadline=0.1)
    good_run(two, kernels)


def test_a_worker_killed_in_mid_run_is_named_and_replaced(two, kernels):
    pids = two.workers()

    def orch(ctx, args):
        ctx.submit(8, "hangs", [Inout(args)])
        os.kill(pids[8], 0)
        time.sleep(0.05)
        os.kill(pids[8], signal.SIGKILL)

    with pytest.raises(
        TaskFailure, match=r"on device 8: .*\(SIGKILL\), probably out of memory: this program"
    ):
        run(two, orch, kernels, np.zeros(1, np.float32))
    assert two.workers()[3] == pids[3] and two.workers()[8] != pids[8]
    good_run(two, kernels)


def test_a_kernel_that_writes_on_and_on_ends_where_the_tensors_end(kernels):
    wild = """
#include <pto/pto-inst.hpp>
using namespace pto;
__global__ __aicore__ void Wild(__gm__ float* x) {
  for (int64_t i = 0;; i += 16) x[i] = 1;
}
PTO_KERNEL(wild, Wild)
"""
    made = {**kernels, "wild": pto.compile(kernels=[{"source": wild}])}
    with pto.Runtime(level="host", devices=[3], memory=1 << 28) as rt:
        taken = rt.alloc((1 << 16,))
        assert all(Path(f"/proc/{pid}/oom_score_adj").read_text() == "1000\n"
                   for pid in rt.workers().values())  # fmt: skip
        with pytest.raises(
            TaskFailure, match=r"\(SIGBUS\): it touched memory behind all"
        ) as raised:
            run(rt, lambda ctx, args: ctx.submit(3, "wild", [Inout(taken)]) and None, made)
        assert raised.value.signal == signal.SIGBUS
        assert not rt.alloc((1 << 20,)).numpy().any()
        good_run(rt, kernels)


def test_the_memory_of_the_workers_is_half_of_what_the_process_may_use(tmp_path):
    from pto.tasks.memory_limit import memory_limit

    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    group = tmp_path / "a" / "b"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("max\n")
    assert memory_limit("0::/a/b\n", tmp_path) == machine
    (tmp_path / "a" / "memory.max").write_text("4096000\n")  # of a group around it
    assert memory_limit("0::/a/b\n", tmp_path) == 4096000
    old = tmp_path / "memory" / "c"
    old.mkdir(parents=True)
    (old / "memory.limit_in_bytes").write_text("81920\n")
    assert memory_limit("5:cpu,memory:/c\n4:cpu:/a\n", tmp_path) == 81920
    assert memory_limit("", tmp_path) == memory_limit("nonsense\n", tmp_path) == machine
    (old / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert memory_limit("4:memory:/c/gone\n", tmp_path) == machine
    large = (memory_limit() // 2 + 4096,)
    with (
        pto.Runtime(level="host", devices=[0]) as rt,
        pytest.raises(RuntimeError, match="asks for"),
    ):
        rt.alloc(large, "uint8")


def test_what_is_submitted_to_a_dead_worker_runs_on_the_next_one(two, kernels):
    x = two.alloc((1,))

    def orch(ctx, args):
        for _ in range(20):
            os.kill(two.workers()[3], signal.SIGKILL)  # idle: it waits for a task
            time.sleep(0.0005)  # dead, and not yet replaced
            ctx.submit(3, "sleeps", [Inout(x), Number(0)])
            ctx.wait(x)

    report = run(two, orch, kernels)[1]
    assert x.numpy()[0] == 20 and report.replaced_workers >= 1


def test_a_killed_member_of_a_group_ends_the_others(two, kernels):
    def orch(ctx, args):
        signals = ctx.alloc((4,), "int32")
        members = {3: [Inout(signals), Number(0), Number(2)],  # 8 waits for a word that never comes
                   8: [Inout(signals), Number(1), Number(3)]}  # fmt: skip
        ctx.submit_group([3, 8], "meet", members)
        time.sleep(0.05)
        os.kill(two.workers()[3], signal.SIGKILL)

    with pytest.raises(TaskFailure, match="SIGKILL"):
        run(two, orch, kernels)
    good_run(two, kernels)


def test_a_run_can_be_cancelled_before_and_after_it_began(two, kernels):
    begun = threading.Event()

    def orch(ctx, args):
        ctx.submit(3, "hangs", [Inout(np.zeros(1, np.float32))])
        begun.set()

    two.register("it", orch=orch, kernels=kernels)
    first, second = two.submit("it"), two.submit("it")
    begun.wait(10)
    assert second.cancel() and first.cancel()
    for cancelled in (first, second):
        with pytest.raises(RuntimeError, match="cancelled"):
            cancelled.result(10)
    assert not first.cancel()
    good_run(two, kernels)


@pytest.fixture
def quick_switches():
    """A switch of threads may come between any two steps."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_a_run_that_is_cancelled_leaves_an_orchestration_that_goes_on(two, kernels):
    begun, went_on = threading.Event(), []

    def orch(ctx, args):
        begun.set()
        for _ in range(1000):
            time.sleep(0.005)
        went_on.append(True)

    two.register("it", orch=orch)
    run = two.submit("it")
    begun.wait(10)
    assert run.cancel()
    with pytest.raises(TaskFailure, match="it was cancelled"):
        run.result(20)
    assert not went_on
    good_run(two, kernels)


def test_a_run_that_is_cancelled_before_its_orchestration_begins_does_not_begin():
    turn = Turn(None, 0)
    assert turn.cancel()
    with pytest.raises(RunCancelled), turn.of(1):
        pytest.fail("it has begun")


class EngineThatStops:
    @staticmethod
    def stop(*_):
        return True


def test_a_run_with_a_deadline_may_be_cancelled_while_its_orchestration_begins(quick_switches):
    turns = []

    def begins():
        for _ in range(300):
            turns.append(Turn(EngineThatStops, 60))
            with contextlib.suppress(RunCancelled), turns[-1].of(1):
                pass

    thread = threading.Thread(target=begins, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while thread.is_alive() and time.monotonic() < deadline:
        if turns:
            turns[-1].cancel()
    assert len(turns) == 300 and not thread.is_alive()


def test_cancel_stops_no_other_run(two):
    begun, ends = threading.Event(), threading.Event()
    two.register("waits", orch=lambda ctx, args: begun.set() or ends.wait(20))
    two.register("it", orch=lambda ctx, args: None)
    first = two.submit("it")
    first.result(20)
    second = two.submit("waits")
    begun.wait(20)
    assert not first.stop()  # to which cancel() comes where the run ends meanwhile
    ends.set()
    assert second.result(20) is True


def test_close_waits_for_what_has_begun_and_ends_the_processes(kernels):
    rt = pto.Runtime(level="host", devices=[0, 1])
    pids = list(rt.workers().values())
    x = rt.alloc((1,))
    rt.register("it", orch=lambda ctx, args: ctx.submit(0, "sleeps", [Inout(x), Number(50)]) and 5,
                kernels=kernels)  # fmt: skip
    runs = [rt.submit("it") for _ in range(3)]
    time.sleep(0.02)
    threads = [threading.Thread(target=rt.close) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert runs[0].result(1) == 5 and x.numpy()[0] == 1
    for late in runs[1:]:
        with pytest.raises(RuntimeError, match="closed"):
            late.result(1)
    for call in (lambda: rt.run("it"), lambda: rt.alloc((1,)), rt.workers):
        with pytest.raises(RuntimeError, match="closed"):
            call()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("how", ["run", "wait", "replay"])
def test_an_interrupt_ends_the_run_and_is_raised(two, kernels, how):
    def orch(ctx, args):
        task = ctx.submit(3, "hangs", [Inout(args)])
        if how == "wait":
            ctx.wait(task)

    two.register("it", orch=orch, kernels=kernels)
    x = two.alloc((1,))
    graph = two.capture("it", x) if how == "replay" else None
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        graph.replay(x) if graph else two.run("it", x)
    good_run(two, kernels)


SCRIPT = """
import os, signal, sys, time
import numpy as np, pto
rt = pto.Runtime(level="host", devices=[0, 1])
print(*rt.workers().values(), flush=True)
{then}
"""


@pytest.mark.parametrize("then", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(0)",
                                  "sys.exit(3)", "raise SystemError", "rt.close()"])  # fmt: skip
def test_workers_end_with_their_parent_however_it_ends(then):
    child = subprocess.run([sys.executable, "-c", SCRIPT.format(then=then)], capture_output=True,
                           text=True)  # fmt: skip
    pids = list(map(int, child.stdout.split()))
    assert len(pids) == 2, child.stderr
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_forked_child_leaves_the_workers_alone(two, kernels):
    pid = os.fork()
    if pid == 0:
        try:
            two.run("it")
        except RuntimeError as error:
            two.close()
            os._exit(0 if "forked" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    good_run(two, kernels)


def test_programs_may_be_registered_while_others_run(two, kernels):
    x = two.alloc((1,))
    two.register("slow", orch=lambda ctx, args: ctx.submit(3, "sleeps", [Inout(x), Number(50)])
                 and None, kernels=kernels)  # fmt: skip
    slow = two.submit("slow")
    two.register("slow", orch=lambda ctx, args: "other")
    assert two.run("slow") == "other"
    slow.result(10)
    assert x.numpy()[0] == 1
