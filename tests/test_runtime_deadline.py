# SPDX-License-Identifier: Apache-2.0
"""Runs at level chip whose code does not return: their deadline, and what comes after."""

import _thread
import gc
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import pto
from pto import _core

HANGS, HANGS_ITSELF, MEETS = range(3)
ORCHESTRATION = """
#include <pto/runtime.h>
extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* a) {
  pto::Orchestration o(rt, a);
  const auto x = o.inout(0);
  const int64_t what = o.integer(0), times = o.integer(1);
  while (what == 1 && *static_cast<volatile int64_t*>(x.raw().data) == 0) {}
  for (int64_t i = 0; i < times; ++i)
    o.submit(what == 0 ? "hang" : "meet", {o.no_dep(x), o.scalar(times)});  // the line
  return 0;
}
"""
# `hang` returns when x[0] is set, `meet` when `times` of its tasks run at once.
KERNELS = """
#include <pto/pto-inst.hpp>
using namespace pto;
__global__ __aicore__ void Hang(__gm__ int64_t* x, int64_t) {
  while (__atomic_load_n(x, __ATOMIC_RELAXED) == 0) {}
  __atomic_fetch_add(x + 1, 1, __ATOMIC_RELAXED);
}
__global__ __aicore__ void Meet(__gm__ int64_t* x, int64_t times) {
  __atomic_fetch_add(x, 1, __ATOMIC_RELAXED);
  while (__atomic_load_n(x, __ATOMIC_RELAXED) < times) {}
}
PTO_KERNEL(hang, Hang)
PTO_KERNEL(meet, Meet)
"""


@pytest.fixture(scope="module")
def package():
    kernels = [{"source": KERNELS, "symbol": symbol} for symbol in ("hang", "meet")]
    return pto.compile(orch=ORCHESTRATION, kernels=kernels)


@pytest.fixture
def rt(package):
    with pto.Runtime() as rt:
        rt.register("p", pkg=package)
        yield rt


@pytest.fixture
def flags():
    """Makes arrays; in the end all code that waits for theirs returns."""
    made = []

    def make():
        made.append(np.zeros(2, np.int64))
        return made[-1]

    yield make
    for x in made:
        x[0] = 1
    until(lambda: _core.abandoned_runs() == 0)


def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def arguments(what, x, times=1):
    return [pto.Arg.inout(x), pto.Arg.scalar(what), pto.Arg.scalar(times)]


def abandoned(rt, what, x, times=1):
    """The error of a run that does not return."""
    with pytest.raises(RuntimeError) as raised:
        rt.run("p", arguments(what, x, times), deadline=0.1)
    return str(raised.value)


def expect_all_cores(rt):
    threads = _core.num_threads()
    for deadline in (20, None):
        x = np.zeros(2, np.int64)
        rt.run("p", arguments(MEETS, x, threads), deadline=deadline)
        assert x[0] == threads


@pytest.mark.parametrize("workers", [1, 0], ids=["one worker", "all workers"])
@pytest.mark.parametrize("times", [1, 64], ids=["one hangs", "all that run hang"])
def test_a_kernel_that_does_not_return_is_left(package, rt, flags, workers, times):
    line = 1 + next(n for n, s in enumerate(ORCHESTRATION.split("\n")) if "the line" in s)
    x = flags()
    with pto.Runtime(workers=workers) as hangs:
        hangs.register("p", pkg=package)
        text = abandoned(hangs, HANGS, x, times)
    assert "the deadline of 0.1 s has passed, and kernel hang (task " in text
    assert f":{line}, on worker " in text and "has not returned" in text
    assert "may still write to the run's arrays" in text
    assert text.count("kernel hang") == (1 if workers == 1 else min(times, _core.num_threads()))
    expect_all_cores(rt)
    assert _core.abandoned_runs() == 1
    x[0] = 1
    until(lambda: _core.abandoned_runs() == 0)
    assert x[1] == text.count("kernel hang")  # no other task has begun
    expect_all_cores(rt)


def test_an_orchestration_that_does_not_return_is_left(rt, flags):
    assert "and the orchestration has not returned" in abandoned(rt, HANGS_ITSELF, flags())
    expect_all_cores(rt)


def test_what_an_abandoned_run_may_touch_is_kept(rt, flags):
    class Array(np.ndarray):
        pass

    kept, freed = (np.zeros(2, np.int64).view(Array) for _ in range(2))
    abandoned(rt, HANGS, kept)
    rt.run("p", arguments(MEETS, freed), deadline=60)
    references = weakref.ref(kept), weakref.ref(freed)
    kept[0] = 1
    del kept, freed
    gc.collect()
    assert references[0]() is not None and references[1]() is None
    until(lambda: _core.abandoned_runs() == 0)


def test_a_submitted_run_ends_too_and_the_next_follows(rt, flags):
    x = np.zeros(2, np.int64)
    hangs = rt.submit("p", arguments(HANGS, flags()), deadline=0.1)
    follows = rt.submit("p", arguments(MEETS, x, _core.num_threads()))
    with pytest.raises(RuntimeError, match="has not returned"):
        hangs.result(60)
    assert follows.result(60) is None and x[0] == _core.num_threads()


def test_the_ninth_such_run_is_waited_for_and_says_so(rt, flags):
    xs = [flags() for _ in range(9)]
    for x in xs[:8]:
        abandoned(rt, HANGS_ITSELF, x)
    with pytest.warns(RuntimeWarning, match="is waited for: 8 abandoned runs") as said:
        ninth = rt.submit("p", arguments(HANGS_ITSELF, xs[8]), deadline=0.1)
        until(lambda: len(said) > 0 or ninth.wait(0.1))
        assert not ninth.wait(0.1)
        xs[3][0] = 1
        with pytest.raises(RuntimeError, match="has not returned"):
            ninth.result(60)
    assert _core.abandoned_runs() == 8


def test_ctrl_c_ends_a_run_with_a_deadline(rt, flags):
    timer = threading.Timer(0.1, _thread.interrupt_main)
    timer.start()
    said = pytest.warns(RuntimeWarning, match="the run was interrupted, and kernel hang")
    with said, pytest.raises(KeyboardInterrupt):
        rt.run("p", arguments(HANGS, flags()), deadline=1000)
    timer.join()
    expect_all_cores(rt)


def test_a_process_ends_while_an_abandoned_run_goes_on(package, tmp_path):
    package.save(tmp_path / "p")
    script = f"""
import numpy as np, pto
rt = pto.Runtime()
rt.register("p", pkg=pto.CompiledPackage.load({str(tmp_path / "p")!r}))
try:
    rt.run("p", [pto.Arg.inout(np.zeros(2, np.int64)), pto.Arg.scalar(0), pto.Arg.scalar(64)],
           deadline=0.1)
except RuntimeError as error:
    print("has not returned" in str(error))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
