# SPDX-License-Identifier: Apache-2.0
"""Programs are registered, replaced, queued, cancelled; and what is said of mistakes."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import pto

FOLDER = Path(__file__).parent / "chip"
ORCHESTRATION, KERNEL = ((FOLDER / f).read_text() for f in ("ten_works.cpp", "work.cpp"))


@pytest.fixture(scope="module")
def package():
    return pto.compile(orch=ORCHESTRATION, kernels=[{"source": KERNEL}])


@pytest.fixture(scope="module")
def slow():
    return pto.compile(orch=ORCHESTRATION, kernels=[{"source": KERNEL}], flags=["-DSLOW"])


@pytest.fixture
def rt(package):
    with pto.Runtime() as rt:
        rt.register("work", pkg=package)
        yield rt


def zero():
    return np.zeros(1, np.int64)


def work(x, times=1):
    return [pto.Arg.inout(x), pto.Arg.scalar(times)]


# --- registering and running ---------------------------------------------------------------------


def test_the_signature_is_checked_before_a_run():
    with pto.Runtime() as rt:
        signature = ["inout int64", pto.ParamType.SCALAR]
        rt.register("w", orch=ORCHESTRATION, kernels=[{"source": KERNEL}], signature=signature)
        x = zero()
        rt.run("w", work(x))
        with pytest.raises(TypeError, match=r"integer\(\) of scalar 0, which is 1.5"):
            rt.run("w", work(x, 1.5))  # any scalar fits the signature, not the orchestration
        for args, text in [
            (work(x)[:1], "'w' got 1 arguments, its signature has 2\n.*inout int64, scalar"),
            (
                [pto.Arg.input(x), pto.Arg.scalar(1)],
                "argument 0 is 'input int64', .* 'inout int64'",
            ),
            (work(x.astype("f4")), "argument 0 is 'inout float32'"),
        ]:
            with pytest.raises(TypeError, match=text):
                rt.run("w", args)


@pytest.mark.parametrize("options, kind, text", [
    ({"level": "moon"}, ValueError, "unknown level 'moon'\n.*\n.*'chip'"),
    ({"level": 3}, ValueError, "unknown level 3"),
    ({"speed": 9}, TypeError, "unknown keyword 'speed'\n.*\n.*platform, device, workers, window"),
    ({"platform": "a5"}, ValueError, "platform 'a5' names hardware"),
    ({"platform": "tpu"}, ValueError, "unknown platform 'tpu'"),
    ({"device": -1}, ValueError, "device is -1"),
    ({"workers": 1.5}, ValueError, "workers is 1.5"),
    ({"window": 1}, ValueError, "window is 1"),
    ({"window": 100}, ValueError, "window is 100\n.*\n.*128"),
])  # fmt: skip
def test_a_runtime_that_cannot_be_made_says_why(options, kind, text):
    with pytest.raises(kind, match=text) as raised:
        pto.Runtime(**options)
    assert isinstance(raised.value, pto.Error)


def test_levels_are_spelled_in_any_case_and_simulated_chips_run(package):
    with pto.Runtime(level="CHIP", platform="a5sim") as rt:
        assert isinstance(rt, pto.Runtime) and rt.level == "chip"
        with pytest.raises(ValueError, match="compiled for cpu, this runtime is a5sim"):
            rt.register("work", pkg=package)
        rt.register("work", orch=ORCHESTRATION, kernels=[{"source": KERNEL}])
        x = zero()
        rt.run("work", work(x))
        assert x == [10]


@pytest.mark.parametrize("arguments, text", [
    ({"name": ""}, "the name is ''"),
    ({}, "neither orch nor pkg"),
    ({"pkg": 3}, "pkg is of type int"),
    ({"orch": "x.cpp", "blocks_dim": 1}, "unknown keyword 'blocks_dim'\n.*\n.*pkg, orch, kernels"),
])  # fmt: skip
def test_what_cannot_be_registered_is_refused(rt, package, arguments, text):
    with pytest.raises(TypeError, match=text):
        rt.register(**{"name": "x", **arguments})
    with pytest.raises(TypeError, match="has pkg and flags"):
        rt.register("x", pkg=package, flags="-DX")


@pytest.mark.parametrize("args, text", [
    (3, "args is of type int"),
    ({"x": 1}, "args is of type dict"),
    (pto.Arg.scalar(3), "args is of type Arg"),
    ([np.ones(3)], r"args\[0\] is of type ndarray"),
])  # fmt: skip
def test_arguments_that_say_nothing_are_refused(rt, args, text):
    with pytest.raises(TypeError, match=text):
        rt.run("work", args)


def test_an_unknown_program_is_a_key_error_that_lists_the_names(rt):
    with pytest.raises(KeyError, match="nothing is registered under 'wrok'\n.*registered: 'work'"):
        rt.run("wrok", [])
    for deadline in (0, -1, float("inf"), True, "1"):
        with pytest.raises(ValueError, match="deadline is"):
            rt.run("work", [], deadline=deadline)


def test_runs_happen_in_the_order_of_their_submission(rt, slow):
    rt.register("slow", pkg=slow)
    x = zero()
    runs = [rt.submit(name, work(x)) for name in ("slow", "work", "slow")]
    rt.run("work", work(x))  # waits for its turn
    assert x == [40] and all(run.done for run in runs)
    assert [run.report.tasks for run in runs] == [10] * 3
    assert repr(runs[0]) == "<Run 'slow': done>"


def test_a_run_can_be_waited_for_and_cancelled_before_its_turn(rt, slow):
    rt.register("slow", pkg=slow)
    x = zero()
    first, second = rt.submit("slow", work(x)), rt.submit("slow", work(x))
    assert not second.wait(0.001) and not second.done
    with pytest.raises(TimeoutError, match="run 'slow' has not ended after 0.001 s"):
        second.result(0.001)
    assert second.cancel() and not second.cancel() and second.done
    with pytest.raises(RuntimeError, match="run 'slow' was cancelled"):
        second.result()
    first.result()
    assert x == [10] and not first.cancel()


def test_a_program_can_be_replaced_while_it_runs(rt, slow):
    rt.register("work", pkg=slow)
    x, y = zero(), zero()
    runs = [rt.submit("work", work(x)) for _ in range(3)]
    rt.register("work", orch=ORCHESTRATION, kernels=[{"source": KERNEL}], flags=["-DSTEP=3"])
    rt.run("work", work(y))
    [run.result() for run in runs]
    assert (x, y) == ([30], [30])


def test_threads_share_a_runtime(rt):
    arrays = [zero() for _ in range(8)]

    def many(x):
        for _ in range(20):
            rt.run("work", work(x))

    threads = [threading.Thread(target=many, args=(x,)) for x in arrays]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert arrays == [[200]] * 8


def test_close_ends_what_has_not_begun_and_every_later_call(rt, slow):
    rt.register("slow", pkg=slow)
    x = zero()
    runs = [rt.submit("slow", work(x)) for _ in range(20)]
    other = threading.Thread(target=rt.close)
    other.start()
    rt.close()
    other.join()
    rt.close()
    ended = 0
    for run in runs:
        assert run.done
        try:
            run.result()
            ended += 1
        except RuntimeError as error:
            assert "the runtime is closed" in str(error)
    assert x == [10 * ended]
    for call in (lambda: rt.run("work"), lambda: rt.submit("work"), lambda: rt.register("x")):
        with pytest.raises(RuntimeError, match="the runtime is closed"):
            call()


def test_a_runtime_that_is_never_closed_lets_the_interpreter_end_after_its_runs(slow, tmp_path):
    slow.save(tmp_path / "slow.pto")
    program = f"""
