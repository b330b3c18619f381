# SPDX-License-Identifier: Apache-2.0
"""Level chip: what a run computes is what its tasks compute one after another."""

import gc
import os
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch

import pto
from pto.tasks import Report

FOLDER = Path(__file__).parent / "chip"
SYMBOLS = ("assign", "mix", "total", "blocks", "fails", "throws", "sleeps", "scalars")
(TABLE, FAN_IN, FAN_OUT, LOOP, REDUCE, WAITS, FAILS, THROWS, SLEEPS, SCALARS, RAISES, NO_KERNEL,
 WRITES_INPUT, NO_ARGUMENT, NO_SCALAR, RETURNS) = range(16)  # fmt: skip


@pytest.fixture(scope="module")
def package():
    kernels = [{"source": FOLDER / "kernels.cpp", "symbol": symbol} for symbol in SYMBOLS]
    return pto.compile(orch=FOLDER / "programs.cpp", kernels=kernels)


def runtime(package, **options):
    rt = pto.Runtime(level="chip", platform="cpu", **options)
    rt.register("programs", pkg=package)
    return rt


@pytest.fixture(params=[1, 0], ids=["one worker", "all workers"])
def rt(request, package):
    with runtime(package, workers=request.param) as rt:
        yield rt


def arguments(program, *arrays, scalars=()):
    return [pto.Arg.scalar(program), *map(pto.Arg.inout, arrays), *map(pto.Arg.scalar, scalars)]


def run(rt, program, *arrays, scalars=(), **options):
    """Runs it, and returns the report."""
    done = rt.submit("programs", arguments(program, *arrays, scalars=scalars), **options)
    assert done.result(60) is None and done.done
    return done.report


# --- random programs against NumPy ---------------------------------------------------------------


def random_view(rng, sides):
    """Eight numbers that give a view of one of the arrays; see view_of() in programs.cpp."""
    place = int(rng.integers(len(sides)))
    numbers = [place]
    for _ in range(2):
        begin, end = sorted(rng.integers(0, sides[place] + 1, 2))
        numbers += [begin, end, rng.integers(1, 4)]
    return [*numbers, rng.integers(2)]


def viewed(arrays, numbers):
    place, r0, r1, rs, c0, c1, cs, flipped = numbers
    view = arrays[place][r0:r1:rs, c0:c1:cs]
    return view.T if flipped else view


def random_program(rng, arrays, tasks):
    """Rows of (kind, scalar, view written, view read, tensor of the condition or -1)."""
    rows, sides = [], [len(a) for a in arrays]
    while len(rows) < tasks:
        to, source = random_view(rng, sides), random_view(rng, sides)
        x, y = viewed(arrays, to), viewed(arrays, source)
        if x.shape != y.shape:  # the same shape elsewhere, where it fits
            source = [rng.integers(len(sides)), *to[1:]]
            if sides[source[0]] < sides[to[0]]:
                continue
            y = viewed(arrays, source)
        if np.shares_memory(x, y) and to != source:
            continue
        condition = rng.integers(len(sides)) if rng.random() < 0.2 else -1
        rows.append([rng.integers(3), rng.integers(-9, 9), *to, *source, condition])
    return np.array(rows, np.int64)


def sequentially(arrays, rows):
    skipped = 0
    for row in rows.tolist():
        x, y = viewed(arrays, row[2:10]), viewed(arrays, row[10:18])
        if row[18] >= 0 and arrays[row[18]][0, 0] < 0:
            skipped += 1
            continue
        value = y + row[1]
        x[...] = value if row[0] == 0 else 3 * x + value + (row[1] if row[0] == 2 else 0)
    return skipped


