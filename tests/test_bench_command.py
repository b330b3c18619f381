# SPDX-License-Identifier: Apache-2.0
"""python -m pto bench: what it measures and prints, what it writes, and what it refuses."""

import functools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pto import ceilings as machine
from pto.__main__ import main
from pto.bench import arrays, ceilings, command, peers, report, runner
from pto.bench.runner import Measurement, Outcome
from pto.config import config

TINY = {"matmul": "5x7x3", "linear": "4x9x6", "attention": "2x5x8", "rows": "3x40"}
CASES = {"attention": ["attention", "causal"], "rows": ["softmax", "layer_norm", "rms_norm"]}
PEERS = {"matmul": "torch.mm", "linear": "torch.mm", "attention": "torch", "rows": "torch"}
KEYS = ["case", "size", "dtype", "contender", "threads", "median_s", "p10_s", "p90_s"]
KEYS += ["ceiling_s", "work", "unit"]


@pytest.fixture
def bench(monkeypatch, capsys):
    """A function that runs the command, with short samples; returns exit code, output, errors."""
    quick = functools.partial(runner.interleave, sample_s=1e-5)
    monkeypatch.setattr(runner, "interleave", quick)
    monkeypatch.setattr(runner, "PAUSE_S", 0)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pto", "bench", *arguments])
        code = main()
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def without_torch(monkeypatch):
    for module in (arrays, command.attention, command.products, command.rows, peers):
        monkeypatch.setattr(module, "torch", lambda: None)


