# SPDX-License-Identifier: Apache-2.0
"""Pages: hands the JSON of a trace to the studio, which makes one self-contained HTML page of it.

    text = html(trace, "page.html", sources=["kernels/attention.cpp"])

`sources` are files to show beside it, or folders where lines of the trace name files.
"""

import ast
import importlib
import os
import runpy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pto.errors import Failure, InvalidValue, MissingFile, working_folder_name


def html_of_call(text: str, path: str | os.PathLike) -> None:
    """Writes the page of a call that a text names: "softmax.py:softmax(x)".

    The file runs first, under another name than __main__; the call's function, which is jitted, and
    its arguments are then evaluated with what the file defines. Raises InvalidValue for a text that
    is no such call, MissingFile without the file, and what the file raises.
    """
    name, _, call = text.partition(".py:")
    file = f"{name}.py"
    try:
        node = ast.parse(call.strip(), mode="eval").body
    except SyntaxError:
        node = None
    if not isinstance(node, ast.Call) or any(one.arg is None for one in node.keywords):
        raise InvalidValue(
            f"studio: {text!r} names no call", "it is a file and a call of a jitted function in it",
            "write it like this: softmax.py:softmax(x)",
        )  # fmt: skip
    if not os.path.isfile(file):
        raise MissingFile(
            f"studio: the file {file} does not exist", "it defines the function of the call",
            f"check it; the working folder is {working_folder_name()}",
        )  # fmt: skip
    names = runpy.run_path(file)

    def value(one: ast.expr) -> Any:
        try:
            return eval(compile(ast.Expression(one), text, "eval"), names)
        except NameError as error:
            raise InvalidValue(
                f"studio: {ast.unparse(one)}: {error}", f"{file} defines what the call may name",
                "define it there, or use another name",
            ) from None  # fmt: skip

    function = value(node.func)
    if not hasattr(function, "report"):
        raise InvalidValue(
            f"studio: {ast.unparse(node.func)} in {file} is no jitted function",
            f"it is of type {type(function).__name__}", "decorate it with @pto.jit",
        )  # fmt: skip
    keywords = {one.arg: value(one.value) for one in node.keywords}
    function.report(*map(value, node.args), **keywords).html(path)


def html(
    trace: Any, path: str | os.PathLike | None = None, sources: Iterable[str | os.PathLike] = ()
) -> str:
    """The text of the page of a trace: its JSON, or the path of its file. Written to `path` if one
    is given. Raises Failure where Bokeh is not installed or the path cannot be written."""
    studio = importlib.import_module("pto.studio")
    if isinstance(trace, dict):
        document = studio.document_of(trace, sources=sources)
    else:
        document = studio.read(trace, sources)
    text = studio.page(document)
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
