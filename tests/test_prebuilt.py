# SPDX-License-Identifier: Apache-2.0
"""Kernels without a compiler: those of the cache, and those of pto.ops that were built ahead."""

import argparse
import base64
import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import pto
from pto import ahead, container
from pto.language import prebuilt

ROOT = Path(__file__).resolve().parent.parent
TARGET = prebuilt._core.describe_machine().split("target: ")[1].split()[0]
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
    done = command(folder / "kernels.pto", "--list", folder / "list.txt", "--targets", TARGET)
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


def whole(content):
    """The header and the payload of a file."""
    package = container.opened(content, "")
    return package.header, bytes(package.payload)


def changed(content, **fields):
    header, payload = whole(content)
    return b"".join(container.content_of("kernels", {**header, **fields}, [payload]))


def spoilt(content):
    header, payload = whole(content)
    yield b""
    yield content[:10]
    yield content[: prebuilt._HEAD.size + 1000]
    yield changed(content, libraries={"lib/libpto.so": "0" * 40})
    yield changed(content, files={"none.py": [0, ""]})
    yield changed(content, kind="functions")
    for name in ("built_ns", "files", "libraries", "index"):
        yield changed(content, **{name: 3 if name != "built_ns" else "x"})
    yield changed(content, index={key: [0, "x"] for key in header["index"]})
    keys = [*header["index"]]
    yield changed(content, index=dict(zip(keys, [*header["index"].values()][::-1], strict=True)))
    yield content[: -len(payload) - 32] + bytes(b ^ 1 for b in payload)
    yield container.PREFIX.pack(container.MAGIC, 1, 1 << 62) + content[container.PREFIX.size :]
    yield container.PREFIX.pack(container.MAGIC, 2, 2) + b"{}"


def test_a_file_that_is_damaged_or_of_another_installation_gives_nothing(kernels, tmp_path):
    content = kernels.read_bytes()
    found = prebuilt.KernelFile(kernels)
    assert len(found.index) == 10 and all(found.find(key) for key in found.index)
    for place, one in enumerate(spoilt(content)):
        (tmp_path / "spoilt").write_bytes(one)
        other = prebuilt.KernelFile(tmp_path / "spoilt")
        assert not any(other.find(key) for key in found.index), place
    assert prebuilt.KernelFile(tmp_path).index == {}  # a folder
    shutil.copy(kernels, tmp_path / "gone")
    other = prebuilt.KernelFile(tmp_path / "gone")
    (tmp_path / "gone").unlink()
    assert other.index and not any(other.find(key) for key in other.index)


def test_a_file_of_kernels_is_a_container_that_lists_what_was_built(kernels):
    assert prebuilt._HEAD.format == container.PREFIX.format
    assert (prebuilt._MAGIC, prebuilt._VERSION) == (container.MAGIC, container.VERSION)
    shown = container.described(kernels)
    assert shown.startswith("kernels.pto: kernels of pto.ops, ") and "  index: 10" in shown
    assert "  calls: gelu(f32[:, :]), softmax(f32[:, :]), " in shown
    with pytest.raises(ValueError, match="kernels.pto holds kernels of pto.ops, and no function"):
        pto.load(kernels)


# --- another installation ------------------------------------------------------------------------

