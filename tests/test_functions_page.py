# SPDX-License-Identifier: Apache-2.0
"""docs/functions.md is what docs/functions.py writes, and has every function of the language."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pto

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import functions  # noqa: E402
import probes  # noqa: E402

PAGE = (ROOT / "docs/functions.md").read_text()
SECTIONS = dict(zip(*[iter(re.split(r"^#{2,3} (.*)$", PAGE, flags=re.M)[1:])] * 2, strict=True))
PARTS = ("Types", "Shapes", "Formula", "Gradient")
FOR_TRACING = ("old", "put", "value")
OTHERS = {"__round__": "round(i[0])", "__class_getitem__": "pto.Tensor[8, pto.DYN]"}


def exported():
    """The functions of the language among the names that type checkers see in pto."""
    names = set()
    for node in ast.parse((ROOT / "pto/__init__.pyi").read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module != "pto":
            names |= {one.asname for one in node.names}
        elif isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets}
    for name in names - {None}:
        value = getattr(pto, name, None)
        if name[0].islower() and callable(value) and value.__module__.startswith("pto.language"):
            yield name


def members():
    """The members of a tensor that type checkers see."""
    (tensor,) = (node for node in ast.parse((ROOT / "pto/language/tensor.pyi").read_text()).body
                 if isinstance(node, ast.ClassDef) and node.name == "Tensor")  # fmt: skip
    return {node.name for node in tensor.body if isinstance(node, ast.FunctionDef)}


NAMES = sorted({*exported()})


def test_the_page_is_what_the_generator_writes():
    command = [sys.executable, ROOT / "docs/functions.py", "-"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == PAGE, "run ./dev docs"


def test_the_language_has_functions():
    assert len(NAMES) > 180 and {"exp", "loop", "matmul", "verify"} <= {*NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_function_stands_on_the_page_with_all_its_parts(name):
    section = SECTIONS[name]
    if other := re.fullmatch(r"\s*Another name of \[(\w+)\]\(#\1\)\.\s*", section):
        assert getattr(pto, name) is getattr(pto, other.group(1))
        return
    assert f"```text\n{name}(" in section
    for part in PARTS:
        assert re.search(rf"^- \*\*{part}\*\* \S", section, re.M), part
    example = section.split("```text\n")[2].partition("```")[0]
    assert re.search(rf"^(>>>|\.\.\.) .*\bpto\.{name}\b", example, re.M), example


@pytest.mark.parametrize("name", sorted(members()))
def test_a_member_of_a_tensor_stands_on_the_page(name):
    if name in FOR_TRACING:
        assert re.search(rf"`{name}`.*\bserve\s+tracing", PAGE)
    elif not name.startswith("_"):
        assert re.search(rf"(`|### )[xi][\w.\[\]]*\.{name}\b", PAGE)
    else:
        plain = re.sub(r"^__[ir](?=\w+__$)", "__", name)  # x += y and y.__radd__(x) are as x + y
        forms = [functions.MEMBERS.get(one) or functions.spelled(one) for one in (name, plain)]
        form = forms[0] or forms[1] or OTHERS[name]
        assert f"`{form}" in PAGE or f"### {form}\n" in PAGE


def test_links_lead_to_headings():
    headings = {functions.anchor(title) for title in SECTIONS}
    links = {*re.findall(r"\]\(#([^)]*)\)", PAGE)}
    assert links <= headings and len(links) > 180
    assert {page for page in re.findall(r"\]\((\w+\.md)\)", PAGE)
            if not (ROOT / "docs" / page).exists()} == set()  # fmt: skip


def test_a_function_without_a_group_is_an_error(monkeypatch):
    monkeypatch.setitem(functions.GROUPS, "Rounding", "floor ceil round trunc")
    with pytest.raises(ValueError, match="differ in frac"):
        functions.page()


def test_a_function_without_shapes_or_example_is_an_error():
    def joined(*tensors):
        """All of them."""

    def front(x):
        """The first row of x."""
        return x[:1]

    with pytest.raises(ValueError, match="joined.*Example"):
        functions.Entry("joined", joined).example()
    with pytest.raises(ValueError, match="front.*Shapes"):
        functions.Entry("front", front).shapes(probes.Example("pto.exp(x)"))


@pytest.mark.parametrize(
    ("code", "types", "gradient"),
    [
        ("pto.exp2(v)", "`v`: bool and integers (f32), floats (the same)", r"by `v`: \[1.386"),
        ("n & m", "`n` and `m`: bool and integers (the same)", "none: it gives i32"),
        ("pto.sum(v)", "`v`: bool and integers (i64), floats (the same)", r"by `v`: \[1, 1, 1\]"),
        ("pto.prod(v)", None, "none: the derivative of prod is not known"),
        ("pto.floor(v)", "`v`: bool (f32), integers and floats (the same)", "0: "),
        ("pto.gather(x, 1, m)",
         "`x`: every type (the same); `m`: u8, u16, u32 and signed integers", "by `x`"),
        ("pto.print(v)\nreturn v * 2", "`v`: bool (i64), integers and floats (the same)", "none"),
    ],
)  # fmt: skip
def test_types_and_gradients_are_those_of_the_language(code, types, gradient):
    example = probes.Example(code)
    assert types in (None, example.types())
    assert re.match(gradient, example.gradient()), example.gradient()


def test_shapes_are_those_that_a_function_takes():
    def rule(function, count=1):
        parameters = functions.inspect.signature(function).parameters
        return next(probes.rules(function, "f32", count, parameters), None)

    assert rule(pto.exp) == "any; the result has the same"
    assert rule(pto.add, 2) == "any that broadcast, as in NumPy"
    assert rule(pto.triu) == "at least two axes; the result has the same"
    assert rule(pto.cumsum) == "any with an axis `dim`; the result has the same"
    assert "lacks the axes `dim`" in rule(pto.amax)
    assert rule(lambda x: x[0]) is None
