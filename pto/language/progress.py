# SPDX-License-Identifier: Apache-2.0
"""Shows in a terminal or a notebook that a compilation takes more than a second.

    tell(2.5)       # "compiling ... 2.5 s"; the binding calls it twice a second
    tell(-1)        # wipes the line

Nothing is shown where nobody looks: in pipes, files and tests.
Thread safety: lines of several threads overwrite each other.
"""

import contextlib
import sys
from typing import Any

TEXT = "pto: compiling ... {:.1f} s (kernels are cached for the next time)"


def is_watched(stream: Any) -> bool:
    """Says whether somebody sees the line grow: a terminal, or the cell of a notebook."""
    if type(stream).__module__.startswith("ipykernel"):
        return True
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # none, or closed
        return False


def tell(seconds: float) -> None:
    """Shows for how long a compilation has gone on; wipes the line for a negative number."""
    stream = sys.stderr
    if not is_watched(stream):
        return
    text = TEXT.format(max(seconds, 0))
    with contextlib.suppress(OSError, ValueError):  # closed meanwhile
        stream.write("\r" + (text if seconds >= 0 else " " * (len(text) + 6) + "\r"))
        stream.flush()
