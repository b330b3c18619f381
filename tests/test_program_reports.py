# SPDX-License-Identifier: Apache-2.0
"""report(): where the time of a call goes, and what would help; also of made-up recordings."""

import numpy as np
import pytest

import pto
from pto.language import recording, report, rooflines
from pto.language.recording import CALL, JOB, PART, STATEMENT, Recorded
from pto.language.replay import makespan

F32 = np.float32
rng = np.random.default_rng(11)


@pto.jit
def carried(x, w):
    h = pto.zeros([1, x.shape[1]])
    for i in pto.loop(x.shape[0]):
        h = pto.tanh(h @ w + x[i : i + 1])
    return h


@pto.jit
def apart(x, out):
    for i in pto.loop(x.shape[0]):
        out[i] = x[i] / pto.sum(x[i])


@pto.jit
def projected(x, w):
    return pto.exp(x @ w)


@pto.jit
def projected_whole(x: pto.Tensor[4, 6], w: pto.Tensor[6, 3]):
    return pto.exp(x @ w)  # so small that the product has no tiles


@pto.jit
def softmax(x):
    e = pto.exp(x - pto.amax(x, -1, keepdim=True))
    return e / pto.sum(e, -1, keepdim=True)


@pto.jit
def doubled_rows(x, rows):
    return x[rows] * 2


def array(*shape):
    return rng.random(shape, F32)


def calls_of():
    return [(carried, (array(7, 8), array(8, 8))), (apart, (array(6, 5), array(6, 5))),
            (projected, (array(4, 6), array(6, 3))), (softmax, (array(33, 65),))]  # fmt: skip


@pytest.mark.parametrize("at", range(4))
def test_shares_and_times_add_up(at):
    function, args = calls_of()[at]
    before = [one.copy() for one in args]
    found = function.report(*args, repeats=3)
    assert sum(one.share for one in found.statements) + found.rest == pytest.approx(1)
    busy = sum(one.busy_s for one in found.workers)
    assert sum(one.busy_s for one in found.statements) + found.rest * busy == pytest.approx(busy)
    for one in found.workers:
        assert one.busy_s + one.idle_s == pytest.approx(found.duration_s) and one.idle_s >= -1e-9
    assert 0 < found.critical_s <= found.duration_s
    assert all(one.tobytes() == two.tobytes() for one, two in zip(args, before, strict=True))
    titles = [one.title for one in function.explain(*args).every_step() if not one.is_quiet]
    assert sorted(one.step.title for one in found.statements) == sorted(titles)
    assert str(found).startswith(f"{found.name}: ") and f"{found.workers[0].worker} idle" in found


def test_calls_bytes_and_multiply_adds_follow_from_shapes():
    rows, columns = 7, 8
    found = carried.report(array(rows, columns), array(columns, columns), repeats=1)
    (product,) = found.of("product")
    assert product.calls == rows and product.multiply_adds == columns * columns
    assert product.bytes == 4 * (columns * columns + 2 * columns)
    (loop,) = found.of("loop")
    assert loop.calls == 1 and loop.total_s >= product.total_s > 0
    m, k, n = (int(one) for one in rng.integers(1, 40, 3))
    (product,) = projected.report(array(m, k), array(k, n), repeats=1).of("product")
    assert product.multiply_adds == m * k * n and product.bytes == 4 * (m * k + k * n + m * n)
    (kernel,) = softmax.report(array(m, n), repeats=1).of("kernel")
    assert kernel.bytes == 2 * 4 * m * n and kernel.roofline_s > 0 < kernel.roofline_share
    rows = np.zeros(m, np.int64)
    (kernel,) = doubled_rows.report(array(1000, 64), rows, repeats=1).of("kernel")
    assert kernel.bytes == 2 * 4 * m * 64 + rows.nbytes


def test_a_roofline_is_the_larger_of_traffic_and_the_sum_of_work(monkeypatch):
    monkeypatch.setattr(rooflines, "read_rate", lambda nbytes, threads: 100.0 * threads)
    monkeypatch.setattr(rooflines, "copy_rate", lambda nbytes, threads: 50.0 * threads)
    monkeypatch.setattr(rooflines, "peak", lambda dtype, threads: 10.0 * threads)
    monkeypatch.setattr(rooflines, "function_rate", lambda name, threads: 2.0 * threads)
    work = rooflines.Work
    assert rooflines.seconds(work(300, 100), 1) == pytest.approx(200 / 50 + 200 / 100)
    assert rooflines.seconds(work(0, 100), 2) == pytest.approx(1)
    assert rooflines.seconds(work(300, 100, 100), 1) == pytest.approx(10)
    both = work(0, 0, 100, functions={"exp": 4, "": 20})
    assert rooflines.seconds(both, 1) == pytest.approx(10 + 2 + 2)


def test_ceilings_are_measured_numbers():
    assert 1e8 < rooflines.peak("f32", 1) < 1e13
    for nbytes in (1 << 10, 1 << 20):
        assert 1e8 < rooflines.copy_rate(nbytes, 1) < 1e13
        assert 1e8 < rooflines.read_rate(nbytes, 1) < 1e13
    assert rooflines.function_rate("exp", 1) <= rooflines.peak("f32", 1)


# --- made-up recordings --------------------------------------------------------------------------


