# SPDX-License-Identifier: Apache-2.0
"""pto.package: functions, operators and C++ kernels run from one file without a compiler."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_package_c import described, library

import pto
from pto import build_config, op
from pto.language.native_kernel import cpp_kernel

ROOT = Path(__file__).resolve().parent.parent
USER = """
import pto
@pto.jit
def twice(x, factor=2.0): return x * factor
"""
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
    assert kernels.normal.variants == ("normal(x: f32[s0, s1], eps: float)",)
    assert np.array_equal(kernels.normal(X), normal(X))


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


PROGRAM = r"""
#include <stdio.h>
#include <string.h>
#include "pto/abi/package.h"
int main(int argc, char** argv) {
  pto_program* program = pto_program_open_function(argv[argc - 1], "library_shifted");
  if (program == NULL) return fprintf(stderr, "%s\n", pto_last_error()), 1;
  float x[6] = {1, 2, 3, 4, 5, 6}, out[6];
  const int64_t sizes[2] = {2, 3};
  pto_tensor tensors[2];
  memset(tensors, 0, sizeof tensors);
  for (int i = 0; i < 2; ++i) {
    tensors[i].data = i == 0 ? x : out;
    tensors[i].sizes = sizes;
    tensors[i].rank = 2;
    tensors[i].type_code = 2;
    tensors[i].type_bits = 32;
    tensors[i].type_lanes = 1;
  }
  const double alpha = 1.5;
  uint64_t scalars[3] = {0, 0, 0};  /* alpha, more, negate */
  memcpy(scalars, &alpha, sizeof alpha);
  pto_args args;
  memset(&args, 0, sizeof args);
  args.abi_version = PTO_ABI_VERSION;
  args.tensors = tensors;
  args.n_tensors = 2;
  args.scalars = scalars;
  args.n_scalars = 3;
  if (pto_program_run(program, &args) != 0) return fprintf(stderr, "%s\n", pto_last_error()), 1;
  for (int i = 0; i < 6; ++i) printf("%g ", out[i]);
  pto_program_close(program);
  return 0;
}
"""


def test_a_c_program_runs_a_kernel_of_a_file_where_nothing_is_on_path(path, tmp_path):
    (tmp_path / "main.c").write_text(PROGRAM)
    command = ["gcc", "-std=c11", "-Wall", "-Werror", f"-I{build_config.include_dir()}",
               "main.c", "-o", "main", *build_config.ldflags()]  # fmt: skip
    subprocess.run(command, check=True, cwd=tmp_path)
    env = {"PATH": "", "PTO_CACHE_DIR": str(tmp_path / "none")}
    done = subprocess.run([tmp_path / "main", path], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "1.5 3 4.5 6 7.5 9 "), done.stderr


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


REFUSED = [
    ([], "f.pto", "", ValueError, "there are no callables"),
    (normal, "f.pto", "", TypeError, "the callables are a value of type .*Jit"),
    ([running], "f.pto", "", TypeError, "running is given without an example"),
    ({twice: (X,)}, "f.pto", "", TypeError, "one of the callables is "),
    ({"normal": (X,)}, "f.pto", "", TypeError, "one of the callables is "),
    ([normal], "f.pto", "avx", ValueError, "the target 'avx' is unknown\n.*\n.*portable, avx2"),
    ([normal], "f.pto", 3, TypeError, "targets is the int 3"),
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
        "twice(x: f32[s0, 64], factor: float)", "twice(x: f64[s0], factor: float)")  # fmt: skip
    assert loaded.twice(X[:, :1].repeat(64, 1), 3.0)[0, 0] == X[0, 0] * 3
    shown = command(tmp_path, "f.pto").stdout
    assert "f.pto: functions and operators, " in shown and "gelu(x: f32[], approx" in shown
    done = command(tmp_path, "g.pto", "twice(f32[:])", "--of", "mine")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words, text", [
    (("f.pto", "twice"), "the call 'twice' cannot be read\n  why: it is no call; a call is"),
    (("f.pto", "twice(f32[:"), "cannot be read"),
    (("f.pto", "gelu(f31[:])"), "cannot be read\n  why: .*f31"),
    (("f.pto", "gelu(f32[1:2])"), "a size is a number or a colon"),
    (("f.pto", "gelu(__import__('os'))"), "cannot be read"),
    (("f.pto", "geluu(f32[:])"), "there is no function 'geluu'\n  why: .*gelu"),
    (("f.pto", "gelu(f32[:])", "--of", "none"), "--of none: No module named 'none'"),
    (("f.pto", "gelu(f32[:])", "--of", "none.py"), "--of none.py: there is no such file"),
    (("f.pto", "gelu(f32[:])", "--targets", "sse"), "the target 'sse' is unknown"),
    (("none.pto",), "the package none.pto does not exist"),
])  # fmt: skip
def test_the_command_says_what_is_wrong(tmp_path, words, text):
    import re

    done = command(tmp_path, *words)
    assert done.returncode == 1 and re.search("error: .*" + text, done.stderr, re.S), done.stderr
    assert "Traceback" not in done.stderr and not any(tmp_path.iterdir())
