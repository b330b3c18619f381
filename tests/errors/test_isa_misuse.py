# SPDX-License-Identifier: Apache-2.0
"""Misuse of an instruction ends the compilation with one sentence: the rule and the remedy.

The cases stand in isa_misuse.txt.
"""

import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COMPILERS = [c for c in ("g++", "clang++-14", "clang++") if shutil.which(c)]
BEFORE = """#include <pto/pto-inst.hpp>
using namespace pto;
template <class T> using Row = Tile<TileType::Vec, T, 1, 64>;
template <class T> using Square = Tile<TileType::Vec, T, 64, 64>;
void misuse() {
  Row<float> a, b, d;
"""


def cases() -> list[tuple[str, str]]:
    """(sentence, body of a function)"""
    text = (HERE / "isa_misuse.txt").read_text()
    blocks = re.split(r"^== ", text, flags=re.M)[1:]
    return [tuple(block.split("\n", 1)) for block in blocks]


def errors_of(compiler: str, body: str, folder: Path) -> str:
    """What the compiler says of a case; "" where it compiles."""
    source = folder / f"{abs(hash((compiler, body)))}.cpp"
    source.write_text(BEFORE + body + "}\n")
    command = [compiler, "-std=c++17", "-fsyntax-only", "-DPTO_PORTABLE", f"-I{ROOT}", source]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stderr if done.returncode else ""


@pytest.mark.parametrize("compiler", COMPILERS)
def test_misuse_is_refused_with_the_rule_and_the_remedy(compiler, tmp_path):
    listed = cases()
    with ThreadPoolExecutor(2) as pool:
        errors = pool.map(lambda case: errors_of(compiler, case[1], tmp_path), listed)
    wrong = []
    for (sentence, body), error in zip(listed, errors, strict=True):
        if sentence not in error:
            first = next((line for line in error.splitlines() if "error" in line), "it compiles")
            wrong.append(f"expected: {sentence}\nfor:      {body.strip()}\nsays:     {first}")
    assert not wrong, "\n\n".join(wrong)


def test_right_use_compiles(tmp_path):
    assert errors_of("g++", "TADD(d, a, b);\n", tmp_path) == ""
