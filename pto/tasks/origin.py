# SPDX-License-Identifier: Apache-2.0
"""Origin: the C++ that a package was compiled from, which the pages of its runs show.

    package = pto.compile(kernels=[{"source": "add.cpp"}])
    package.origin.sources       # {"add.cpp": its path}
    package.origin.functions     # {"add": ("add.cpp", "add")}
    sys._getframe(own_frames())  # the user's frame: the Python that submits a task, or is warned

Thread safety: pure functions; an Origin never changes.
"""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Origin:
    """`sources`: of each file its path, or its text. `functions`: of each kernel the file and its
    function there; "" is the orchestration."""

    sources: Mapping[str, Path | str] = field(default_factory=dict)
    functions: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def origin_of(parts: Iterable[tuple[str, Any, str, str]]) -> Origin:
    """The origin of parts: a name, a path or C++ text, the name of such a text, the function."""
    found = []
    for name, source, shown, function in parts:
        file = f"{shown}.cpp"  # as lines of errors and traces call a text
        if not isinstance(source, str) or not ("\n" in source or "{" in source):
            source = Path(source).expanduser().absolute()
            file = source.name
        found.append(Origin({file: source}, {name: (file, function)}))
    return joined(found)


def joined(origins: Iterable[Origin]) -> Origin:
    """One origin of several; another file of the same name gets the kernel in front of it."""
    sources: dict[str, Path | str] = {}
    functions = {}
    for one in origins:
        for kernel, (file, function) in one.functions.items():
            source = one.sources[file]
            if sources.setdefault(file, source) != source:
                file = f"{kernel}/{file}"
                sources[file] = source
            functions[kernel] = file, function
    return Origin(sources, functions)


def own_frames() -> int:
    """How many of the calling frames are the library's; the next one is the user's."""
    count, frame = 0, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("pto."):
        count, frame = count + 1, frame.f_back
    return count
