# SPDX-License-Identifier: Apache-2.0
"""python -m pto studio: the page of a trace, of a package, or of a call that runs for it.

    write("t.json", "page.html")                  # or "kernels.pto"
    write("softmax.py:softmax(x)", "page.html")   # or "module:softmax(f32[64, 128])"

Thread safety: one thread at a time.
"""

import ast
import math
import os
from collections.abc import Iterable
from typing import Any

from pto import container, pages
from pto.errors import Error, InvalidValue, MissingFile
from pto.language.dtypes import numpy_type
from pto.language.op import Operator
from pto.language.packaged_operator import as_function
from pto.language.program_page import unpacked
from pto.named_module import module_of

_FORM = "write it like this: softmax.py:softmax(x), or module:softmax(x)"
_NO_TEXTS = (
    "This package carries no texts of its programs. One that is made with texts=True, or with "
    "python -m pto package --texts, shows the stages of each, its C++, and your lines."
)
_KINDS = ("bf16", "f16", "f32", "f64", "i8", "i16", "i32", "i64")
_CODE = "This package carries compiled code, and no texts of it."


def write(what: str, path: str = "", sources: Iterable[str | os.PathLike] = ()) -> str:
    """Writes the page of a trace, a package or a call, and returns its path, without one beside
    the file."""
    if not os.path.exists(what) and (":" in what or "(" in what):
        page = path or what.partition(":")[0].removesuffix(".py") + ".html"
        html_of_call(what, page)
    else:
        page = path or what.removesuffix(".json").removesuffix(".pto") + ".html"
        pages.refuse_own(what, page)
        for missing in (one for one in sources if not os.path.exists(one)):
            raise MissingFile(
                f"studio --source {missing}: there is no such file or folder",
                "the page shows it beside the trace", "correct the path, or leave it out",
            )  # fmt: skip
        pages.html(of_package(what) if container.is_package(what) else what, page, sources)
    return page


def html_of_call(text: str, path: str | os.PathLike) -> None:
    """Writes the page of a call that a text names: "softmax.py:softmax(x)", "module:softmax(x)".

    The file runs first, under another name than __main__, or the module is imported; the call's
    function, which is jitted or an operator, and its arguments are then evaluated with what it
    defines; f32[64, 128] is an array of numbers. Raises InvalidValue for a text that is no such
    call and for what the file or the call raises, MissingFile without the file.
    """
    name, mark, call = text.partition(".py:")
    name, _, call = (f"{name}.py", "", call) if mark else text.partition(":")
    try:
        node = ast.parse(call.strip(), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError):  # deeper than Python reads
        node = None
    if not name or not isinstance(node, ast.Call) or any(one.arg is None for one in node.keywords):
        raise InvalidValue(
            f"studio: {text!r:.80} names no call",
            "it is a file or a module, and a call of a jitted function or an operator in it", _FORM,
        )  # fmt: skip
    pages.refuse_own(name, path)
    names = {kind: _Filled(kind) for kind in _KINDS} | vars(module_of(name, "studio"))

    def value(one: ast.expr) -> Any:
        try:
            return eval(compile(ast.Expression(one), text, "eval"), dict(names))
        except Error:
            raise
        except (Exception, SystemExit) as error:  # of any expression, and of sizes without memory
            raise InvalidValue(
                f"studio: {ast.unparse(one):.80}: {type(error).__name__}: {error}",
                f"{name} defines what the call may name",
                "define it there, or write an array by its type and sizes: f32[64, 128]",
            ) from None

    function = value(node.func)
    if isinstance(function, Operator):
        function = as_function(function)
    if not hasattr(function, "report"):
        raise InvalidValue(
            f"studio: {ast.unparse(node.func)} in {name} is no jitted function",
            f"it is of type {type(function).__name__}",
            "decorate it with @pto.jit, or name an operator",
        )
    keywords = {one.arg: value(one.value) for one in node.keywords}
    function.report(*map(value, node.args), **keywords).html(path)


class _Filled:
    """An element type of a call: f32[64, 128] is an array whose numbers go from 0 to 1 in order,
    or are zeros of an integer type."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __getitem__(self, sizes: int | tuple[int, ...]) -> Any:
        import numpy

        shape = sizes if isinstance(sizes, tuple) else (sizes,)
        if not all(type(size) is int and size >= 0 for size in shape):
            raise InvalidValue(
                f"studio: {self._kind}[{sizes}] has no sizes", "the call runs on an array",
                f"write whole numbers, such as {self._kind}[64, 128]",
            )  # fmt: skip
        numbers = numpy.linspace(0, 1, math.prod(shape), endpoint=False).reshape(shape)
        return numbers.astype(numpy_type(self._kind))


# --- packages ------------------------------------------------------------------------------------


def of_package(path: str | os.PathLike) -> dict[str, Any]:
    """The JSON of the page of a package, as of a trace without events: its header as tables, and
    the texts that its variants carry."""
    package = container.read(path)
    header, size = package.header, len(package.payload)
    with container.checked_header(package.shown):
        functions = {"functions": header.get("functions"), "program": [header]}.get(package.kind)
        about = [["field", "value"], ["kind", container.called(package.kind)]]
        about += [
            [name, container.text(value)] for name, value in header.items()
            if name not in ("kind", "functions", "variants") and not _is_table(value)
        ]  # fmt: skip
        tables = [["Package", [*about, ["bytes of code or data", str(size)]]]]
        if functions is None:
            tables += [[name.capitalize(), _table(value)]
                       for name, value in header.items() if _is_table(value)]  # fmt: skip
            notes = [_CODE] if package.kind == "tasks" else []
            program: dict[str, Any] = {}
        else:
            tables += _tables_of(functions, size)
            program = _program(functions)
            notes = [] if program["cpp"] else [_NO_TEXTS]
        program |= {"name": package.shown, "tables": tables, "notes": notes}
    return {"traceEvents": [], "otherData": {"program": program}}


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _table(rows: list[dict]) -> list[list[str]]:
    """A list of objects with the same members."""
    return [list(rows[0]), *([container.text(value) for value in one.values()] for one in rows)]


def _tables_of(functions: list[dict], size: int) -> list[list]:
    every = [["function", "parameters", "calls", "targets", "bytes"]]
    calls = [["call", "targets", "texts"]]
    for one in functions:
        variants, target = one["variants"], one["target"]
        every.append([one["name"], ", ".join(one["parameters"]), str(len(variants)), target,
                      str(one.get("bytes", size))])  # fmt: skip
        calls += [[v["name"], target, "yes" if v.get("texts") else "no"] for v in variants]
    return [["Functions", every], ["Calls", calls]]


def _program(functions: list[dict]) -> dict[str, Any]:
    """The texts of all variants; a statement links to the C++ of its own."""
    made: dict[str, Any] = {"stages": [], "cpp": [], "sources": {}, "statements": []}
    for variant in (v for one in functions for v in one["variants"] if v.get("texts")):
        name, own = variant["name"], unpacked(variant["texts"])
        made["stages"] += [[f"{name}: {stage}", text] for stage, text in own["stages"]]
        made["cpp"] += [[name, text] for _, text in own["cpp"]]
        made["sources"] |= own["sources"]
        for one in own["statements"]:
            made["statements"].append({"title": one["title"], "lines": one["lines"],
                                       "symbol": one["symbol"], "cpp": name})  # fmt: skip
    return made
