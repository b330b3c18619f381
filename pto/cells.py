# SPDX-License-Identifier: Apache-2.0
"""Text in the cells of notebooks: reports stand there as print() shows them.

    class Report(ShownAsText): ...       # the last line of a cell: its str, in a fixed-width font

Thread safety: pure functions.
"""

import html


def preformatted(text: str) -> str:
    """The text as HTML, whatever characters it has."""
    return f"<pre>{html.escape(text)}</pre>"


class ShownAsText:
    """A notebook shows its str."""

    def _repr_html_(self) -> str:
        return preformatted(str(self))
