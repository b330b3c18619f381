# SPDX-License-Identifier: Apache-2.0
"""Misuse of an instruction ends the compilation with one sentence: the rule and the remedy.

The cases stand in isa_misuse.txt. All of them are one source, a function each on lines of its own,
so that a compiler reads the headers once; what it says is told apart by those lines. A case that
shares its misuse with an earlier one is said nothing of, and compiled again alone.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COMPILERS = [c for c in ("g++", "clang++-14", "clang++") if shutil.which(c)]
BEFORE = """#include <pto/pto-inst.hpp>
using namespace pto::isa;
template <class T> using Row = Tile<TileType::Vec, T, 1, 64>;
template <class T> using Square = Tile<TileType::Vec, T, 64, 64>;
struct Pair { int first, second; };
__global__ void takes_structure(Pair) {}
__global__ void takes_pointer(float*) {}
__global__ void kernel_entry(int64_t*) {}
int returns_number(float*) { return 0; }
"""
ASSERTION = re.compile(r'static_assert\(((?:"(?:[^"\\]|\\.)*"|[^"])*?)\);')
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
# Messages that no user can provoke: functions and numbers of the headers' own.
OURS = {
    "one exchange between the vectors of a half",
    "quantise: as many parameters as accumulators",
    "the modes of a message are those of pto_cross_set",
}
# Messages of builds for a chip: see test_runtime_chips.py.
CHIPS = {"a tile is larger than the chip's buffer; use a smaller one, or a lower address"}


def cases() -> list[tuple[str, str]]:
    """(sentence, body of a function)"""
    text = (HERE / "isa_misuse.txt").read_text()
    blocks = re.split(r"^== ", text, flags=re.M)[1:]
    return [tuple(block.split("\n", 1)) for block in blocks]


def sentences() -> set[str]:
    """The text of every static_assert of the headers, except our own and those of chips."""
    asserted = [
        "".join(LITERAL.findall(one))
        for header in (ROOT / "pto/isa").glob("**/*.hpp")
        for one in ASSERTION.findall(header.read_text())
    ]
    return set(filter(None, asserted)) - OURS - CHIPS


def compiled(compiler: str, bodies: dict[int, str], folder: Path) -> str:
    """The compiler's messages for the cases with these numbers; "" if they compile."""
    functions = [
        f'#line 1 "case{i}.cpp"\nvoid misuse{i}() {{\nRow<float> a, b, d;\n{body}}}\n'
        for i, body in bodies.items()
    ]
    source = folder / "misuse.cpp"
    source.write_text(BEFORE + "".join(functions))
    flags = {"g++": ["-fmax-errors=0", "-fno-diagnostics-show-caret"]}.get(
        compiler, ["-ferror-limit=0", "-fno-caret-diagnostics", "-ftemplate-backtrace-limit=0"]
    )
    command = [compiler, "-std=c++17", "-fsyntax-only", "-DPTO_PORTABLE", *flags, f"-I{ROOT}"]
    done = subprocess.run([*command, source], capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def told_apart(said: str) -> dict[int, list[str]]:
    """The errors of each case, in order, from what a compiler says of many.

    g++ names the lines that led to an error before it, clang after it.
    """
    errors = {}
    before = []  # lines since the last error
    is_clang = "in instantiation of" in said and "required from" not in said
    last = None
    for line in said.splitlines():
        found = re.search(r"error: (.*)", line)
        if found:
            last = found[1]
            for case in dict.fromkeys(re.findall(r"case(\d+)\.cpp", "\n".join([*before, line]))):
                errors.setdefault(int(case), []).append(last)
            before = []
        elif is_clang and last and (case := re.match(r"case(\d+)\.cpp.* note: ", line)):
            listed = errors.setdefault(int(case[1]), [])
            if last not in listed:
                listed.append(last)
        elif not is_clang and "note: " not in line:
            before.append(line)
    return errors


def errors_of_cases(compiler: str, folder: Path) -> list[list[str]]:
    bodies = {i: body for i, (_, body) in enumerate(cases())}
    errors = told_apart(compiled(compiler, bodies, folder))
    for i in bodies.keys() - errors.keys():
        errors[i] = re.findall(r"error: (.*)", compiled(compiler, {i: bodies[i]}, folder))
    return [errors.get(i, []) for i in bodies]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_misuse_is_refused_with_the_rule_and_the_remedy(compiler, tmp_path):
    wrong = []
    found = errors_of_cases(compiler, tmp_path)
    for (sentence, body), errors in zip(cases(), found, strict=True):
        first = errors[0] if errors else "it compiles"
        if sentence not in first:
            wrong.append(f"expected: {sentence}\nfor:      {body.strip()}\nsays:     {first}")
    assert not wrong, "\n\n".join(wrong)


def test_every_sentence_of_the_headers_has_a_case():
    missing = sentences() - {sentence for sentence, _ in cases()}
    assert not missing, "\n".join(sorted(missing))


def test_every_sentence_has_a_rule_and_a_remedy():
    assert [s for s in sorted(sentences()) if "; " not in s] == []


def test_right_use_compiles(tmp_path):
    assert compiled("g++", {0: "TADD(d, a, b);\n"}, tmp_path) == ""
