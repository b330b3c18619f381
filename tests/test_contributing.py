# SPDX-License-Identifier: Apache-2.0
"""The recipes of CONTRIBUTING.md, done as they stand there, and the names that pages use."""

import os
import re
import subprocess
import sys
from pathlib import Path

import children
import pytest

from pto import build_config

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
BLOCKS = dict(re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))


def run(command: list, folder: Path) -> str:
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, text=True, capture_output=True,
        env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def test_a_row_of_the_table_is_an_instruction(tmp_path):
    row, program = BLOCKS["def"], BLOCKS["cpp"]
    table = (ROOT / "pto/isa/instructions.def").read_text()
    last = table.rindex("PTO_UNARY_OURS(")
    (tmp_path / "pto/isa").mkdir(parents=True)
    (tmp_path / "pto/isa/instructions.def").write_text(table[:last] + row + table[last:])
    (tmp_path / "silu.cpp").write_text(program)
    flags = [f"-I{tmp_path}", *build_config.cxxflags()]
    run(["g++", *flags, "silu.cpp", "-o", "silu", *build_config.ldflags()], tmp_path)
    assert run([tmp_path / "silu"], tmp_path) == "largest difference below 1e-6: yes\n"


MAIN = """
#include <fstream>
#include <iostream>
#include <sstream>

#include "pto/ir/parse.hpp"
#include "pto/ir/print.hpp"
#include "pto/passes/notes.hpp"

namespace pto {
Graph double_sums(const Graph& graph, PassNotes* notes);
}

int main() {
  std::stringstream text;
  text << std::ifstream("double_sums.ir").rdbuf();
  const std::string golden = text.str();
  std::cout << print(pto::double_sums(pto::parse(golden.substr(0, golden.find("==="))), nullptr));
}
"""


def test_a_function_of_a_graph_is_a_pass(tmp_path):
    compiler = ROOT / "build/default/libpto_compiler.a"
    (tmp_path / "double_sums.cpp").write_text(BLOCKS["pass"])
    (tmp_path / "double_sums.ir").write_text(BLOCKS["ir"])
    (tmp_path / "main.cpp").write_text(MAIN)
    files = ["main.cpp", "double_sums.cpp", "-o", "main", compiler, *build_config.ldflags()]
    run(["g++", "-std=c++20", f"-I{ROOT}", *files, "-ldl", "-pthread"], tmp_path)
    assert "mul(%x" in run([tmp_path / "main"], tmp_path)


def test_functions_of_records_are_an_adapter(tmp_path):
    (tmp_path / "tape.py").write_text(BLOCKS["adapter"])
    assert run([sys.executable, "tape.py"], tmp_path) == "gradient: True\n"


def test_a_class_is_an_operator(tmp_path):
    (tmp_path / "squash.py").write_text(BLOCKS["python"])
    done = children.run("squash.py", cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    printed = done.stdout
    assert done.returncode == 0, printed + done.stderr
    assert "gradient: True" in printed and "FAILED" not in printed and "SUCCESS" in printed


PAGES = ("CONTRIBUTING.md", "docs/architecture.md", "docs/tour.md", "docs/why.md",
         "docs/runtime.md", "docs/runtime_host.md")  # fmt: skip
FOLDERS = ("", "pto", "pto/isa", "pto/tasks")  # where their paths begin


@pytest.mark.parametrize("page", PAGES)
def test_the_paths_that_a_page_names_exist(page):
    named = set(re.findall(r"`([a-z]\w*/[\w/.*]*)`", (ROOT / page).read_text()))
    missing = [path for path in named if not any([*(ROOT / f).glob(path)] for f in FOLDERS)]
    assert named and not missing


def test_the_types_that_the_walks_name_exist():
    walks = (ROOT / "docs/architecture.md").read_text()
    named = re.findall(r"`((?:[A-Z]\w*[a-z]\w*)(?:::\w+)?)`", walks)
    files = [file for file in (ROOT / "pto").rglob("*") if file.suffix in (".py", ".hpp", ".cpp")]
    known = set(re.findall(r"\w+", "".join(file.read_text() for file in files)))
    missing = [name for name in named if not known.issuperset(name.split("::"))]
    assert named and not missing


def test_the_commands_that_it_names_exist():
    usage = subprocess.run([ROOT / "dev", "help"], capture_output=True, text=True).stdout
    for command in re.findall(r"\./dev (\w+)", TEXT):
        assert f"./dev {command}" in usage
