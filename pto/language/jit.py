# SPDX-License-Identifier: Apache-2.0
"""@pto.jit: a Python function over tensors becomes native code at its first call.

    @pto.jit
    def scale(x, factor=2.0):
        return x * factor

    y = scale(torch.randn(4096, 1024))    # torch in, torch out; NumPy in, NumPy out; no copies

A kernel is compiled per number of axes, element types, and constants; sizes are free, except that
1 (which broadcasts) is a case of its own. It is cached on disk. Numbers, strings, None, tuples of
these are constants: they may steer `if` and `range`. So are those that the function captures, from
globals, closures, modules and functions that it calls: each call compares them (captures.py).
"""

import functools
from collections.abc import Callable
from typing import Any

from pto import _core
from pto.config import config
from pto.errors import Error, InvalidType
from pto.language import arguments
from pto.language.captures import Place, captured
from pto.language.trace import Trace, line_of, shown, without_our_frames

_VARIADIC = 0x04 | 0x08  # code flags: *args, **kwargs


class Jit(_core.FastCall):
    """A compiled function; call it as the Python function.

    `out=` takes a contiguous array (a tuple of them for several outputs) to write into, unless the
    function has a parameter of that name. Safe to call from several threads.
    """

    def __init__(self, function: Callable):
        code = getattr(function, "__code__", None)
        name = getattr(function, "__name__", type(function).__name__)
        if code is None or code.co_flags & _VARIADIC:
            raise InvalidType(
                f"@pto.jit: {name} is not a plain function with named parameters",
                "every parameter is a tensor or a constant with a name",
                "decorate a def without *args and **kwargs",
                f"{shown(code.co_filename)}:{code.co_firstlineno}" if code else "",
            )
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        defaults = function.__defaults__ or ()
        named = function.__kwdefaults__ or {}
        if code.co_kwonlyargcount:  # from the first default on, Ellipsis: none
            first = code.co_argcount - len(defaults)
            defaults += tuple(named.get(n, ...) for n in names[code.co_argcount :])
            defaults = defaults if first + len(defaults) == len(names) else ()
        super().__init__(name, names, defaults, arguments)
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<pto.jit {self.__name__}>"

    def captured(self) -> tuple[Place, ...]:
        """The places, beside its parameters, whose values are constants of the kernels."""
        return captured(self.__wrapped__)

    def trace(self, *args: Any, **kwargs: Any) -> _core.Graph:
        """The graph that a call with these arguments compiles."""
        return self._graph(*self.describe_call(*args, **kwargs))[0]

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """What becomes of a call with these arguments: the graph, the graph after each pass, the
        C++ text, and what the result costs in memory. Nothing is compiled."""
        tensors, constants = self.describe_call(*args, **kwargs)
        graph, _ = self._graph(tensors, constants)
        parts = []

        def dump(stage: str, text: str) -> None:
            parts.append(f"==== {stage} ====\n{text.rstrip()}\n")

        _core.explain(graph, dump, [t[2] for t in tensors if t], target=config.target)
        return "\n".join([*parts, _costs(graph)])

    def warm(self, *args: Any, **kwargs: Any) -> "Jit":
        """Compiles for these arguments without running; a later call finds the kernel on disk."""
        self.specialise(*self.describe_call(*args, **kwargs))
        return self

    def specialise(self, tensors: list, constants: list) -> tuple[_core.Program, bool]:
        """The program for tensors of these types, and whether it has one output.

        `tensors` has (dtype, shape, stride class) for each parameter that is one, else None, and
        then `constants` has its value. Called by the compiled call where it has no kernel yet.
        """
        graph, single = self._graph(tensors, constants)
        strides = [t[2] for t in tensors if t]
        return _core.compile(graph, strides, config.dump, target=config.target), single

    def _graph(self, tensors: list, constants: list) -> tuple[_core.Graph, bool]:
        function = self.__wrapped__
        code = function.__code__
        trace = Trace(self.__name__)
        values = [
            trace.input(name, about[0], about[1]) if about else value
            for name, about, value in zip(code.co_varnames, tensors, constants, strict=False)
        ]
        named = dict(zip(code.co_varnames[code.co_argcount :], values[code.co_argcount :],
                         strict=False))  # fmt: skip
        try:
            return trace.finish(function(*values[: code.co_argcount], **named))
        except Error as error:
            definition = f"{shown(code.co_filename)}:{code.co_firstlineno}"
            error.location = error.location or line_of(error) or definition
            raise without_our_frames(error)  # noqa: B904 it is the same error


def jit(function: Callable) -> Jit:
    """Compiles a function over tensors at its first call; see this module's text."""
    return Jit(function)


@functools.cache
def eager(function: Callable) -> Jit:
    """A function of the language as a compiled one, for calls on arrays."""
    return Jit(function)


def _costs(graph: _core.Graph) -> str:
    lines = ["==== memory of the result ===="]
    sizes = {name: size for name, size, _ in _core.dtypes()}
    for place, (kind, shape) in enumerate(graph.outputs):
        extent = " * ".join([str(n) for n in shape] + [str(sizes[kind])])
        lines.append(f"output {place}: {kind}{list(shape)}, {extent} bytes")
    return "\n".join(lines)
