# SPDX-License-Identifier: Apache-2.0
"""Programs of dependent tasks become packages, which travel; and what is said of mistakes."""

import hashlib
import json
import os
import pickle
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from host_cases import Inout, run

import pto
from pto import container
from pto.__main__ import main as command_line
from pto.tasks import package as package_module

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path(__file__).parent / "chip"
ORCHESTRATION, KERNEL = ((FOLDER / f).read_text() for f in ("ten_works.cpp", "work.cpp"))
SLOTS = (
    'extern "C" void kernel_entry(int64_t* a) { *reinterpret_cast<int64_t*>(a[0]) += 5 * a[1]; }\n'
)


@pytest.fixture(scope="module")
def package():
    return pto.compile(orch=ORCHESTRATION, kernels=[{"source": KERNEL}])


def zero():
    return np.zeros(1, np.int64)


def work(x, times=1):
    return [pto.Arg.inout(x), pto.Arg.scalar(times)]


# --- compiling -----------------------------------------------------------------------------------


def test_a_kernel_is_found_by_symbol_name_and_func_id(tmp_path):
    (tmp_path / "add.cpp").write_text(KERNEL)
    (tmp_path / "orch.cpp").write_text(ORCHESTRATION.replace("pto_orchestrate", "mine"))
    with pto.Runtime() as rt:
        rt.register(
            "work",
            orch_source=tmp_path / "orch.cpp",
            kernel_sources=[
                {"source": str(tmp_path / "add.cpp"), "core_type": "aiv", "func_id": 0}
            ],
            orch_func="mine",
            flags="-DSTEP=3 -UOTHER",
        )
        x = zero()
        rt.run("work", args=work(x))
        assert x == [30]


FAILING = """
#include <stdexcept>
#include <pto/pto-inst.hpp>
__global__ __aicore__ void Fails(__gm__ int64_t* x, int64_t) { throw std::runtime_error("no"); }
PTO_KERNEL(fails, Fails)
"""
ONE = """
#include <pto/runtime.h>
extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* a) {
  pto::Orchestration o(rt, a);
  o.submit("%s", {o.inout(o.inout(0)), o.scalar(%s)});
  return 0;
}
"""


@pytest.mark.parametrize("submitted", ["fails", "7"])
@pytest.mark.parametrize("scalar, text", [("1", r"task 1 \(fails\), .*: no$"),
                                          ("1.5", "raised: fails: scalar 0 is 1.5")])  # fmt: skip
def test_an_error_names_the_kernel_also_where_its_number_was_submitted(submitted, scalar, text):
    kernels = [{"source": FAILING, "func_id": 7}]
    package = pto.compile(orch=ONE % (submitted, scalar), kernels=kernels)
    text, x = re.compile(text, re.MULTILINE), zero()
    with pto.Runtime() as rt:
        rt.register("p", pkg=package)
        with pytest.raises(pto.Error, match=text):
            rt.run("p", [pto.Arg.inout(x)])
    host = pto.Runtime(level="host", devices=[0], memory=1 << 24)
    with host as rt, pytest.raises(pto.Error, match=text):
        run(rt, lambda ctx, args: ctx.submit(0, "k", [Inout(x)]) and None, {"k": package})


def test_the_public_form_of_a_kernel_is_accepted():
    kernel = pto.KernelSource(SLOTS, name="work")
    package = pto.compile(orch=ORCHESTRATION, kernels=[kernel], name='the "slots"')
    assert package.kernels[0].symbol == "kernel_entry" and package.kernels[0].names == ("work", "0")
    with pto.Runtime() as rt:
        rt.register("slots", pkg=package)
        x = zero()
        rt.run("slots", work(x))
        assert x == [50]


def test_a_changed_header_is_compiled_again(tmp_path):
    (tmp_path / "kernel.cpp").write_text('#include "step.h"\n' + KERNEL)
    x = zero()
    with pto.Runtime() as rt:
        for step in (2, 5):
            (tmp_path / "step.h").write_text(f"#define STEP {step}\n")
            kernels = [{"source": tmp_path / "kernel.cpp"}]
            rt.register("work", orch=ORCHESTRATION, kernels=kernels, cache_dir=tmp_path / "cache")
            rt.run("work", work(x))
    assert x == [70] and len(list((tmp_path / "cache").glob("*.so"))) == 3


WAITING = """#!/bin/sh
case "$*" in */one/*) touch {begun}; while [ ! -e {done} ]; do sleep 0.01; done ;; esac
exec g++ "$@"
"""


