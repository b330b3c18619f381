# SPDX-License-Identifier: Apache-2.0
"""The code of every page runs as a reader would run it; that of the wheel: test_wheel_pages.py."""

import ast
import re
import textwrap

import pytest
from code_pages import CHECKOUT, DOCS, KINDS, ROOT, check, fences, folder_of, lessons, pages, steps

from pto.aten import wins

# Their tests say more: test_notebooks.py, test_exercises.py, test_tutorial.py, test_readme.py.
ELSEWHERE = [*lessons(), *DOCS.glob("exercises/*.md"), DOCS / "tutorial_add.md", ROOT / "README.md"]
PAGES = [page for page in pages() if page not in ELSEWHERE]
WITH = [step for page in PAGES for step in steps(page) if step.framework]
SOUGHT = [*DOCS.rglob("*.md"), ROOT / "README.md"]
INDENTED = re.compile(r"(?<=\n\n)(?:    .*\n|\n)+")


@pytest.fixture(autouse=True)
def measured():
    """What pto.aten.measure() found on this machine stays: a page measures anew."""
    file = wins.measured_file()
    before = file.read_bytes() if file.exists() else None
    yield
    if before is None:
        file.unlink(missing_ok=True)
    else:
        file.write_bytes(before)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page, tmp_path):
    folder_of(page, tmp_path)
    for step in steps(page):
        if not step.framework:
            check(step, tmp_path, CHECKOUT)


@pytest.mark.parametrize("step", WITH, ids=str)
def test_the_code_for_a_framework_runs(step, tmp_path):
    check(step, folder_of(step.page, tmp_path), CHECKOUT)


@pytest.mark.parametrize("page", SOUGHT, ids=lambda page: page.stem)
def test_a_page_has_no_code_that_nothing_runs(page):
    text = page.read_text()
    assert {kind for kind, _ in fences(page)} <= KINDS
    assert 2 * len(fences(page)) == len(re.findall(r"^```", text, re.M))
    assert [*indented_code(text)] == []


def indented_code(text):
    """Indented blocks outside of fences that are Python or commands; pictures may stand there."""
    for block in INDENTED.findall(re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)):
        body = textwrap.dedent(block).strip()
        try:
            is_python = bool(ast.parse(body).body)
        except SyntaxError:
            is_python = False
        if is_python or re.match(r"(python|pip|cmake|g\+\+|find_package\()", body):
            yield body


def code(kind, text):
    return f"```{kind}\n{text}\n```\n\n"


FAULTY = {
    "a cell": (code("python", "x = 1") + code("python", "print(x / 0)"), "ZeroDivisionError"),
    "a cell for a framework": (code("python", "import onnxruntime\n1 / 0"), "ZeroDivisionError"),
    "a file": (code("python", "# one.py\nraise OSError('no')"), "OSError: no"),
    "a test": (code("python", "# test_one.py\ndef test_one():\n    assert 1 == 2"), "1 failed"),
    "a solution": (code("python", "# one.py") + code("python", "# one.py\nx"), "NameError"),
    "a command": (code("sh", "false\ntrue"), "false"),
    "what a command prints": (code("sh", "echo 123") + code("text", "1...4"), "echo 123"),
    "a program": (code("cpp", "int main() { return 3; }  // g++ -Wall"), "program_1"),
    "a program that does not compile": (code("cpp", "int main(  // g++ -Wall"), "program_1.cpp:1"),
    "a program in C": (
        code("c", "// one.c\nint main(void) { return 3; }") + code("sh", "gcc one.c\n./a.out"),
        "gcc one.c",
    ),
    "a program in C that nothing compiles": (code("c", "// one.c\nint x;"), "no command of"),
    "a program in C without a name": (code("c", "int x;") + code("sh", "gcc x.c"), "no command of"),
    "a program without a command": (code("cpp", "int main() {}"), "how to compile"),
}


@pytest.mark.parametrize("fault", FAULTY)
def test_a_page_with_a_fault_is_found(fault, tmp_path):
    text, said = FAULTY[fault]
    (tmp_path / "page.md").write_text(text)
    with pytest.raises(AssertionError, match=said):
        for step in steps(tmp_path / "page.md"):
            check(step, folder_of(step.page, tmp_path), CHECKOUT)


def test_a_page_without_a_fault_is_right(tmp_path):
    text = code("python", "# one.py\nx = 1 / 0") + code("python", "# one.py\nx = 2")
    text += code("python", "from one import x") + code("sh", "python one.py\necho 18")
    (tmp_path / "page.md").write_text(text + code("text", "1..."))
    found = steps(tmp_path / "page.md")
    assert [step.title for step in found] == ["cells", "sh_3"]
    folder_of(tmp_path / "page.md", tmp_path)
    assert [check(step, tmp_path, CHECKOUT) for step in found] == ["", "18\n"]


def test_code_outside_of_a_block_is_found():
    text = "Text:\n\n    x = f(1)\n\nand\n\n    a -> b\n\nor\n\n    cmake .\n"
    assert [*indented_code(text)] == ["x = f(1)", "cmake ."]
