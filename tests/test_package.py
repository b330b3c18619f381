# SPDX-License-Identifier: Apache-2.0
"""A loaded function is the jitted one that was packaged: without a compiler, and in C."""

import ctypes
import hashlib
import os
import pickle
import re
import struct
import subprocess
import sys
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import pto
from pto import build_config, container
from pto.language.results import taken_apart

ROOT = Path(__file__).resolve().parent.parent
SHIFT = 3.0
Pair = namedtuple("Pair", "low high")


@pto.jit
def scaled(x, w, scale=2.0, power=2, mode="up"):
    y = (x * scale) ** power + w * SHIFT
    return y if mode == "up" else -y


@pto.jit
def parts(x):
    ordered = pto.sort(x).values
    return {"mean": [pto.mean(x, -1), x.shape[0] * x], "ends": Pair(ordered, pto.flip(x, 0))}


@pto.jit
def program(x, lengths, out, factor=0.5):
    longest = 0
    for i in pto.loop(x.shape[0]):
        n = lengths[i]
        longest = pto.max(longest, n)
        if n > 2:
            out[i] = pto.sum(x[i, :n]) * factor
        else:
            out[i] = out[i] - 1
    return pto.matmul(x, x, b_trans=True), longest * pto.ones([x.shape[1]])


def calls(rng):
    """(function, calls); the classes of types, ranks and ones among these are the variants."""

    def floats(*sizes, dtype=np.float32):
        return rng.standard_normal(sizes).astype(dtype)

    for n, m in ((3, 8), (1, 5), (0, 4), (17, 2), (1, 9)):
        yield scaled, (floats(n, m), floats(m), rng.random())
    yield scaled, (floats(4, 6), floats(6), 1.5, 3, "down")
    yield scaled, (floats(2, 3, dtype=np.float64), floats(3, dtype=np.float64))
    yield scaled, (floats(6, 4).T, floats(6))
    for n, m in ((3, 4), (5, 2), (0, 7)):
        yield parts, (floats(n, m),)
    for n, m in ((5, 7), (2, 3), (0, 4), (1, 6), (1, 0), (9, 0)):
        lengths = rng.integers(0, m + 1, n)
        yield program, (floats(n, m), lengths, floats(n), 0.25)
    wide = floats(3, 2)
    yield program, (floats(3, 6), rng.integers(0, 7, 3), wide[:, 0])


CHILD = """
import pickle, sys, threading
from pathlib import Path
import pto
from pto.language.results import taken_apart

folder = Path(sys.argv[1])
loaded = {path.stem: pto.load(path) for path in folder.glob("*.pto")}

def run(name, args):
    args = pickle.loads(pickle.dumps(args))  # fresh arrays
    return [*taken_apart(loaded[name](*args))[0], *args]

def differ(all_of_them):
    for case, before in zip(cases, found):
        if pickle.dumps(run(*case)) != pickle.dumps(before):
            all_of_them.append(case)

cases, torn = pickle.loads((folder / "calls").read_bytes()), []
found = [run(*case) for case in cases]
threads = [threading.Thread(target=differ, args=(torn,)) for _ in range(2)]
for one in threads: one.start()
for one in threads: one.join()
(folder / "found").write_bytes(pickle.dumps((found, torn)))
"""


def fresh(args):
    """The arguments again, arrays with the same gaps in memory of their own."""
    return [one if not isinstance(one, np.ndarray) else with_gaps(one) for one in args]


def with_gaps(array):
    if array.ndim == 1 and array.strides != array.itemsize * 1 and array.size > 1:
        step = array.strides[0] // array.itemsize
        copy = np.zeros(array.size * step, array.dtype)[::step][: array.size]
        copy[:] = array
        return copy
    return array.copy("K")


def all_of(function, args):
    """The leaves of the result, and the arrays as the call left them."""
    args = fresh(args)
    return [*taken_apart(function(*args))[0], *args]


