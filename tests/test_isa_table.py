# SPDX-License-Identifier: Apache-2.0
"""The instruction tables as data, and the check that every form of them ran."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from pto.isa import table

ROOT = Path(__file__).resolve().parent.parent
COVERAGE = ROOT / "tests/coverage.py"


@pytest.mark.parametrize(
    "text, types",
    [
        ("f32 f16", ("f32", "f16")),
        ("f32:f32 f32:u32", ("f32", "f32:u32")),
        ("u8:T:T T:T | T=f32 i8", ("u8:f32:f32", "u8:i8:i8", "f32", "i8")),
        ("mask32:T | T={float}", ("mask32:f16", "mask32:bf16", "mask32:f32")),
        ("{integer}", tuple(table.INTEGER.split())),
    ],
)
def test_a_types_column_stands_for_these_types(text, types):
    assert table.types_of(text) == types


def test_every_form_is_documented_and_named_once():
    keys = [(f.mnemonic, f.operands, t) for f in table.forms() for t in f.types]
    assert len(keys) == len(set(keys))
    for form in table.forms():
        assert form.types and form.meaning and form.header, form
        assert (table.FOLDER / form.header).exists(), form


def coverage_of(folder: Path) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, COVERAGE, folder], capture_output=True, text=True)


def test_a_form_that_no_test_ran_is_named(tmp_path):
    lines = [
        f"portable\t{form.mnemonic}\t{form.operands}\t{types}\n"
        for form in table.forms()
        for types in form.types
    ]
    (tmp_path / "portable.txt").write_text("".join(lines))
    assert coverage_of(tmp_path).returncode == 0
    gone = lines.index("portable\tTADD\td, a, b\tf32\n")
    (tmp_path / "portable.txt").write_text("".join(lines[:gone] + lines[gone + 1 :]))
    report = coverage_of(tmp_path)
    assert report.returncode == 1
    assert "no test ran TADD(d, a, b) on f32 for the target portable" in report.stdout


def test_an_empty_folder_is_no_success(tmp_path):
    report = coverage_of(tmp_path)
    assert report.returncode == 1
    assert "run the isa_* tests first" in report.stdout


def test_the_generated_pages_are_those_of_the_tables():
    spec = importlib.util.spec_from_file_location("isa_docs", ROOT / "docs/isa.py")
    docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(docs)
    for path, text in docs.pages().items():
        assert path.read_text() == text, f"{path.name} is out of date: run ./dev docs"
