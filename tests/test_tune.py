# SPDX-License-Identifier: Apache-2.0
"""pto.tune(): it keeps what is faster and has the same bits, for later calls and processes."""

import errno
import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import pto
from pto.language import tune as tuner
from pto.language import tuned

X = np.random.default_rng(3).standard_normal((64, 96), np.float32)
OPTIONS = {"merge": 2, "order": "depth", "prefetch_bytes": 512, "tiles_per_task": 4, "workers": 2}


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A folder of compiled kernels, and so of tuned options, of its own."""
    monkeypatch.setenv("PTO_CACHE_DIR", str(tmp_path / "kernels"))
    return tmp_path / "kernels" / "tuned.json"


@pytest.fixture(autouse=True)
def few_choices(monkeypatch):
    few = {name: (1,) for name in ("workers", "tiles_per_task", "merge")}
    few |= {"order": ("depth",), "prefetch_bytes": (0,)}
    monkeypatch.setattr(tuner, "choices", lambda: few)


def softmax_of(x):
    e = pto.exp(x - pto.amax(x, -1, keepdim=True))
    return e / pto.sum(e, -1, keepdim=True)


def rows_of(x, out):
    for i in pto.loop(x.shape[0]):
        out[i] = pto.softmax(x[i]) * 2 + x[i]


def put(path, function, args, options):
    found = pto.jit(function)
    key = tuned.key_of(found.trace(*args))
    tuned.Store(str(path)).put(key, {"options": options})


def choices(function, *args):
    return {one.what: one.by for one in function.explain(*args).choices}


def test_a_search_keeps_what_is_faster_for_later_calls(own_cache, monkeypatch):
    """The clock says that workers=1 halves the time of a call."""
    softmax = pto.jit(softmax_of)
    wanted = softmax(X)
    times = {"now": 0.0}
    real = tuned.form_of

    def timed(function, **changes):
        made = real(function, **changes)
        calls = made.compiled if hasattr(made, "compiled") else made
        cost = 0.001 if changes.get("chosen", {}).get("workers") == 1 else 0.002

        def call(*args):
            times["now"] += cost
            return made(*args)

        call.compiled, call.__name__ = calls, made.__name__
        return call

    monkeypatch.setattr(tuner, "form_of", timed)
    monkeypatch.setattr(tuner.time, "perf_counter", lambda: times["now"])
    found = pto.tune(softmax, X, budget_s=30)
    assert found.options == {"workers": 1} and found.path == str(own_cache)
    assert found.default_seconds == pytest.approx(2 * found.seconds)
    tried = {name for one in found.trials for name in one.options}
    assert tried == {*OPTIONS} - {"order"}  # one kernel has one order
    assert "workers=1" in str(found) and "2.00 x the default" in str(found)
    np.testing.assert_array_equal(softmax(X), wanted)
    assert choices(softmax, X)["workers"] == "tuner"
    assert list(json.loads(own_cache.read_text())["entries"]) == [found.cpu]
    text = "import numpy as np, pto, test_tune as t\n"
    text += "print(t.choices(pto.jit(t.softmax_of), t.X)['workers'])"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": ":".join(sys.path)})  # fmt: skip
    assert done.stdout.strip() == "tuner"


@pytest.mark.usefixtures("own_cache")
def test_arguments_stay_as_they_are_and_programs_with_loops_are_tuned():
    rows, out = pto.jit(rows_of), np.full_like(X, 7)
    x = X.copy()
    found = pto.tune(rows, x, out, budget_s=2)
    assert (out == 7).all() and (x == X).all() and found.trials
    assert all(not one.note for one in found.trials), str(found)
    pto.jit(rows_of)(x, out)
    want = np.zeros_like(X)
    plain = tuned.form_of(rows, chosen={})
    plain(x, want)
    np.testing.assert_array_equal(out, want)


def test_lines_of_the_user_stand(own_cache):
    def mixed(x):
        with pto.options(merge=3, workers=5):
            e = pto.exp(x) + 1
        return e * 2 - x

    put(own_cache, mixed, (X,), OPTIONS)
    found = pto.jit(mixed).explain(X)
    made = {(one.what, one.value): one.by for one in found.choices}
    assert made[("merge", "3")] == made[("workers", "5")] == "user"
    assert made[("merge", "2")] == made[("order", "depth")] == "tuner"
    assert [one.by for one in found.choices if one.what.startswith("tiles of")] == ["model"] * len(
        found.steps_of("kernel")
    )


def test_a_report_is_of_the_code_that_runs_with_what_was_found(own_cache):
    def chain(x):
        return pto.tanh(pto.exp(x) + 1) * 2

    chained = pto.jit(chain)
    assert len(chained.report(X, repeats=1).statements) == 1
    put(own_cache, chain, (X,), {"merge": 1})
    chained.compiled.forget_kernels()  # as tune() does behind a search
    assert [one.calls for one in chained.report(X, repeats=1).statements] == [1] * 4


def test_another_file_is_read_where_config_names_it(own_cache, tmp_path, monkeypatch):
    other = tmp_path / "from_elsewhere.json"
    softmax = pto.jit(softmax_of)
    pto.tune(softmax, X, budget_s=1, path=other)
    assert other.exists() and not own_cache.exists()
    put(other, softmax_of, (X,), {"workers": 3})
    assert "workers" not in choices(pto.jit(softmax_of), X)
    monkeypatch.setenv("PTO_TUNED", "")
    pto.config.tuned = f"/nowhere{os.pathsep}{other}"
    assert choices(pto.jit(softmax_of), X)["workers"] == "tuner"
    put(own_cache, softmax_of, (X,), {})  # this machine's own file is asked first
    assert "workers" not in choices(pto.jit(softmax_of), X)


def test_a_file_that_cannot_be_written_is_refused_before_the_search(own_cache, tmp_path):
    (tmp_path / "file").write_text("")
    softmax = pto.jit(softmax_of)
    for path in (tmp_path, tmp_path / "file" / "options.json", "a\0b"):
        with pytest.raises(
            pto.Error, match="tune: what a search finds cannot be written"
        ) as raised:
            pto.tune(softmax, X, path=path)
        assert raised.value.why and "path=" in raised.value.fix
        assert "test_tune.py" in raised.value.location
    assert not own_cache.parent.exists()  # no kernel was compiled


def test_a_disk_that_is_full_after_the_search_is_told(own_cache, monkeypatch):
    def full(path, pieces):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tuned, "write_whole", full)
    with pytest.raises(pto.Error, match="cannot be written to .*tuned.json\n.*No space left"):
        pto.tune(pto.jit(softmax_of), X, budget_s=0.1)


def test_other_cpus_and_programs_have_other_entries(own_cache, monkeypatch):
    put(own_cache, softmax_of, (X,), {"workers": 3})
    assert "workers" not in choices(pto.jit(lambda x: pto.softmax(x) + 1), X)
    monkeypatch.setattr(tuned, "cpu_kind", lambda: "another")
    assert "workers" not in choices(pto.jit(softmax_of), X)


DAMAGED = ["", "{", "[]", '{"format": 9, "entries": {}}', '{"format": 1}',
           '{"format": 1, "entries": {"CPU": {"KEY": {"options": {"speed": 3}}}}}',
           '{"format": 1, "entries": {"CPU": {"KEY": {"options": {"workers": -3}}}}}',
           '{"format": 1, "entries": {"CPU": {"KEY": {"options": {"order": "wide"}}}}}',
           '{"format": 1, "entries": {"CPU": {"KEY": {"options": {"order": "\\ud800"}}}}}',
           '{"format": 1, "entries": {"CPU": 3}}', "\x00\xff", "[" * 100_000]  # fmt: skip


@pytest.mark.parametrize("text", DAMAGED, ids=[text[-40:] for text in DAMAGED])
def test_a_damaged_file_is_named_once_and_replaced(own_cache, text):
    own_cache.parent.mkdir(exist_ok=True)
    own_cache.write_text(text, encoding="latin-1")
    softmax = pto.jit(softmax_of)
    with pytest.warns(RuntimeWarning, match="tuned.json is not read") as caught:
        wanted = softmax(X)
        softmax.explain(X)
    assert len(caught) == 1
    put(own_cache, softmax_of, (X,), {"workers": 2})
    with warnings.catch_warnings(action="error"):
        again = pto.jit(softmax_of)
        np.testing.assert_array_equal(again(X), wanted)
        assert choices(again, X)["workers"] == "tuner"


@pytest.mark.usefixtures("own_cache")
def test_a_file_that_is_named_and_not_there_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(pto.config, "tuned", str(tmp_path / "absent.json"))
    with pytest.warns(RuntimeWarning, match="absent.json', and there is no such file"):
        pto.jit(softmax_of)(X)


@pytest.mark.usefixtures("own_cache")
def test_a_candidate_with_other_bits_is_left_out(monkeypatch):
    real = tuner._Search.results

    def results(self, runner):
        wrong = runner.compiled.chosen.get("workers") == 1
        return [b"other"] if wrong else real(self, runner)

    monkeypatch.setattr(tuner._Search, "results", results)
    found = pto.tune(pto.jit(softmax_of), X, budget_s=30)
    (left,) = [one for one in found.trials if one.note]
    assert left.options["workers"] == 1 and "a defect of OpenPTO" in str(found)
    assert found.options.get("workers") != 1


def test_mistakes_are_named():
    with pytest.raises(pto.Error, match="tune: the function is a value of type builtins.function"):
        pto.tune(softmax_of, X)
    for budget in (0, -1, True, "long", None, float("inf")):
        with pytest.raises(pto.Error, match="tune: budget_s is .*\n.*\n.* above 0 and below 1e6"):
            pto.tune(pto.jit(softmax_of), X, budget_s=budget)
    for path in (os.fsencode("bytes.json"), 3):
        with pytest.raises(pto.Error, match="tune: the path is "):
            pto.tune(pto.jit(softmax_of), X, path=path)


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("budget", [np.float32(0.1), np.int64(1)])
def test_a_budget_may_be_a_number_of_numpy(budget):
    assert pto.tune(pto.jit(softmax_of), X[:0], budget_s=budget).seconds > 0
