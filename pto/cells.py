# SPDX-License-Identifier: Apache-2.0
"""Reports in the cells of notebooks: as print() shows them, or with their rows as tables.

    class Report(ShownAsText): ...       # the last line of a cell: its str, in a fixed-width font

    class Times(ShownAsText):
        def _cells(self): yield table(("kernel", "time"), [("add", "3 us"), ("exp", "9 us")])

Thread safety: pure functions.
"""

import html
from collections.abc import Iterable, Iterator
from typing import Any


def preformatted(text: str) -> str:
    """The text as HTML, whatever characters it has."""
    return f"<pre>{html.escape(text)}</pre>"


def table(heads: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """A table as HTML, whatever characters it has; "" without rows."""

    def line(cells: Iterable[Any], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{html.escape(str(c))}</{tag}>' for c in cells)}</tr>"

    lines = [line(row, "td") for row in rows]
    return f"<table>{line(heads, 'th')}{''.join(lines)}</table>" if lines else ""


class ShownAsText:
    """A notebook shows what _cells() yields as HTML, which is its str; IPython shows its str."""

    def _cells(self) -> Iterator[str]:
        yield preformatted(str(self))

    def _repr_html_(self) -> str:
        return "".join(self._cells())

    def _repr_pretty_(self, printer: Any, is_cycle: bool) -> None:
        printer.text(str(self))
