# SPDX-License-Identifier: Apache-2.0
"""Finds the variables of the environment that sources read, by following the name to getenv.

    found, unknown = reads(ROOT)    # {"PTO_CXX": {"pto/config.py", ...}, ...}, ["file: text", ...]

C++: a function that passes a parameter of its own on to getenv() reads, too, and so does one that
passes it on to such a function. `unknown` are calls whose name the scan cannot find: none may be.
"""

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
DEFINED = r"(\w+)\s*\(([^()]*\bconst char\s*\*[^()]*)\)\s*\{"
COMMENT = re.compile(r"//[^\n]*")
FOLDERS, SOURCES = ("pto", "compat"), {".cpp", ".hpp", ".h"}


def is_test(path: Path) -> bool:
    return path.stem.endswith("_test")


def cpp_calls(text: str, readers: set[str]) -> Iterator[tuple[str, int]]:
    """(arguments, place) of each call of a reader; its own definition and declaration are none."""
    for found in re.finditer(rf"(?:std::|\b)({'|'.join(readers)})\s*\(", text):
        depth, end = 1, found.end()
        while depth and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        arguments = text[found.end() : end - 1]
        if "const char" not in arguments:
            yield arguments, found.start()


def enclosing(text: str, place: int, parameter: str) -> str | None:
    """The last function before a place that has this parameter; "" for a lambda."""
    heads = [*re.finditer(r"(\w+|\])\s*\(([^(){};]*)\)\s*(?:const\s*)?\{", text[:place])]
    for head in reversed(heads):
        if re.search(rf"const char\s*\*\s*{parameter}\b", head.group(2)):
            return head.group(1).strip("]")
    return None


def of_array(text: str, name: str) -> list[str]:
    """The texts of an array of constants."""
    array = re.search(rf"\b{name}\[\w*\]\s*=\s*\{{([^}}]*)\}}", text)
    return re.findall(r'"([^"]*)"', array.group(1)) if array else []


def cpp_reads(texts: dict[str, str]) -> tuple[dict[str, set[str]], list[str]]:
    found, unknown = defaultdict(set), []
    readers, known = {"getenv", "secure_getenv"}, set()
    while readers != known:
        known, unknown = set(readers), []
        for file, text in texts.items():
            for arguments, place in cpp_calls(text, known):
                names = [n for n in re.findall(r'"([^"]*)"', arguments) if VARIABLE.fullmatch(n)]
                array = re.search(r"(\w+)\[", arguments)
                names = names[:1] or (of_array(text, array.group(1)) if array else [])
                passed = re.findall(r"\b[a-z_]\w*\b", arguments)
                around = [f for p in passed if (f := enclosing(text, place, p)) is not None]
                if not names and not around:
                    unknown.append(f"{file}: {arguments}")
                readers |= {name for name in around if name and not names}
                for name in names:
                    found[name].add(file)
    return found, unknown


def python_reads(file: str, text: str) -> tuple[set[str], list[str]]:
    """Reads through os.environ and os.getenv, by a literal or a constant of the module."""
    if "environ" not in text and "getenv" not in text:
        return set(), []
    tree = ast.parse(text)
    constants = {t.id: n.value for n in tree.body if isinstance(n, ast.Assign)
                 for t in n.targets if isinstance(t, ast.Name)}  # fmt: skip
    found, unknown = set(), []

    def note(name: ast.expr) -> None:
        name = constants.get(name.id, name) if isinstance(name, ast.Name) else name
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            found.add(name.value)
        else:
            unknown.append(f"{file}: {ast.unparse(name)}")

    def is_environment(node: ast.expr) -> bool:
        return ast.unparse(node) in ("os.environ", "environ", "os.environb")

    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and is_environment(node.value):
            if isinstance(node.ctx, ast.Load):
                note(node.slice)
        elif isinstance(node, ast.Compare) and is_environment(node.comparators[0]):
            note(node.left)
        elif isinstance(node, ast.Call) and node.args:
            called = ast.unparse(node.func)
            owner = getattr(node.func, "value", None)
            reads = called.endswith((".get", ".setdefault")) and is_environment(owner)
            if reads or called in ("os.getenv", "getenv"):
                note(node.args[0])
    return found, unknown


@functools.cache
def reads(root: Path) -> tuple[dict[str, set[str]], list[str]]:
    """The variables, each with its files, tests apart; and the calls that hide their name."""
    files = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*"))]
    files = [path for path in [*files, root / "dev"] if path.is_file() and not is_test(path)]
    cpp = {path.relative_to(root).as_posix(): COMMENT.sub("", path.read_text())
           for path in files if path.suffix in SOURCES}  # fmt: skip
    found, unknown = cpp_reads(cpp)
    for path in files:
        if path.suffix == ".py" or path.name == "dev":
            file = path.relative_to(root).as_posix()
            names, hidden = python_reads(file, path.read_text())
            unknown += hidden
            for name in names:
                found[name].add(file)
    return dict(found), unknown
