# SPDX-License-Identifier: Apache-2.0
"""python -m pto package FILE CALL...: what it packages, and which words it refuses."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pto

ROOT = Path(__file__).resolve().parent.parent
X = np.random.default_rng(3).standard_normal((5, 12)).astype(np.float32)
USER = """
import pto
@pto.jit
def twice(x, factor=2.0): return x * factor
"""
OPERATOR = """
from pto import op
@op("audit_twice(Tensor x) -> Tensor")
class AuditTwice:
    def build(x): return x + x
"""


def command(folder, *words):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "pto", "package", *words]
    return subprocess.run(words, env=env, cwd=folder, capture_output=True, text=True)


def test_the_command_packages_calls_of_a_file_and_of_pto_ops(tmp_path):
    (tmp_path / "mine.py").write_text(USER)
    calls = ["twice(f32[:, 64], factor=3.0)", "twice(f64[:])", "gelu(f32[()], approximate='tanh')"]
    done = command(tmp_path, "f.pto", *calls, "--of", "mine.py", "--targets", "portable,avx2")
    assert done.returncode == 0 and "f.pto: 2 functions, 3 calls" in done.stdout, done.stderr
    loaded = pto.load(tmp_path / "f.pto")
    assert loaded.twice.variants == (
        "twice(x: f32[s0, 64], factor: float)", "twice(x: f32[1, 64], factor: float)",
        "twice(x: f64[s0], factor: float)", "twice(x: f64[1], factor: float)")  # fmt: skip
    assert loaded.twice(X[:1, :1].repeat(64, 1), 3.0)[0, 0] == X[0, 0] * 3
    assert loaded.twice(X[:, :1].repeat(64, 1), 3.0)[0, 0] == X[0, 0] * 3
    shown = command(tmp_path, "f.pto").stdout
    assert "f.pto: functions and operators, " in shown and "gelu(x: f32[], approx" in shown
    done = command(tmp_path, "g.pto", "twice(f32[:])", "--of", "mine")
    assert done.returncode == 0, done.stderr


def test_the_command_knows_an_operator_by_its_class_and_by_its_schema(tmp_path):
    (tmp_path / "mine.py").write_text(OPERATOR)
    for name in ("AuditTwice", "audit_twice"):
        done = command(tmp_path, "f.pto", f"{name}(f32[3])", "--of", "mine.py")
        assert done.returncode == 0, done.stderr
        assert pto.load(tmp_path / "f.pto").audit_twice.variants == ("audit_twice(x: f32[3])",)


def test_the_command_packages_calls_that_no_memory_holds(tmp_path):
    done = command(tmp_path, "f.pto", f"gelu(f32[{10**9}, {10**9}])")
    assert done.returncode == 0, done.stderr


def test_a_full_name_is_that_of_pto_ops(tmp_path):
    (tmp_path / "mine.py").write_text(USER.replace("twice", "softmax"))
    for name, parameters in (("softmax", ["x", "factor"]), ("pto.ops.softmax", ["x", "dim"])):
        done = command(tmp_path, "f.pto", f"{name}(f32[4])", "--of", "mine.py")
        assert done.returncode == 0, done.stderr
        assert [*pto.load(tmp_path / "f.pto").softmax.parameters] == parameters


def test_help_says_where_kernels_are_written(tmp_path):
    shown = " ".join(command(tmp_path, "--help").stdout.split())
    assert "without a file it replaces pto/lib/kernels.pto of this installation" in shown


@pytest.mark.parametrize("words, text", [
    (("f.pto", "twice"), "the call 'twice' cannot be read\n  why: it is no call; a call is"),
    (("f.pto", "twice(f32[:"), "cannot be read"),
    (("f.pto", "gelu(f31[:])"), "cannot be read\n  why: .*f31"),
    (("f.pto", "gelu(f32[1:2])"), "a size is a number or a colon"),
    (("f.pto", "gelu(__import__('os'))"), "cannot be read"),
    (("f.pto", "geluu(f32[:])"), "there is no function 'geluu'\n  why: .*gelu"),
    (("f.pto", "gelu(f32[-1])"), "a size is a number or a colon"),
    (("f.pto", "gelu(f32[:])", "--of", "none"), "--of none: ModuleNotFoundError: No module named"),
    (("f.pto", "gelu(f32[3])", "--of", "broken.py"), "broken.py:2: .* broken.py: SyntaxError: "),
    (("f.pto", "gelu(f32[3])", "--of", "boom.py"), "boom.py:2: .* boom.py: ZeroDivisionError: "),
    (("f.pto", "gelu(f32[3])", "--of", "boom"), "boom.py:2: .*--of boom: ZeroDivisionError: "),
    (("f.pto", "gelu(f32[:])", "--of", "leaves.py"), "--of leaves.py: SystemExit: 0"),
    (("f.pto", "gelu(f32[:])", "--of", "folder"), "--of folder: it is a folder without __init__"),
    (("folder", "gelu(f32[3])"), "the package folder cannot be written\n  why: Is a directory\n"),
    (("no/f.pto", "gelu(f32[3])"), "no/f.pto cannot be written\n  why: No such file or dir.*ory\n"),
    (("f.pto", "--list", "l.txt"), "--list has no use here\n  why: it belongs to --library"),
    (("f.pto", "gelu(f32[3])", "--into", "l.whl"), "--into has no use here"),
    (("f.pto", "--of", "boom.py"), "--of has no use here\n  why: it belongs to calls"),
    (("f.pto", "--targets", "avx2"), "--targets has no use here"),
    (("gelu(f32[:])", "gelu(f32[:])"), r"the file is 'gelu\(f32\[:\]\)'\n  why: this reads"),
    ((), "there is no file"),
    (("--library", "--into", "a.whl", "b.whl"), "the file is 'b.whl'\n  why: .* be overwritten"),
    (("f.pto", "gelu(f32[:])", "--of", "none.py"), "--of none.py: there is no such file"),
    (("f.pto", "gelu(f32[:])", "--targets", "sse"), "the target 'sse' is unknown"),
    (("none.pto",), "the package none.pto does not exist"),
    (("f.pto", "twice()", "--of", "mine.py"), r"twice\(\) missing a required argument: 'x'\n  why: "
     r"the signature is twice\(x, factor=2.0\)"),
    (("f.pto", "twice(f32[4], 1.0, f32[4])", "--of", "mine.py"), "too many positional arguments"),
    (("f.pto", "twice(f32[4], eps=1)", "--of", "mine.py"), "unexpected keyword argument 'eps'"),
    (("f.pto", f"twice(f32[:, {10**24}])", "--of", "mine.py"), "mine.py:3: a size does not fit 64"),
    (("f.pto", f"gelu(f32[:, {2**32}, {2**32}])"), "the size .* leaves 64 bits"),
    (("f.pto", f"gelu(f32[{'2, ' * 65}])"), "pto.DYN for each axis, at most 8"),
    (("f.pto", "gelu(" + "1+" * 9999 + "1)"), "cannot be read"),
    (("f.pto", "softmax(f32[4])", "--of", "names.py"), "'softmax' is the int 5\n  why: it"),
    (("f.pto", "gelu(f32[4])", "--of", "names.py"), "'gelu' is None\n"),
])  # fmt: skip
def test_the_command_says_what_is_wrong(tmp_path, words, text):
    (tmp_path / "broken.py").write_text("x = 1\nx = = 2\n")
    (tmp_path / "boom.py").write_text("x = 1\nx / 0\n")
    (tmp_path / "leaves.py").write_text("raise SystemExit(0)\n")
    (tmp_path / "mine.py").write_text(USER)
    (tmp_path / "names.py").write_text("softmax, gelu = 5, None\n")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.iterdir())
    done = command(tmp_path, *words)
    place = r"(?!<|/|[^\n]*\.py:\d+: )" if ".py:" not in text else ""  # none of Python's own
    text = f"error: {place}.*{text}"
    assert done.returncode == 1 and re.match(text, done.stderr, re.S), done.stderr
    left = [one for one in sorted(tmp_path.iterdir()) if one.name != "__pycache__"]
    assert "Traceback" not in done.stderr and left == before
