# SPDX-License-Identifier: Apache-2.0
"""pto.package: functions, operators and C++ kernels run from one file without a compiler."""

import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_package_c import described, library, run_in_c

import pto
from pto import build_config, op
from pto.language.native_kernel import cpp_kernel

ROOT = Path(__file__).resolve().parent.parent
TARGETS = "portable,avx2,avx512"
X = np.random.default_rng(3).standard_normal((5, 12)).astype(np.float32)
BIAS = np.arange(12, dtype=np.float32)
SHIFTS = (3, -1, 4)


@pto.jit
def normal(x: pto.Tensor[pto.DYN, pto.DYN, pto.f32], eps=1e-6):
    mean = pto.mean(x, -1, keepdim=True)
    return (x - mean) / pto.sqrt(pto.mean((x - mean) ** 2, -1, keepdim=True) + eps)


@pto.jit
def running(x, out):
    for i in pto.loop(x.shape[0]):
        out[i] = pto.sum(x[i]) + (out[i - 1] if i > 0 else 0)


@op("library_shifted(Tensor x, int[] shifts, Tensor? bias=None, *, float alpha=1.0, int more=0,"
    " bool negate=False, str mode='plain', float? scale=None) -> Tensor")  # fmt: skip
class Shifted:
    kernel = cpp_kernel("packaged_kernels.cpp", "shifted")

    def infer(x, shifts, bias, alpha, more, negate, mode, scale):
        return x.like()

    def work(x, shifts, bias, alpha, more, negate, mode, scale):
        return x.shape[0], 8 * x.shape[0] * x.shape[1]


@op("library_scaled(Tensor x, Tensor? bias=None, *, float alpha=2.0, bool negate=False)"
    " -> (Tensor, Tensor)")  # fmt: skip
class Scaled:
    def build(x, bias, alpha, negate):
        y = alpha * (-x if negate else x)
        return (y if bias is None else y + bias), pto.sum(y, -1)


FULL = {"x": X, "shifts": SHIFTS, "bias": BIAS, "alpha": 0.5, "more": 7, "negate": True,
        "mode": "grand", "scale": 3.0}  # fmt: skip
