# SPDX-License-Identifier: Apache-2.0
"""The files of the repository as the rules of tests/tidy.py and tests/rooms.py see them."""

import ast
import re
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

EXTRA = {"dev", ".ci/run"}  # code without an ending


@dataclass(frozen=True)
class Offence:
    """One broken rule: where, and the three sentences of every error."""

    place: str
    what: str
    why: str
    fix: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}\n  why: {self.why}\n  fix: {self.fix}"


class File:
    """A source file of the repository: its path from the root, with text and lines."""

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        self.path = PurePosixPath(name)
        self.text = (root / name).read_text(errors="replace")
        self.lines = self.text.splitlines()

    @cached_property
    def kind(self) -> str:
        if self.name == "dev" or self.path.name.startswith("conftest"):
            return ".py"
        return ".cmake" if self.path.name == "CMakeLists.txt" else self.path.suffix

    @cached_property
    def is_cpp(self) -> bool:
        return self.kind in (".cpp", ".hpp", ".h", ".def")

    @cached_property
    def is_code(self) -> bool:
        return self.is_cpp or self.kind in (".py", ".cmake", ".sh") or self.name == ".ci/run"

    @property
    def folder(self) -> str:
        """The stage: "ir" for pto/ir/graph.hpp, "isa" for the umbrella, "" for the rest."""
        parts = self.path.parts
        if self.name == "pto/pto-inst.hpp":
            return "isa"
        return parts[1] if parts[0] == "pto" and len(parts) > 2 else ""

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Those of the tree; many rules look through them."""
        return [*ast.walk(self.tree)]

    def at(self, line: int) -> str:
        return f"{self.name}:{line}"


def blanked(text: str) -> str:
    """C++ text with comments, literals and preprocessor lines blanked; line numbers stay."""
    pattern = (
        r'R"(?P<tag>[^(\s]*)\((?:.|\n)*?\)(?P=tag)"|//[^\n]*|/\*(?:.|\n)*?\*/'
        r'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|[^\n])*'
    )
    erase = lambda match: re.sub(r"[^\n]", " ", match.group())  # noqa: E731
    return re.sub(pattern, erase, text, flags=re.MULTILINE)


def repository_files(root: Path) -> list[File]:
    """Tracked and new files of a checkout, or every file of a plain folder."""
    command = ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard"]
    if (root / ".git").exists():
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        candidates = found.splitlines()
    else:
        candidates = [p.relative_to(root).as_posix() for p in sorted(root.rglob("*"))]
    known = {".py", ".cpp", ".hpp", ".h", ".def", ".cmake", ".md", ".toml", ".json", ".sh", ".txt"}
    names_of_code = [n for n in candidates if PurePosixPath(n).suffix in known or n in EXTRA]
    return [File(root, name) for name in names_of_code if (root / name).is_file()]