def test_another_cache_folder_counts_for_one_compilation_alone(tmp_path, monkeypatch):
    compiler, begun, done = (tmp_path / name for name in ("compiler", "begun", "done"))
    compiler.write_text(WAITING.format(begun=begun, done=done))
    compiler.chmod(0o755)
    monkeypatch.setenv("PTO_CXX", str(compiler))
    monkeypatch.setenv("PTO_CACHE_DIR", str(tmp_path / "usual"))
    kernels = [{"source": KERNEL}]

    def compiled(**others):
        pto.compile(orch=ORCHESTRATION, kernels=kernels, **others)

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(compiled, cache_dir=tmp_path / "one")
        try:
            while not begun.exists() and not other.done():
                time.sleep(0.01)
            assert pto.config.cache_dir == str(tmp_path / "usual")
            compiled()
        finally:
            done.touch()
        other.result()
    assert [len(list((tmp_path / name).glob("*.so"))) for name in ("usual", "one")] == [2, 2]


def test_a_compiler_s_error_names_the_user_s_line(tmp_path):
    (tmp_path / "broken.cpp").write_text(
        "// one\n// two\nint x = nothing;\nPTO_KERNEL(work, Work)\n"
    )
    with pytest.raises(RuntimeError, match=r"broken\.cpp:3"):
        pto.compile(orch=ORCHESTRATION, kernels=[{"source": tmp_path / "broken.cpp"}])


@pytest.mark.parametrize("changes, kind, text", [
    ({"platform": "a2a3"}, ValueError, "names hardware .*\n.*\n.*'a2a3sim'.* or 'cpu'"),
    ({"platform": "gpu"}, ValueError, "unknown platform 'gpu'\n.*'cpu', 'a2a3sim', 'a5sim'"),
    ({"orch": ""}, TypeError, "a source is ''"),
    ({"orch_source": "x.cpp"}, TypeError, "both orch= and orch_source= are given"),
    ({"kernel_sources": [{}]}, TypeError, "both kernels= and kernel_sources= are given"),
    ({"orch_func": "other"}, ValueError, "orchestration does not define other"),
    ({"orch_func": "a b"}, ValueError, "orch_func is 'a b'"),
    ({"flags": ["-O0"]}, ValueError, "flags: '-O0'\n.*-DNAME=VALUE"),
    ({"signature": ["both"]}, ValueError, r"signature\[0\]: 'both'\n.*input, output, inout"),
    ({"kernels": {"work": 1}}, TypeError, "kernels is of type dict"),
    ({"kernels": [3]}, TypeError, r"kernels\[0\] is of type int"),
    ({"kernels": [{"name": "x"}]}, TypeError, r"kernels\[0\]: no 'source'"),
    ({"kernels": [{"source": KERNEL, "core": 1}]}, TypeError,
     r"kernels\[0\]: unknown key 'core'\n.*\n.*source, core_type, func_id, name, symbol"),
    ({"kernels": [{"source": KERNEL, "core_type": "gpu"}]}, ValueError,
     r"kernels\[0\]: core_type is 'gpu'\n.*\n.*aic, aiv, mix"),
    ({"kernels": [{"source": KERNEL, "func_id": -1}]}, ValueError, r"kernels\[0\]: func_id is -1"),
    ({"kernels": [{"source": KERNEL, "symbol": "a+b"}]}, ValueError, r"symbol is 'a\+b'"),
    ({"kernels": [{"source": KERNEL + "PTO_KERNEL(more, Work)"}]}, ValueError,
     "exports work, more\n.*\n.*symbol"),
    ({"kernels": [{"source": "int x;\n"}]}, ValueError, "kernel_0 has no PTO_KERNEL"),
])  # fmt: skip
def test_mistakes_are_found_before_compiling(changes, kind, text):
    with pytest.raises(kind, match=text) as raised:
        pto.compile(**{"orch": ORCHESTRATION, "kernels": [{"source": KERNEL}], **changes})
    assert isinstance(raised.value, pto.Error)


def test_two_kernels_of_one_name_are_refused():
    with pytest.raises(ValueError, match=r"kernels\[0\] and kernels\[1\] are both called 'work'"):
        pto.compile(orch=ORCHESTRATION, kernels=[{"source": KERNEL}] * 2)


def test_a_missing_symbol_is_named():
    with pytest.raises(RuntimeError, match="absent"):
        pto.compile(orch=ORCHESTRATION, kernels=[{"source": KERNEL, "symbol": "absent"}])


