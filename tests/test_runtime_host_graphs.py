# SPDX-License-Identifier: Apache-2.0
"""Graphs at level host: a replay leaves what a run of the orchestration leaves."""

import ctypes
import dataclasses

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


# --- what a replay depends on --------------------------------------------------------------------


@pytest.mark.parametrize("first, then, recaptures", [
    (np.float32(2), np.float32(2), 0), (np.float32(2), np.float32(3), 1), (2.0, np.float64(2), 1),
    (0.0, -0.0, 1), (np.float32(0), np.float32(-0.0), 1), (float("nan"), float("nan"), 0),
    (np.float32("nan"), np.float32("nan"), 0), (ctypes.c_float(2), ctypes.c_float(3), 1),
    (ctypes.c_float(2), ctypes.c_float(2), 0), (2, 2.0, 1), (True, 1, 1),
    (Number(2.0), Number(-2.0), 1), (Number(0.0), Number(-0.0), 1), (Number(2), Number(2), 0),
    (Number(2.0), Number(2.0, "float64"), 1), (Number(2.0), Number(2.0, "float32"), 1),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:graph 'it' is captured anew")
def test_a_number_counts_by_its_type_and_bits(two, first, then, recaptures):
    two.register("it", orch=lambda ctx, args: None)
    graph = two.capture("it", {"deep": [first]})
    for _ in range(2):
        graph.replay({"deep": [then]})
    assert graph.recaptures == recaptures


@pytest.mark.filterwarnings("ignore:graph 'it' is captured anew")
def test_a_scalar_of_numpy_that_has_changed_reaches_the_kernel(two):
    def orch(ctx, args):
        ctx.submit(3, "total", [In(args["x"]), Out(args["y"]), args["f"], Number(1)])

    two.register("it", orch=orch, kernels={"total": python_kernels.total})
    args = {"x": np.ones(4, np.float32), "y": np.zeros(1)}
    graph = two.capture("it", {**args, "f": Number(np.float32(2))})
    for factor in (2, 3, 5):
        graph.replay({**args, "f": Number(np.float32(factor))})
        assert args["y"][0] == 4 * factor + 1


@dataclasses.dataclass
class Batch:
    x: np.ndarray
    y: np.ndarray


def test_the_arrays_of_a_dataclass_are_arguments(two, kernels, recwarn):
    def orch(ctx, args):
        add(ctx, 3, args.y, args.x, args.x)

    two.register("it", orch=orch, kernels=kernels)
    graph = two.capture("it", Batch(np.ones(4, np.float32), np.zeros(4, np.float32)))
    for n in (1, 2):
        batch = Batch(np.full(4, n, np.float32), np.zeros(4, np.float32))
        graph.replay(batch)
        assert batch.y.tolist() == [2 * n] * 4
    assert graph.recaptures == 0 and not recwarn.list


class Model:  # a mere object: a replay takes its arrays as the orchestration's own
    def __init__(self):
        self.state = np.zeros(4, np.float32)


def test_arrays_that_the_orchestration_has_from_elsewhere_are_copied_in_and_back(two, kernels):
    own, model = np.zeros(4, np.float32), Model()

    def orch(ctx, args):
        add(ctx, 3, own, args["x"], own)
        add(ctx, 8, args["model"].state, own, own)

    two.register("it", orch=orch, kernels=kernels)
    args = {"x": np.ones(4, np.float32), "model": model}
    graph = two.capture("it", args)
    for n in range(1, 4):
        graph.replay(args)
        assert own.tolist() == [n] * 4 and model.state.tolist() == [2 * n] * 4
    own[:] = 10
    graph.replay(args)
    assert own.tolist() == [11] * 4 and graph.recaptures == 0
    assert graph.report.copied_in == 3 * own.nbytes and graph.report.copied_out == 2 * own.nbytes


def test_a_view_of_an_array_that_the_orchestration_uses_as_a_whole_stays_one(two, kernels):
    big, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)

    def orch(ctx, args):
        add(ctx, 3, args["part"], args["part"], args["part"])
        add(ctx, 8, args["y"], big, big)

    two.register("it", orch=orch, kernels=kernels)

    def replayed(part):
        graph.replay({"part": part, "y": y})
        assert np.array_equal(y, 2 * big)

    apart = np.ones(2, np.float32)
    graph = two.capture("it", {"part": big[2:4], "y": y})
    replayed(big[2:4])
    assert big[2:4].tolist() == [4, 6]
    big[:] = 100
    replayed(big[2:4])
    assert big.tolist() == [100] * 2 + [200] * 2 + [100] * 4 and graph.recaptures == 0
    for recaptures, part in enumerate((big[4:6], apart, big[4:6]), 1):
        with pytest.warns(RuntimeWarning, match="captured anew"):
            replayed(part)
        assert graph.recaptures == recaptures
    replayed(big[4:6])
    assert big[4:6].tolist() == [800] * 2 and apart.tolist() == [2] * 2


def test_views_that_lie_between_each_other_are_arguments_of_their_own(two):
    def orch(ctx, args):
        ctx.submit(3, "halve", [In(args[1][2:]), Out(args[0][:2])])

    two.register("it", orch=orch, kernels={"halve": python_kernels.halve})
    graph = two.capture("it", list(np.zeros((4, 2), np.float32).T))
    m = np.arange(8, dtype=np.float32).reshape(4, 2)
    graph.replay(list(m.T))
    assert m.tolist() == [[2.5, 1], [3.5, 3], [4, 5], [6, 7]] and graph.recaptures == 0


def test_an_orchestration_that_fails_leaves_the_graph_as_it_was(two, kernels):
    def orch(ctx, args):
        if args["fail"]:
            raise ZeroDivisionError
        add(ctx, 3, args["x"], args["x"], args["x"])

    two.register("it", orch=orch, kernels=kernels)
    args = {"x": np.ones(4, np.float32), "fail": False}
    graph = two.capture("it", args)
    for _ in range(2):
        with pytest.warns(RuntimeWarning), pytest.raises(ZeroDivisionError):
            graph.replay({**args, "fail": True})
    graph.replay(args)
    assert args["x"].tolist() == [2] * 4 and graph.recaptures == 0


# --- a replay that fails -------------------------------------------------------------------------


def spoils(x):
    x[...] = 9
    raise ValueError("after it wrote")


@pytest.mark.parametrize("kernel, deadline", [("spoils", None), ("hangs", 0.5)])
@pytest.mark.parametrize("call", ["run", "replay"])
def test_what_tasks_wrote_before_another_failed_is_copied_back(
    two, kernels, kernel, deadline, call
):
    def orch(ctx, args):
        done = add(ctx, 3, args["good"], args["ones"], args["ones"])
        ctx.submit(8, kernel, [Inout(args["bad"])], after=[done])
        add(ctx, 3, args["late"], args["bad"], args["ones"])

    two.register("it", orch=orch, kernels={**kernels, "spoils": spoils})
    args = {name: np.zeros(4, np.float32) for name in ("good", "bad", "late")}
    args["ones"] = np.ones(4, np.float32)
    graph = two.capture("it", args)
    with pytest.raises(TaskFailure):
        if call == "run":
            two.run("it", args, deadline=deadline)
        else:
            graph.replay(args, deadline=deadline)
    assert args["good"].tolist() == [2] * 4
    assert not args["bad"].any() and not args["late"].any()


@pytest.mark.parametrize("call", ["run", "replay"])
def test_of_many_parts_of_an_array_those_that_succeeded_are_copied_back(two, call):
    x, y = np.ones(1100, np.float32), np.zeros(1100, np.float32)

    def orch(ctx, args):
        for i in range(len(x)):
            pto.comm.put(ctx, 3, y[i : i + 1], x[i : i + 1])
        ctx.submit(8, "spoils", [Inout(y[7:8])])

    two.register("it", orch=orch, kernels={"spoils": spoils})
    graph = two.capture("it")
    with pytest.raises(TaskFailure, match="after it wrote"):
        two.run("it") if call == "run" else graph.replay()
    assert y[7] != 9 and y.sum() - y[7] == 1099


def test_a_replay_that_would_write_a_read_only_array_is_refused_before_its_tasks_run(two, kernels):
    def orch(ctx, args):
        add(ctx, 3, count, count, args["x"])
        add(ctx, 3, args["y"][:2], args["x"][:2], args["x"][:2])

    count = two.alloc((4,))
    two.register("it", orch=orch, kernels=kernels)
    args = {name: np.ones(4, np.float32) for name in "xy"}
    graph = two.capture("it", args)
    args["x"].flags.writeable = False
    graph.replay(args)
    whole = np.zeros(4, np.float32)
    read_only = whole[:]
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match=r"replay: an array of shape \(4,\) is read-only"):
        graph.replay({**args, "y": read_only})
    assert count.numpy().tolist() == [1] * 4 and not whole.any()
    graph.replay(args)
    assert count.numpy().tolist() == [2] * 4 and args["y"].tolist() == [2, 2, 1, 1]
