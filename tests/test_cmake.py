# SPDX-License-Identifier: Apache-2.0
"""find_package(pto), pto_add_kernel and pkg-config, as a project in a clean folder meets them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pto

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent


def run(*command, cwd, **env):
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **env}
    command = [str(c) for c in command]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env)
    return done.returncode, done.stdout + done.stderr


def config(flag, python=sys.executable, cwd=ROOT):
    code, text = run(python, "-m", "pto", "config", flag, cwd=cwd)
    assert code == 0, text
    return text.strip()


def built(folder, *options):
    """Builds a copy of the project, and returns what its programs print."""
    project = shutil.copytree(ROOT / "tests/cmake_project", folder / "project")
    for command in (["-S", ".", "-B", "build", "-G", "Ninja", *options], ["--build", "build"]):
        code, text = run("cmake", *command, cwd=project)
        assert code == 0, text
    found = [run(project / "build" / name, cwd=folder) for name in ("app", "c_app")]
    assert [code for code, _ in found] == [0, 0]
    return [text for _, text in found]


def test_a_project_finds_pto_and_builds_kernels_and_programs(tmp_path):
    app, c_app = built(tmp_path, f"-Dpto_DIR={config('--cmake')}")
    assert app == "1 255\n" and "the package none.pto cannot be read" in c_app


def test_the_folder_of_packages_is_a_prefix(tmp_path):
    app, _ = built(tmp_path, f"-DCMAKE_PREFIX_PATH={ROOT}")
    assert app == "1 255\n"


PROJECT = """cmake_minimum_required(VERSION 3.20)
project(user LANGUAGES C CXX)
find_package(pto {version} REQUIRED PATHS {folder})
file(WRITE "${{CMAKE_BINARY_DIR}}/k.cpp" "")
{line}
"""


def configured(folder, line="", version=""):
    text = PROJECT.format(version=version, folder=config("--cmake"), line=line)
    (folder / "CMakeLists.txt").write_text(text)
    return run("cmake", "-S", ".", "-B", "build", cwd=folder)


@pytest.mark.parametrize("line, text", [
    ("pto_add_kernel(k TARGET sse k.cpp)", "the target 'sse' is unknown"),
    ("pto_add_kernel(k)", "there are no sources"),
])  # fmt: skip
def test_a_wrong_kernel_is_refused(tmp_path, line, text):
    code, out = configured(tmp_path, line)
    assert code != 0 and text in out and "fix:" in out, out


def test_versions_fit_where_their_first_two_numbers_do(tmp_path):
    major, minor, _ = pto.__version__.split(".")
    for version, fits in ((f"{major}.{minor}", True), (f"{major}.{int(minor) - 1}", False),
                          (f"{major}.{int(minor) + 1}", False), ("9", False)):  # fmt: skip
        shutil.rmtree(tmp_path / "build", ignore_errors=True)
        assert (configured(tmp_path, version=version)[0] == 0) == fits, version


@pytest.mark.parametrize("target", ["portable", "avx2", "avx512"])
def test_kernels_have_the_flags_of_pto(target, tmp_path):
    if target not in pto._core.describe_machine() and target != "portable":
        pytest.skip("this CPU lacks the target")
    _, out = configured(tmp_path, f'message("flags: ${{pto_FLAGS_{target}}}.")')
    code = "from pto import build_config; print(*build_config.target_flags(), sep=';')"
    _, wanted = run(sys.executable, "-c", code, cwd=ROOT, PTO_TARGET=target)
    assert f"flags: {wanted.strip()}." in out


def test_constants_of_kernels_keep_their_zeros_with_gcc(tmp_path):
    lines = [
        f"pto_add_kernel({target} TARGET {target} k.cpp)\n"
        f'get_target_property(options {target} COMPILE_OPTIONS)\nmessage("{target}: ${{options}}.")'
        for target in ("portable", "avx2")
    ]
    _, out = configured(tmp_path, "set(CMAKE_CXX_COMPILER_ID GNU)\n" + "\n".join(lines))
    portable, avx2 = (line for line in out.splitlines() if line.startswith(("portable:", "avx2:")))
    assert "max=" not in portable and avx2.endswith("-mmove-max=128;-mstore-max=128.")


def test_the_default_target_is_that_of_the_machine(tmp_path):
    _, out = configured(tmp_path, 'pto_machine_target(found)\nmessage("target: ${found}.")')
    best = re.search(r"the CPU has (\w+)|target: (\w+)", pto._core.describe_machine())
    assert f"target: {best[1] or best[2]}." in out


def test_pkg_config_and_the_flags_for_c_build_a_program(tmp_path):
    folder = Path(config("--pkgconfig"))
    text = (folder / "pto.pc").read_text()
    assert re.search("^Version: (.*)$", text, re.M)[1] == pto.__version__
    one_rounding = re.search("^Cflags: (.*)$", text, re.M)[1].split()[1:]
    assert one_rounding == ["-ffp-contract=off"]  # as --cxxflags: TMUL and TADD stay two
    libs = re.search("^Libs: (.*)$", text, re.M)[1].replace("${root}", str(folder / "../.."))
    source = ROOT / "tests/cmake_project/main.c"
    cflags = config("--cflags").split() + one_rounding
    code, out = run("gcc", *cflags, source, *libs.split(), "-o", "app", cwd=tmp_path)
    assert code == 0, out
    assert "none.pto cannot be read" in run(tmp_path / "app", cwd=tmp_path)[1]
    if shutil.which("pkg-config"):
        _, flags = run("pkg-config", "--cflags", "--libs", "pto", cwd=tmp_path,
                       PKG_CONFIG_PATH=str(folder))  # fmt: skip
        assert "-lpto" in flags and "-I" in flags


def test_headers_of_kernels_warn_of_nothing(tmp_path):
    (tmp_path / "k.cpp").write_text("""#include <pto/pto-inst.hpp>
using namespace pto;
__global__ __aicore__ void Most(__gm__ float* y, __gm__ const float* x) {
  Tile<TileType::Vec, float, 8, 64> a;
  Tile<TileType::Vec, float, 8, 8, BLayout::RowMajor, 8, 1> top;
  TLOAD(a, GlobalTensor(x));
  TROWMAX(top, a);
  TSTORE(GlobalTensor(y), top);
}
void most(float* y, const float* x) { EXEC_KERNEL_CMD(Most, 1, y, x); }
""")
    flags = [*config("--cxxflags").split(), "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]
    code, out = run("g++", "-fsyntax-only", *flags, "k.cpp", cwd=tmp_path)
    assert code == 0, out


def test_the_version_is_said(tmp_path):
    code, text = run(sys.executable, "-m", "pto", "--version", cwd=ROOT)
    assert (code, text.strip()) == (0, pto.__version__) == (0, config("--version"))