def same(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        assert type(a) is type(b)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of the packages, and the calls that they were made for."""
    folder = tmp_path_factory.mktemp("packages")
    cases = [*calls(np.random.default_rng(5))]
    for function in (scaled, parts, program):
        examples = [args for one, args in cases if one is function]
        function.package(folder / f"{function.__name__}.pto", *examples)
    return folder, cases


def test_a_loaded_function_is_the_jitted_one_without_a_compiler(saved):
    folder, cases = saved
    rng = np.random.default_rng()
    cases = [*cases, *calls(rng)]
    (folder / "calls").write_bytes(pickle.dumps([(f.__name__, args) for f, args in cases]))
    env = {**os.environ, "PATH": "", "CXX": "/no/compiler", "PTO_CXX": "/no/compiler",
           "PTO_CACHE_DIR": str(folder / "none"), "PYTHONPATH": str(ROOT)}  # fmt: skip
    done = subprocess.run([sys.executable, "-c", CHILD, str(folder)], env=env,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0 and not done.stderr, done.stderr
    found, torn = pickle.loads((folder / "found").read_bytes())
    assert not torn and not (folder / "none").exists()
    for (function, args), one in zip(cases, found, strict=True):
        same(one, all_of(function, pickle.loads(pickle.dumps(args))))


def test_a_loaded_function_takes_arrays_as_the_jitted_one_does(saved):
    folder, cases = saved
    for function, args in cases:
        loaded = pto.load(folder / f"{function.__name__}.pto")
        same(all_of(loaded, args), all_of(function, args))
        tensors = [torch.from_numpy(one) if isinstance(one, np.ndarray) else one
                   for one in fresh(args)]  # fmt: skip
        found = [*taken_apart(loaded(*tensors))[0], *tensors]
        assert all(isinstance(one, torch.Tensor) for one in found[:1])
        same([one.numpy() if isinstance(one, torch.Tensor) else one for one in found],
             all_of(function, args))  # fmt: skip


def test_arrays_with_gaps_are_copied_where_the_code_wants_none(saved):
    x = np.arange(48, dtype=np.float32).reshape(6, 8)
    loaded = pto.load(saved[0] / "parts.pto")
    for one in (x.T, x[:, ::2], x[::-1], x[::2, 1:3]):
        same(taken_apart(loaded(one))[0], taken_apart(parts(one.copy()))[0])


def test_a_loaded_function_has_names_defaults_out_and_forms(saved):
    x, w = np.ones((3, 8), np.float32), np.ones(8, np.float32)
    loaded = pto.load(saved[0] / "scaled.pto")
    assert (loaded(w=w, x=x) == scaled(x, w)).all()
    assert loaded(x, w, out=(out := np.zeros_like(x))) is out and (out == 7).all()
    found = pto.load(saved[0] / "parts.pto")(x)
    assert [*found] == ["mean", "ends"] and type(found["mean"]) is list
    assert type(found["ends"]).__name__ == "Pair" and found["ends"]._fields == ("low", "high")
    with pytest.raises(TypeError, match=r"scaled\(\) missing a required argument: 'w'"):
        loaded(x)


def test_what_a_function_captured_travels_with_it(saved, monkeypatch):
    x, w = np.zeros((3, 8), np.float32), np.ones(8, np.float32)
    loaded = pto.load(saved[0] / "scaled.pto")
    monkeypatch.setattr(sys.modules[__name__], "SHIFT", 5.0)
    assert (loaded(x, w) == 3).all() and (scaled(x, w) == 5).all()


def test_types_stand_for_arrays(tmp_path):
    kind = pto.Tensor[pto.DYN, 1, pto.bf16]
    parts.package(tmp_path / "f.pto", kind)
    x = torch.randn(4, 1).bfloat16()
    loaded = pto.load(tmp_path / "f.pto")
    assert loaded.variants == ("parts(x: bf16[s0, 1])",)
    assert torch.equal(loaded(x)["ends"].low, parts(x)["ends"].low)


def test_tensors_of_pytorch_run_as_compiled_in_any_mode_and_no_gradient_is_lost(saved):
    x, w = torch.ones(3, 8), torch.ones(8)
    loaded = pto.load(saved[0] / "scaled.pto")
    with torch.autocast("cpu"), torch.overrides.BaseTorchFunctionMode():
        assert torch.equal(loaded(x, w), torch.full((3, 8), 7.0))
    with pytest.raises(pto.Error, match="a tensor requires a gradient\n.*\n.*detach"):
        loaded(x.requires_grad_(), w)
    with torch.no_grad():
        assert loaded(x, w).sum() == 24 * 7


def test_npu_tensors_run_in_the_order_of_their_stream(saved):
    import pto.torch  # noqa: F401 which makes the device

    x, lengths = torch.randn(5, 7), torch.tensor([1, 7, 3, 0, 4])
    loaded = pto.load(saved[0] / "program.pto")
    wanted = loaded(x, lengths, out := torch.ones(5), 0.25)
    there = out.new_ones(5).to("npu")
    found = loaded((x / 2).to("npu") * 2, lengths.to("npu"), there, 0.25)
    assert found[0].device.type == "npu" and torch.equal(found[0].cpu(), wanted[0])
    assert torch.equal(there.cpu(), out)


# --- C -------------------------------------------------------------------------------------------


def test_a_c_program_runs_a_package_without_python_and_compiler(saved, tmp_path):
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{build_config.include_dir()}",
               ROOT / "tests/cpp_route/package.c", "-o", tmp_path / "run", "-pthread",
               *build_config.ldflags()]  # fmt: skip
    subprocess.run(command, check=True)
    env = {"PATH": "", "PTO_CACHE_DIR": str(tmp_path / "none")}
    done = subprocess.run([tmp_path / "run", saved[0] / "program.pto"], env=env,
                          capture_output=True, text=True)  # fmt: skip
    first, second, *described = done.stdout.splitlines()
    assert done.returncode == 0 and first == second, done.stderr
    x = (np.arange(12, dtype=np.float32) / np.float32(7)).reshape(3, 4)
    out = np.array([1, 2, 3], np.float32)
    returned = program(x, np.array([4, 1, 3]), out, 0.25)
    wanted = [float(one) for array in (out, *returned) for one in array.reshape(-1)]
    assert [float.fromhex(one) for one in first.split()] == wanted
    assert described == list(pto.load(saved[0] / "program.pto").variants)
    assert done.stderr.startswith("program.pto: no variant serves the call ()\n  why: ")
    assert described[0] in done.stderr
    done = subprocess.run([tmp_path / "run", "none.pto"], env=env, capture_output=True, text=True)
    assert done.returncode == 1 and "the package none.pto cannot be read" in done.stderr


def library():
    """libpto for calls of its C functions."""
    found = ctypes.CDLL(str(Path(build_config.library_dir()) / "libpto.so"))
    found.pto_program_open.restype = ctypes.c_void_p
    found.pto_last_error.restype = ctypes.c_char_p
    return found


# --- refusals ------------------------------------------------------------------------------------


@dataclass
class Config:
    width: int = 3


@pto.jit
def configured(x, config=None):
    return x * (config.width if config else 2)


@pto.jit
def fixed(x: pto.Tensor[pto.DYN, 8], y: pto.Tensor[pto.STATIC]):
    return x * y.shape[0]


class Model:
    @pto.jit
    def forward(self, x):
        return x


X = np.ones((2, 8), np.float32)


@pytest.mark.parametrize("function, path, examples, kind, text", [
    (parts, X, ("f.pto",), TypeError, "parts.package: the path is a value of type numpy.ndarray"),
    (parts, "f.pto", (), TypeError, r"parts\(\) missing a required argument: 'x'"),
    (parts, "f.pto", (3,), TypeError, "no argument is an array"),
    (parts, "f.pto", ("x",), TypeError, "no argument is an array"),
    (parts, "f.pto", ((X,), X), TypeError,
     "an example is a value of type numpy.ndarray behind one that is a tuple"),
    (parts, "f.pto", (pto.Tensor[pto.DYN, 8],), TypeError, "example is .*\n.*an element type"),
    (parts, "f.pto", (pto.Tensor[..., pto.f32],), TypeError, "a number or pto.DYN for each axis"),
    (program, "f.pto", ([X], [X], [X]), TypeError, "an argument is a list of tensors"),
    (configured, "f.pto", (X, Config()), TypeError,
     r"configured.package: config is a value of type .*Config\n.*keeps numbers, texts, None"),
    (fixed, "f.pto", (X[:, :1], X[0]), ValueError, "x has the size 1 along axis 1"),
    (fixed, "f.pto", ((X, X[0]), (X, X[0, :3])), ValueError, "have 2 sets of STATIC sizes"),
    (Model.forward, "f.pto", (X,), TypeError, "forward: a method has no package"),
])  # fmt: skip
def test_what_cannot_be_packaged_is_refused_before_a_file_is_written(
    function, path, examples, kind, text, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind, match=text):
        function.package(path, *examples)
    assert not any(tmp_path.iterdir())


def test_equal_examples_make_one_variant(saved):
    assert len(pto.load(saved[0] / "program.pto").variants) == 3


def test_a_call_that_no_variant_serves_names_both(saved):
    loaded, x = pto.load(saved[0] / "scaled.pto"), np.ones((3, 8), np.float32)
    text = r"scaled.pto: no variant serves the call scaled\(x: f"
    for args in ((x, x), (x, x[0].astype(np.float64)), (x, x[0], 2.0, 7), (x[:, :1], x[0]),
                 (x, x[0], 2.0, 2, Config())):  # fmt: skip
        with pytest.raises(ValueError, match=text) as raised:
            loaded(*args)
        assert "\n    scaled(x: f32[1, s0], w: f32[s1], scale: float, power=2" in raised.value.why
    fixed.package(path := saved[0].parent / "fixed.pto", X, X[0])
    with pytest.raises(ValueError, match="axis 0 of y has size 3, but 8 is required"):
        pto.load(path)(X, X[0, :3])


def test_a_packaged_function_has_no_graph(saved):
    loaded = pto.load(saved[0] / "parts.pto")
    with pytest.raises(
        TypeError, match="a packaged function is called by one that is being traced"
    ):
        pto.jit(lambda x: loaded(x)["mean"][1])(X)


def sealed_again(content, change):
    """A package with another payload and a digest that fits."""
    payload = bytearray(container.opened(content, "").payload)
    before = content[: len(content) - len(payload) - 32]
    change(payload)
    whole = before + bytes(payload)
    return whole + hashlib.sha256(whole).digest()


def for_avx512(payload):
    at = 3 * 8 + 8 + struct.unpack_from("<Q", payload, 24)[0]  # behind versions and machine
    payload[at : at + 8] = struct.pack("<Q", 2)


def of_version(payload):
    payload[8] = 7


SPOILT = [
    (lambda c: b"", "is no package"),
    (lambda c: b"\x7fELF and so on, which is not ours", "is no package"),
    (lambda c: c[:20], "was truncated or altered\n.*20 bytes"),
    (lambda c: c[:-5], "was truncated or altered\n.*SHA-256"),
    (lambda c: c[:900] + bytes([c[900] ^ 4]) + c[901:], "was truncated or altered"),
    (lambda c: c[:16] + b"\2" + c[17:], "has version 2 of the format\n.*reads version 1"),
    (lambda c: c[:16] + b"\0" + c[17:], "has version 0 of the format\n.*reads version 1"),
    (
        lambda c: sealed_again(c, of_version),
        "holds a program of version 1.7.1\n.*runs version 1.1.1",
    ),
    (lambda c: sealed_again(c, for_avx512), "needs avx512\n.*no more than "),
    (lambda c: sealed_again(c, lambda p: p.pop()), "holds a program that pto did not write"),
]


@pytest.mark.parametrize("spoil, text", SPOILT)
def test_a_file_that_cannot_be_run_is_refused_in_python_and_in_c(saved, tmp_path, spoil, text):
    if text.startswith("needs avx512") and "avx512" in pto._core.describe_machine():
        pytest.skip("this CPU has every target")
    path = tmp_path / "spoilt.pto"
    path.write_bytes(spoil((saved[0] / "program.pto").read_bytes()))
    with pytest.raises(ValueError, match="spoilt.pto " + text):
        pto.load(path)
    found = library()
    assert found.pto_program_open(str(path).encode()) is None
    assert re.match("spoilt.pto " + text, found.pto_last_error().decode())


def test_other_kinds_are_told_apart(saved):
    path = saved[0] / "parts.pto"
    with pytest.raises(
        ValueError, match="parts.pto holds a jitted function, not a program of tasks"
    ):
        pto.CompiledPackage.load(path)
    assert container.described(path).startswith("parts.pto: a jitted function, ")
