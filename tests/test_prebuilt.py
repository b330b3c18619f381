# SPDX-License-Identifier: Apache-2.0
"""Kernels without a compiler: those of the cache, and those of pto.ops that were built ahead."""

import base64
import csv
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pto import ahead
from pto.language import prebuilt
from pto.language.call_texts import expanded

ROOT = Path(__file__).resolve().parent.parent
FIRST = """
import json, sys, time
from pathlib import Path
import numpy as np
import pto
from pto import ops
from pto.language import prebuilt
prebuilt.PATH = Path(sys.argv[1])
x, w = np.linspace(-2, 2, 60, dtype=np.float32).reshape(5, 12), np.ones(12, np.float32)
calls = {"gelu": (x,), "softmax": (x,), "silu": (x,), "add": (x, x), "mul": (x, x),
         "silu_mul": (x, x), "relu": (x,), "rms_norm": (x, w), "layer_norm": (x, w, w),
         "matmul": (x, x.T.copy())}
found, spent = {}, {}
for name, args in calls.items():
    began = time.thread_time()
    found[name] = getattr(ops, name)(*args).tolist()
    spent[name] = time.thread_time() - began
print(json.dumps([found, spent]))
"""
LIST = """
gelu(f32[:, :])
softmax(f32[:, :])    # a comment
silu(f32[:, :])
add(f32[:, :], f32[:, :])
mul(f32[:, :], f32[:, :])
silu_mul(f32[:, :], f32[:, :])
relu(f32[:, :])
rms_norm(f32[:, :], f32[:])
layer_norm(f32[:, :], f32[:], f32[:])
matmul(f32[:, :], f32[:, :])
"""
JITTED = """
import sys
import numpy as np
import pto
@pto.jit
def cubes(x): return x * x * x
@pto.jit
def squares(x): return x * x
print(cubes(np.arange(4.0)).tolist())
if sys.argv[1:]: squares(np.arange(4.0))
"""


def child(code, *words, **env):
    env = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.run(command, env=env, capture_output=True, text=True)


def command(*words, **env):
    env = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    words = [sys.executable, "-m", "pto", "package", "--library", *map(str, words)]
    return subprocess.run(words, env=env, capture_output=True, text=True)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """The file of ten kernels for this machine's target."""
    folder = tmp_path_factory.mktemp("ahead")
    (folder / "list.txt").write_text(LIST)
    done = command(folder / "kernels.pto", "--list", folder / "list.txt", "--targets",
                   prebuilt._core.describe_machine().split("target: ")[1].split()[0])  # fmt: skip
    assert done.returncode == 0 and "10 kernels, " in done.stdout, done.stderr
    return folder / "kernels.pto"


def first_calls(path, tmp_path, **env):
    done = child(FIRST, path, PTO_CACHE_DIR=str(tmp_path / "none"), **env)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return json.loads(done.stdout)


def test_operators_built_ahead_run_without_a_compiler_at_once(kernels, tmp_path):
    runs = [first_calls(kernels, tmp_path, PATH="", PTO_CXX="/no/compiler") for _ in range(3)]
    assert not (tmp_path / "none").exists()
    spent = {name: min(one[name] for _, one in runs) for name in runs[0][1]}
    assert max(spent.values()) < 0.005, spent  # of the thread, whatever else the machine does
    compiled, _ = first_calls(tmp_path / "no file", tmp_path)
    assert (tmp_path / "none").exists() and compiled == runs[0][0]