import numpy as np, pto, threading
rt = pto.Runtime()
rt.register("slow", pkg=pto.CompiledPackage.load({str(tmp_path / "slow.pto")!r}))
x = np.zeros(1, np.int64)
for _ in range(3):
    last = rt.submit("slow", [pto.Arg.inout(x), pto.Arg.scalar(1)])
threading.Thread(target=lambda: (last.wait(), print(x))).start()
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, "[30]\n"), run.stderr


def test_a_forked_child_is_told_to_make_its_own_runtime(rt, package):
    rt.run("work", work(zero()))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with pytest.raises(RuntimeError, match="belongs to the process that made it"):
                rt.run("work", work(zero()))
            rt.close()
            with pto.Runtime() as own:
                own.register("work", pkg=package)
                x = zero()
                own.run("work", work(x))
            code = 0 if x == [10] else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def test_a_forked_child_is_told_that_a_run_is_its_parent_s(rt, slow):
    rt.register("slow", pkg=slow)
    *_, last = [rt.submit("slow", work(zero())) for _ in range(3)]
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(60)  # ends a child that waits
            for ask in (last.wait, lambda: last.wait(1), last.result, last.cancel):
                with pytest.raises(RuntimeError, match="belongs to the process that made it"):
                    ask()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert last.wait() and not last.cancel()
