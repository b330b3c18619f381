# SPDX-License-Identifier: Apache-2.0
"""Pages whose ```python blocks run one after another and print the ```text block below them.

    differences(Path("docs/errors.md"), folder)     # [] where each block prints what the page says

"..." in a text stands for anything within a line; "example.py:7" for a line of a user's file.
"""

import contextlib
import importlib.util
import io
import re
from pathlib import Path

BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n+```text\n(.*?)^```$)?", re.M | re.S)
PLACE = re.compile(r"[\w./-]*\bexample\.py:\d+")
BREAK = 'print("\\x1e", end="")\n'


def printed(page: Path, folder: Path) -> list[tuple[str, str]]:
    """(text of the page, what the block printed) for each block of a page, in one module."""
    blocks = BLOCK.findall(page.read_text())
    assert len(blocks) == page.read_text().count("```python"), page
    file = folder / "example.py"
    file.write_text(BREAK.join(code for code, _ in blocks))
    spec = importlib.util.spec_from_file_location("__main__", file)
    module = importlib.util.module_from_spec(spec)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        spec.loader.exec_module(module)
    found = PLACE.sub("example.py:7", output.getvalue()).split("\x1e")
    return [(text, got) for (_, text), got in zip(blocks, found, strict=True)]


def is_like(text: str, got: str) -> bool:
    pattern = r"[^\n]*".join(map(re.escape, text.split("...")))
    return re.fullmatch(pattern, got) is not None


def differences(page: Path, folder: Path) -> list[str]:
    """Where a block printed something else; no text below a block means that it prints nothing."""
    return [f"the page has\n{text}\nbut its block prints\n{got}"
            for text, got in printed(page, folder) if not is_like(text, got)]  # fmt: skip
