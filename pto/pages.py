# SPDX-License-Identifier: Apache-2.0
"""Pages: hands the JSON of a trace to the studio, which makes one self-contained HTML page of it.

    text = html(trace, "page.html", sources=["kernels/attention.cpp"])

`sources` are files to show beside it, names with a path or a text, or folders where lines of the
trace name files. `functions`: of a kernel its file and its function there.
"""

import importlib
import json
import linecache
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pto.container import path_of, reason
from pto.errors import Failure, InvalidValue, MissingFile
from pto.sources import CPP_SUFFIXES
from pto.whole_files import write_whole

if TYPE_CHECKING:
    from pto.studio import Document

Source = str | os.PathLike | tuple[str, Path | str]
TEXTS_MAX = 1 << 20  # characters of a source that a page takes
# A trace of somebody else does not make a page show other files of this machine.
SUFFIXES = (".py", *CPP_SUFFIXES)


def html(
    trace: Any,
    path: str | os.PathLike | None = None,
    sources: Iterable[Source] = (),
    functions: Mapping[str, tuple[str, str]] = {},
    name: str = "",
) -> str:  # noqa: B006 never changed
    """The text of the page of a trace: its JSON, or the path of its file, under that name. Written
    to `path` if one is given. Raises Failure without Bokeh, and where it cannot be written."""
    if path is not None:
        path = path_of(path, "html")
        refuse_own(trace, path)
    document = read(trace, sources, functions)
    document.name = name or document.name
    text = importlib.import_module("pto.studio").page(document)
    if path is not None:
        try:  # a name in a trace may have half of a letter
            write_whole(path, [text.encode(errors="backslashreplace")])
        except (OSError, ValueError) as error:  # a NUL in the name
            raise Failure(
                f"the page cannot be written to {path}: {reason(error)}",
                "its folder must exist, take new files and have room",
                "pass another path, or make room there",
            ) from None
    return text


def refuse_own(shown: Any, path: str | os.PathLike) -> None:
    """Refuses a page in the place of the file that it shows."""
    try:
        is_own = os.path.samefile(shown, path)
    except (OSError, ValueError, TypeError):  # one is not there; the JSON of a trace is no file
        return
    if is_own:
        raise InvalidValue(
            f"the page {path} would replace the file that it shows",
            "a page is a file of its own", "pass another path",
        )  # fmt: skip


def read(
    trace: Any, sources: Iterable[Source] = (), functions: Mapping[str, tuple[str, str]] = {}
) -> "Document":  # noqa: B006 never changed
    """The document of a trace: its JSON, or the path of its file. Sources that its lines name are
    looked up beside the file and in folders among `sources`; files among these are shown too.

    Raises MissingFile without the file, InvalidValue where it is no trace.
    """
    studio = importlib.import_module("pto.studio")
    given = [one if isinstance(one, tuple) else Path(one) for one in sources]
    if isinstance(trace, dict):
        made = studio.document_of(trace)
    else:
        path = Path(trace)
        made = studio.document_of(_json(path, studio.no_trace), str(path))
        given.insert(0, path.parent)
    for one in given:
        name, known = one if isinstance(one, tuple) else (one.name, one)
        text = _text(known) if isinstance(known, Path) else known
        if text is not None:
            made.sources.setdefault(name, text[:TEXTS_MAX])
    _find_sources(made, [one for one in given if isinstance(one, Path) and not one.is_file()])
    made.functions |= functions
    return made


def _json(path: Path, no_trace: Callable[[str, str], InvalidValue]) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise no_trace(str(path), "it is no text") from None
    except OSError as error:
        raise MissingFile(
            f"studio: {path} cannot be read: {error.strerror}",
            "a page shows a file that f.trace(path, *args), rt.trace(path) or pto.package() wrote, "
            "or a call of a function",
            "pass the path of one, or write a call: softmax.py:softmax(x), module:softmax(x)",
        ) from None
    except (ValueError, RecursionError) as error:  # a NUL in the name too
        raise no_trace(str(path), f"it is no JSON: {error}") from None


def _find_sources(made: "Document", folders: list[Path]) -> None:
    """Adds the texts of files that lines name, where they can be read."""
    for kind in made.kinds:
        for line in kind.lines:
            file = line.rpartition(":")[0]
            if file in made.sources or Path(file).suffix not in SUFFIXES:
                continue
            for path in (Path(file), *(folder / file for folder in folders)):
                if (text := _text(path)) is not None:
                    made.sources[file] = text
                    break


def _text(path: Path) -> str | None:
    """The text of a file or of a cell of a notebook, or None: a page goes without."""
    try:
        if path.is_file():  # reading another thing may not end
            return path.read_text(encoding="utf-8")[:TEXTS_MAX]
        is_cell = path.is_absolute() and not path.exists()
        return "".join(linecache.getlines(str(path))) or None if is_cell else None
    except (OSError, ValueError):
        return None
