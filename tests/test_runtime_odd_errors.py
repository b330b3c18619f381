# SPDX-License-Identifier: Apache-2.0
"""Errors at both levels that are hard to tell: each is told, and the runtime goes on."""

import contextlib
import gc
import os
import random
import re
import select
import signal
import threading

import numpy as np
import odd_errors
import pytest
from host_cases import FOLDER, In, Inout, Number, Out, good_run, run

import pto

SOURCE = FOLDER / "odd_errors.cpp"


@pytest.mark.parametrize(
    "kernel, text",
    [
        ("unsendable", r"Unsendable: half a pair: \\ud800, nothing: \\0"),
        ("speechless", "Speechless: <exception str"),
        ("long_winded", "ValueError: beginsé+\n...\né+ends"),
        ("bottomless", "RecursionError: maximum recursion depth"),
        ("leaves", "SystemExit: left"),
        ("generates", "returned a generator, which nobody runs"),
        ("awaits", "returned a coroutine, which nobody runs"),
    ],
)
def test_what_a_python_kernel_raises_is_told_to_its_end(two, kernels, kernel, text):
    def orch(ctx, args):
        ctx.submit(3, kernel, [Inout(args)])

    with pytest.raises(pto.errors.TaskFailure, match=text) as failed:
        run(two, orch, {kernel: getattr(odd_errors, kernel)}, np.ones(4, np.float32))
    assert "python_tasks.py" not in str(failed.value)  # the traceback is the user's
    good_run(two, kernels)


@pytest.mark.parametrize("error", [odd_errors.Unsendable, odd_errors.Speechless, GeneratorExit])
def test_what_an_orchestration_raises_is_raised_and_the_runtime_goes_on(two, kernels, error):
    def orch(ctx, args):
        raise error

    with pytest.raises(error):
        run(two, orch, kernels)
    good_run(two, kernels)


@pytest.mark.parametrize("call", [lambda rt: rt.run("it"), lambda rt: rt.submit("it").result(60)],
                         ids=["run", "submit"])  # fmt: skip
def test_tensors_of_a_failed_orchestration_go_with_its_error(two, call):
    """Without a collection of circles: the next run finds the memory that this one took."""

    def orch(ctx, args):
        kept = []
        while True:
            kept.append(ctx.alloc((1 << 20,)))

    two.register("it", orch=orch)
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="shared memory"):
                call(two)
            threads = [t for t in threading.enumerate() if t.name == "pto-runs"]
            for thread in threads:  # the thread of a submitted run holds it until its own end
                thread.join(60)
            assert two._engine.taken_bytes == 0
    finally:
        gc.enable()


def test_a_text_that_is_no_utf8_is_told_with_marks_at_level_host(two, kernels):
    package = pto.compile(kernels=[{"source": SOURCE, "symbol": "mutters"}])

    def orch(ctx, args):
        ctx.submit(3, "mutters", [Inout(args)])

    with pytest.raises(pto.errors.TaskFailure, match="bytes: \ufffd\ufffd") as failed:
        run(two, orch, {"mutters": package}, np.ones(4, np.float32))
    assert failed.value.cause == "bytes: \ufffd\ufffd"
    good_run(two, kernels)


def test_a_text_that_is_no_utf8_is_told_with_marks_at_level_chip():
    with pto.Runtime(level="chip") as rt:
        rt.register("it", orch=SOURCE, kernels=[{"source": SOURCE, "symbol": "mutters"}])
        for _ in range(2):
            with pytest.raises(RuntimeError, match="bytes: \ufffd\ufffd"):
                rt.run("it", [Inout(np.ones(4, np.float32))])


def reap(child):
    """Ends a child, also one that waits in a library's exit handlers: ONNX Runtime has such."""
    with os.fdopen(os.pidfd_open(child)) as ended:
        select.select([ended], [], [], 20)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.parametrize("exits", [True, False], ids=["exits", "returns"])
def test_a_child_forked_by_an_orchestration_sends_nothing(two, kernels, exits):
    told, tells = os.pipe()
    host = os.getpid()

    def orch(ctx, args):
        z = ctx.alloc((4,))
        child = os.fork()
        if child == 0:
            for call in (lambda: ctx.alloc((4,)), lambda: add(ctx, z, args), lambda: ctx.wait(z)):
                try:
                    call()
                except RuntimeError as error:
                    os.write(tells, str(error).encode())
            return os._exit(0) if exits else None
        reap(child)
        add(ctx, z, args)
        ctx.wait(z)
        return z.numpy().tolist()

    def add(ctx, z, x):
        ctx.submit(3, "add", [Out(z), In(x), In(x), Number(4)])

    try:
        value, _ = run(two, orch, kernels, np.ones(4, np.float32))
    except RuntimeError:
        if os.getpid() != host:  # where the orchestration has returned in the child
            os._exit(0)
        raise
    os.close(tells)
    text = os.read(told, 10_000).decode()
    os.close(told)
    assert value == [2, 2, 2, 2]
    assert len(re.findall("belongs to the process that made it", text)) == 3
    good_run(two, kernels)


def test_a_child_forked_by_a_kernel_is_no_worker(two, kernels):
    def orch(ctx, args):
        return ctx.submit(3, "forks", [Inout(args)]) and None

    for _ in range(3):
        child = np.zeros(1, np.int64)
        _, report = run(two, orch, {"forks": odd_errors.forks}, child, deadline=20)
        with contextlib.suppress(ProcessLookupError), os.fdopen(os.pidfd_open(child[0])) as ended:
            assert select.select([ended], [], [], 20)[0]
        assert report.replaced_workers == 0
    good_run(two, kernels)


class Alarm(BaseException):
    pass


@pytest.fixture
def alarms():
    """Sets an alarm, which raises Alarm in this thread after some microseconds at random."""
    draw = random.Random(0)

    def raises(*_):
        raise Alarm

    before = signal.signal(signal.SIGALRM, raises)
    yield lambda: signal.setitimer(signal.ITIMER_REAL, 1e-6 + draw.random() * 1e-3)
    with contextlib.suppress(Alarm):
        signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_handler_may_raise_anywhere_and_the_runtime_goes_on(two, kernels, alarms):
    """With an exception in a callback of C++, that may be a RuntimeError with its text."""

    def orch(ctx, args):
        z = ctx.alloc((4,))
        ctx.submit(3, "add", [Out(z), In(args), In(args), Number(4)])
        ctx.wait(z)
        return z.numpy().tolist()

    two.register("it", orch=orch, kernels=kernels)
    ended = 0
    for _ in range(2000):
        try:
            alarms()
            assert two.run("it", np.ones(4, np.float32)) == [2] * 4
            ended += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Alarm:
            pass
        except RuntimeError as error:
            assert "Alarm" in str(error)
    with contextlib.suppress(Alarm):
        signal.setitimer(signal.ITIMER_REAL, 0)
    assert ended < 2000
    good_run(two, kernels)
