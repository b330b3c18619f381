# SPDX-License-Identifier: Apache-2.0
"""Level host: devices are processes; what a run leaves is what its tasks do one after another."""

import gc
import json

import ml_dtypes
import numpy as np
import pytest
import python_kernels
import torch
from host_cases import In, Inout, Number, Out, add, good_run, run

import pto

# --- scenarios -----------------------------------------------------------------------------------


def test_a_loop_over_all_devices_goes_from_one_to_the_next(rt, kernels):
    def orch(ctx, args):
        x = args["x"]
        for i in range(50):
            y = ctx.alloc(x.shape)
            chips = ctx.peers()
            add(ctx, chips[i % len(chips)], y, x, args["x"])
            x = y
        ctx.wait(x)
        return x.numpy().copy()

    x = np.arange(100, dtype=np.float32)
    value, report = run(rt, orch, kernels, {"x": x})
    assert np.array_equal(value, 51 * x)
    assert report.tasks == 50 and report.edges <= 99 and report.copied_in == x.nbytes


def test_a_ring_all_reduce_of_tasks_equals_the_sum(rt, kernels):
    """Reduce-scatter, then all-gather: each device passes a piece to the next in every step."""
    rng = np.random.default_rng(0)

    def orch(ctx, args):
        chips = ctx.peers()
        n = len(chips)
        parts = [ctx.alloc((n, 40)) for _ in chips]
        for part, values in zip(parts, args, strict=True):
            part.numpy()[...] = values
        for step in range(n - 1):
            for i in range(n):
                piece, after = (i - step) % n, (i + 1) % n
                to = parts[after][piece]
                add(ctx, chips[after], to, to, parts[i][piece])
        for step in range(n - 1):
            for i in range(n):
                piece, after = (i + 1 - step) % n, (i + 1) % n
                pto.comm.put(ctx, chips[i], parts[after][piece], parts[i][piece])
        for part in parts:
            ctx.wait(part)
        return [part.numpy().copy() for part in parts]

    n = len(rt.devices)
    values = rng.integers(-50, 50, (n, n, 40)).astype(np.float32)
    results, _ = run(rt, orch, kernels, values)
    for result in results:
        assert np.array_equal(result, values.sum(0))


@pytest.mark.parametrize("op, oracle", [("sum", np.add), ("max", np.maximum), ("min", np.minimum),
                                        ("product", np.multiply)])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "int64", "float16", "bfloat16"])
def test_all_reduce_equals_numpy(rt, op, oracle, dtype):
    rng = np.random.default_rng(1)
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    for shape in ((7, 5), (1, 3), (2,), (0, 4)):
        values = rng.integers(-3, 4, (len(rt.devices), *shape)).astype(kind)

        def orch(ctx, args, values=values, shape=shape):
            parts = {chip: ctx.alloc(shape, dtype) for chip in ctx.peers()}
            for part, value in zip(parts.values(), values, strict=True):
                part.numpy()[...] = value
            pto.comm.all_reduce(ctx, parts, op)
            for part in parts.values():
                ctx.wait(part)
            return [part.numpy().copy() for part in parts.values()]

        expected = values[0].astype(np.float64)
        for value in values[1:]:
            expected = oracle(expected, value.astype(np.float64))
        for result in run(rt, orch, {})[0]:
            assert np.array_equal(result.astype(np.float64), expected), shape


def test_the_other_collectives_move_what_they_say(rt):
    n = len(rt.devices)

    def orch(ctx, args):
        chips = ctx.peers()
        root = chips[-1]
        source, rows = ctx.alloc((3,)), ctx.alloc((n, 3))
        source.numpy()[...] = [1, 2, 3]
        rows.numpy()[...] = np.arange(3 * n).reshape(n, 3)
        parts = {chip: ctx.alloc((3,)) for chip in chips}
        pto.comm.broadcast(ctx, source, parts)
        total, gathered = ctx.alloc((3,)), ctx.alloc((n, 3))
        pto.comm.reduce(ctx, root, total, parts)
        pto.comm.scatter(ctx, rows, parts)
        pto.comm.gather(ctx, root, gathered, parts)
        everywhere = {chip: ctx.alloc((n, 3)) for chip in chips}
        pto.comm.all_gather(ctx, parts, everywhere)
        copy = ctx.alloc((3,))
        pto.comm.get(ctx, root, copy, parts[root])
        for handle in (total, gathered, copy, *everywhere.values()):
            ctx.wait(handle)
        rows = rows.numpy()
        assert np.array_equal(total.numpy(), np.float32([n, 2 * n, 3 * n]))
        assert np.array_equal(gathered.numpy(), rows) and np.array_equal(copy.numpy(), rows[-1])
        assert all(np.array_equal(e.numpy(), rows) for e in everywhere.values())

    run(rt, orch, {})


