# SPDX-License-Identifier: Apache-2.0
"""Graphs at level host: a replay leaves what a run of the orchestration leaves."""

import numpy as np
import pytest
import python_kernels
from host_cases import In, Inout, Number, Out, add, run

import pto
from pto.errors import TaskFailure


def chain(ctx, args):
    """y[i] = (i + 2) x for each row, from device to device; the last row is doubled in Python."""
    x, y = args["x"], args["y"]
    chips = ctx.peers()
    before = x
    for i in range(y.shape[0]):
        between = ctx.alloc(x.shape)
        add(ctx, chips[i % len(chips)], between, before, x)
        add(ctx, chips[(i + 1) % len(chips)], y[i], between, args["zero"])
        before = between
    ctx.submit(chips[0], "total", [In(before), Out(args["sum"]), Number(1.0), Number(args["n"])])


def arguments(kind, rt, seed, rows=5, n=3):
    rng = np.random.default_rng(seed)
    values = {"x": rng.integers(-9, 9, 40).astype(np.float32), "zero": np.zeros(40, np.float32),
              "y": np.zeros((rows, 40), np.float32), "sum": np.zeros(1)}  # fmt: skip
    if kind == "shared":
        for name, value in values.items():
            values[name] = rt.alloc(value.shape, str(value.dtype))
            values[name].numpy()[...] = value
    return {**values, "n": n}


def as_numpy(value):
    return value.numpy() if isinstance(value, pto.TensorHandle) else value


def check(args):
    x, y, total = (as_numpy(args[name]) for name in ("x", "y", "sum"))
    for i, row in enumerate(y):
        assert np.array_equal(row, (i + 2) * x)
    assert total[0] == (len(y) + 1) * x.sum() + args["n"]


@pytest.mark.parametrize("kind", ["private", "shared"])
def test_replays_on_other_arrays_equal_runs(rt, kernels, kind, recwarn):
    rt.register("chain", orch=chain, kernels={**kernels, "total": python_kernels.total})
    first = arguments(kind, rt, 0)
    graph = rt.capture("chain", first)
    assert graph.tasks == 11 and not as_numpy(first["y"]).any()  # nothing has run
    for seed in range(4):
        args = arguments(kind, rt, seed)
        for _ in range(2):
            graph.replay(args)
            check(args)
    assert graph.recaptures == 0 and not recwarn.list
    if kind == "shared":
        assert graph.report.copied_in == graph.report.copied_out == 0


def test_what_no_longer_fits_is_captured_anew_visibly(two, kernels):
    two.register("chain", orch=chain, kernels={**kernels, "total": python_kernels.total})
    graph = two.capture("chain", arguments("private", two, 0))
    changed = [arguments("private", two, 1, rows=3), arguments("private", two, 1, n=4),
               arguments("shared", two, 1)]  # fmt: skip
    for count, args in enumerate(changed, 1):
        with pytest.warns(RuntimeWarning, match="captured anew") as told:
            graph.replay(args)
        assert told[0].filename == __file__  # the line that replays
        check(args)
        assert graph.recaptures == count


def test_overlapping_arguments_stay_overlapping(two, kernels):
    def orch(ctx, args):
        add(ctx, 3, args[0], args[1], args[1])
        add(ctx, 8, args[2], args[0], args[1])

    two.register("it", orch=orch, kernels=kernels)
    for memory in (lambda: np.zeros(12, np.float32), lambda: two.alloc((12,)).numpy()):

        def views(whole):
            whole[...] = np.arange(12)
            return [whole[2:6], whole[6:10], whole[0:4]]

        first, other = memory(), memory()
        graph = two.capture("it", views(first))
        graph.replay(views(other))
        expected = np.arange(12, dtype=np.float32)
        expected[2:6] = 2 * expected[6:10]
        result = expected[2:6] + expected[6:10]
        assert np.array_equal(other[0:4], result) and np.array_equal(other[4:6], expected[4:6])
        apart = [np.zeros(4, np.float32) for _ in range(3)]
        with pytest.warns(RuntimeWarning, match="captured anew"):
            graph.replay(apart)


def test_gates_and_groups_are_replayed(two, kernels):
    def orch(ctx, args):
        signal, x = ctx.alloc((1,), "int32"), ctx.alloc((4,))
        pto.comm.notify(ctx, 3, signal, 0, "set")
        gate = pto.comm.wait(ctx, signal, 2)
        ctx.submit(3, "add", [Out(args), In(x), In(x), Number(4)], after=[gate])
        for chip in ctx.peers():
            pto.comm.notify(ctx, chip, signal)
        words = ctx.alloc((2,), "int32")
        ctx.submit_group([3, 8], "meet", {3: [Inout(words), Number(0), Number(1)],
                                          8: [Inout(words), Number(1), Number(0)]})  # fmt: skip

    two.register("it", orch=orch, kernels=kernels)
    out = np.ones(4, np.float32)
    graph = two.capture("it", out)
    for _ in range(3):
        out[...] = 1
        graph.replay(out)
        assert not out.any()


def test_a_replay_that_fails_names_the_task_and_the_graph_goes_on(two, kernels):
    def orch(ctx, args):
        ctx.submit(3, "crashes" if args["crash"] else "sleeps",
                   [Inout(args["x"]), *([] if args["crash"] else [Number(0)])])  # fmt: skip

    two.register("it", orch=orch, kernels=kernels)
    args = {"x": np.zeros(1, np.float32), "crash": True}
    graph = two.capture("it", args)
    with pytest.raises(TaskFailure, match="SIGABRT"):
        graph.replay(args)
    with pytest.warns(RuntimeWarning, match="captured anew"):
        graph.replay({**args, "crash": False})
    assert args["x"][0] == 1


def test_what_waits_cannot_be_captured(two, kernels):
    two.register("it", orch=lambda ctx, args: ctx.wait(args), kernels=kernels)
    with pytest.raises(RuntimeError, match="a capture runs no tasks"):
        two.capture("it", np.zeros(1))


def test_tensors_of_other_runtimes_are_refused(two, kernels):
    with pto.Runtime(level="host", devices=[0]) as other:
        foreign = other.alloc((4,))
        for text in ("is another one", "was closed"):
            if text == "was closed":
                other.close()
            with pytest.raises(ValueError, match=text):
                run(two, lambda ctx, args: add(ctx, 3, foreign, foreign, foreign) and None, kernels)
        copy = foreign.numpy()  # its memory lives as long as somebody holds it
        copy[...] = 1
        run(two, lambda ctx, args: add(ctx, 3, copy, copy, copy) and None, kernels)
        assert (foreign.numpy() == 2).all()
