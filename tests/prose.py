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
    for node in ast.walk(file.tree):
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
