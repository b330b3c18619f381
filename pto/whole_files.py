# SPDX-License-Identifier: Apache-2.0
"""Replaces files as a whole: a reader sees the old content or the new one, never a part.

    write_whole(path, [text.encode()])

Thread safety: any threads and processes may write one file at once; the last one stays.
"""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write_whole(path: Path, pieces: Iterable[Any]) -> None:
    """Writes buffers one after another to a file in a folder that exists.

    A link stays, and its file is replaced; a device or a pipe takes the bytes itself. Raises
    OSError, or ValueError for a NUL in the name; the old file then stays as it was.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as file:
            file.writelines(pieces)
        return
    place = Path(os.path.realpath(path))
    # Numbers of processes and threads repeat in other containers and in nested calls.
    new = place.with_name(f".{place.name}.{os.urandom(8).hex()}.tmp")
    try:
        with open(new, "xb") as file:
            file.writelines(pieces)
        os.replace(new, place)
    finally:
        with contextlib.suppress(OSError, ValueError):
            new.unlink()
