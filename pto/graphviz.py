# SPDX-License-Identifier: Apache-2.0
"""Pictures by Graphviz: whatever has a dot() is drawn by svg(), and at the end of a cell.

    class Plan(Drawn):
        def dot(self): return digraph([f"{quoted('a')} -> {quoted('b')}"])

    Plan().svg()                     # text of an SVG; needs the program dot

Thread safety: pure functions.
"""

import json
from collections.abc import Iterable
from typing import Any

from pto.cells import preformatted
from pto.errors import Failure

SECONDS = 60  # that a drawing may take


def quoted(text: str) -> str:
    """A name or label in Graphviz's language; it has no power there, whatever its characters."""
    return json.dumps(text, ensure_ascii=False)


def digraph(parts: Iterable[str]) -> str:
    """The text of a picture with these statements."""
    head = ["digraph {", "  node [shape=box, fontname=monospace, fontsize=10]",
            "  edge [fontname=monospace, fontsize=9]"]  # fmt: skip
    return "\n".join([*head, *(f"  {part}" for part in parts), "}"]) + "\n"


def svg(drawn: Any) -> str:
    """The picture as the text of an SVG; Failure where Graphviz is not installed."""
    import shutil  # seldom needed, slow to load
    import subprocess

    text = drawn.dot()
    program = shutil.which("dot")
    if program is None:
        raise Failure(
            "graph.svg(): the program dot was not found on PATH",
            "Graphviz lays out the picture",
            "apt install graphviz, or draw graph.dot() elsewhere",
        )
    try:
        done = subprocess.run([program, "-Tsvg"], input=text.encode(errors="replace"),
                              capture_output=True, timeout=SECONDS)  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Failure(f"graph.svg(): dot took more than {SECONDS} s", "the graph has many arrows",
                      "print(graph), or draw graph.dot() elsewhere") from None  # fmt: skip
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[:400]
        raise Failure("graph.svg(): dot refused the graph", said, "print(graph.dot())")
    picture = done.stdout.decode(errors="replace")
    return picture[max(picture.find("<svg"), 0) :]


def shown_in_notebook(drawn: Any) -> str:
    """The picture where it can be drawn; else the text, and why there is no picture."""
    try:
        return svg(drawn)
    except Exception as error:  # noqa: BLE001 a cell shows the text where the picture fails
        return preformatted(f"{drawn}\n\n{error}")


class Drawn:
    """A notebook shows its picture; subclasses have dot()."""

    def dot(self) -> str:
        raise NotImplementedError

    def svg(self) -> str:
        """The picture as the text of an SVG; Failure where Graphviz is not installed."""
        return svg(self)

    def _repr_html_(self) -> str:
        return shown_in_notebook(self)