@pytest.mark.parametrize("window", [2, 8, 4096])
@pytest.mark.parametrize("workers", [1, 0])
def test_random_programs_compute_what_they_compute_in_order(package, workers, window, deep):
    rng = np.random.default_rng(workers * 100 + window)
    with runtime(package, workers=workers, window=window) as rt:
        for _ in range(2000 if deep else 40):
            arrays = [rng.integers(-99, 99, (n, n)) for n in (7, 12, 5)]
            rows = random_program(rng, arrays, int(rng.integers(1, 60)))
            want = [a.copy() for a in arrays]
            skipped = sequentially(want, rows)
            report = run(rt, TABLE, rows, *arrays)
            for got, expected in zip(arrays, want, strict=True):
                np.testing.assert_array_equal(got, expected, err_msg=repr(rows.tolist()))
            assert report.skipped >= skipped and report.unknown_overlaps >= 0


# --- patterns ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds, width", [(64, 64), (1, 100), (3, 1)])
def test_fan_in_adds_what_every_task_of_a_round_wrote(rt, rounds, width):
    sums, elements = np.zeros(64, np.int64), np.empty((rounds, width), np.int64)
    report = run(rt, FAN_IN, sums, elements)
    assert (elements == np.arange(width)).all()
    assert (sums[:rounds] == width * (width - 1) // 2).all()
    assert report.tasks == rounds * (width + 1)


def test_a_hundred_tasks_are_read_by_64(rt):
    elements, sums = np.empty(100, np.int64), np.zeros(64, np.int64)
    report = run(rt, FAN_OUT, elements, sums)
    assert (sums == 4950).all() and report.tasks == 164


def test_a_buffer_read_by_one_task_and_overwritten_by_the_next(rt):
    buffer, seen = np.zeros(1, np.int64), np.empty(500, np.int64)
    run(rt, LOOP, buffer, seen)
    assert (seen == np.arange(500)).all() and buffer == [500]


def test_reductions_into_one_place_all_count(rt):
    total, elements = np.zeros(1, np.int64), np.arange(1000)
    run(rt, REDUCE, total, elements)
    assert total == [499500]


def test_reading_an_element_blocks_edges_by_hand(rt):
    steps, spread, last = np.zeros(1, np.int64), np.zeros(9, np.int64), np.zeros(1, np.int64)
    run(rt, WAITS, steps, spread, last)
    assert steps == [10] and last == [7]
    assert (spread == 100 * np.arange(9) + 9).all()


@pytest.mark.parametrize("view", [
    lambda x: x[::2],
    lambda x: x[5:],
    lambda x: torch.from_numpy(x)[::3],
    lambda x: pto.TensorHandle.of(x)[3:],
    lambda x: memoryview(x),
])  # fmt: skip
def test_views_of_every_library_are_written_where_they_lie(rt, view):
    x = np.zeros(200, np.int64)
    buffer, seen = np.zeros(1, np.int64), view(x)
    run(rt, LOOP, buffer, seen)
    want = np.zeros(200, np.int64)
    np.asarray(view(want) if not hasattr(view(want), "numpy") else view(want).numpy())[...] = (
        np.arange(len(x) if isinstance(seen, memoryview) else seen.shape[0])
    )
    np.testing.assert_array_equal(x, want)


def test_arrays_of_one_memory_are_ordered_by_it(rt):
    x = np.zeros(10, np.int64)
    run(rt, LOOP, x[3:4], x[4:])  # neighbours
    np.testing.assert_array_equal(x, [0, 0, 0, 6, 0, 1, 2, 3, 4, 5])
    y = np.zeros(3, np.int64)
    run(rt, LOOP, y[:1], y)  # the buffer is the first place that is written
    np.testing.assert_array_equal(y, [3, 1, 2])


def test_empty_arrays_make_no_tasks(rt):
    report = run(rt, LOOP, np.zeros(1, np.int64), np.zeros(0, np.int64))
    assert report == Report(tasks=0, edges=0, skipped=0, unknown_overlaps=0)


def test_scalars_arrive_with_their_bits(rt):
    out = np.zeros(3, np.int64)
    scalars = (-(2**63), 0.1, np.float32(0.1))
    run(rt, SCALARS, out, scalars=scalars)
    assert out[0] == -(2**63)
    assert out[1:].view(np.float64).tolist() == [0.1, float(np.float32(0.1))]


def test_bf16_arrays_of_ml_dtypes_arrive(rt):
    x = np.zeros(4, ml_dtypes.bfloat16)
    rt.run("programs", [pto.Arg.scalar(SLEEPS), pto.Arg.inout(x), *map(pto.Arg.scalar, (0, 0))])
    assert (x == 0).all()


def test_many_rounds_on_one_runtime_leave_nothing_behind(rt):
    buffer, seen = np.zeros(1, np.int64), np.empty(50, np.int64)
    run(rt, LOOP, buffer, seen)
    gc.collect()
    before = len(os.listdir("/proc/self/fd")), pto._core.memory_stats()["live_bytes"]
    for _ in range(100):
        buffer[:] = 0
        run(rt, LOOP, buffer, seen)
        assert buffer == [50]
    gc.collect()
    after = len(os.listdir("/proc/self/fd")), pto._core.memory_stats()["live_bytes"]
    assert after == before


# --- failures ------------------------------------------------------------------------------------


def fails(rt, program, *arrays, scalars=(), **options):
    with pytest.raises(pto.Error) as raised:
        rt.run("programs", arguments(program, *arrays, scalars=scalars), **options)
    return raised.value


@pytest.mark.parametrize("program, kernel, text", [
    (FAILS, "fails", "the kernel's own words"),
    (THROWS, "throws", "thrown by the kernel"),
])  # fmt: skip
def test_a_failed_task_is_named_with_its_line_and_the_rest_runs(rt, program, kernel, text):
    x = np.zeros(3, np.int64)
    error = fails(rt, program, x)
    assert isinstance(error, RuntimeError)
    lines = (FOLDER / "programs.cpp").read_text().splitlines()
    line = next(n for n, line in enumerate(lines, 1) if "the failing line" in line)
    assert kernel in str(error) and text in str(error) and f"programs.cpp:{line}" in str(error)
    np.testing.assert_array_equal(x, [1, 0, 3])  # what depends on it did not run
    run(rt, LOOP, x[:1], x[1:])
    assert x[0] == 3


def test_an_orchestration_that_raises_fails_the_run_after_its_tasks(rt):
    x = np.zeros(3, np.int64)
    error = fails(rt, RAISES, x)
    assert isinstance(error, RuntimeError) and "thrown by the orchestration" in str(error)
    run(rt, LOOP, x[:1], x[1:])


@pytest.mark.parametrize("program, text", [
    (NO_KERNEL, 'kernel "no such kernel", but this orchestration has no kernel of that name'),
    (WRITES_INPUT, "writes an input of the run"),
    (NO_ARGUMENT, "tensor 7 was asked for, but the run has 1"),
    (NO_SCALAR, "scalar 7 was asked for, but the run has 1"),
    (RETURNS, "the orchestration returned 5"),
    (17, "the orchestration raised: something that is no std::exception"),
])  # fmt: skip
def test_what_an_orchestration_does_wrong_is_said(rt, program, text):
    with pytest.raises(RuntimeError, match=re.escape(text)):
        rt.run("programs", [pto.Arg.scalar(program), pto.Arg.input(np.zeros(1, np.int64))])
    run(rt, REDUCE, np.zeros(1, np.int64), np.zeros(9, np.int64))


def test_an_orchestration_without_its_arguments_says_so(rt):
    with pytest.raises(RuntimeError, match="scalar 0 was asked for, but the run has 0"):
        rt.run("programs")


def test_a_deadline_ends_a_run(rt):
    x = np.zeros(1, np.int64)
    error = fails(rt, SLEEPS, x, scalars=(1000, 5), deadline=0.05)
    assert isinstance(error, RuntimeError) and "deadline" in str(error)
    run(rt, SLEEPS, x, scalars=(2, 1), deadline=60)


def test_an_output_in_read_only_memory_is_refused(rt):
    x = np.zeros(1, np.int64)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="argument 1 is an output, but its memory is read-only"):
        rt.run("programs", arguments(LOOP, x, np.zeros(2, np.int64)))
    with pytest.raises(ValueError, match="argument 1 .*read-only"):
        rt.run("programs", [pto.Arg.scalar(LOOP), pto.Arg.output(b"12345678")])
