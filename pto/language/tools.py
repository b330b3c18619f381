# SPDX-License-Identifier: Apache-2.0
"""The tools of functions under @pto.jit; each loads when it is asked for.

    f.explain(*args)            # what becomes of a call: text with parts
    f.trace(*args)              # its graph; .svg() draws it
    f.trace("t.json", *args)    # runs it, and writes what ran when
    f.report(*args)             # where its time goes, and what would help
    Layer.f.report(layer, *args)    # of a method, whose object is its first argument

Thread safety: as that of a call.
"""

import os
import types
from typing import TYPE_CHECKING, Any

from pto.language import pictures  # noqa: F401 graphs get their methods

if TYPE_CHECKING:
    from pto.language.explanation import Explanation
    from pto.language.report import ProgramReport


class Tools:
    """The tools of a function; `plain` is the Jit or Program behind a call, and its arguments."""

    def plain(self, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, tuple, dict[str, Any]]:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        from pto.language.callable_cells import function_cell

        return function_cell(self)

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """The graph of a call with these arguments. With a path in front of them, "t.json", it runs
        the call, writes there what ran when for Perfetto, and returns the call's result."""
        if not (path := _path_of(args)):
            function, args, kwargs = self.plain(args, kwargs)
            return function.compiled.trace_with_form(*args, **kwargs)[0]
        from pto.language.recording import trace_into

        return trace_into(path, *self.plain(args[1:], kwargs))

    def report(self, *args: Any, repeats: int = 5, **kwargs: Any) -> "ProgramReport":
        """Where the time of a call with these arguments goes, and what would make it shorter, from
        so many recorded calls. Its str is the text, its parts are data. All runs on copies."""
        from pto.language.report import report

        return report(*self.plain(args, kwargs), repeats)

    def explain(self, *args: Any, **kwargs: Any) -> "Explanation":
        """Shows what becomes of a call with these arguments: the graph, also after each pass, the
        steps, the memory plan, who chose what, the C++ text, what the result costs in memory, and
        how operators multiply f32. Its str is the text, its parts are data. Nothing is compiled."""
        from pto.language.explanation import explain

        function, args, kwargs = self.plain(args, kwargs)
        return explain(function.compiled, args, kwargs)


def unbound(function: Any, args: tuple) -> tuple[Any, tuple]:
    """A function and its arguments; of a method that of its class, with the object in front."""
    if isinstance(function, types.MethodType):
        return function.__func__, (function.__self__, *args)
    return function, args


def _path_of(args: tuple) -> str:
    """The file that is named in front of the arguments of a call, or ""."""
    first = args[0] if args else None
    if isinstance(first, os.PathLike) or (isinstance(first, str) and first.endswith(".json")):
        return os.fspath(first)
    return ""
