# SPDX-License-Identifier: Apache-2.0
"""Pages: hands the JSON of a trace to the studio, which makes one self-contained HTML page of it.

    text = html(trace, "page.html", sources=["kernels/attention.cpp"])

`sources` are files to show beside it, or folders where lines of the trace name files.
"""

import importlib
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pto.errors import Failure, InvalidValue, MissingFile

if TYPE_CHECKING:
    from pto.studio import Document

TEXTS_MAX = 1 << 20  # characters of a source that a page takes


def html(
    trace: Any, path: str | os.PathLike | None = None, sources: Iterable[str | os.PathLike] = ()
) -> str:
    """The text of the page of a trace: its JSON, or the path of its file. Written to `path` if one
    is given. Raises Failure where Bokeh is not installed or the path cannot be written."""
    text = importlib.import_module("pto.studio").page(read(trace, sources))
    if path is not None:
        try:
            Path(path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise Failure(
                f"the page cannot be written to {path}: {error.strerror}",
                "its folder must exist, take new files and have room",
                "pass another path, or make room there",
            ) from None
    return text


def read(trace: Any, sources: Iterable[str | os.PathLike] = ()) -> "Document":
    """The document of a trace: its JSON, or the path of its file. Sources that its lines name are
    looked up beside the file and in folders among `sources`; files among these are shown too.

    Raises MissingFile without the file, InvalidValue where it is no trace.
    """
    studio = importlib.import_module("pto.studio")
    given = [Path(one) for one in sources]
    if isinstance(trace, dict):
        made = studio.document_of(trace)
    else:
        path = Path(trace)
        made = studio.document_of(_json(path, studio.no_trace), str(path))
        given.insert(0, path.parent)
    for one in given:
        if one.is_file() and (text := _text(one)) is not None:
            made.sources.setdefault(one.name, text)
    _find_sources(made, [one for one in given if not one.is_file()])
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
            if file in made.sources or not file:
                continue
            for path in (Path(file), *(folder / file for folder in folders)):
                if (text := _text(path)) is not None:
                    made.sources[file] = text
                    break


def _text(path: Path) -> str | None:
    """The text of a file, or None: a page goes without a source that cannot be read."""
    try:
        return path.read_text(encoding="utf-8")[:TEXTS_MAX]
    except (OSError, ValueError):
        return None
