# SPDX-License-Identifier: Apache-2.0
"""Runs the cells of a lesson as a notebook would, and puts what they print below them on the site.

    python docs/cells.py docs/tutorials/1_kernel.md     # JSON: the output of each cell in Markdown

mkdocs.yml names this file as a hook: the pages of docs/tutorials and docs/cpp get their outputs
when the site is built, by the Python of .venv, which has pto. A cell is a ```python block; its
output is what it prints, and then the value of its last expression, in HTML where it has
_repr_html_.
"""

import ast
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import traceback
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CELL = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


def outputs(page: str) -> Iterator[str]:
    """What each cell of a page shows, as Markdown, in a folder of its own; raises as the cell."""
    module = sys.modules["lesson"] = types.ModuleType("lesson")
    names = vars(module)
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for number, code in enumerate(CELL.findall(page)):
                yield output(code, str(Path(folder, f"cell_{number}.py")), names)
        finally:
            os.chdir(before)


def output(code: str, file: str, names: dict[str, Any]) -> str:
    """Runs one cell; its file holds the text for those that read the source of functions."""
    Path(file).write_text(code)
    tree = ast.parse(code, file)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, file, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), file, "eval"), names)
    text = printed.getvalue()
    parts = [text if text.startswith("|") else f"```text\n{text}```"] if text else []
    if hasattr(value, "_repr_html_"):
        parts.append(re.sub(r"\n\s*\n", "\n", value._repr_html_()))  # Markdown ends HTML there
    elif value is not None:
        parts.append(f"```text\n{value!r}\n```")
    return "\n\n".join(parts)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """mkdocs: a lesson with the outputs of its cells."""
    if not page.file.src_uri.startswith(("tutorials/", "cpp/")):
        return markdown
    root = Path(__file__).resolve().parent.parent
    command = [root / ".venv/bin/python", __file__, page.file.abs_src_path]
    done = subprocess.run(command, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(root)})  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{page.file.src_uri}: {done.stderr}")
    found = iter(json.loads(done.stdout))
    return CELL.sub(lambda cell: f"{cell.group()}\n\n{next(found)}\n", markdown)


if __name__ == "__main__":
    shown = []
    try:
        shown = [*outputs(Path(sys.argv[1]).read_text())]
    except Exception:  # noqa: BLE001 whatever a lesson does
        sys.exit(traceback.format_exc())
    print(json.dumps(shown))