# --- packages ------------------------------------------------------------------------------------


def test_a_package_runs_in_a_process_without_a_compiler(package, tmp_path):
    package.save(tmp_path / "work.pto")
    program = f"""
import numpy as np, pto
with pto.Runtime() as rt:
    rt.register("work", pkg=pto.CompiledPackage.load({str(tmp_path / "work.pto")!r}))
    x = np.zeros(1, np.int64)
    rt.run("work", [pto.Arg.inout(x), pto.Arg.scalar(4)])
    print(x)
"""
    env = {**os.environ, "PATH": "", "PTO_CXX": "no-compiler", "PTO_CACHE_DIR": str(tmp_path / "c")}
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert run.stdout == "[40]\n", run.stderr
    assert sorted(os.listdir(tmp_path)) == ["work.pto"]


def test_a_loaded_package_equals_the_saved_one(package):
    signed = pto.compile(orch=ORCHESTRATION, kernels=[{"source": KERNEL}],
                         signature=["inout int64", pto.ParamType.SCALAR])  # fmt: skip
    loaded = pto.CompiledPackage.from_bytes(signed.to_bytes())
    assert loaded.to_bytes() == signed.to_bytes()
    assert (loaded.name, loaded.target, loaded.signature) == (
        signed.name, signed.target, signed.signature,
    )  # fmt: skip
    assert [k.names for k in loaded.kernels] == [("work", "0")]


def altered(content, **changes):
    """The package with another header and a digest that fits."""
    magic, version, length = container.PREFIX.unpack_from(content)
    start = container.PREFIX.size
    header = {**json.loads(content[start : start + length]), **changes}
    text = json.dumps({k: v for k, v in header.items() if k != "version"}).encode()
    prefix = container.PREFIX.pack(magic, changes.get("version", version), len(text))
    whole = prefix + text + content[start + length : -32]
    return whole + hashlib.sha256(whole).digest()


@pytest.mark.parametrize("spoil, text", [
    (lambda c: b"", "is no package"),
    (lambda c: b"not a package at all", "is no package"),
    (lambda c: c[:7], "was truncated or altered\n.*7 bytes"),
    (lambda c: c[:200], "was truncated or altered"),
    (lambda c: c[:-1], "was truncated or altered\n.*SHA-256"),
    (lambda c: c + b"x", "was truncated or altered"),
    (lambda c: c[:3000] + bytes([c[3000] ^ 1]) + c[3001:], "was truncated or altered"),
    (lambda c: altered(c, version=9), "has version 9 of the format"),
    (lambda c: altered(c, abi=[1, 9]), r"is for version \(1, 9\) of the kernel and runtime ABI"),
    (lambda c: altered(c, machine="riscv64"), "holds code for riscv64"),
])  # fmt: skip
def test_a_package_that_cannot_be_run_is_refused(package, tmp_path, spoil, text):
    (tmp_path / "spoilt.pto").write_bytes(spoil(package.to_bytes()))
    with pytest.raises(ValueError, match="spoilt.pto " + text) as raised:
        pto.CompiledPackage.load(tmp_path / "spoilt.pto")
    assert isinstance(raised.value, pto.Error)


def test_a_package_for_more_instructions_than_the_cpu_has_is_refused(package, monkeypatch):
    content = altered(package.to_bytes(), target="avx2")
    monkeypatch.setattr(package_module, "machine_target", lambda: "portable")
    with pytest.raises(
        ValueError, match="needs avx2\n.*no more than portable\n.*PTO_TARGET=portable"
    ):
        pto.CompiledPackage.from_bytes(content)


@pytest.mark.parametrize("target", ["avx512", "avx2 (the CPU has avx512)"])
def test_a_chosen_target_does_not_make_the_cpu_less(monkeypatch, target):
    described = f"cpu: some\ntarget: {target}\ncores: 2\n"
    monkeypatch.setattr(package_module._core, "describe_machine", lambda: described)
    assert package_module.machine_target() == "avx512"


def of_kind(kind):
    return b"".join(container.content_of(kind, {"name": "other"}, [b"1234"]))