class Made:
    """A recording of these lanes: rows of (kind, statement, trip, depth, start, end)."""

    def __init__(self, threads, *lanes):
        self.threads, self.rows = threads, lanes

    def lanes(self):
        most = 1 + max(row[1] for lane in self.rows for row in lane)
        found = []
        for lane in self.rows:
            totals = [(0, 0, 0)] * self.statements
            for kind, statement, _, _, start, end in lane:
                if kind == STATEMENT:
                    calls, ns, longest = totals[statement]
                    totals[statement] = calls + 1, ns + end - start, max(longest, end - start)
            assert most <= self.statements
            found.append((lane, totals, 0))
        return found

    def report(self, function, *args):
        found = function.explain(*args)
        self.statements = len(recording.statements_of(found.plan))
        return report.made_report(Recorded("made", found, self, None))


def steps(function, *args):
    """The numbers of the statements, by their kind; the last of each."""
    return {one.kind: one.number for one in function.explain(*args).every_step()}


def change(found, kind):
    return next((one for one in found.changes if one.kind == kind), None)


@pytest.fixture
def slow_machine(monkeypatch):
    """Rooflines so far away that no statement is above its own."""
    monkeypatch.setattr(report, "works_of", lambda plan, step, executions: [])
    monkeypatch.setattr(report, "copy_rate", lambda nbytes, threads: 1e30)


@pytest.mark.usefixtures("slow_machine")
def test_a_loop_in_order_is_simulated_side_by_side():
    args = array(4, 8), array(8, 8)
    at = steps(carried, *args)
    lane = [(CALL, -1, -1, 0, 0, 500), (STATEMENT, at["loop"], -1, 1, 50, 450)]
    lane += [(STATEMENT, at["product"], k, 2, 50 + 100 * k, 150 + 100 * k) for k in range(4)]
    found = Made(2, lane).report(carried, *args)
    one = change(found, "parallel")
    assert one.what.startswith("loop at ") and one.what.endswith(" instead of in order")
    assert one.predicted_s == pytest.approx(300e-9) and one.gain == pytest.approx(0.4)
    assert found.critical_s == pytest.approx(500e-9) and change(found, "split") is None
    (loop,) = found.of("loop")
    assert loop.busy_s == 0 and loop.total_s == pytest.approx(400e-9)
    assert found.rest == pytest.approx(0.2)
    assert [one.idle_s for one in found.workers] == pytest.approx([0, 500e-9])
    assert change(Made(1, lane).report(carried, *args), "parallel") is None


@pytest.mark.usefixtures("slow_machine")
def test_imbalance_is_simulated_with_parts_half_as_large():
    args = array(4, 5), array(4, 5)
    at = steps(apart, *args)["loop"]
    caller = [(CALL, -1, -1, 0, 0, 400), (STATEMENT, at, -1, 1, 0, 400), (JOB, at, -1, 2, 0, 400),
              (PART, at, -1, 3, 0, 100), (PART, at, -1, 3, 100, 200)]  # fmt: skip
    other = [(PART, at, -1, 0, 0, 400)]
    found = Made(2, caller, other).report(apart, *args)
    assert [one.idle_s for one in found.workers] == pytest.approx([200e-9, 0])
    (loop,) = found.of("loop")
    assert loop.busy_s == pytest.approx(600e-9) and loop.share == pytest.approx(1)
    # 100 and 100 and 400 end at 400 by the schedule; 50 50 50 50 200 200 end at 300
    assert change(found, "split").predicted_s == pytest.approx(300e-9)
    assert found.critical_s == pytest.approx(400e-9)


def test_a_kernel_at_its_roofline_and_fused_with_its_neighbour(monkeypatch):
    args = array(4, 6), array(6, 3)
    at = steps(projected_whole, *args)
    monkeypatch.setattr(report, "seconds", lambda work, threads: 100e-9)
    monkeypatch.setattr(report, "copy_rate", lambda nbytes, threads: nbytes / 150e-9)
    lane = [(CALL, -1, -1, 0, 0, 1000), (STATEMENT, at["product"], -1, 1, 0, 600),
            (STATEMENT, at["kernel"], -1, 1, 600, 1000)]  # fmt: skip
    found = Made(1, lane).report(projected_whole, *args)
    by_kind = {one.step.kind: one for one in found.statements}
    assert by_kind["product"].roofline_share == pytest.approx(100 / 600)
    predicted = sorted(one.predicted_s for one in found.changes if one.kind == "roofline")
    assert predicted == pytest.approx([500e-9, 700e-9])
    one = change(found, "fuse")
    assert f"saves {2 * 4 * 4 * 3} bytes" in one.what
    assert one.predicted_s == pytest.approx(850e-9)


def test_the_schedule_gives_each_part_to_the_first_free_worker():
    for _ in range(20):
        times = rng.integers(1, 100, rng.integers(1, 30)).tolist()
        assert makespan(times, 1) == sum(times)
        for workers in (2, 3):
            end = makespan(times, workers)
            assert max(max(times), sum(times) / workers) <= end
            assert end <= sum(times) / workers + max(times)
        assert makespan(times, len(times)) == max(times)


def test_what_has_no_room_leaves_the_changes_out(monkeypatch):
    monkeypatch.setattr(recording, "SPANS", 4)
    found = carried.report(array(9, 8), array(8, 8), repeats=1)
    assert found.changes is None and found.dropped > 0 and "had no room" in found
    assert found.of("product")[0].calls == 9  # counted all the same


@pytest.mark.parametrize("repeats", [0, -1, 1.5, True])
def test_repeats_is_a_positive_number(repeats):
    with pytest.raises(pto.Error, match="repeats is"):
        softmax.report(array(2, 3), repeats=repeats)
