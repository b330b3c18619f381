# SPDX-License-Identifier: Apache-2.0
"""The bench runner: a wrong kernel fails, samples are fair, records are well-formed."""

import json
import os
import re
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bench import frameworks_mindspore, report
from bench.__main__ import SHARES, arguments
from pto.adapters.torch import activation
from pto.bench import runner, timing
from pto.bench.ceilings import peaks, ways
from pto.bench.runner import (
    Case,
    Ceiling,
    Everything,
    Expected,
    Goal,
    Measurement,
    OffByOne,
    Outcome,
    Setting,
    Work,
    difference,
    measure,
)
from pto.config import config

ROOT = Path(__file__).resolve().parent.parent
SETTING = Setting((8, 64), "f32", 1)
FIELDS = ["case", "size", "dtype", "contender", "threads"]
FIELDS += ["median_s", "p10_s", "p90_s", "ceiling_s", "work", "unit"]


def case_of(**contenders) -> Case:
    """A case that doubles x = 1, with these contenders."""

    def items(setting):
        yield from contenders.items()
        x = torch.ones(setting.size)
        yield Expected(lambda rows: 2 * x[rows].double())

    return Case("double", items, [SETTING.size], ["f32"], (1,))


def doubled():
    return 2 * torch.ones(SETTING.size)


def wrong_in_one_element():
    result = doubled()
    result[7, 63] += 0.5
    return result


def full_of_nan():
    return doubled() * float("nan")


def of_another_shape():
    return doubled()[:, :5]


@pytest.mark.parametrize(
    "kernel, says",
    [
        (wrong_in_one_element, "63,): 2.5 where 2 is right"),
        (full_of_nan, "nan where 2 is right"),
        (of_another_shape, "(8, 5), expected (8, 64)"),
        (lambda: None, "returned NoneType"),
    ],
)
def test_a_wrong_kernel_is_reported_and_not_timed(kernel, says):
    outcome = measure(case_of(right=doubled, broken=kernel), SETTING, rounds=10)
    assert [r.contender for r in outcome.records] == ["right"]
    assert len(outcome.wrong) == 1
    assert "broken" in outcome.wrong[0] and says in outcome.wrong[0]


def test_a_kernel_that_writes_nothing_does_not_pass_with_its_neighbours_result():
    shared = torch.empty(SETTING.size)

    def writes():
        shared.fill_(2)
        return shared

    outcome = measure(case_of(writes=writes, idle=lambda: shared), SETTING, rounds=10)
    assert len(outcome.wrong) == 1 and "idle" in outcome.wrong[0]


def test_records_are_json_lines_with_the_documented_fields():
    case = case_of(a=doubled, b=doubled)

    def with_ceiling(setting):
        return [*case.contenders(setting), Ceiling("c", doubled, 0.5), Work("GB/s", 4e-9)]

    outcome = measure(replace(case, contenders=with_ceiling), SETTING, rounds=10)
    assert [r.contender for r in outcome.records] == ["a", "b", "c"]
    for line in outcome.lines():
        again = json.loads(json.dumps(line))
        assert list(again) == FIELDS
        assert 0 < again["p10_s"] <= again["median_s"] <= again["p90_s"]
        assert again["size"] == [8, 64]
        assert again["ceiling_s"] == 0.5 * outcome.seconds()["c"]
        wanted = [None, ""] if again["contender"] == "c" else [4e-9, "GB/s"]
        assert [again["work"], again["unit"]] == wanted


def test_without_a_function_that_shows_it_there_is_no_ceiling():
    [record] = measure(case_of(a=doubled), SETTING, rounds=10).records
    assert record.ceiling_s is None


@pytest.mark.parametrize(
    "goal, says",
    [
        (Goal("a", "b", at_most=2), "  reached a: 2.00x of b, goal at most 2x"),
        (Goal("a", "b", at_most=1.9), "  MISSED  a: 2.00x of b, goal at most 1.9x"),
        (Goal("b", "a", at_most=0.5), "  reached b: 0.50x of a, goal at most 0.5x"),
        (Goal("a", "", at_most=4e-6), "  reached a: 4.00 us, goal at most 4.00 us"),
        (Goal("b", "", at_most=1e-6), "  MISSED  b: 2.00 us, goal at most 1.00 us"),
    ],
)
def test_a_goal_is_printed_with_what_was_measured(goal, says):
    records = [
        Measurement.of("add", SETTING, name, [seconds], None)
        for name, seconds in (("a", 4e-6), ("b", 2e-6))
    ]
    assert report.plain(Outcome(records, goals=[goal]))[-1] == says


