# SPDX-License-Identifier: Apache-2.0
"""pto/aten.hpp and functions.hpp: C++ programs call operators of the installed PyTorch."""

import ctypes
import os
import re
import subprocess
from pathlib import Path

import children
import pytest
import torch

from pto.adapters.torch import build
from pto.adapters.torch.aten.generate import FUNCTION, HEADERS, functions
from pto.aten.records import library

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = Path(torch.__file__).parent / "lib"


@pytest.fixture(scope="module")
def flags():
    build.build_aten()
    made = children.run("-m", "pto", "config", "--aten")
    assert made.returncode == 0, made.stderr
    return made.stdout.split()


def built(name, flags, folder):
    target = folder / name
    options = ["-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]
    command = ["g++", *options, f"{ROOT}/tests/{name}.cpp", "-o", target, *flags]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return target


@pytest.fixture(scope="module")
def program(flags, tmp_path_factory):
    return built("aten_program", flags, tmp_path_factory.mktemp("aten"))


def test_a_program_calls_operators_and_reads_refusals(program):
    made = subprocess.run([program, LIBRARIES], capture_output=True, text=True)
    assert made.returncode == 0 and "0 failures" in made.stdout, made.stdout + made.stderr
    assert f"PyTorch {torch.__version__.partition('+')[0]} has" in made.stdout


def test_a_program_calls_operators_as_functions_with_plans_that_never_mix(flags, tmp_path):
    target = built("aten_functions", flags, tmp_path)
    made = subprocess.run([target, LIBRARIES], capture_output=True, text=True, timeout=100)
    assert made.stdout == "0 failures\n", made.stdout + made.stderr


def test_memory_that_no_call_may_touch_is_refused_and_left(flags, tmp_path):
    target = built("aten_memory", flags, tmp_path)
    made = subprocess.run([target, LIBRARIES], capture_output=True, text=True, timeout=100)
    assert made.stdout == "0 failures\n", made.stdout + made.stderr


def test_a_list_of_names_restricts_a_program(program, tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("add\nadd_\n")
    for file, text in (
        (names, f"PTO_ATEN_NAMES restricts them to the names in {names}"),
        (tmp_path / "nothing", "nothing, which PTO_ATEN_NAMES names, cannot be"),
    ):
        environment = {**os.environ, "PTO_ATEN_NAMES": str(file)}
        made = subprocess.run([program, LIBRARIES], capture_output=True, text=True, env=environment)
        assert made.returncode != 0 and text in made.stderr, made.stderr


class Table(ctypes.Structure):
    """The table of abi/aten.h; members that no test calls are addresses."""

    _fields_ = (
        ("abi_version", ctypes.c_uint32), ("torch_version", ctypes.c_char_p),
        ("count", ctypes.c_void_p), ("at", ctypes.c_void_p),
        ("find", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)),
        ("schema", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
        ("has_kernel", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)),
        ("call", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32,
                                  ctypes.c_void_p, ctypes.c_int32)),
        ("release", ctypes.c_void_p), ("share", ctypes.c_void_p), ("describe", ctypes.c_void_p),
        ("generator", ctypes.c_void_p), ("error", ctypes.CFUNCTYPE(ctypes.c_char_p)),
    )  # fmt: skip


def test_an_operator_that_pytorch_has_no_longer_is_refused():
    part = ctypes.CDLL(str(build.build_aten()))
    part.pto_aten.restype = ctypes.POINTER(Table)
    table = part.pto_aten().contents
    first = torch.library.Library("aten", "FRAGMENT")
    first.define("pto_passing_by() -> ()")
    first.impl("pto_passing_by", lambda: None, "CompositeExplicitAutograd")
    op = table.find(b"pto_passing_by")
    assert table.call(op, None, 0, None, 0) == 0
    first._destroy()
    assert table.find(b"pto_passing_by") is None and not table.has_kernel(op)
    assert table.call(op, None, 0, None, 0) == -1 and b"any more" in table.error()
    second = torch.library.Library("aten", "FRAGMENT")
    second.define("pto_passing_by(int n) -> ()")
    other = table.find(b"pto_passing_by")
    assert other not in (None, op) and b"int n" in table.schema(other)
    second._destroy()


def test_a_program_without_the_part_says_how_to_build_it(program, tmp_path):
    environment = {**os.environ, "PTO_CACHE_DIR": str(tmp_path)}
    made = subprocess.run(
        [program, LIBRARIES], capture_output=True, text=True, env=environment, check=False
    )
    assert made.returncode != 0 and "python -m pto adapters build torch" in made.stderr


def test_flags_without_the_part_say_how_to_build_it(tmp_path):
    environment = {**os.environ, "PTO_CACHE_DIR": str(tmp_path)}
    made = children.run("-m", "pto", "config", "--aten", env=environment)
    assert made.returncode == 1 and "python -m pto adapters build torch" in made.stderr


def without_defaults(schema):
    """The schema without values, which headers and dispatcher spell in different ways."""
    return re.sub(r'=(\[[^\]]*\]|\\?"[^"]*"|[^,)]*)', "", schema)


def test_every_thunk_calls_the_overload_whose_name_it_has():
    schemas = {}
    for header in HEADERS.glob("*_ops.h"):
        for struct, *_, schema in FUNCTION.findall(header.read_text()):
            schemas[struct] = schema
    found = functions()
    assert found == sorted(found) and len(found) > 0.99 * len(schemas)
    for one in found:
        record = next(r for r in library().records(one.name) if r.overload == one.overload)
        if one.name != "_test_string_default":  # texts with quotes are not read here
            assert without_defaults(schemas[one.struct]) == without_defaults(record.schema)