SILU = """
import numpy as np
from pto import ops
print([round(ops.silu(np.ones(size, np.float32)).sum().item() / size, 3) for size in (1, 3)])
"""


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A copy of the package that carries kernels of silu, and a function that runs code in it."""

    def copy(source, target):
        return os.symlink(source, target) if ".so" in source else shutil.copy2(source, target)

    left_out = ("__pycache__", "kernels.pto", "pto_worker", "adapters", "models", "bench", "compat")
    shutil.copytree(ROOT / "pto", tmp_path / "pto", copy_function=copy,
                    ignore=shutil.ignore_patterns(*left_out))  # fmt: skip

    def run(*words, **env):
        env = {**os.environ, "PYTHONPATH": str(tmp_path), "PTO_CACHE_DIR": "cache", **env}
        done = subprocess.run([sys.executable, *words], env=env, cwd=tmp_path, capture_output=True,
                              text=True)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    (tmp_path / "list.txt").write_text("silu(f32[:])\nsilu(f32[1])\n")
    run("-m", "pto", "package", "--library", "--list", "list.txt", "--targets", TARGET)
    shutil.rmtree(tmp_path / "cache")
    monkeypatch.setattr(prebuilt, "PACKAGE", tmp_path / "pto")
    return tmp_path, run


def edit(path, old, new):
    """Lets a text stand for one of its length."""
    text = path.read_text()
    assert old in text and len(old) == len(new)
    path.write_text(text.replace(old, new))


def test_an_operator_that_was_changed_is_compiled_anew(copied):
    root, run = copied
    assert run("-c", SILU, PATH="") == "[0.731, 0.731]\n" and not (root / "cache").exists()
    edit(root / "pto/ops/activation.py", "return nn.silu(x)", "return nn.gelu(x)")
    assert run("-c", SILU) == "[0.841, 0.841]\n" and (root / "cache").exists()


def test_kernels_are_left_alone_where_what_decides_them_is_another(copied):
    root, _ = copied

    def count():
        return len(prebuilt.KernelFile(root / "pto/lib/kernels.pto").index)

    assert count() == 2
    for file, old, new in (
        ("ops/activation.py", "nn.silu(x)", "nn.gelu(x)"),
        ("__init__.py", f'"{pto.__version__}"', '"9.9.9"'),
        ("isa/elementwise/fused.hpp", "PTO_", "pto_"),
        ("language/nn.py", "return", "RETURN"),
    ):
        path = root / "pto" / file
        content, about = path.read_bytes(), path.stat()
        edit(path, old, new)
        assert count() == 0, file
        os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))  # as a copy of an old file has it
        assert count() == 0, file
        path.write_bytes(content + b" ")
        assert count() == 0, file
        path.unlink()
        assert count() == 0, file
        path.write_bytes(content)
        assert count() == 2, file
    edit(root / "pto/ops/library.txt", "silu", "SILU")  # it decides no kernel
    assert count() == 2


def test_sources_of_a_wheel_are_read_again_only_after_it_was_installed(copied):
    root, _ = copied
    file, path = root / "kernels.pto", root / "pto/language/nn.py"
    file.write_bytes(changed((root / "pto/lib/kernels.pto").read_bytes(), built_ns=None))
    later = file.stat().st_mtime_ns + 1
    assert len(prebuilt.KernelFile(file).index) == 2
    edit(path, "return", "RETURN")
    os.utime(path, ns=(later, later))
    assert prebuilt.KernelFile(file).index == {}
    edit(path, "RETURN", "return")
    os.utime(path, ns=(later, later))
    assert len(prebuilt.KernelFile(file).index) == 2


def test_a_library_without_an_id_of_its_linker_is_known_by_its_content():
    assert prebuilt.identity(b"ELF" + prebuilt._BUILD_ID + b"a" * 20 + b"more") == "61" * 20
    assert prebuilt.identity(b"x" * 5000) != prebuilt.identity(b"x" * 5001)


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
    calls = ahead.calls_of(ahead.LIST)
    assert len(calls) == len(set(calls)) and 100 < 2 * len(calls) <= ahead.MOST_KERNELS
    assert {"gelu(bf16[:, :, :], approximate='tanh')", "gelu(f32[1, :])"} <= {*calls}
    assert ahead.MOST_KERNELS == 300 and ahead.MOST_BYTES == 15_000_000


BATCH = """
import sys
from pathlib import Path
import numpy as np
from pto import ops
from pto.language import prebuilt
prebuilt.PATH = Path(sys.argv[1])
x, w = np.linspace(-2, 2, 60, dtype=np.float32).reshape(5, 12), np.ones(12, np.float32)
np.testing.assert_array_equal(ops.add(x, x[0]), x + x[0])
for one, all_of in ((ops.relu(x[:1]), ops.relu(x)), (ops.rms_norm(x[:1], w), ops.rms_norm(x, w)),
                    (ops.relu(x[None])[0], ops.relu(x))):
    np.testing.assert_array_equal(one, all_of[: len(one)])