def test_a_feed_forward_layer_split_over_two_devices(two, kernels):
    """Each device has half of the hidden units; the halves of the result are added."""
    rng = np.random.default_rng(2)
    x = rng.integers(-4, 5, (6, 8)).astype(np.float32)
    up = rng.integers(-4, 5, (8, 20)).astype(np.float32)
    down = rng.integers(-4, 5, (20, 8)).astype(np.float32)

    def orch(ctx, args):
        parts = {}
        for i, chip in enumerate(ctx.peers()):
            half = slice(10 * i, 10 * i + 10)
            mine, hidden, parts[chip] = ctx.alloc((8, 10)), ctx.alloc((6, 10)), ctx.alloc((6, 8))
            mine.numpy()[...] = args["up"][:, half]
            sizes = [Number(6), Number(8), Number(10)]
            ctx.submit(chip, "matmul", [Out(hidden), In(args["x"]), In(mine), *sizes])
            ctx.submit(chip, "relu", [Inout(hidden), Number(60)])
            sizes = [Number(6), Number(10), Number(8)]
            ctx.submit(
                chip, "matmul", [Out(parts[chip]), In(hidden), In(args["down"][half]), *sizes]
            )
        pto.comm.all_reduce(ctx, parts)
        pto.comm.put(ctx, ctx.peers()[0], args["out"], parts[ctx.peers()[0]])

    out = np.zeros((6, 8), np.float32)
    run(two, orch, kernels, {"x": x, "up": up, "down": down, "out": out})
    assert np.array_equal(out, np.maximum(x @ up, 0) @ down)


def test_two_devices_and_a_python_task(two, kernels):
    def orch(ctx, args):
        a, b = ctx.alloc((100,)), ctx.alloc((100,))
        add(ctx, 3, a, args["x"], args["x"])
        add(ctx, 8, b, args["x"], a)
        ctx.submit(8, "total", [In(b), Out(args["sum"]), Number(0.5), Number(7)])
        ctx.submit(3, "halve", [In(b), Out(args["half"])])

    x = np.arange(100, dtype=np.float32)
    total, half = np.zeros((), np.float64), torch.zeros(100)
    kernels = {**kernels, "total": python_kernels.total, "halve": python_kernels.halve}
    run(two, orch, kernels, {"x": x, "sum": total, "half": half})
    assert total == 3 * x.sum() * 0.5 + 7
    assert np.array_equal(half.numpy(), x * 1.5)


def test_members_of_a_group_signal_each_other_through_shared_memory(rt, kernels):
    def orch(ctx, args):
        chips = ctx.peers()
        signals = ctx.alloc((len(chips),), "int32")
        for _ in range(3):
            members = {
                chip: [Inout(signals), Number(i), Number((i + 1) % len(chips))]
                for i, chip in enumerate(chips)
            }
            ctx.submit_group(chips, "meet", members)
        ctx.wait(signals)
        return signals.numpy().copy()

    value, report = run(rt, orch, kernels)
    assert np.array_equal(value, [3] * len(rt.devices)) and report.tasks == 3


def test_a_wait_for_a_private_array_copies_it_back_and_one_for_its_task_does_not(two, kernels):
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)

    def orch(ctx, args):
        ctx.wait(add(ctx, 3, y, x, x))
        before = y.tolist()
        ctx.wait(y)
        return before, y.tolist()

    assert run(two, orch, kernels)[0] == ([0] * 4, [2] * 4)


def test_notify_and_wait_order_what_bytes_do_not(two, kernels):
    def orch(ctx, args):
        signal, x, y = ctx.alloc((1,), "int32"), ctx.alloc((4,)), ctx.alloc((4,))
        gate = pto.comm.wait(ctx, signal, 2)
        late = ctx.submit(3, "add", [Out(y), In(x), In(x), Number(4)], after=[gate])
        assert not late.done
        for chip in ctx.peers():
            ctx.submit(chip, "sleeps", [Inout(x), Number(2)])
            pto.comm.notify(ctx, chip, signal)
        ctx.wait(late)
        pto.comm.notify(ctx, 3, signal, 9, "set")
        ctx.wait(signal)
        return int(signal.numpy()[0])

    assert run(two, orch, kernels)[0] == 9


@pytest.mark.parametrize(
    "value", [2**53 + 1, np.int64(2**53 + 1), -(10**400)], ids=["int", "numpy", "huge"]
)
def test_a_wait_refuses_numbers_that_are_no_doubles(two, kernels, value):
    def orch(ctx, args):
        signal = ctx.alloc((1,), "int64")
        with pytest.raises(pto.errors.InvalidValue, match="compared as a double"):
            pto.comm.wait(ctx, signal, value)

    run(two, orch, kernels)


def test_packages_with_an_orchestration_run_on_a_device(two, kernels):
    def orch(ctx, args):
        ctx.submit(8, "orchestrated", [In(args["x"]), In(args["y"]), Out(args["z"])])

    x, y, z = np.float32([1, 2, 3]), np.float32([10, 20, 30]), np.zeros(3, np.float32)
    run(two, orch, kernels, {"x": x, "y": y, "z": z})
    assert np.array_equal(z, x + 2 * y)


# --- memory --------------------------------------------------------------------------------------


