# SPDX-License-Identifier: Apache-2.0
"""Sources for the public simulator compile and run as they are, with compat/ among the includes.

Each source is built by one compiler at one language level, by all of them with PTO_DEEP=1.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pto import build_config

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "tests/compat").glob("*.cpp"))
NEWEST_CLANG = [f"clang++-{version}" for version in range(30, 14, -1)]
COMPILERS = ["g++", "clang++-14", *filter(shutil.which, NEWEST_CLANG)][:3]
LEVELS = ["c++17", "c++20", "c++23"]
COMPAT = ["-I", build_config.compat_dir()]
OURS = [f"-I{build_config.include_dir()}"]
ORDERS = [COMPAT + OURS, OURS + COMPAT]


def level_of(compiler: str, level: str) -> str:
    """The level as this compiler calls it."""
    return "-std=c++2b" if level == "c++23" and compiler == "clang++-14" else f"-std={level}"


def every_build() -> list[tuple[Path, str, str]]:
    """The sources' builds: all of them, or one of each such that all compilers and levels occur."""
    pairs = [(compiler, level) for level in LEVELS for compiler in COMPILERS]
    if os.environ.get("PTO_DEEP"):
        return [(source, *pair) for source in SOURCES for pair in pairs]
    return [(source, *pairs[i % len(pairs)]) for i, source in enumerate(SOURCES)]


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def build(folder: Path, source: Path, compiler: str, level: str, *flags: str) -> Path:
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    program = folder / "program"
    run(compiler, level_of(compiler, level), "-O0", "-Wall", "-Wextra", "-D__CPU_SIM", *flags,
        *build_config.target_flags(), source, "-o", program, *build_config.ldflags(),
        "-lgtest", "-lgtest_main", "-lpthread", cwd=folder)  # fmt: skip
    return program


@pytest.mark.parametrize(
    "source, compiler, level", every_build(), ids=lambda value: getattr(value, "stem", value)
)
def test_a_public_source_gives_its_results(source, compiler, level, tmp_path):
    order = ORDERS[SOURCES.index(source) % 2]
    assert "PASSED" in run(build(tmp_path, source, compiler, level, *order), cwd=tmp_path)


NEEDS_PYTORCH = ("hpu_custom_op", "torch_npu/")  # test_custom_op.py, test_guide_torch.py
PARTS_OF_CPU_STUB = ("limits_of_types.hpp", "pipe_state.hpp", "quantising_steps.hpp")
NEEDS_TENSORFLOW = ("tensorflow_kernels.hpp",)  # test_guide_frameworks.py
HEADERS = sorted(
    name
    for name in (str(path.relative_to(ROOT / "compat")) for path in (ROOT / "compat").rglob("*.h*"))
    if not name.startswith(NEEDS_PYTORCH)
    and not name.endswith(PARTS_OF_CPU_STUB + NEEDS_TENSORFLOW)
)
SHORT_NAMES = [name.rsplit("/", 1)[1] for name in HEADERS if name.startswith("pto/common/")]


@pytest.mark.parametrize("order", ORDERS, ids=["before", "after"])
def test_headers_are_found_by_both_names_in_both_orders(order, tmp_path):
    names = HEADERS + SHORT_NAMES
    # PTO_DEEP=1: each in a file of its own, so that each comes first.
    groups = [[name] for name in names] if os.environ.get("PTO_DEEP") else [names]
    files = [tmp_path / f"includes_{i}.cpp" for i in range(len(groups))]
    for file, group in zip(files, groups, strict=True):
        file.write_text("".join(f'#include "{name}"\n' for name in group))
    run("g++", "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-DPTO_PORTABLE",
        "-D__CPU_SIM", *order, f"-I{build_config.compat_dir()}/pto/common", *files,
        cwd=tmp_path)  # fmt: skip


@pytest.mark.parametrize("kind", ["CUBE", "VEC"])
def test_a_source_can_be_built_for_one_kind_of_core(kind, tmp_path):
    other = {"CUBE": "VEC", "VEC": "CUBE"}[kind]
    source = tmp_path / "kind.cpp"
    source.write_text(f"""#include <pto/pto-inst.hpp>
#if !defined(__DAV_{kind}__) || defined(__DAV_{other}__) || !defined(CPU_SIM_BFLOAT_ENABLED)
#error "another kind"
#endif
""")
    run("g++", "-std=c++17", "-fsyntax-only", "-Werror", "-DPTO_PORTABLE", "-D__CPU_SIM",
        f"-D__DAV_{kind}__", "-DPTO_CPU_SIM_ENABLE_BF16=1", *ORDERS[0], source,
        cwd=tmp_path)  # fmt: skip


def test_every_instruction_is_a_name_of_pto(tmp_path):
    table = (ROOT / "pto/isa/forms.def").read_text()
    names = sorted(set(re.findall(r"^PTO_FORM\((\w+)", table, re.M)))
    assert len(names) > 50
    source = tmp_path / "names.cpp"
    lines = [f"using pto::{name};\n" for name in names]
    source.write_text(f"#include <pto/pto-inst.hpp>\nnamespace names {{\n{''.join(lines)}}}\n")
    run("g++", "-std=c++17", "-fsyntax-only", "-DPTO_PORTABLE", *OURS, source, cwd=tmp_path)


def test_the_folder_is_what_the_command_prints(tmp_path):
    command = [sys.executable, "-m", "pto", "config", "--compat"]
    assert run(*command, cwd=tmp_path) == f"{ROOT / 'compat'}\n"
