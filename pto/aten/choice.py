# SPDX-License-Identifier: Apache-2.0
"""A choice of operators: the surface restricted to the names of a list.

    pto.aten.restrict("names.txt")   # a name a line; PTO_ATEN_NAMES=names.txt does it at start
    pto.aten.restrict(None)          # all again

ATen has an operator `select`, so restrict() is not called so. Thread safety: any thread; a call of
another thread sees the names of before or of after.
"""

import os
from collections.abc import Callable
from pathlib import Path

from pto.aten.records import library
from pto.errors import InvalidValue, MissingFile, nearest

VARIABLE = "PTO_ATEN_NAMES"
_chosen: tuple[str, frozenset[str]] | None = None
_is_read = False
on_change: list[Callable[[], None]] = []  # restrict() calls each after the names changed


def restrict(file: str | os.PathLike | None) -> None:
    """Restricts the surface to the names in a file, without overloads; None lifts it.

    Raises MissingFile for a file that cannot be read, InvalidValue for a name that PyTorch lacks.
    """
    global _chosen, _is_read
    _chosen = None if file is None else (os.fspath(file), _read(Path(file)))
    _is_read = True
    for told in on_change:
        told()


def chosen() -> tuple[str, frozenset[str]] | None:
    """The file of the list and its names; None: all names are there. Raises as restrict() does."""
    if not _is_read:
        restrict(os.environ.get(VARIABLE) or None)
    return _chosen


def _read(file: Path) -> frozenset[str]:
    try:
        names = frozenset(file.read_text().split())
    except OSError as error:
        raise MissingFile(
            f"the list of operators {file}",
            f"it cannot be read: {error.strerror}",
            f"pass a file with a name a line (restrict() or {VARIABLE})",
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidValue(
            f"the list of operators {file}",
            f"it is no text: {error}",
            f"pass a file with a name a line (restrict() or {VARIABLE})",
        ) from error
    unknown = sorted(names - library().names())
    if unknown:
        raise InvalidValue(
            f"{file} names {unknown[0]}" + (f" and {len(unknown) - 1} more" if unknown[1:] else ""),
            f"ATen of PyTorch {library().version} has no such operator;"
            f" {nearest(unknown[0], library().names())}",
            "a line has a name without its overload: add, not add.Tensor",
        )
    return names
