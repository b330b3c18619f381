# SPDX-License-Identifier: Apache-2.0
"""The kernel for MindSpore Lite, against declarations of its interface and a stand-in runtime."""

import pathlib
import subprocess

import pto
from pto import build_config

EXAMPLE = pathlib.Path(__file__).parents[1] / "examples/frameworks/mindspore_lite"
ADAPTER = pathlib.Path(pto.__file__).parent / "adapters/mindspore"


def test_the_kernel_runs_as_the_documentation_of_lite_calls_it(tmp_path):
    program = tmp_path / "program"
    sources = [EXAMPLE / f"{name}.cpp" for name in ("kernel", "operator", "runtime")]
    sources += [ADAPTER / f"{name}.cpp" for name in ("request", "shapes")]
    flags = ["-std=c++20", f"-I{EXAMPLE / 'interface'}", "-Wall", "-Wextra", "-Werror"]
    command = ["g++", *build_config.cxxflags(), *flags, *sources, "-o", program]
    done = subprocess.run([*command, *build_config.ldflags()], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    run = subprocess.run([program], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("ok: ") == 7 and "FAILED" not in run.stdout
    assert "lite_scaled_add: sizes 4 and 5 differ" in run.stderr
    assert "operator nonsense, which this process does not know" in run.stderr