"""


def test_a_batch_of_one_and_a_row_for_all_are_built_ahead(tmp_path):
    lines = {one for one in ahead.LIST.read_text().splitlines()
             if one.startswith(("add(T[:, :], T[:])", "relu", "rms_norm"))}  # fmt: skip
    assert len(lines) == 3
    (tmp_path / "list.txt").write_text("\n".join(lines).replace("T[", "f32["))
    done = command(tmp_path / "k.pto", "--list", tmp_path / "list.txt", "--targets", TARGET)
    assert done.returncode == 0 and "11 kernels, " in done.stdout, done.stderr
    done = child(BATCH, tmp_path / "k.pto", PATH="", PTO_CACHE_DIR=str(tmp_path / "none"))
    assert done.returncode == 0 and not (tmp_path / "none").exists(), done.stderr


# --- wheels and mistakes -------------------------------------------------------------------------


def wheel_of(path, **changes):
    """A wheel with the files that decide kernels, some of them changed."""
    with zipfile.ZipFile(path, "w") as made:
        for name in (*prebuilt.sources(), *prebuilt.libraries()):
            made.writestr(
                f"pto/{name}", changes.get(name) or (prebuilt.PACKAGE / name).read_bytes()
            )
        made.writestr(changes.get("record", "openpto-0.dist-info/RECORD"), "pto/__init__.py,,0\n")
    return path


def test_kernels_are_put_into_a_wheel_and_its_list_of_files(kernels, tmp_path):
    wheel, header = (
        wheel_of(tmp_path / "openpto-0-py3-none-any.whl"),
        whole(kernels.read_bytes())[0],
    )
    for content in (b"first", b"second"):  # a second time replaces them
        ahead.Wheel(str(wheel), header).add(content)
    with zipfile.ZipFile(wheel) as made:
        names = made.namelist()
        rows = [*csv.reader(made.read("openpto-0.dist-info/RECORD").decode().splitlines())]
        assert made.read(ahead.MEMBER) == content
    assert names.count(ahead.MEMBER) == 1 and names[-1] == ahead.MEMBER
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    assert rows[-1] == [ahead.MEMBER, f"sha256={digest}", str(len(content))] and len(rows) == 2


@pytest.mark.parametrize("changes, text", [
    ({"record": "numpy-0.dist-info/RECORD"}, "it has no RECORD of openpto"),
    ({"ops/activation.py": b"nothing"}, "its pto/ops/activation.py is not that of this install"),
    ({}, "it cannot be changed: Bad CRC-32 for file 'pto/__init__.py'"),
    ({"lib/libpto.so": b"nothing"}, "its pto/lib/libpto.so is not that of this installation"),
])  # fmt: skip
def test_another_wheel_stays_as_it_is(kernels, tmp_path, changes, text):
    wheel, header = wheel_of(tmp_path / "openpto.whl", **changes), whole(kernels.read_bytes())[0]
    if not changes:
        wheel.write_bytes(wheel.read_bytes().replace(b"import", b"IMPORT", 1))  # the CRC-32 differs
    before = wheel.read_bytes()
    with pytest.raises(pto.Error, match="openpto.whl: it is left as it was\n.*" + text):
        ahead.Wheel(str(wheel), header)
    assert wheel.read_bytes() == before and [*tmp_path.iterdir()] == [wheel]


@pytest.mark.parametrize("limit, value, text", [
    ("MOST_KERNELS", 1, "one.txt names 2 calls for 1 targets"),
    ("MOST_BYTES", 3000, r"the kernels of .*one.txt have \d+ bytes\n  why: .* in 3000 bytes"),
])  # fmt: skip
def test_a_library_beyond_its_limits_is_not_written(tmp_path, monkeypatch, limit, value, text):
    (tmp_path / "one.txt").write_text("relu(f32[:])\nrelu(f32[:, :])\n")
    monkeypatch.setattr(ahead, limit, value)
    words = argparse.Namespace(file=str(tmp_path / "k.pto"), list=str(tmp_path / "one.txt"),
                               targets="portable", into=None)  # fmt: skip
    with pytest.raises(ValueError, match=text):
        ahead.build(words)
    assert not (tmp_path / "k.pto").exists()


@pytest.mark.parametrize("words, text", [
    (("--list", "none.txt"), "none.txt cannot be read\n  why: No such file"),
    (("--list", "many.txt"), "many.txt names 400 calls for 2 targets\n  why: .* at most 300"),
    (("--list", "empty.txt"), "empty.txt names no call"),
    (("--list", "wrong.txt"), "there is no function 'geluu'"),
    (("--list", "mode.txt"), "gelu: approximate"),
    (("--list", "class.txt"), "'activation.Tensor' is no operator"),
    (("--list", "large.txt"), "has 99999999999 elements"),
    (("--list", "one.txt", "--into", "none.whl"), "--into none.whl: it is left as it was"),
    (("--list", "one.txt", "--into", "one.txt"), "it cannot be changed: File is not a zip file"),
    (("gelu(f32[:])",), "there are calls"),
    (("--of", "numpy"), "--of has no use here\n  why: it belongs to calls"),
])  # fmt: skip
def test_the_command_says_what_is_wrong(tmp_path, monkeypatch, words, text):
    (tmp_path / "many.txt").write_text("gelu(f32[:])\n" * 400)
    (tmp_path / "empty.txt").write_text("# nothing\n\n")
    (tmp_path / "wrong.txt").write_text("geluu(f32[:])\n")
    (tmp_path / "mode.txt").write_text("gelu(f32[:], approximate='x')\n")
    (tmp_path / "class.txt").write_text("activation.Tensor(f32[:])\n")
    (tmp_path / "large.txt").write_text("gelu(f32[99999999999])\n")
    (tmp_path / "one.txt").write_text("relu(f32[:])\n")
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    done = command("k.pto", *words, "--targets", "portable,avx2")
    assert done.returncode == 1 and re.match("error: .*" + text, done.stderr, re.S), done.stderr
    assert "Traceback" not in done.stderr and ".py:" not in done.stderr
    assert sorted(tmp_path.iterdir()) == before
