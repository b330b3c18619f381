# SPDX-License-Identifier: Apache-2.0
"""Kernels that another compiler made: declared, adapted, checked, and kept in packages."""

import os
import struct
import subprocess
import sys

import numpy as np
import pytest

import pto

# z = factor * x + y, by way of the workspace; the tiling is {elements of a step, factor}.
ADD = """
#include <stdint.h>
typedef struct { int64_t step; float factor; } Tiling;
void my_add(void* x, void* y, void* z, int64_t n, float offset, void* workspace,
            const void* tiling) {
  const Tiling* t = tiling;
  float* room = workspace;
  for (int64_t i = 0; i < n; i += t->step)
    for (int64_t k = 0; k < t->step && i + k < n; ++k) {
      room[k] = t->factor * ((const float*)x)[i + k];
      ((float*)z)[i + k] = room[k] + ((const float*)y)[i + k] + offset;
    }
}
"""
NEEDS = """
double absent_function(double);
void needs(void* x) { *(double*)x = absent_function(1); }
"""
NAMES = """
#include <stdint.h>
#include <stdlib.h>
void narrow(void* x, int32_t n, void* workspace) { *(int64_t*)x = workspace == 0 ? n : -1; }
void new(void* x) { *(int64_t*)x += abs(-5); }
"""
MANGLED = "void bare(void* x) { *(long*)x = 1; }\n"
TILING = struct.pack("<qf", 64, 2.0)
SQUARE = """
#include <pto/pto-inst.hpp>
using namespace pto;
__global__ __aicore__ void Square(__gm__ float* w, __gm__ const float* z, int64_t n) {
  for (int64_t i = 0; i < n; ++i) w[i] = z[i] * z[i];
}
PTO_KERNEL(square, Square)
"""
# w = z * z of z = 2 x + y + 1
MIXED = """
#include <pto/runtime.h>
extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* a) {
  pto::Orchestration o(rt, a);
  auto x = o.input(0), y = o.input(1), w = o.output(2), z = o.tensor(x.shape(), x.dtype());
  o.submit("my_add", {o.in(x), o.in(y), o.out(z), o.scalar(x.numel()), o.scalar(1)});
  o.submit("1", {o.out(w), o.in(z), o.scalar(x.numel())});
  return 0;
}
"""
ONE = """
#include <pto/runtime.h>
extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* a) {
  pto::Orchestration o(rt, a);
  std::vector<pto::TaskArgument> args;
  for (int i = 0; i < a->n_tensors; ++i)
    args.push_back(a->tensors[i].flags & PTO_TENSOR_READ_ONLY ? o.in(o.input(i))
                                                              : o.inout(o.inout(i)));
  for (int i = 0; i < a->n_scalars; ++i) args.push_back(o.scalar(o.integer(i)));
  o.submit("0", args);
  return 0;
}
"""
TENSORS = [{"name": "x", "direction": "input", "dtype": "float32"},
           {"name": "y", "direction": "input"}, {"name": "z", "direction": "output"}]  # fmt: skip


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    """A folder with an object and a shared object of each text."""
    folder = tmp_path_factory.mktemp("objects")
    texts = {"add.c": ADD, "needs.c": NEEDS, "names.c": NAMES, "mangled.cpp": MANGLED}
    for name, text in texts.items():
        (folder / name).write_text(text)
        stem = name.partition(".")[0]
        compile = ["g++" if name.endswith("pp") else "gcc", "-O2", "-fPIC", folder / name]
        subprocess.run([*compile, "-c", "-o", folder / f"{stem}.o"], check=True)
        subprocess.run([*compile, "-shared", "-o", folder / f"{stem}.so"], check=True)
    (folder / "tiling.bin").write_bytes(TILING)
    return folder


def add(objects, **changes):
    return {"source": objects / "add.o", "core_type": "aiv", "func_id": 0, "symbol": "my_add",
            "tensor_args": TENSORS, "scalars": ["int64", {"name": "offset", "dtype": "float32"}],
            "tiling": TILING, "workspace": 256, **changes}  # fmt: skip


def named(objects, symbol, file="names.o", **changes):
    tensors = [{"name": "x", "direction": "inout"}]
    return {"source": str(objects / file), "symbol": symbol, "tensor_args": tensors, **changes}


def run(kernels, args, orch=ONE):
    with pto.Runtime() as rt:
        rt.register("program", pkg=pto.compile(orch=orch, kernels=kernels))
        rt.run("program", args)


def mixed_arguments(n=1000):
    x, y = np.random.default_rng(0).standard_normal((2, n), np.float32)
    w = np.empty_like(x)
    return [pto.Arg.input(x), pto.Arg.input(y), pto.Arg.output(w)], w, (2 * x + y + 1) ** 2