def spoilt(content):
    length = prebuilt._HEAD.unpack_from(content)[1]
    header = json.loads(content[prebuilt._HEAD.size :][:length])
    other = json.dumps({**header, "stamp": "0" * 64}).encode()
    rest = content[prebuilt._HEAD.size + length :]
    yield b""
    yield content[:10]
    yield content[: prebuilt._HEAD.size + length // 2]
    yield prebuilt._HEAD.pack(prebuilt.MAGIC, len(other)) + other + rest  # another installation
    yield content[: -len(rest)] + bytes(b ^ 1 for b in rest)
    yield prebuilt._HEAD.pack(prebuilt.MAGIC, 1 << 62) + content[prebuilt._HEAD.size :]
    yield prebuilt._HEAD.pack(prebuilt.MAGIC, 2) + b"[]"


def test_a_file_that_is_damaged_or_of_another_installation_gives_nothing(kernels, tmp_path):
    content = kernels.read_bytes()
    whole = prebuilt.KernelFile(kernels)
    assert len(whole.index) == 10 and all(whole.find(key) for key in whole.index)
    for place, one in enumerate(spoilt(content)):
        (tmp_path / "spoilt").write_bytes(one)
        found = prebuilt.KernelFile(tmp_path / "spoilt")
        assert not any(found.find(key) for key in whole.index), place
    assert prebuilt.KernelFile(tmp_path).index == {}  # a folder


def test_a_cached_kernel_runs_after_its_compiler_has_gone(tmp_path):
    env = {"PTO_CACHE_DIR": str(tmp_path / "cache")}
    wanted = child(JITTED, **env)
    assert wanted.returncode == 0, wanted.stderr
    for gone in ({"PATH": ""}, {"PTO_CXX": "/no/compiler"}):
        done = child(JITTED, **env, **gone)
        assert (done.returncode, done.stdout) == (0, wanted.stdout), done.stderr
        done = child(JITTED, "squares", **env, **gone)
        assert done.returncode == 1 and "fix: " in done.stderr
        assert "no C++ compiler was found" in done.stderr or "was not found" in done.stderr
    for record in (tmp_path / "cache").glob("toolchain-*.txt"):
        record.write_text("gcc")
    assert child(JITTED, **env, PATH="").returncode == 1


def test_the_list_of_a_release_is_within_its_limit():
    calls = expanded(ahead.LIST.read_text().splitlines())
    assert len(calls) == len(set(calls)) and 100 < 2 * len(calls) <= ahead.MOST_KERNELS
    assert "gelu(bf16[:, :, :], approximate='tanh')" in calls


def test_kernels_are_put_into_a_wheel_and_its_list_of_files(kernels, tmp_path):
    wheel = tmp_path / "openpto-0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("pto/__init__.py", "")
        made.writestr("openpto-0.dist-info/RECORD", "pto/__init__.py,,0\n")
    for _ in range(2):  # a second time replaces them
        ahead.put_into_wheel(kernels, wheel)
    with zipfile.ZipFile(wheel) as made:
        names, content = made.namelist(), made.read(ahead.MEMBER)
        rows = [*csv.reader(made.read("openpto-0.dist-info/RECORD").decode().splitlines())]
    assert names.count(ahead.MEMBER) == 1 and content == kernels.read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    assert rows[-1] == [ahead.MEMBER, f"sha256={digest}", str(len(content))] and len(rows) == 2


@pytest.mark.parametrize("words, text", [
    (("--list", "none.txt"), "none.txt cannot be read"),
    (("--list", "many.txt"), "many.txt names 400 calls for 2 targets\n  why: .* at most 300"),
    (("--list", "wrong.txt"), "there is no function 'geluu'"),
    (("--list", "one.txt", "--into", "none.whl"), "--into none.whl: it cannot be changed"),
])  # fmt: skip
def test_the_command_says_what_is_wrong(tmp_path, monkeypatch, words, text):
    import re

    (tmp_path / "many.txt").write_text("gelu(f32[:])\n" * 400)
    (tmp_path / "wrong.txt").write_text("geluu(f32[:])\n")
    (tmp_path / "one.txt").write_text("relu(f32[:])\n")
    monkeypatch.chdir(tmp_path)
    done = command("k.pto", *words, "--targets", "portable,avx2")
    assert done.returncode == 1 and re.search("error: .*" + text, done.stderr, re.S), done.stderr