CALLS = [
    ("normal", (X,), {}),
    ("normal", (X[:2, :3], 0.5), {}),
    ("library_scaled", (X,), {"alpha": 5.0}),
    ("library_scaled", (X[:4], BIAS), {"negate": True}),
    ("library_shifted", (), {**FULL, "alpha": -2.0}),
    ("library_shifted", (X[:, :6].copy(), SHIFTS), {"alpha": 1.5}),
    ("gelu", (X.astype(np.float64),), {"approximate": "tanh"}),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("library") / "kernels.pto"
    pto.package(
        {
            normal: (X,),
            running: (X, BIAS[:5]),
            Scaled: [(X,), {"x": X, "bias": BIAS, "negate": True}],
            Shifted: [FULL, (X, SHIFTS)],
            pto.ops.gelu: {"x": pto.Tensor[pto.DYN, pto.DYN, pto.f64], "approximate": "tanh"},
        },
        path,
        TARGETS,
    )
    return path


def here(name, args, kwargs):
    """The call as it is made without a package."""
    functions = {"normal": normal, "library_scaled": Scaled, "library_shifted": Shifted}
    found = functions.get(name, pto.ops.gelu)(*args, **kwargs)
    return found if isinstance(found, tuple) else (found,)


CHILD = """
import pickle, sys
import pto
kernels = pto.load(sys.argv[1])
found = []
for name, args, kwargs in pickle.loads(open(sys.argv[2], "rb").read()):
    one = kernels[name](*args, **kwargs)
    found.append(one if isinstance(one, tuple) else (one,))
x, out = found[0][0], found[0][0][0].copy()[:5]
kernels.running(x, out)
targets = {one for name in kernels for one in kernels[name].targets}
open(sys.argv[3], "wb").write(pickle.dumps((found, x, out, targets)))
"""


@pytest.mark.parametrize("target", TARGETS.split(","))
def test_functions_operators_and_kernels_run_without_a_compiler_and_headers(path, tmp_path, target):
    if target not in pto._core.describe_machine() and target != "portable":
        pytest.skip("this CPU lacks the target")
    (tmp_path / "calls").write_bytes(pickle.dumps(CALLS))
    env = {**os.environ, "PATH": "", "PTO_CXX": "/no/compiler", "PTO_TARGET": target,
           "PTO_CACHE_DIR": str(tmp_path / "none"), "PYTHONPATH": str(ROOT),
           "PTO_INCLUDE_DIR": str(tmp_path / "no_headers")}  # fmt: skip
    command = [sys.executable, "-c", CHILD, path, tmp_path / "calls", tmp_path / "found"]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    found, x, out, targets = pickle.loads((tmp_path / "found").read_bytes())
    assert targets == {target} and not (tmp_path / "none").exists()
    for call, results in zip(CALLS, found, strict=True):
        for one, wanted in zip(results, here(*call), strict=True):
            assert one.dtype == wanted.dtype and one.shape == wanted.shape
            np.testing.assert_allclose(one, wanted, 2e-6, 2e-6)
    running(x, wanted := np.empty_like(out))
    np.testing.assert_allclose(out, wanted, 1e-5, 1e-5)


def test_a_loaded_file_lists_its_functions_and_refuses_other_names(path):
    kernels = pto.load(path)
    assert [*kernels] == ["normal", "running", "library_scaled", "library_shifted", "gelu"]
    assert "gelu" in dir(kernels) and len(kernels) == 5 and "normal, running" in repr(kernels)
    with pytest.raises(AttributeError, match="has no function 'norm'\n.*normal"):
        kernels.norm  # noqa: B018
    with pytest.raises(ValueError, match="no variant serves the call library_shifted"):
        kernels.library_shifted(**{**FULL, "mode": "other"})


def test_annotated_functions_need_no_example(tmp_path):
    pto.package([normal], tmp_path / "one.pto")
    kernels = pto.load(tmp_path / "one.pto")
    assert kernels.normal.variants[0] == "normal(x: f32[s0, s1], eps: float)"
    for x in (X, X[:1], X[:, :1], X[:1, :1]):  # a free size is also 1
        assert np.array_equal(kernels.normal(x), normal(x.copy()))


def test_c_calls_a_function_with_a_free_size_of_1(tmp_path):
    pto.package([normal], tmp_path / "one.pto")
    x, out = X[:1], np.zeros_like(X[:1])
    code, text = run_in_c(tmp_path / "one.pto", [described(x), described(out)], 0.5)
    assert code == 0 and np.array_equal(out, normal(x.copy(), 0.5)), text


@pto.jit
def gated(x, y, z, bias):
    return x * pto.sum(y, -1, keepdim=True) + z[:, :1] * bias


@pto.jit
def differences(x):
    if isinstance(x.shape[0], int):  # 1
        raise ZeroDivisionError("a single row has no difference")
    return x[1:] - x[:-1]


def free(rank):
    return pto.Tensor[(pto.DYN,) * rank + (pto.f32,)]


def sizes_of(variants):
    """Which axes are 1 in each variant: "1s s" of f32[1, s0], f32[s1]."""
    kinds = [re.findall(r"f32\[(.*?)\]", one) for one in variants]
    return {" ".join("".join("1" if size == "1" else "s" for size in kind.split(", "))
                     for kind in one) for one in kinds}  # fmt: skip


def test_free_sizes_of_types_are_1_too_and_those_that_are_equal_together(tmp_path):
    pto.package({
        Scaled: {"x": free(2), "bias": free(1)},
        pto.ops.matmul: (free(2), free(2)),
        pto.ops.attention: (free(4), free(4), free(4)),
        differences: (free(2),),
        gated: (free(2), free(2), free(2), free(1)),
        pto.ops.bias_gelu: (free(2), BIAS),  # an array is not any size
    }, tmp_path / "f.pto")  # fmt: skip
    kernels = pto.load(tmp_path / "f.pto")
    assert sizes_of(kernels.library_scaled.variants) == {"ss s", "1s s", "s1 1", "11 1"}
    matmul = sizes_of(kernels.matmul.variants)
    assert matmul == {"ss ss", "1s ss", "s1 1s", "ss s1", "11 1s", "1s s1", "s1 11", "11 11"}
    assert sizes_of(kernels.differences.variants) == {"ss", "s1"}
    attention = sizes_of(kernels.attention.variants)
    assert {"1sss 1sss 1sss", "1s1s 1sss 1sss", "1111 1111 1111"} <= attention
    assert len(attention) == 15 and sizes_of(kernels.bias_gelu.variants) == {"ss s", "1s s"}
    assert len(kernels.gated.variants) > 4 and "ss ss ss s" in sizes_of(kernels.gated.variants)
    for x in (X, X[:1], X[:, :1], X[:1, :1]):
        bias = BIAS[: x.shape[1]]
        found, wanted = kernels.library_scaled(x, bias), Scaled(x.copy(), bias)
        assert all(map(np.array_equal, found, wanted))
        for y in (X.T[: x.shape[1]].copy(), X.T[: x.shape[1], :1].copy()):
            assert np.array_equal(kernels.matmul(x, y), pto.ops.matmul(x.copy(), y))


def test_a_packed_weight_and_a_program_of_tasks_are_saved_as_they_are(tmp_path):
    packed = pto.pack_weight(X, "linear")
    for one in (packed, [packed], {packed: ()}):
        pto.package(one, tmp_path / "w.pto")
        loaded = pto.load(tmp_path / "w.pto")
        assert np.array_equal(pto.ops.linear(X, loaded), pto.ops.linear(X, X))
    parts = [ROOT / "tests/chip" / name for name in ("ten_works.cpp", "work.cpp")]
    tasks = pto.compile(orch=parts[0].read_text(), kernels=[{"source": parts[1].read_text()}])
    pto.package(tasks, tmp_path / "t.pto")
    with pto.Runtime() as rt:
        rt.register("work", pkg=pto.load(tmp_path / "t.pto"))


def test_c_opens_one_function_of_a_file(path):
    found = library()
    found.pto_program_open_function.restype = found.pto_program_describe.restype = None
    import ctypes

    found.pto_program_open_function.restype = ctypes.c_void_p
    found.pto_program_describe.restype = ctypes.c_char_p
    name = str(path).encode()
    program = ctypes.c_void_p(found.pto_program_open_function(name, b"normal"))
    assert found.pto_program_describe(program) == b"normal(x: f32[s0, s1], eps: float)"
    from test_package_c import Args, Tensor

    out = np.zeros_like(X)
    tensors = (Tensor * 2)(described(X), described(out))
    args = Args(1, 2, tensors, 1, 0, (ctypes.c_double * 1)(0.5))
    assert found.pto_program_run(program, ctypes.byref(args)) == 0, found.pto_last_error()
    found.pto_program_close(program)
    assert np.array_equal(out, normal(X, 0.5))
    assert found.pto_program_open_function(name, b"none") is None
    assert b"has no function none\n  why: it holds normal, running," in found.pto_last_error()
    assert found.pto_program_open(name) is None
    assert b"kernels.pto holds 5 functions" in found.pto_last_error()


def test_a_c_program_runs_functions_of_each_kind_where_nothing_is_installed(path, tmp_path):
    source, flags = ROOT / "tests/cpp_route/functions.c", build_config.ldflags()
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{build_config.include_dir()}",
               source, "-o", "main", *flags]  # fmt: skip
    subprocess.run(command, check=True, cwd=tmp_path)
    env = {"PATH": "", "PTO_CACHE_DIR": str(tmp_path / "none"), "PTO_CXX": "/no/compiler",
           "PTO_INCLUDE_DIR": str(tmp_path / "no_headers")}  # fmt: skip
    done = subprocess.run([tmp_path / "main", path], env=env, capture_output=True, text=True)
    assert done.returncode == 0 and not (tmp_path / "none").exists(), done.stderr
    x = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    wanted = {"normal": (normal(x, 0.5),), "library_scaled": Scaled(x, alpha=3.0),
              "library_shifted": (Shifted(x, SHIFTS, alpha=1.5),)}  # fmt: skip
    for line, (name, results) in zip(done.stdout.splitlines(), wanted.items(), strict=True):
        found, *numbers = line.split()
        flat = np.concatenate([one.reshape(-1) for one in results])
        np.testing.assert_allclose(np.array(numbers, np.float32), flat, 1e-6, 1e-6)
        assert found == name
    done = subprocess.run([tmp_path / "main", "none.pto"], env=env, capture_output=True, text=True)
    assert done.returncode == 1 and "the package none.pto cannot be read" in done.stderr


