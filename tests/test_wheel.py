# SPDX-License-Identifier: Apache-2.0
"""`pip install .` gives a package that works outside the checkout."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from test_cmake import built
from test_prebuilt import FIRST, LIST

ROOT = Path(__file__).resolve().parent.parent
README_BLOCK = re.search(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
RECIPE = (ROOT / "CONTRIBUTING.md").read_text().partition("## Recipe: a release\n")[2]
RELEASE = re.findall(r"^    (\S.*)$", RECIPE, re.M)  # its commands
CPP_PROGRAM = """
#include <pto/pto-inst.hpp>
#include <cstdio>
int main() {
  void* memory = pto_malloc(1 << 20);
  std::puts(memory ? "allocated" : "no memory");
  pto_free(memory);
}
"""
PUBLIC_PROGRAM = """
#include <pto/pto-inst.hpp>
#include "acl/acl.h"
int main() {
  half value = half(1.5f);
  std::cout << aclInit(nullptr) << " " << static_cast<float>(value) << std::endl;
}
"""


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel; its objects come from the checkout's build where that exists.

    One process of pytest builds it for all: two would write each other's objects.
    """
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "wheel"
    folder.mkdir(exist_ok=True)
    built = ROOT / "build/default/build.ninja"
    reuse = [f"--config-settings=build-dir={built.parent}"] if built.exists() else []
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder.glob("openpto-*.whl")):
            run(*pip, *reuse, "-w", folder, ".", cwd=ROOT)
    [found] = folder.glob("openpto-*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory) -> Path:
    """Python of a new environment that holds the wheel, and sees torch and NumPy of this one."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "env", cwd=folder)
    python = folder / "env/bin/python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", wheel,
        cwd=folder)  # fmt: skip
    [site] = (folder / "env").glob("lib/python3*/site-packages")
    # A .pth inside a folder that a .pth adds is not read: the checkout stays invisible.
    (site / "frameworks.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def test_the_wheel_holds_headers_libraries_and_adapter_sources(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    wanted = ["pto/pto-inst.hpp", "pto/abi/host.h", "pto/isa/instructions.def",
              "pto/__init__.py", "pto/lib/libpto.so", "pto/lib/libpto_torch.so",
              "pto/adapters/torch/node.cpp", "pto/adapters/tensorflow/operators.cpp",
              "pto/adapters/tensorflow/kernel.hpp", "pto/compat/acl/acl.h",
              "pto/ops/movement.cpp",
              "pto/adapters/torch/npu/memory.cpp", "pto/device/npu/stream.hpp",
              "pto/bench/command.py", "pto/lib/libpto_bench.so", "pto/runtime.h",
              "pto/tasks/precompiled.h", "pto/cmake/ptoConfig.cmake", "pto/cmake/pto.pc",
              "pto/cmake/ptoConfigVersion.cmake", "pto/ops/library.txt",
              "pto/compat/orchestration_api.h",
              "pto/compat/pto/common/cpu_stub.hpp"]  # fmt: skip
    assert [name for name in wanted if name not in names] == []
    assert "pto/lib/kernels.pto" not in names  # a release adds it
    assert any(re.fullmatch(r"pto/_core\..*so", name) for name in names)
    refused = r"_test\.cpp$|^pto/(?!adapters/|ops/).*\.cpp$|^(tests|bench|docs|examples|build)/"
    assert [name for name in names if re.search(refused, name)] == []


def test_the_installed_package_is_not_the_checkout(python, tmp_path):
    place = run(python, "-c", "import pto; print(pto.__file__)", cwd=tmp_path)
    assert not Path(place.strip()).is_relative_to(ROOT)


def test_the_installed_package_runs_the_readme_example(python, tmp_path):
    (tmp_path / "readme.py").write_text(README_BLOCK.group(1))
    assert "softmax" in run(python, "readme.py", cwd=tmp_path)


def test_the_installed_package_measures_a_product(python, tmp_path):
    command = ("-m", "pto", "bench", "matmul", "16x16x16", "--peers", "NumPy", "--threads", "1")
    out = run(python, *command, cwd=tmp_path)
    assert "peak (" in out and "x the best peer (NumPy)" in out


def test_the_installed_package_runs_a_program_of_tasks(python, tmp_path):
    assert "w = x + y + y" in run(python, ROOT / "examples/runtime/1_vector_add.py", cwd=tmp_path)


def test_a_cmake_project_builds_against_the_installed_package(python, tmp_path):
    folder = run(python, "-m", "pto", "config", "--cmake", cwd=tmp_path).strip()
    assert not Path(folder).is_relative_to(ROOT)
    app, _ = built(tmp_path, f"-Dpto_DIR={folder}")
    assert app == "1 255\n"


def test_kernels_that_a_wheel_carries_need_no_compiler(wheel, python, tmp_path):
    (tmp_path / "list.txt").write_text(LIST)
    carrying = shutil.copy(wheel, tmp_path)
    place = run(python, "-c", "from pto.language import prebuilt as p; print(p.PATH)", cwd=tmp_path)
    place = Path(place.strip())
    assert place.name == "kernels.pto" and not place.exists()  # a plain wheel has none
    name, *words = RELEASE[3].replace("dist/openpto-*.whl", str(carrying)).split()
    assert name == "release/bin/python"
    run(python, *words, "--list", "list.txt", cwd=tmp_path)
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps"]
    run(*pip, "--force-reinstall", carrying, cwd=tmp_path)
    env = {**os.environ, "PATH": "", "PTO_CACHE_DIR": str(tmp_path / "none")}
    spent = []
    for _ in range(3):
        done = subprocess.run([python, "-c", FIRST, place], env=env, cwd=tmp_path,
                              capture_output=True, text=True)  # fmt: skip
        assert done.returncode == 0 and not (tmp_path / "none").exists(), done.stderr
        spent.append(json.loads(done.stdout)[1])
    least = {name: min(one[name] for one in spent) for name in spent[0]}
    assert max(least.values()) < 0.005, least  # of the thread, whatever else the machine does


def test_a_public_source_builds_against_the_installed_package(python, tmp_path):
    (tmp_path / "main.cpp").write_text(PUBLIC_PROGRAM)
    flags = [run(python, "-m", "pto", "config", flag, cwd=tmp_path).split()
             for flag in ("--cxxflags", "--ldflags", "--compat")]  # fmt: skip
    run("g++", "-D__CPU_SIM", "-I", *flags[2], *flags[0], "main.cpp", *flags[1], "-o", "main",
        cwd=tmp_path)  # fmt: skip
    assert run(tmp_path / "main", cwd=tmp_path) == "0 1.5\n"


def test_a_plain_cpp_program_builds_against_the_installed_package(python, tmp_path):
    (tmp_path / "main.cpp").write_text(CPP_PROGRAM)
    flags = [run(python, "-m", "pto", "config", flag, cwd=tmp_path).split()
             for flag in ("--cxxflags", "--ldflags")]  # fmt: skip
    assert not any(str(ROOT) in flag for flag in sum(flags, []))
    run("g++", *flags[0], "main.cpp", *flags[1], "-o", "main", cwd=tmp_path)
    assert run(tmp_path / "main", cwd=tmp_path) == "allocated\n"
    version = run(python, "-m", "pto", "config", "--version", cwd=tmp_path)
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", version)