@pytest.mark.parametrize("changes", [
    {}, {"source": "add.so"}, {"tiling": "tiling.bin"}, {"compiler": "ascendc"},
    {"symbol": "", "ascendc_symbol": "my_add"},
], ids=str)  # fmt: skip
def test_a_precompiled_kernel_and_one_of_ours_share_a_graph(objects, changes, monkeypatch):
    monkeypatch.chdir(objects)
    args, w, expected = mixed_arguments()
    run([add(objects, **changes), {"source": SQUARE}], args, MIXED)
    np.testing.assert_allclose(w, expected, rtol=1e-6)


def test_a_captured_graph_replays_precompiled_kernels(objects):
    args, w, expected = mixed_arguments()
    with pto.Runtime() as rt:
        kernels = [add(objects), {"source": SQUARE}]
        rt.register("program", orch=MIXED, kernels=kernels)
        graph = rt.capture("program", args)
        for _ in range(3):
            w[...] = 0
            graph.replay(args)
            np.testing.assert_allclose(w, expected, rtol=1e-6)


@pytest.mark.parametrize("file", ["add.o", "add.so"])
def test_a_package_with_objects_needs_neither_them_nor_a_compiler(objects, tmp_path, file):
    copy = tmp_path / file
    copy.write_bytes((objects / file).read_bytes())
    package = pto.compile(orch=MIXED, kernels=[add(objects, source=copy), {"source": SQUARE}])
    package.save(tmp_path / "p.pto")
    copy.unlink()
    program = f"""
import numpy as np, pto
package = pto.CompiledPackage.load({str(tmp_path / "p.pto")!r})
x, w = np.full(200, 3, np.float32), np.zeros(200, np.float32)
with pto.Runtime() as rt:
    rt.register("p", pkg=package)
    rt.run("p", [pto.Arg.input(x), pto.Arg.input(x), pto.Arg.output(w)])
print(set(w.tolist()))
"""
    env = {**os.environ, "PATH": "", "PTO_CXX": "no-compiler", "PTO_CACHE_DIR": str(tmp_path / "c")}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert ran.stdout == "{100.0}\n", ran.stderr


def test_the_cache_follows_the_object_s_bytes_and_the_declaration(objects, tmp_path):
    folder = tmp_path / "cache"

    def entries(**changes):
        kernels = [add(objects, **changes), {"source": SQUARE}]
        pto.compile(orch=MIXED, kernels=kernels, cache_dir=folder)
        return len(list(folder.glob("my_add-*.so")))

    assert entries() == 1 and entries() == 1
    assert entries(tiling=TILING + b"x") == 2 and entries(workspace=512) == 3
    changed = tmp_path / "add.o"
    changed.write_bytes((objects / "add.o").read_bytes() + b"changed")
    assert entries(source=changed) == 4


@pytest.mark.parametrize("file", ["names.o", "names.so"])
def test_has_workspace_alone_is_a_null_pointer_and_any_c_name_is_a_symbol(objects, file):
    x = np.zeros(1, np.int64)
    narrow = named(objects, "narrow", file, scalars=["int32"], has_workspace=True)
    run([narrow], [pto.Arg.inout(x), pto.Arg.scalar(-(2**31))])
    assert x == [-(2**31)]
    run([named(objects, "new", file)], [pto.Arg.inout(x)])
    assert x == [5 - 2**31]
    with pytest.raises(
        RuntimeError, match=r"scalar 0 is 2147483648 \(int64\), its parameter is i32"
    ):
        run([narrow], [pto.Arg.inout(x), pto.Arg.scalar(2**31)])