def test_a_file_says_its_kind_and_load_reads_every_kind(package, tmp_path):
    package.save(path := tmp_path / "work.pto")
    assert pto.load(path).to_bytes() == package.to_bytes()
    for kind, text in (
        ("weight", "w.pto holds a packed weight, not a program of tasks\n.*'weight'\n.*pto.load"),
        ("kernel of tomorrow", "w.pto holds 'kernel of tomorrow', not a program of tasks"),
        (["x"], r"w.pto holds \['x'\], not"),
    ):
        (tmp_path / "w.pto").write_bytes(of_kind(kind))
        with pytest.raises(ValueError, match=text):
            pto.CompiledPackage.load(tmp_path / "w.pto")
        if kind != "weight":
            with pytest.raises(
                ValueError,
                match="w.pto holds .*\n.*this pto reads program, functions, tasks, weight",
            ):
                pto.load(tmp_path / "w.pto")


@pytest.mark.parametrize("kind", [{}, {"kind": "program"}], ids=["none", "program"])
def test_a_file_from_before_packages_of_functions_is_a_program_of_tasks(package, kind):
    content = package.to_bytes()
    magic, version, length = container.PREFIX.unpack_from(content)
    start = container.PREFIX.size
    header = json.loads(content[start : start + length])
    assert header.pop("kind") == "tasks"
    text = json.dumps({**kind, **header}).encode()
    whole = container.PREFIX.pack(magic, version, len(text)) + text + content[start + length : -32]
    old = pto.CompiledPackage.from_bytes(whole + hashlib.sha256(whole).digest())
    assert old.to_bytes() == content


@pytest.mark.parametrize("path, kind, text", [
    (None, TypeError, "load: the path is"),
    (b"x", TypeError, "load: the path is"),
    ("no such file", FileNotFoundError, "the package no such file does not exist"),
    ("/", RuntimeError, "the package / cannot be read"),
    ("a\0b", RuntimeError, "cannot be read"),
])  # fmt: skip
def test_a_path_without_a_package_is_refused(path, kind, text):
    with pytest.raises(kind, match=text) as raised:
        pto.load(path)
    assert isinstance(raised.value, pto.Error) and raised.value.fix


def test_the_command_line_says_what_a_file_holds(package, tmp_path, capsys, monkeypatch):
    package.save(tmp_path / "work.pto")
    monkeypatch.setattr(sys, "argv", ["pto", "package", str(tmp_path / "work.pto")])
    assert command_line() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("work.pto: a program of tasks, ") and lines[0].endswith(" bytes")
    assert {"  kernels: work", f"  target: {package.target}"} <= set(lines)
    (tmp_path / "work.pto").write_text("no package")
    assert command_line() == 1
    assert "work.pto is no package" in capsys.readouterr().err


def test_every_altered_byte_is_noticed(package):
    content = package.to_bytes()
    for place in np.random.default_rng(0).integers(0, len(content), 50):
        spoilt = content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]
        with pytest.raises(ValueError, match="the package "):
            pto.CompiledPackage.from_bytes(spoilt)


def test_a_header_of_any_content_is_read_or_refused(package, deep):
    """With a digest that fits: somebody else may have written it."""
    content = package.to_bytes()
    magic, version, length = container.PREFIX.unpack_from(content)
    start = container.PREFIX.size
    header, objects = content[start : start + length], content[start + length : -32]
    random = np.random.default_rng(0)
    pieces = [
        b"null",
        b"-1",
        b"1e999",
        b"[",
        b"{}",
        b'"x"',
        b"9" * 5000,
        b"[" * 100000,
        b"NaN",
        b"",
    ]
    for _ in range(20000 if deep else 300):
        spoilt = header
        for _ in range(random.integers(1, 3)):
            place = random.integers(0, len(spoilt))
            end = place + random.integers(0, 12)
            spoilt = spoilt[:place] + pieces[random.integers(len(pieces))] + spoilt[end:]
        whole = container.PREFIX.pack(magic, version, len(spoilt)) + spoilt + objects
        try:
            pto.CompiledPackage.from_bytes(whole + hashlib.sha256(whole).digest())
        except pto.Error as error:
            assert error.what and error.why and error.fix


def test_packages_are_never_pickled(package, tmp_path):
    with pytest.raises(TypeError, match="cannot be pickled\n.*\n.*save"):
        pickle.dumps(package)
    with pytest.raises(FileNotFoundError, match="none.pto does not exist"):
        pto.CompiledPackage.load(tmp_path / "none.pto")


def test_the_abi_versions_are_those_of_the_headers():
    text = "".join(header.read_text() for header in sorted((ROOT / "pto/abi").glob("*.h")))
    names = ("PTO_ABI_VERSION", "PTO_RUNTIME_ABI_VERSION")
    found = [int(re.search(rf"\b{name} = (\d+)", text).group(1)) for name in names]
    assert tuple(found) == package_module.ABI_VERSIONS