def test_views_of_private_arrays_overlap_as_they_do(two, kernels):
    whole = np.arange(12, dtype=np.float32)
    tensor = torch.arange(12, dtype=torch.float32)
    for data in (whole, tensor):

        def orch(ctx, args):
            add(ctx, 3, args[2:6], args[6:10], args[8:12])
            add(ctx, 8, args[8:12], args[0:4], args[4:8])

        expected = np.arange(12, dtype=np.float32)
        expected[2:6] = expected[6:10] + expected[8:12]
        expected[8:12] = expected[0:4] + expected[4:8]
        _, report = run(two, orch, kernels, data)
        assert np.array_equal(np.asarray(data), expected)
        assert report.copied_in == 48 and report.copied_out == 32


def test_shared_tensors_are_not_copied(two, kernels):
    x, z = two.alloc((64,)), two.alloc((2, 64))
    x.numpy()[...] = 3

    def orch(ctx, args):
        add(ctx, 3, z[0], x, x)
        add(ctx, 8, z.numpy()[1], x, torch.from_numpy(x.numpy()))

    _, report = run(two, orch, kernels)
    assert (z.numpy() == 6).all() and report.copied_in == report.copied_out == 0


def test_memory_comes_back_with_the_last_who_holds_it(two, kernels):
    before = two._engine.taken_bytes
    for _ in range(20):

        def orch(ctx, args):
            with ctx.scope():
                a = ctx.alloc((1 << 20,))
                add(ctx, 3, a[:8], a[8:16], a[8:16])
            ctx.scope_begin()
            b = ctx.alloc((1 << 20,))
            ctx.scope_end()
            for gone in (a, b):
                with pytest.raises(ValueError, match="no memory behind it"):
                    gone.numpy()
            with pytest.raises(ValueError, match="scope_end: no scope has begun"):
                ctx.scope_end()

        run(two, orch, kernels)
    gc.collect()
    held = two._engine.taken_bytes - before
    assert held < 4 << 20, held


def test_a_tensor_that_is_let_go_of_lives_until_its_tasks_are_done(two, kernels):
    x = two.alloc((1000,))
    out = two.alloc((1000,))

    def orch(ctx, args):
        for _ in range(50):
            one = ctx.alloc((1000,))
            one.numpy()[...] = 1
            ctx.submit(3, "sleeps", [Inout(x), Number(1)])
            add(ctx, 3, out, out, one)  # waits behind the sleeper; `one` has no other owner
            del one
            gc.collect(0)
            ctx.alloc((1000,)).numpy()[...] = 7  # takes memory that was freed

    run(two, orch, kernels)
    assert (out.numpy() == 50).all()


def test_an_output_that_is_an_input_too_is_ordered_by_its_bytes(rt, kernels):
    def orch(ctx, args):
        chips = ctx.peers()
        for i in range(20):
            add(ctx, chips[i % len(chips)], args["out"], args["in"], args["one"])

    same = np.zeros(8, np.float32)
    run(rt, orch, kernels, {"in": same, "out": same, "one": np.ones(8, np.float32)})
    assert (same == 20).all()


def test_memory_that_is_exhausted_is_said_and_comes_back(two):
    def orch(ctx, args):
        held = []
        with pytest.raises(RuntimeError, match=r"asks for 64 MB, but .* of 256 MB"):
            for _ in range(5):
                held.append(ctx.alloc((16 << 20,)))
        held.clear()
        ctx.alloc((48 << 20,))

    run(two, orch, {})


def test_a_trace_names_devices_kernels_and_lines(two, kernels, tmp_path):
    path = tmp_path / "t.json"
    two.trace(path)
    good_run(two, kernels)
    two.trace(None)
    events = json.loads(path.read_text())["traceEvents"]
    tasks = [event for event in events if event.get("name") == "add"]
    assert len(tasks) == 2 and len({event["tid"] for event in tasks}) == 2
    assert "host_cases.py:" in json.dumps(tasks)
    assert two.report().kernels[0].calls == 2
    assert {event["args"]["name"] for event in events if event["ph"] == "M"} == {
        "host", "device 0", "device 1"}  # fmt: skip
    two.trace(path, level=3)
    good_run(two, kernels)
    report = two.report()  # tasks name their devices, so no other schedule is simulated
    assert report.critical_s > 0 and report.changes is None and "would help" not in str(report)


def test_a_trace_of_level_3_has_edges_from_tasks_that_were_done(two, kernels, tmp_path):
    def orch(ctx, args):
        x, y, last = (ctx.alloc((8,)) for _ in range(3))
        tasks = []
        for device in (3, 8, 3, 8):
            tasks.append(add(ctx, device, y, x, x))
            ctx.wait(tasks[-1])
        ctx.submit(3, "add", [Out(last), In(x), In(x), Number(8)], after=tasks)

    path = tmp_path / "t.json"
    two.trace(path, level=3)
    run(two, orch, kernels)
    events = json.loads(path.read_text())["traceEvents"]
    assert len([event for event in events if event["ph"] == "s"]) == 7  # a chain, and 4 by after
    assert len(two.report().critical) == 5
