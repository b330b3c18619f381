# SPDX-License-Identifier: Apache-2.0
"""English as a test: the openings that a comment or a docstring must not have.

tests/tidy.py runs the rule; the section "English" of the style shows more sentences, not and but.
"""

import ast
import re
from collections.abc import Iterator

from repository import File, Offence

OPENING = re.compile(r"(Of|What|Whose|Those) ")
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def comment_openings(file: File) -> Iterator[tuple[int, str]]:
    """The first line of each paragraph in comments, and each comment behind code."""
    mark = "#" if file.kind == ".py" else "//"
    is_open = False  # inside a paragraph
    for number, line in enumerate(file.lines, 1):
        whole, behind = line.strip(), re.search(rf"\S\s+{mark} (.*)", line)
        text = whole.removeprefix(mark).strip() if whole.startswith(mark) else ""
        if text and not is_open:
            yield number, text
        elif behind and not whole.startswith(mark):
            yield number, behind.group(1)
        is_open = bool(text) and not text.startswith("SPDX-")


def docstring_openings(file: File) -> Iterator[tuple[int, str]]:
    """The first line of each paragraph in docstrings."""
    for node in file.nodes:
        if not isinstance(node, DOCUMENTED) or ast.get_docstring(node, clean=False) is None:
            continue
        is_open = False
        for number, line in enumerate(node.body[0].value.value.splitlines(), node.body[0].lineno):
            if line.strip() and not is_open:
                yield number, line.strip()
            is_open = bool(line.strip())


def openings(file: File) -> Iterator[Offence]:
    """A sentence begins with its subject or its verb, never with a fragment."""
    if file.path.parts[0] not in ("pto", "compat") or not (file.is_cpp or file.kind == ".py"):
        return
    found = [*comment_openings(file), *(docstring_openings(file) if file.kind == ".py" else [])]
    for number, text in found:
        opening = OPENING.match(text)
        if opening:
            yield Offence(
                file.at(number), f"a comment opens with '{opening.group(1)}'",
                "the reader must go on to learn the subject, and reads the sentence twice",
                "not 'Of a timed-out run: what its threads touch' but "
                "'Keeps a timed-out run's data alive until its last thread is done'",
            )  # fmt: skip


# --- texts that a user reads ---------------------------------------------------------------------

# (wrong words, why, fix), searched in each literal; {...} stands for a value that is put in.
WORDINGS = [(re.compile(wrong), why, fix) for wrong, why, fix in [
    (
        r"\b(assign|disable|give|pass|set|submit|take|use) (one of these|one|these)$",
        "the user has to look elsewhere for what to type",
        "name it: f\"pass one of {', '.join(known)}\"",
    ),
    (
        r"\b(is|are|of) an? \{[^}]*(__name__|given|kind)[^}]*\}",
        "the name of the type decides between 'a' and 'an'",
        "write: is of type {name}",
    ),
    (
        r"\ba (?!(and|as|at|else|if|in|into|is|of|on|one|once|or)\b)(?=[aeio]|[fhlmnrsx]\d)"
        r"|\ban (?!(hour|honest|ND)\b)(?=[bcdgjkpqtvwyz]|u\d|uint|unsigned|un?i[a-z])",
        "the article follows the sound of the next word",
        "write 'an int', 'an f32', but 'a u8', 'a bool'",
    ),
    (
        r"(?<![\d.])1 (argument|byte|dimension|element|tensor|task|kernel|output)s\b",
        "one is no plural",
        "write it for the number, or as 'tasks: 1'",
    ),
    (
        r"\b(that|what) nobody (asks|gives|has|made)\b|\bthere are: |"
        r", which the system has not\b|^see the text$",
        "the sentence hides who acts",
        "name the thing or the person first: 'no process made this tensor'",
    ),
]]  # fmt: skip
CPP_LITERALS = re.compile(r'"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*')
CPP_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|^[ \t]*#(?:include|error)[^\n]*', re.M)
PRINTS_A_LIST = re.compile(r"join\(|joined\(|known|supported")


def cpp_literals(file: File) -> Iterator[tuple[int, str, str]]:
    """(line, text, the code before it) of the literals; neighbours are one."""
    code = CPP_COMMENT.sub(lambda m: m.group(1) or " " * len(m.group()), file.text)
    line = end = 0
    for found in CPP_LITERALS.finditer(code):
        line, end = line + code.count("\n", end, found.start()), found.start()
        text = re.sub(r'"\s*"', "", found.group())[1:-1]
        value = re.compile(r"\s*\+\s*([\w.:]+)").match(code, found.end())
        text += f"{{{value.group(1)}}}" if value else ""
        yield line + 1, text, code[max(0, found.start() - 200) : found.start()]


def python_literals(file: File) -> Iterator[tuple[int, str, str]]:
    """(line, text, the code before it) of the literals that are no docstrings."""
    inside: set[int] = set()  # docstrings, and the parts of f-strings
    for node in file.nodes:
        if isinstance(node, ast.Expr):
            inside.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            inside.update(id(part) for part in node.values)
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if id(node) in inside or not (is_text or isinstance(node, ast.JoinedStr)):
            continue
        text = node.value if is_text else ast.unparse(node)[2:-1]
        yield node.lineno, text, "\n".join(file.lines[max(0, node.lineno - 4) : node.lineno])


def wording(file: File) -> Iterator[Offence]:
    """Texts for users are plain English: the wrong words of WORDINGS stay away."""
    is_source = file.path.parts[0] in ("pto", "compat") and "_test." not in file.name
    if not is_source or not (file.is_cpp or file.kind == ".py"):
        return
    for line, text, before in cpp_literals(file) if file.is_cpp else python_literals(file):
        for wrong, why, fix in WORDINGS if " " in text else ():
            found = wrong.search(text)
            if found and not (found.group().endswith("these") and PRINTS_A_LIST.search(before)):
                yield Offence(file.at(line), f"a text says '{found.group()}'", why, fix)