def outcome_of(calls: float, **seconds: float) -> Outcome:
    """Contenders, and ceilings whose names begin with "peak", of which the work is `calls`."""
    ceilings = {name: calls for name in seconds if name.startswith("peak")}
    least = min((seconds[name] * calls for name in ceilings), default=None)
    setting = Setting((4, 5, 6), "f32", 1)
    records = [Measurement.of("scaled_matmul", setting, n, [s], least) for n, s in seconds.items()]
    return Outcome(records, ceilings=ceilings)


def test_a_row_of_products_names_its_best_ceiling_and_compares_with_peers_alone():
    found = outcome_of(0.5, pto=2e-6, torch=4e-6, f32=1e-6, peak_a=3e-6, peak_b=2e-6)
    row = report.BYTES.row(found)
    assert row.startswith("scaled_matmul") and " 4x5x6 " in row and row.endswith("  peak_b")
    assert "50.0%" in row and "25.0%" in row and "100.0%" in row and " 2.00x " in row
    assert report.BYTES.row(outcome_of(1, pto=2e-6, peak=1e-6)).endswith(" -  peak")


def test_each_case_prints_its_size_and_ceilings_for_its_work():
    ours, peak = report.plain(outcome_of(0.5, pto=2e-6, peak=3e-6))
    assert " 4x5x6 " in ours and " 2.00 us " in ours
    assert " 4x5x6 " in peak and " 1.50 us " in peak
    assert "scaled_matmul" in SHARES


@pytest.mark.parametrize("precision, products", [("highest", 6), ("high", 3), ("medium", 1)])
def test_the_ceiling_of_f32_is_that_of_the_engine_that_may_multiply_it(precision, products):
    before, config.matmul_precision = config.matmul_precision, precision
    try:
        found = dict(ways("f32", has_parts=True))
        assert found.pop("f32") == 1 and found.pop("bf16 tiles") == products
        assert found == ({"bf16 pairs": 1} if products == 1 else {})
        assert ways("f32", has_parts=False) == [("f32", 1)]
        one = {c.name: c.calls for c in peaks("f32", 1, 1e6)}
        for ceiling in peaks("f32", 1, 1e6, has_parts=True):
            if products > 1 and "tiles" in ceiling.name:
                assert ceiling.name == f"peak (bf16 tiles, {products} products)"
            one.pop(ceiling.name, None)
        assert one == {}
    finally:
        config.matmul_precision = before


def test_a_goal_of_a_contender_that_is_missing_or_wrong_is_not_judged():
    case = case_of(right=doubled, broken=full_of_nan)
    goals = [Goal("right", "broken", 1), Goal("right", "elsewhere", 1), Goal("right", "", 1)]
    one = Case("double", lambda s: [*case.contenders(s), *goals], [], [], ())
    assert measure(one, SETTING, rounds=10).goals == goals[2:]


def test_results_of_other_frameworks_are_checked_too():
    right, wrong = doubled().numpy(), full_of_nan().numpy()
    outcome = measure(case_of(right=lambda: right, broken=lambda: wrong), SETTING, rounds=10)
    assert list(outcome.seconds()) == ["right"] and "broken" in outcome.wrong[0]


def test_what_mindspore_prints_becomes_records_with_the_goals_of_what_was_measured():
    lines = [
        {"case": "call", "size": [16], "contender": name, "seconds": seconds}
        for name, seconds in (("ms_add", [2e-6, 4e-6, 3e-6]), ("pto_custom", [6e-6]))
    ]
    [outcome] = frameworks_mindspore.outcomes("\n".join(map(json.dumps, lines)))
    assert outcome.seconds() == {"ms_add": 3e-6, "pto_custom": 6e-6}
    assert [(g.ours, g.theirs) for g in outcome.goals] == [("pto_custom", "ms_add")]


