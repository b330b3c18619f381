# SPDX-License-Identifier: Apache-2.0
"""pto/aten.hpp: a C++ program calls operators of the installed PyTorch, without Python."""

import os
import subprocess
from pathlib import Path

import pytest
import torch

from pto import build_config
from pto.adapters.torch import build

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = Path(torch.__file__).parent / "lib"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    build.build_aten()
    target = tmp_path_factory.mktemp("aten") / "program"
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", *build_config.cxxflags()]
    command = ["g++", *flags, f"{ROOT}/tests/aten_program.cpp", "-o", target, "-ldl", "-pthread"]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return target


def test_a_program_calls_operators_and_reads_refusals(program):
    made = subprocess.run([program, LIBRARIES], capture_output=True, text=True)
    assert made.returncode == 0 and "0 failures" in made.stdout, made.stdout + made.stderr
    assert f"PyTorch {torch.__version__.partition('+')[0]} has" in made.stdout


def test_a_program_without_the_part_says_how_to_build_it(program, tmp_path):
    environment = {**os.environ, "PTO_CACHE_DIR": str(tmp_path)}
    made = subprocess.run(
        [program, LIBRARIES], capture_output=True, text=True, env=environment, check=False
    )
    assert made.returncode != 0 and "python -m pto adapters build torch" in made.stderr
