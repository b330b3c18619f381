# SPDX-License-Identifier: Apache-2.0
"""Level host: private arrays and their copies, which tasks and the orchestration take in turns; and
the memory of a process that forks."""

import gc
import os
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch
from host_cases import In, Inout, Number, Out, add, good_run, run

import pto

# --- after a wait --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["private", "shared"])
def test_what_the_orchestration_writes_after_a_wait_stays_and_later_tasks_see_it(
    two, kernels, kind
):
    def array(n):
        return np.zeros(n, np.float32) if kind == "private" else two.alloc((n,)).numpy()

    ones, x, y, part = array(4), array(4), array(4), array(4)
    ones[:] = 1

    def orch(ctx, args):
        add(ctx, 3, x, ones, ones)
        ctx.wait(x)
        x[...] += 1
        add(ctx, 8, y, x, x)
        add(ctx, 3, part[:2], ones[:2], ones[:2])
        ctx.wait(part[:2])
        part[2:] = 5
        add(ctx, 8, part[1:2], x[:1], x[:1])

    run(two, orch, kernels)
    assert x.tolist() == [3] * 4 and y.tolist() == [6] * 4 and part.tolist() == [2, 6, 5, 5]


def test_a_task_reads_an_array_as_it_was_submitted(two, kernels):
    x, sleep = np.ones(4, np.float32), np.zeros(1, np.float32)
    results = np.zeros((3, 4), np.float32)

    def orch(ctx, args):
        slow = ctx.submit(3, "sleeps", [Inout(sleep), Number(50)])
        args = [In(x), In(x), Number(4)]
        ctx.submit(3, "add", [Out(results[0]), *args], after=[slow])
        for row in results[1:]:
            ctx.wait(x)
            x[...] += 1
            ctx.submit(8, "add", [Out(row), *args])

    run(two, orch, kernels)
    assert results.tolist() == [[2] * 4, [4] * 4, [6] * 4] and x.tolist() == [3] * 4


def test_what_was_waited_for_outlives_a_later_failure(two, kernels):
    x = np.zeros(4, np.float32)
    ones = np.ones(4, np.float32)

    def orch(ctx, args):
        add(ctx, 3, x, ones, ones)
        ctx.wait(x)
        x[...] += 1
        ctx.submit(3, "throws", [Inout(x)])

    with pytest.raises(pto.errors.TaskFailure):
        run(two, orch, kernels)
    assert x.tolist() == [3] * 4


# --- many arrays ---------------------------------------------------------------------------------


def lines_run(call):
    """The number of lines of pto.tasks that a call runs in this thread."""
    count = 0

    def each(frame, event, arg):
        nonlocal count
        count += event == "line"
        return each

    def enter(frame, event, arg):
        return each if f"{os.sep}tasks{os.sep}" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def test_the_work_for_many_private_arrays_grows_with_their_number(two):
    def orch(ctx, args):
        for x in args:
            pto.comm.put(ctx, 3, x, x)

    def waits(ctx, args):
        orch(ctx, args)
        for x in args:
            ctx.wait(x)

    def work(n):
        args = [np.full(4, i, np.float32) for i in range(n)]
        two.register("orch", orch=orch)
        two.register("waits", orch=waits)
        graph = two.capture("orch", args)
        return [lines_run(call) for call in (
            lambda: two.run("orch", args), lambda: two.run("waits", args),
            lambda: two.capture("orch", args), lambda: graph.replay(args))]  # fmt: skip

    work(1)  # what the first call alone does
    few, many = work(100), work(200)
    assert all(many[i] < 2.3 * few[i] for i in range(4)), (few, many)


def test_the_work_for_many_waits_for_an_array_grows_with_their_number(two):
    x = np.zeros(4, np.float32)

    def orch(ctx, args):
        for _ in range(args):
            pto.comm.put(ctx, 3, x, x)
            ctx.wait(x)
            x[...] += 1

    two.register("it", orch=orch)
    two.run("it", 1)
    few, many = (lines_run(lambda n=n: two.run("it", n)) for n in (400, 800))
    assert x[0] == 1201 and many < 2.3 * few


# --- element types -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype, name", [
    (np.float32, "float32"), (np.dtype("i8"), "int64"), (float, "float64"), (int, "int64"),
    (torch.float16, "float16"), (torch.bfloat16, "bfloat16"), (ml_dtypes.bfloat16, "bfloat16"),
    ("uint8", "uint8"), ("numpy.int16", "int16")])  # fmt: skip
def test_element_types_are_those_of_numpy_and_pytorch(two, dtype, name):
    made = two.alloc((2, 3), dtype)
    assert made.dtype == name and str(made.numpy().dtype) == name and made.shape == (2, 3)


# --- forks ---------------------------------------------------------------------------------------


def in_child(call):
    pid = os.fork()
    if pid == 0:
        try:
            call()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_forked_child_that_drops_tensors_leaves_those_of_its_parent(two):
    names = ["first", "middle", "last"]
    tensors = {name: two.alloc((1 << 16,)) for name in names}
    for tensor in tensors.values():
        tensor.numpy()[...] = 1
    for drops in (["first"], ["last"], names):
        in_child(lambda drops=drops: [tensors.pop(name) for name in drops] and gc.collect())
        assert all((tensor.numpy() == 1).all() for tensor in tensors.values())


def test_a_forked_child_that_drops_programs_leaves_those_of_its_workers(two, kernels):
    good_run(two, kernels)
    in_child(lambda: two._programs.clear() or kernels.clear() or gc.collect())
    assert two.run("it", np.ones(4, np.float32)) == [2] * 4


def test_a_forked_child_allocates_nothing_and_asks_no_worker(two, kernels):
    def orch(ctx, args):
        return add(ctx, 3, args, args, args)

    node, _ = run(two, orch, kernels, np.ones(4, np.float32))
    assert node.done

    def refused():
        for call in (lambda: two._memory.alloc((4,)), lambda: node.done):
            with pytest.raises(RuntimeError, match="forked"):
                call()

    in_child(refused)


# --- places --------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [
    lambda ctx, x, other: pto.comm.put(ctx, 3, x, other),
    lambda ctx, x, other: pto.comm.get(ctx, 3, x, other),
    lambda ctx, x, other: pto.comm.broadcast(ctx, x, {3: other}),
    lambda ctx, x, other: pto.comm.reduce(ctx, 3, x, {3: other}),
    lambda ctx, x, other: pto.comm.gather(ctx, 3, x[:8].reshape(1, 8), {3: other}),
    lambda ctx, x, other: pto.comm.scatter(ctx, x[:8].reshape(1, 8), {3: other}),
    lambda ctx, x, other: pto.comm.all_gather(ctx, {3: other}, {3: x[:8].reshape(1, 8)}),
    lambda ctx, x, other: pto.comm.notify(ctx, 3, x),
], ids=["put", "get", "broadcast", "reduce", "gather", "scatter", "all_gather", "notify"]
)  # fmt: skip
def test_an_error_of_a_collective_names_the_line_that_called_it(two, call):
    x, other = np.zeros(9, np.float32), np.zeros(8, np.float64)
    with pytest.raises(pto.errors.TaskFailure) as failed:
        run(two, lambda ctx, args: call(ctx, x, other) and None, {})
    assert failed.value.site == f"{Path(__file__).name}:{call.__code__.co_firstlineno}"