@pytest.mark.parametrize("changes, kind, text", [
    ({"source": "none.o"}, FileNotFoundError, "the object none.o does not exist"),
    ({"source": "add.c.o"}, ValueError, "is no ELF object\n.*begins with b'.n#in"),
    ({"source": "a\0b.o"}, RuntimeError, "cannot be read: embedded null byte"),
    ({"source": "short.o"}, ValueError, "is no ELF object"),
    ({"source": "cut.o"}, ValueError, "cut.o is damaged"),
    ({"source": "foreign.o"}, ValueError, "holds code for Ascend\n.*this machine is"),
    ({"source": "core.o"}, ValueError, "is an ELF file of type 4"),
    ({"symbol": "her_add"}, ValueError, "add.o defines no her_add\n.*it defines my_add"),
    ({"source": "mangled.o", "symbol": "bare"}, ValueError,
     'defines no bare\n.*and bare as a C\\+\\+ function\n.*extern "C"'),
    ({"symbol": ""}, ValueError, r"kernels\[0\]: no symbol"),
    ({"symbol": "a+b"}, ValueError, r"symbol is 'a\+b'"),
    ({"ascendc_symbol": "b"}, TypeError, "symbol 'my_add' and ascendc_symbol 'b'"),
    ({"compiler": "nvcc"}, ValueError, "compiler is 'nvcc'"),
    ({"tensor_args": None}, TypeError, "a compiled object without tensor_args"),
    ({"tensor_args": {}}, TypeError, "tensor_args is of type dict"),
    ({"tensor_args": ["x"]}, TypeError, r"tensor_args\[0\] is of type str"),
    ({"tensor_args": [{"name": "x", "direction": "sideways"}]}, ValueError,
     "x: direction is 'sideways'\n.*\n.*input, output, inout"),
    ({"tensor_args": [{"name": "x"}]}, ValueError, "x: direction is None"),
    ({"tensor_args": [{"direction": "input"}]}, ValueError, r"tensor_args\[0\]: its name is ''"),
    ({"tensor_args": [{"name": "x", "direction": "input", "dtype": "float8"}]}, ValueError,
     "x: unknown dtype 'float8'\n.*\n.*int8"),
    ({"tensor_args": [{"name": "x", "type": "input"}]}, TypeError, "unknown key 'type'"),
    ({"scalars": ["int"]}, ValueError, r"unknown dtype 'int'\n.*\n.*int32, uint32, int64"),
    ({"scalars": "int64"}, TypeError, "scalars is of type str"),
    ({"workspace": -1}, ValueError, "workspace is -1"),
    ({"has_workspace": False}, TypeError, "has_workspace is False, but workspace is 256"),
    ({"tiling": 7}, TypeError, "tiling is of type int"),
    ({"tiling": "none.bin"}, FileNotFoundError, "the tiling none.bin cannot be read"),
    ({"tiling": "."}, RuntimeError, "the tiling . cannot be read"),
    ({"tiling": "a\0b"}, RuntimeError, "cannot be read: embedded null byte"),
    ({"source": SQUARE}, TypeError, "a C\\+\\+ source has tensor_args"),
], ids=str)  # fmt: skip
def test_mistakes_of_a_declaration_are_named(objects, changes, kind, text, monkeypatch):
    monkeypatch.chdir(objects)
    elf = bytearray((objects / "add.o").read_bytes())
    (objects / "add.c.o").write_text(ADD)
    (objects / "short.o").write_bytes(elf[:20])
    (objects / "cut.o").write_bytes(elf[:-100])
    (objects / "foreign.o").write_bytes(elf[:18] + struct.pack("<H", 0x1029) + elf[20:])
    (objects / "core.o").write_bytes(elf[:16] + struct.pack("<H", 4) + elf[18:])
    with pytest.raises(kind, match=text) as raised:
        pto.compile(orch=MIXED, kernels=[add(objects, **changes)])
    assert isinstance(raised.value, pto.Error)


@pytest.mark.parametrize("file", ["needs.o", "needs.so"])
def test_what_an_object_needs_and_nobody_has_is_named(objects, file):
    text = "the object of needs needs absent_function\n.*\n.*ld -r"
    with pytest.raises(RuntimeError, match=text):
        pto.compile(orch=ONE, kernels=[named(objects, "needs", file)])


def test_an_archive_is_no_kernel(objects):
    (objects / "add.a").write_bytes(b"!<arch>")
    with pytest.raises(ValueError, match="add.a is a compiled object\n.*kernels may be .o and .so"):
        pto.compile(orch=ONE, kernels=[{"source": objects / "add.a"}])


def test_code_at_absolute_addresses_is_refused(objects, tmp_path):
    (tmp_path / "table.c").write_text("int table[4]; int* get(int i) { return &table[i]; }\n")
    made = tmp_path / "table.o"
    subprocess.run(["gcc", "-fno-pic", "-c", tmp_path / "table.c", "-o", made], check=True)
    kernel = {"source": made, "symbol": "get", "tensor_args": []}
    with pytest.raises(RuntimeError, match="cannot be put into a shared object\n.*\n.*-fPIC"):
        pto.compile(orch=ONE, kernels=[kernel])


def floats(n=4):
    return np.zeros(n, np.float32)


@pytest.mark.parametrize("args, text", [
    ([pto.Arg.input(floats()), pto.Arg.input(floats())],
     "my_add: declared with 3 tensors and 2 scalars, given 2 and 2\n"
     r"  why: it is called as my_add\(input x float32, input y, output z, scalar s0 int64, "
     r"scalar offset float32\)"),
    ([pto.Arg.input(floats())] * 3 + [pto.Arg.inout(floats())], "given 4 and 2"),
    ([pto.Arg.input(np.zeros(4)), pto.Arg.input(floats()), pto.Arg.inout(floats())],
     "tensor 0, x, is declared float32, given is float64"),
    ([pto.Arg.input(floats()), pto.Arg.input(floats()), pto.Arg.input(floats())],
     "tensor 2, z, is declared output, given is an input"),
    ([pto.Arg.input(floats()), pto.Arg.input(floats(8)[::2]), pto.Arg.inout(floats())],
     "tensor 1, y, is given with gaps between its elements"),
])  # fmt: skip
def test_a_call_that_does_not_fit_the_declaration_fails_with_a_sentence(objects, args, text):
    with pytest.raises(RuntimeError, match=text):
        run([add(objects)], [*args, pto.Arg.scalar(0), pto.Arg.scalar(0)])
