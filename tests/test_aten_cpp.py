# SPDX-License-Identifier: Apache-2.0
"""pto/aten.hpp and functions.hpp: C++ programs call operators of the installed PyTorch."""

import os
import re
import subprocess
import sys
from pathlib import Path

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
    command = [sys.executable, "-m", "pto", "config", "--aten"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


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


def test_a_program_without_the_part_says_how_to_build_it(program, tmp_path):
    environment = {**os.environ, "PTO_CACHE_DIR": str(tmp_path)}
    made = subprocess.run(
        [program, LIBRARIES], capture_output=True, text=True, env=environment, check=False
    )
    assert made.returncode != 0 and "python -m pto adapters build torch" in made.stderr


def test_flags_without_the_part_say_how_to_build_it(tmp_path):
    environment = {**os.environ, "PTO_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "pto", "config", "--aten"]
    made = subprocess.run(command, capture_output=True, text=True, env=environment)
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
