# SPDX-License-Identifier: Apache-2.0
"""The list of all laws, docs/laws.md: each test of C++ and Python, by file, with its tier.

    python tests/laws.py             rewrites docs/laws.md, as ./dev docs does

The sources are read, not run, so the list holds on every machine. tests/test_laws.py compares.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "laws.md"
QUICK, LONGER, DEEP = "quick", "quick, more cases in deep", "deep"
HEAD = """# Laws

Every test, by file. ./dev test runs the quick ones; ./dev test --deep runs all, those marked with
more cases. Tests of instructions run quick for the best target of the machine (for those below it,
portable included: the files whose code differs by target), deep for all that the machine has.
`./dev test NAME` runs one of them by name.

This page is generated: ./dev docs.
"""
CPP_TEST = re.compile(r"^ *(?:TEST|TEST_F|TEST_P)\(\s*(\w+),\s*([\w#]+)\s*\)", re.M)
CPP_FUNCTION = re.compile(r"^[\w:<>,&*\s]*?\b(\w+)\([^;{}]*\)[^;{}]*\{", re.M)
CPP_DEEP = re.compile(r"\b(?:is_deep|rounds_of)\(")


@dataclass(frozen=True)
class Law:
    """A test: its file from the root, its suite (C++ only), its name, its tier."""

    file: str
    suite: str
    name: str
    tier: str


def _bodies(text: str, heads: Iterator[re.Match]) -> dict[str, str]:
    """name -> text until the line that closes a body"""
    found = {}
    for head in heads:
        end = text.find("\n}", head.end())
        found[head.group(head.lastindex)] = text[head.start() : end if end > 0 else len(text)]
    return found


def _reaching(bodies: dict[str, str], starts: set[str]) -> set[str]:
    """The names whose body mentions one of these, directly or through other names."""
    found, new = set(starts), set(starts)
    while new:
        called = re.compile(r"\b(?:" + "|".join(map(re.escape, new)) + r")\b")
        new = {name for name, body in bodies.items() if called.search(body)} - found
        found |= new
    return found


def laws_of_cpp(file: str, text: str) -> list[Law]:
    functions = _bodies(text, CPP_FUNCTION.finditer(text))
    long = {name for name, body in functions.items() if CPP_DEEP.search(body)}
    long = _reaching(functions, long) if long else set()
    called = re.compile(
        r"\b(?:" + "|".join(map(re.escape, [*long, "is_deep", "rounds_of"])) + r")\b"
    )
    found = []
    for head in CPP_TEST.finditer(text):
        end = text.find("\n}", head.end())
        is_long = called.search(text, head.end(), end if end > 0 else len(text))
        name = head.group(2).replace("##", "")
        found.append(Law(file, head.group(1), name, LONGER if is_long else QUICK))
    return found


def _is_long(part: ast.AST) -> bool:
    """Whether a definition asks for the deep run: by the fixture, the variable, or its constant."""
    if isinstance(part, ast.FunctionDef) and any(a.arg == "deep" for a in part.args.args):
        return True
    return bool(re.search(r"\b(?:PTO_DEEP|DEEP)\b", ast.unparse(part)))


def _is_deep_only(part: ast.AST) -> bool:
    """Whether a test or its fixture skips wherever the run is not deep."""
    for node in getattr(part, "body", []) if isinstance(part, ast.FunctionDef) else []:
        if isinstance(node, ast.If) and "pytest.skip(" in ast.unparse(node.body[0]):
            asks = ast.unparse(node.test)
            is_and = isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And)
            if (
                asks.startswith(("not deep", "os.environ.get('PTO_DEEP'", "not DEEP"))
                and not is_and
            ):
                return True
    return False


def laws_of_python(file: str, text: str) -> list[Law]:
    tree = ast.parse(text)
    parts = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            parts |= {t.id: node for t in node.targets if isinstance(t, ast.Name)}
    long = {name for name, part in parts.items() if _is_long(part)}
    deep_only = {name for name, part in parts.items() if _is_deep_only(part)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            used = set(re.findall(r"\w+", ast.unparse(node)))
            arguments = {argument.arg for argument in node.args.args}
            is_deep = _is_deep_only(node) or arguments & deep_only
            tier = DEEP if is_deep else LONGER if _is_long(node) or used & long else QUICK
            found.append(Law(file, "", node.name, tier))
    return found


def laws(root: Path = ROOT) -> list[Law]:
    """All of them, in the order of their files."""
    found = []
    for path in sorted([*root.glob("pto/**/*_test.cpp"), *root.glob("tests/**/test_*.py")]):
        file, text = path.relative_to(root).as_posix(), path.read_text()
        found += (laws_of_cpp if path.suffix == ".cpp" else laws_of_python)(file, text)
    return found


def page(found: list[Law]) -> str:
    count = {tier: sum(law.tier == tier for law in found) for tier in (QUICK, LONGER, DEEP)}
    total = "; ".join(f"{tier}: {n}" for tier, n in count.items())
    lines, file = [HEAD, f"{len(found)} laws. {total}.\n"], ""
    for law in found:
        if law.file != file:
            file = law.file
            lines.append(f"\n## {file}\n")
        name = f"{law.suite}.{law.name}" if law.suite else law.name
        lines.append(f"- `{name}`" + (f" ({law.tier})" if law.tier != QUICK else ""))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(laws()))