def test_a_cpu_without_a_target_of_the_file_says_so(tmp_path):
    if "avx512" in pto._core.describe_machine():
        pytest.skip("this CPU has every target")
    pto.package([normal], tmp_path / "a.pto", "avx512")
    with pytest.raises(ValueError, match="a.pto needs avx512\n.*no more than "):
        pto.load(tmp_path / "a.pto").normal(X)


def twice(x):
    return x * 2


@op("library_in_place_(Tensor(a!) x) -> Tensor(a!)")
class InPlace:
    def build(x):
        return x * 2


WEIGHT = pto.pack_weight(X, "linear")
REFUSED = [
    ([], "f.pto", "", ValueError, "there are no callables"),
    (normal, "f.pto", "", TypeError, "the callables are a value of type .*Jit"),
    ([running], "f.pto", "", TypeError, "running is given without an example"),
    ({twice: (X,)}, "f.pto", "", TypeError, "one of the callables is "),
    ({"normal": (X,)}, "f.pto", "", TypeError, "one of the callables is "),
    ([normal], "f.pto", "avx", ValueError, "the target 'avx' is unknown\n.*\n.*portable, avx2"),
    ([normal], "f.pto", 3, TypeError, "targets is the int 3"),
    ([normal], "f.pto", [], ValueError, "targets is empty"),
    ([WEIGHT, normal], "f.pto", "", ValueError, "PackedWeight is not alone"),
    (WEIGHT, "f.pto", "avx2", ValueError, "PackedWeight is given, and targets"),
    ([normal], 3, "", TypeError, "package: the path is the int 3"),
    ({InPlace: (X,)}, "f.pto", "", TypeError, "library_in_place_ has no package\n.*writes an arg"),
    ({pto.ops.nonzero: (X,)}, "f.pto", "", TypeError, "nonzero has no package\n.*after it ran"),
    ({normal: (X, "x")}, "f.pto", "", TypeError, "."),
    ([normal, normal], "f.pto", "", ValueError, "two functions are called normal"),
]


@pytest.mark.parametrize("callables, path, targets, kind, text", REFUSED)
def test_what_no_file_can_hold_is_refused_before_one_is_written(
    callables, path, targets, kind, text, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind, match=text):
        pto.package(callables, path, targets)
    assert not any(tmp_path.iterdir())


def test_a_path_that_is_a_folder_or_a_full_disk_leaves_nothing_behind(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(pto.Error, match="folder cannot be written\n"):
        pto.package([normal], tmp_path / "folder")
    with pytest.raises(pto.Error, match="f.pto cannot be written\n.*No such file"):
        pto.package([normal], tmp_path / "missing" / "f.pto")
    if Path("/dev/full").exists():
        (tmp_path / "full").symlink_to("/dev/full")
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


def test_a_truncated_file_of_functions_is_refused(path, tmp_path):
    content = path.read_bytes()
    for cut in (10, 100, len(content) // 2, len(content) - 1):
        (tmp_path / "cut.pto").write_bytes(content[:cut])
        with pytest.raises(ValueError, match="cut.pto (was truncated or altered|is no package)"):
            pto.load(tmp_path / "cut.pto")
