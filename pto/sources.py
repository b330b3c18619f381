# SPDX-License-Identifier: Apache-2.0
"""Reads sources of kernels and orchestrations as one text each, with their own headers in place.

    source = read_source("kernels/add.cpp", include_dirs=["include"])
    source.name, source.text       # "add", and all that the compiler will see of the user's files

`#include "x.h"` is looked up beside its file, then in `include_dirs`; `<x.h>` only there. A header
found nowhere stays for the compiler: pto/pto-inst.hpp, the standard library. So the text is the
whole input, and a changed header changes the key in the compiler's cache. #line directives keep the
lines of errors.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pto.errors import Failure, InvalidType, InvalidValue, MissingFile, working_folder_name

_DEEPEST = 64
CPP_SUFFIXES = (".cpp", ".cc", ".cxx", ".cce", ".hpp", ".h", ".inc")

# Skips comments, literals and numbers as a whole, so that nothing inside them counts. In front: the
# characters that may begin a token. Most of a text is none of them, and passes twice as fast.
_TOKEN = re.compile(
    r"""(?=[ \t#R/"'\d])(?:"""
    r"""^[ \t]*\#[ \t]*include[ \t]*(?:"(?P<quoted>[^"\n]+)"|<(?P<angled>[^>\n]+)>)[^\n]*"""
    r"""|^[ \t]*\#[ \t]*(?P<word>\w+)(?P<rest>(?:\\\n|/\*(?:.|\n)*?\*/|[^\n])*)"""
    r"""|(?P<skip>R"(?P<tag>[^(\s]*)\((?:.|\n)*?\)(?P=tag)"|//(?:\\\n|[^\n])*|/\*(?:.|\n)*?\*/"""
    r"""|"(?:\\.|[^"\\\n])*"|(?<!\w)\d[\w'.]*|'(?:\\.|[^'\\\n])+'))""",
    re.MULTILINE,
)


@dataclass(frozen=True)
class SourceText:
    """A source with its headers in place; `name` appears in errors.

    `object`: the bytes of a compiled object that belongs to it, or none. `standard`: its language
    level, as the compiler's -std= names it.
    """

    name: str
    text: str
    object: bytes = b""
    standard: str = "c++17"

    @property
    def code(self) -> str:
        """The text without comments, literals and directives."""
        return _TOKEN.sub(" ", self.text)

    def with_defines(self, defines: str) -> "SourceText":
        return replace(self, text=defines + self.text)

    def exported_kernels(self) -> list[str]:
        """The names X of its PTO_KERNEL(X, ...), in order."""
        return re.findall(r"\bPTO_KERNEL\s*\(\s*(\w+)\s*,", self.code)

    def takes(self, function: str, parameters: str) -> bool:
        """Says whether it declares the function with parameters that match the pattern."""
        return re.search(rf"\b{re.escape(function)}\s*\(\s*{parameters}", self.code) is not None

    def defines(self, function: str) -> bool:
        return re.search(rf"\b{re.escape(function)}\s*\(", self.code) is not None


def read_source(
    source: str | os.PathLike,
    include_dirs: str | os.PathLike | Iterable[str | os.PathLike] = (),
    name: str = "source",
    front: str = "",
) -> SourceText:
    """The text of a path, or of C++ text, which is a str with a line break or a brace.

    `name` is that of a text; a file's is its own. `front`: lines in front of it, which may include
    headers too.
    """
    folders = [Path(folder).expanduser() for folder in folders_of(include_dirs)]
    for folder in folders:
        if not folder.is_dir():
            raise MissingFile(
                f"include_dirs: {folder} is no folder",
                "pto looks for headers in these folders",
                f"pass folders that exist; the working folder is {working_folder_name()}",
            )
    if isinstance(source, str) and ("\n" in source or "{" in source):
        inliner = _Inliner(folders, None)
        head = inliner.put(_Scan(front), None, "front", 0)
        return SourceText(name, head + inliner.put(_Scan(source), None, f"{name}.cpp", 0))
    if not isinstance(source, str | os.PathLike) or not os.fspath(source):
        raise InvalidType(
            f"a source is {source!r}",
            "a source is a str or a path",
            "pass the path of a C++ file, or C++ text of several lines",
        )
    path = Path(source).expanduser()
    if path.suffix in (".o", ".so", ".a"):
        raise InvalidValue(
            f"{path} is a compiled object",
            "kernels may be .o and .so; an orchestration and its headers are C++ text",
            "pass the C++ source, a .o or .so of a kernel, or a package that was saved: "
            "CompiledPackage.load(path)",
        )
    inliner = _Inliner(folders, path.parent)
    head = inliner.put(_Scan(front), None, "front", 0)
    return SourceText(path.stem, head + inliner.put(_Scan(_read(path)), path, path.name, 0))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        raise MissingFile(
            f"the source {path} does not exist",
            "a str without a line break and braces is a path",
            f"check it; the working folder is {working_folder_name()}",
        ) from None
    except (OSError, ValueError) as error:  # another encoding; a NUL in the name
        raise Failure(
            f"the source {path} cannot be read: {error}", "it must be a text file in UTF-8",
            "check what the path names",
        ) from None  # fmt: skip


def folders_of(include_dirs: Any) -> list[str | os.PathLike]:
    """The folders of `include_dirs`, which may also be one path; InvalidType for anything else."""
    return _listed("include_dirs", include_dirs, os.PathLike, 'a folder, or a list: ["include"]')


def _listed(name: str, value: Any, kind: type, fix: str) -> list:
    """The members of a value that is one str or `kind`, or holds several."""
    found = [value] if isinstance(value, str | kind) else value
    found = [*found] if isinstance(found, Iterable) and not isinstance(found, bytes) else [found]
    for one in found:
        if not isinstance(one, str | kind) or not os.fspath(one):
            raise InvalidType(
                f"{name} has {one!r:.60}", f"{name} are texts or paths", f"pass {fix}"
            )
    return found


def split_flags(flags: str | Iterable[str]) -> tuple[str, list[str], str]:
    """Splits flags: -D and -U as directives of the text, the folders of -I, the level of -std."""
    flags = flags.split() if isinstance(flags, str) else flags
    flags = _listed("flags", flags, str, 'texts: ["-DWIDTH=8"], or "-DWIDTH=8"')
    lines, folders, standard = [], [], ""
    for flag in flags:
        kind, rest = flag[:2], flag[2:]
        name, _, value = rest.partition("=")
        if kind == "-I" and rest:
            folders.append(rest)
        elif re.match(r"-std=(c|gnu)\+\+(17|1z|20|2a|23|2b|26|2c)$", flag):
            standard = flag.removeprefix("-std=")
        elif kind in ("-D", "-U") and re.match(r"[A-Za-z_]\w*(\([\w, .]*\))?$", name):
            value = value if "=" in rest else "1"
            lines.append(f"#define {name} {value}\n" if kind == "-D" else f"#undef {name}\n")
        else:
            raise InvalidValue(
                f"flags: {flag!r}",
                "target and optimisation are chosen by the compiler part; a caller's are -DNAME, "
                "-DNAME=VALUE, -UNAME, -IFOLDER, and -std= of C++17 or later",
                "leave it out, or set config.target and config.cxx",
            )
    return "".join(lines), folders, standard


@dataclass
class _Inliner:
    folders: list[Path]
    root: Path | None  # names in #line are relative to it, if below it
    once: set[Path] = field(default_factory=set)  # guarded headers that are certainly in the text
    opened: list[Path] = field(default_factory=list)
    guards: dict[Path, str] = field(default_factory=dict)  # ours, of #pragma once

    def put(self, scan: "_Scan", path: Path | None, shown: str, depth: int) -> str:
        """The text with its headers in place; `depth`: how many #if it stands in."""
        text, shown = scan.text, shown.translate(_UNFIT_IN_LINE)
        out, last, level = [f'#line 1 "{shown}"\n'], 0, 0
        for token in scan.directives:
            level += _NESTING.get(token["word"] or "", 0)
            named = token["quoted"] or token["angled"]
            if token["word"] == "pragma" and token["rest"].strip() == "once":
                out.append(text[last : token.start()])
                last = token.end()
            found = named and self.find(named, path, token["quoted"] is not None)
            if not found:
                continue
            out.append(text[last : token.start()])
            out.append(self.header(found, named, depth + level - scan.has_guard, shown))
            out.append(f'#line {text.count(chr(10), 0, token.end()) + 2} "{shown}"')
            last = token.end()
        return "".join([*out, text[last:]])

    def find(self, named: str, path: Path | None, is_quoted: bool) -> Path | None:
        beside = [path.parent] if is_quoted and path is not None else []
        for folder in [*beside, *self.folders]:
            if (folder / named).is_file():
                return folder / named
        return None

    def header(self, path: Path, named: str, depth: int, includer: str) -> str:
        real = path.resolve()
        if real in self.once:
            return ""
        scan = _Scan(_read(path))
        if real in self.opened or len(self.opened) >= _DEEPEST:
            if scan.has_guard or scan.has_once:
                return ""
            raise InvalidValue(
                f"{path.name} includes itself, by way of {includer}",
                "without a guard the inclusion never ends",
                "begin it with #pragma once",
            )
        if depth == 0 and (scan.has_guard or scan.has_once):
            self.once.add(real)
        self.opened.append(real)
        shown = os.path.relpath(path, self.root) if self.root is not None else named
        shown = named if shown.startswith("..") else shown
        put = self.put(scan, path, shown, depth) + "\n"
        self.opened.pop()
        if not scan.has_once:
            return put
        own = f"PTO_ONCE_{len(self.guards)}_" + re.sub(r"\W", "_", path.name)
        guard = self.guards.setdefault(real, own)
        return f"#ifndef {guard}\n#define {guard}\n{put}#endif\n"


_UNFIT_IN_LINE = str.maketrans('"\\\n', "___")  # characters that would end a #line directive
_NESTING = {"if": 1, "ifdef": 1, "ifndef": 1, "endif": -1}


class _Scan:
    """The directives of a text, and whether it is safe to be included twice."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.directives = [token for token in _TOKEN.finditer(text) if not token["skip"]]
        words = [(t["word"] or "include", t["rest"] or "", *t.span()) for t in self.directives]
        self.has_once = any(w == "pragma" and r.strip() == "once" for w, r, _, _ in words)
        self.has_guard = False
        if len(words) < 3 or [w[0] for w in (*words[:2], words[-1])] != _GUARD:
            return
        same = words[0][1].split()[:1] == words[1][1].split()[:1]
        outside = text[: words[0][2]] + text[words[-1][3] :]
        level = [_NESTING.get(w[0], 0) for w in words[:-1]]
        whole = all(sum(level[: n + 1]) > 0 for n in range(len(level)))
        self.has_guard = same and whole and not _TOKEN.sub("", outside).strip()


_GUARD = ["ifndef", "define", "endif"]