def contenders_of(path: Path, name: str, dtype: str = "f32") -> set[str]:
    """The contenders of the records of TINY, which have the documented fields."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert {r["case"] for r in records} == set(CASES.get(name, [name]))
    for record in records:
        assert list(record) == KEYS
        assert record["size"] == list(map(int, TINY[name].split("x"))) and record["dtype"] == dtype
        assert 0 < record["p10_s"] <= record["median_s"] <= record["p90_s"]
        is_ceiling = record["contender"].startswith(("peak", "copy"))
        assert record["ceiling_s"] > 0 and is_ceiling == (record["work"] is None)
    return {r["contender"] for r in records}


@pytest.mark.parametrize("name", TINY)
def test_each_case_prints_ours_the_peers_and_the_ceiling(bench, tmp_path, torch, name):
    path, chosen = tmp_path / "records.jsonl", PEERS[name]
    code, out, _ = bench(name, TINY[name], "--peers", chosen, "--json", str(path))
    assert code == 0
    cases = CASES.get(name, [name])
    assert out.count(f" {TINY[name]} (") == out.count(f"best peer ({chosen})") == len(cases)
    assert ("geometric mean" in out) == (len(cases) > 1)
    limits = {"copy"}
    if name != "rows":
        is_product = name in ("matmul", "linear")
        limits = {one.name for one in ceilings.peaks("f32", 1, 1, has_parts=is_product)}
    assert contenders_of(path, name) == {"pto", chosen, *limits}
    starts = tuple(f"  {limit} " for limit in limits)  # the best one has a line
    assert sum(line.startswith(starts) for line in out.splitlines()) == len(cases)


def test_products_have_every_library_of_the_machine_as_a_peer(bench, tmp_path, torch):
    path = tmp_path / "records.jsonl"
    found = set()
    for name in ("matmul", "linear"):
        assert bench(name, TINY[name], "--json", str(path))[0] == 0
        found |= contenders_of(path, name)
    assert {"torch.mm", "NumPy", "MKL packed", "oneDNN", "oneDNN packed"} <= found
    assert set(peers.blas_libraries()) <= found
    others = {one for one in found if not one.startswith("peak (")}
    assert others - {"pto"} <= set(command.products.PEERS)


@pytest.mark.parametrize("name", TINY)
def test_every_type_is_measured(bench, tmp_path, torch, name):
    for dtype in command.KINDS[name].dtypes[1:]:
        path = tmp_path / dtype
        arguments = ("--dtype", dtype, "--peers", PEERS[name], "--json", str(path))
        assert bench(name, TINY[name], *arguments)[0] == 0
        assert {"pto", PEERS[name]} <= contenders_of(path, name, dtype)


@pytest.mark.parametrize("name", TINY)
def test_without_pytorch_every_type_is_measured_against_numpy(bench, tmp_path, name, without_torch):
    pytest.importorskip("ml_dtypes")
    for dtype in command.KINDS[name].dtypes:
        path = tmp_path / dtype
        code, out, _ = bench(name, TINY[name], "--dtype", dtype, "--json", str(path))
        assert code == 0 and peers.PYTORCH in out
        found = contenders_of(path, name, dtype)
        assert "pto" in found and not any("torch" in one for one in found)
        assert ("NumPy" in found) == (dtype not in ("f16", "bf16"))


def test_threads_and_sizes_are_measured_in_turn_and_given_back(bench, tmp_path):
    path, before = tmp_path / "records.jsonl", config.threads
    counts = [1, command.cores()]
    arguments = ("5x7x3", "2x2x2", "--threads", ",".join(map(str, counts)), "--peers", "NumPy")
    code, out, _ = bench("matmul", *arguments, "--json", str(path))
    records = [json.loads(line) for line in path.read_text().splitlines()]
    ours = [(r["size"], r["threads"]) for r in records if r["contender"] == "pto"]
    assert ours == [(size, n) for size in ([5, 7, 3], [2, 2, 2]) for n in counts]
    assert code == 0 and "(rows x depth x columns), f32, 1 thread\n" in out
    assert config.threads == before


def test_an_interrupted_import_of_torch_is_not_begun_again(monkeypatch):
    begun = []

    def torch():
        begun.append(1)
        raise KeyboardInterrupt

    monkeypatch.setattr(peers, "torch", torch)
    with pytest.raises(KeyboardInterrupt), command.kept_threads():
        peers.set_threads(1)
    assert len(begun) == 1


def test_a_closed_output_gets_nothing(bench, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert bench("matmul", "5x7x3", "--peers", "NumPy") == (0, "", "")


def test_a_wrong_result_is_said_and_fails_the_command(bench, monkeypatch):
    monkeypatch.setattr(command.products, "operator", lambda name: lambda a, b: a @ b + 1)
    code, out, _ = bench("matmul", "5x7x3", "--peers", "NumPy")
    assert code == 1 and "WRONG: matmul (5, 7, 3) f32: pto is wrong at 15 of 15" in out


def test_other_commands_do_not_wait_for_numpy():
    program = "import sys; sys.argv = ['pto', 'config', '--version']; from pto.__main__ import main"
    command = [sys.executable, "-c", f"{program}; main(); print('numpy' in sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["False"], done.stderr


def test_causal_attention_counts_the_pairs_that_it_needs():
    assert command.attention.pairs(4, 6, is_causal=False) == 24
    assert command.attention.pairs(4, 6, is_causal=True) == 1 + 2 + 3 + 4
    assert command.attention.pairs(4, 2, is_causal=True) == 1 + 2 + 2 + 2


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["matmull"], "there is no case 'matmull'|matmul, linear, attention, rows|mean matmul?"),
        (["matmul", "5x7"], "the size '5x7'|rows x depth x columns|256x256x256"),
        (["matmul", "5x0x7"], "the size '5x0x7'|each at least 1|256x256x256"),
        (["rows", "5*7"], "the size '5*7'|rows x columns|256x1536"),
        (["rows", "-5x7"], "unrecognized"),
        (["rows", "٣x7"], "the size '٣x7'|rows x columns|256x1536"),
        (["attention", "1x2x3x4x5"], "heads x length x width or heads x queries x keys x width|as"),
        (["matmul", "999999999x999999999x9"], "needs about|this machine has|smaller size"),
        (
            ["matmul", "5x7x3", "--dtype", "f31"],
            "the dtype 'f31'|f32, f16, bf16, f64|the known names are",
        ),
        (["attention", "--dtype", "i32"], "the dtype 'i32'|f32, f16, bf16|the known names are"),
        (["matmul", "--threads", "0"], "--threads 0|a number of threads is 1 to|--threads 1"),
        (["matmul", "--threads", "999"], "--threads 999|cores that this process may use|1"),
        (["matmul", "--threads", "1,"], "--threads 1,|a number of threads is 1 to|--threads 1"),
        (["matmul", "--rounds", "3"], "--rounds 3|of 10 to 999999 samples|give such a number"),
        (["matmul", "--rounds", "9" * 20], "--rounds 99999|of 10 to 999999 samples|leave it out"),
        (
            ["matmul", "5x7x3", "--peers", "NumPi"],
            "no peer 'NumPi'|machine are|did you mean NumPy?",
        ),
        (["matmul", "--json", "/nowhere/x"], "--json /nowhere/x: No such file|at the end|folder"),
        (["matmul", "--json", "/"], "--json /: Is a directory|at the end|a folder that exists"),
    ],
)
def test_bad_input_says_what_why_and_how_to_mend_it(bench, capsys, arguments, says):
    try:
        code, _, errors = bench(*arguments)
    except SystemExit as error:  # an option that argparse does not know
        code, errors = error.code, capsys.readouterr().err
    assert code != 0
    for part in says.split("|"):
        assert part in errors


def test_a_picture_needs_matplotlib_and_is_refused_before_anything_is_measured(
    bench, monkeypatch, tmp_path
):
    find = report.importlib.util.find_spec
    missing = {"matplotlib": None}
    monkeypatch.setattr(
        report.importlib.util, "find_spec", lambda name: missing.get(name, 0) and find(name)
    )
    path = tmp_path / "bars.png"
    code, out, errors = bench("matmul", "5x7x3", "--png", str(path))
    assert (code, out) == (1, "") and "pip install matplotlib" in errors and not path.exists()


def test_a_picture_is_a_png(bench, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "bars.png"
    arguments = ("5x7x3", "2x3x4", "--peers", "NumPy,torch.mm", "--png", str(path))
    assert bench("matmul", *arguments)[0] == 0
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_checking_whether_a_file_can_be_written_leaves_none_and_changes_none(tmp_path):
    new, old = tmp_path / "new", tmp_path / "old"
    old.write_text("kept")
    command.check_writable("--json", str(new))
    command.check_writable("--json", str(old))
    assert not new.exists() and old.read_text() == "kept"


# --- tables and ceilings -------------------------------------------------------------------------


def outcome_of(**seconds: float) -> Outcome:
    def record(name: str, taken: float) -> Measurement:
        return Measurement(
            "matmul", [2, 3, 4], "f32", name, 2, taken, taken, 1.1 * taken, 1e-3, 0.1, "G"
        )

    return Outcome([record(*pair) for pair in seconds.items()], ceilings={"top": 0.5, "low": 1})


def test_a_table_has_rates_ratios_and_bars_of_the_ceiling():
    found = outcome_of(pto=2e-3, slow=8e-3, fast=1.6e-3, top=2e-3, low=4e-3)
    one = report.Comparison.of(found)
    lines = report.table(one, "a x b x c")
    assert lines[0] == "matmul 2x3x4 (a x b x c), f32, 2 threads"
    assert [line.split()[0] for line in lines[2:6]] == ["pto", "fast", "slow", "top"]
    assert lines[3].split()[8:] == ["62.5", "62%", "0.80x", "█" * 15 + "▋"]
    assert lines[2].endswith("█" * 12 + "▌") and lines[5].endswith(" " + "█" * 25)
    assert lines[6:] == ["  pto: 0.80x the best peer (fast), 50% of the ceiling"]
    assert report.table(one, "", "ascii")[2].endswith(" " + "#" * 12)


def test_a_table_of_scattered_samples_says_so():
    found = outcome_of(pto=2e-3, top=2e-3, low=4e-3)
    found.records[0] = Measurement("matmul", [1], "f32", "pto", 1, 2e-3, 1e-3, 3e-3, 1e-3, 0.1, "G")
    verdict = report.Comparison.of(found).verdict()
    assert verdict[0] == "pto: no peer was measured, 50% of the ceiling"
    assert "other processes use the cores" in verdict[1]


def test_a_summary_names_the_least_ratio():
    pairs = [(2e-3, 4e-3), (2e-3, 1e-3)]
    compared = [
        report.Comparison.of(outcome_of(pto=ours, fast=theirs, top=1e-3, low=1.0))
        for ours, theirs in pairs
    ]
    [line] = report.summary(compared)
    assert "geometric mean 1.00x, least 0.50x (matmul 2x3x4, threads 2)" in line
    assert report.summary(compared[:1]) == []


@pytest.mark.parametrize("kind", machine.KINDS)
def test_a_peak_counts_all_threads_or_says_that_the_cpu_cannot(kind):
    one, two = (machine.Peak(kind, threads).multiply_adds for threads in (1, 2))
    assert two == 2 * one
    if kind in ("f32", "f64", "i32", "i64"):
        assert one > 0


@pytest.mark.parametrize("nbytes", [1, 63, 64, 1000, 4097, 1 << 20])
@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_copies_copy_every_byte_and_no_other(nbytes, past, threads):
    memory = np.random.default_rng(nbytes).integers(0, 256, nbytes + 3, np.uint8)
    for begin in (0, 3):
        to = np.zeros(nbytes + 128, np.uint8)
        machine.Copy(to[64 + begin :][:nbytes], memory[begin:][:nbytes], threads, past)()
        assert np.array_equal(to[64 + begin :][:nbytes], memory[begin:][:nbytes])
        assert not to[: 64 + begin].any() and not to[64 + begin + nbytes :].any()
        machine.Read(memory[begin:][:nbytes], threads)()


def test_a_library_that_is_missing_is_said(monkeypatch):
    machine._library.cache_clear()
    monkeypatch.setattr(machine, "LIBRARY", "libpto_nowhere.so")
    with pytest.raises(RuntimeError, match="cannot be loaded(.|\n)*run ./dev build"):
        machine.Peak("f32", 1)
    machine._library.cache_clear()