def test_without_mindspore_its_bench_says_that_it_is_skipped(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(frameworks_mindspore.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(frameworks_mindspore, "OWN", tmp_path / "python")
    assert frameworks_mindspore.run() == []
    assert capsys.readouterr().out.startswith("mindspore: skipped, since there is no MindSpore")


def test_a_large_result_is_checked_at_its_ends_and_between():
    rows = runner.sampled_rows(65536)
    assert rows[0] == 0 and rows[-1] == 65535 and len(rows) == runner.CHECKED_ROWS
    assert runner.sampled_rows(32).tolist() == list(range(32))


@pytest.mark.parametrize(
    ("line", "says"),
    [("softmax --json none/t.json", "bench: --json none/t.json: No such file or directory"),
     ("softmax --size 3x3", "no setting has this --size and --threads; there are: ['"),
     ("softmax --threads 999", "no setting has this --size and --threads; there are: ['")],
)  # fmt: skip
def test_what_would_be_lost_or_measures_nothing_is_refused_in_front(line, says, capsys):
    with pytest.raises(SystemExit):
        arguments(line.split())
    assert says in capsys.readouterr().err


def test_two_cases_of_one_name_are_an_error():
    with pytest.raises(ValueError, match="two cases are named"):
        runner.case("same_name", [], [])(doubled)
        runner.case("same_name", [], [])(doubled)
    del runner.CASES["same_name"]


def test_contenders_take_turns_and_none_is_always_first():
    order = []
    contenders = {name: (lambda n=name: order.append(n)) for name in "abc"}
    samples = timing.interleave(contenders, rounds=10, sample_s=0)
    assert all(len(s.seconds) == 10 for s in samples.values())
    turns = order[-12::2]  # every timed call follows one that is not
    assert turns == order[-11::2] == ["c", "a", "b", "a", "b", "c"]


def test_after_a_pause_a_contender_is_called_until_its_threads_are_awake():
    calls = []
    samples = timing.interleave({"a": lambda: calls.append(1)}, 2, sample_s=1e-3, pause_s=1e-3)
    assert len(samples["a"].seconds) == 2 and len(calls) > 20


def test_while_threads_are_spread_none_shares_the_callers_core():
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        pytest.skip("one core")
    stop = threading.Event()
    other = threading.Thread(target=stop.wait)
    other.start()
    try:
        if any(mask != cores for mask in timing._other_threads().values()):
            pytest.skip("something has bound a thread of this process")
        with timing.spread_threads():
            assert os.sched_getaffinity(0) == {min(cores)}
            assert os.sched_getaffinity(other.native_id) == cores - {min(cores)}
            inner = threading.Thread(target=stop.wait)  # inherits the caller's core
            inner.start()
        for thread in (0, other.native_id, inner.native_id):
            assert os.sched_getaffinity(thread) == cores
        with timing.spread_threads(makes_threads=True):
            assert os.sched_getaffinity(0) == os.sched_getaffinity(other.native_id) == cores
        os.sched_setaffinity(other.native_id, {min(cores)})
        with timing.spread_threads():
            assert os.sched_getaffinity(0) == cores
        assert os.sched_getaffinity(other.native_id) == {min(cores)}
    finally:
        stop.set()
        other.join()


@pytest.mark.parametrize("part, value", [(0, 1), (0.1, 1.4), (0.5, 3), (0.9, 4.6), (1, 5)])
def test_quantiles_interpolate(part, value):
    assert timing.Samples((1, 2, 3, 4, 5)).quantile(part) == pytest.approx(value)


def test_geometric_mean_of_opposite_ratios_is_one():
    assert timing.geometric_mean([4.0, 0.25]) == pytest.approx(1)
    assert timing.geometric_mean([]) == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("size", [(1, 64), (37, 384), (64, 1024)])
def test_the_reference_kernels_are_right(size, stream):
    from bench import kernels

    d = kernels.data(size, "f32")
    for kernel in kernels.KERNELS:
        out = torch.full(size, float("nan"))
        y = d.y if kernel.reads == 2 else None
        kernels.reference().contender(
            kernel.name, d.x, out=out, y=y, gain=d.gain, bias=d.bias, threads=2, stream=stream
        )()
        work = Expected(lambda rows, k=kernel: k.torch(d.double(rows)))
        assert difference(out, work, "f32") == "", kernel.name


def test_every_case_finds_its_operators():
    from bench import calls, frameworks_npu, fused, kernels  # noqa: F401 registers the cases

    setting = Setting((3, 64), "f16", 1)
    for kernel in kernels.KERNELS:
        outcome = measure(
            Case(kernel.name, lambda s, k=kernel: kernels.contenders(k, s), [], [], ()), setting, 10
        )
        assert not outcome.wrong
        assert {"pto", "pto_fresh", "torch"} <= set(outcome.seconds())
    small = Setting((16,), "f32", 1)
    for name in ("call", "call_gradient", "fused_torch", "fused_numpy", "call_npu"):
        outcome = measure(runner.CASES[name], small, 10)
        assert not outcome.wrong
        assert len(outcome.goals) == (name != "call_npu" or activation.is_active())
    for size in frameworks_npu.CALLS if activation.is_active() else ():
        x, y = torch.randn(2, *size, device="npu")
        assert frameworks_npu.enqueue_seconds(torch.ops.pto.add.default, x, y) > 0


def test_structs_of_the_benches_have_the_fields_of_the_headers():
    from bench import direct, frameworks_npu

    def fields(header: str, struct: str) -> list[str]:
        text = re.sub(r"//[^\n]*", "", (ROOT / "pto/abi" / header).read_text())
        body = re.search(rf"typedef struct {struct} \{{(.*?)\}} {struct};", text, re.S).group(1)
        found = []
        for line in body.split(";"):
            function = re.search(r"\(\*(\w+)\)\(", line)
            names = [function.group(1)] if function else re.findall(r"(\w+)(?=,|$)", line.strip())
            found += names
        return found

    mirrored = [
        (frameworks_npu._Job, "device_queue.h", "pto_device_job"),
        (direct._Tensor, "tensor.h", "pto_tensor_ref"),
        (direct._Call, "operator.h", "pto_operator_call"),
    ]
    for mirror, header, struct in mirrored:
        assert [name for name, _ in mirror._fields_] == fields(header, struct), struct


def test_several_results_are_all_compared_whole():
    def items(setting):
        right = doubled(), torch.arange(9)
        yield "right", lambda: (doubled(), torch.arange(9))
        yield "first wrong", lambda: (wrong_in_one_element(), torch.arange(9))
        yield "second wrong", lambda: (doubled(), torch.arange(9) + (torch.arange(9) == 8))
        yield Everything(right, (1e-6, 0.0))

    outcome = measure(Case("two", items, [SETTING.size], ["f32"], (1,)), SETTING, rounds=10)
    assert list(outcome.seconds()) == ["right"]
    assert [text[-8:] for text in outcome.wrong] == ["result 0", "result 1"]


@pytest.mark.parametrize(
    ("changed", "by", "is_right"), [(0, 0, True), (2, 1, True), (3, 1, False), (1, 2, False)]
)
def test_few_quantised_numbers_may_differ_by_one(changed, by, is_right):
    right = torch.full((4, 250), 100, dtype=torch.int8)
    found = right.clone()
    found[0, :changed] += by
    expected = Expected(lambda rows: right[rows], OffByOne(2e-3))
    assert (difference(found, expected, "i8") == "") == is_right


def test_the_roofline_is_the_larger_of_reading_and_of_all_that_is_computed():
    records = [
        Measurement.of("moe", Setting((8,), "bf16", 1), name, [seconds] * 3, None)
        for name, seconds in [("pto", 8e-3), ("torch", 12e-3), ("read", 1e-3), ("peak", 5e-4)]
    ]
    for calls, share, first in [(2, "25.0%", "read"), (1, "18.8%", "peak")]:
        outcome = Outcome(records, ceilings={"read": calls, "peak": 3})
        line = report.MODELS.row(outcome)
        assert share in line and "1.50x" in line and line.split("|")[-1].split()[1] == first
