# SPDX-License-Identifier: Apache-2.0
"""Programs: functions under @pto.jit with loops, or with writes into their parameters.

    @pto.jit
    def scatter(x, rows, out):
        for i in pto.loop(rows.shape[0]):
            out[rows[i]] = x[i]

    scatter(x, rows, out)          # returns None; `out` has the new rows

A compiled function returns the newest version of each parameter that it writes, and after the call
the arrays get them: what a call reads never depends on what it wrote, also where arguments overlap.
A version is computed in the array's own memory where that makes no difference: the array has no
gaps, shares no memory with another argument, and what lay there is not read again. A call that
fails may leave such an array with some of its new elements.

Thread safety: as of a jitted function; two calls that write one array race as two copies do.
"""

import dis
import functools
import types
from collections.abc import Callable
from typing import Any

from pto.errors import InvalidType
from pto.language.arguments import bound_to
from pto.language.code_names import has_loops, named, with_called
from pto.language.location import user_line
from pto.language.spelling import function as named_part
from pto.language.tensor import Tensor
from pto.language.tile_hints import inside
from pto.language.tools import Tools
from pto.language.written import finish

_WRITES = {"STORE_SUBSCR", "STORE_SLICE"}
_OTHERS = (Tensor, list)  # arguments that the compiled call does not take
_WRITERS = {"assemble", "move", "scatter_", "scatter_add_", "index_add_"}


def is_program(function: Callable) -> bool:
    """Says whether a function has loops of the program, or writes into its parameters."""
    if not isinstance(function, types.FunctionType):
        return False
    if any(_WRITERS & set(one.__code__.co_names) for one in with_called(function)):
        return True
    if has_loops(function) or any(value is named_part for value in named(function)):
        return True
    if not any(step.opname in _WRITES for step in dis.get_instructions(function.__code__)):
        return False
    from pto.language.rewrite_source import writes_parameters  # reads text: seldom needed

    return writes_parameters(function)


def has_lists(values: tuple) -> bool:
    """Says whether an argument is a list of arrays."""
    return any(isinstance(value, list) and value and hasattr(value[0], "shape") for value in values)


class Program(Tools):
    """A compiled program; call it as the Python function."""

    def __init__(self, function: types.FunctionType, compiled: Callable[[Callable], Any]):
        import inspect

        from pto.language.rewrite_source import has_branches, rewritten

        self.make = compiled
        self.of_lists: dict[tuple, Program] = {}  # by the lengths of lists: lists.py
        changes = has_loops(function) or has_branches(function)
        self.rewritten = rewritten(function) if changes else function
        self.compiled = compiled(function)
        self.compiled.rewritten = self.rewritten
        self.signature = inspect.signature(function, follow_wrapped=False)
        functools.update_wrapper(self, function)

    def take_kinds(self, kinds: dict[str, Any]) -> None:
        """Sets what annotations say of the parameters."""
        self.compiled.take_kinds(kinds)
        self.constant_parameters = self.compiled.constant_parameters

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(value, _OTHERS):
                return self._call_otherwise(args, kwargs)
        found = self.compiled(*args, **kwargs)
        if found is None:  # most calls: all was computed in the arguments
            return None
        return finish(self.__name__, self.signature, found, args, kwargs)

    def bound_call(self, /, *args: Any, **kwargs: Any) -> object | None:
        """The call as one that can be made again without Python: see _core.Callable."""
        return self.compiled.bound_call(*args, **kwargs)

    def _call_otherwise(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call with a list, or in a function that is being traced."""
        values = (*args, *kwargs.values())
        if any(isinstance(value, Tensor) for value in values):
            bound = bound_to(self, self.signature, args, kwargs)
            bound.apply_defaults()
            return inside(self.compiled, self.rewritten)(*bound.args, **bound.kwargs)
        if has_lists(values):
            return self._call_with_lists(args, kwargs)
        return finish(self.__name__, self.signature, self.compiled(*args, **kwargs), args, kwargs)

    def _call_with_lists(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        program, flat = self.with_flat_lists(args, kwargs)
        return program(*flat)

    def with_flat_lists(self, args: tuple, kwargs: dict[str, Any]) -> tuple["Program", list]:
        """The program of the tensors of lists one by one, and these."""
        from pto.language.lists import flattened
        from pto.language.rewrite_source import definition_of

        values = args
        if kwargs:
            bound = self._bound_lists(args, kwargs)
            bound.apply_defaults()
            values = tuple(bound.arguments.values())
        counts = tuple(len(value) if has_lists((value,)) else None for value in values)
        if counts not in self.of_lists:
            parameters = self.signature.parameters.values()
            names = [one.name for one in parameters]
            required = sum(one.default is one.empty for one in parameters)
            text = definition_of(self.__wrapped__)
            flat = flattened(self.rewritten, text, names, required, counts)
            self.of_lists[counts] = Program(flat, self.make)
        flat = [one for value, count in zip(values, counts, strict=True)
                for one in (value if count is not None else [value])]  # fmt: skip
        return self.of_lists[counts], flat

    def _bound_lists(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Binds a call with lists and names; raises InvalidType where a parameter has none or two
        arguments."""
        try:
            return self.signature.bind(*args, **kwargs)
        except TypeError as error:
            names = ", ".join(self.signature.parameters)
            raise InvalidType(
                f"{self.__name__}: lists of tensors and arguments by name: {error}",
                f"beside a name each list is the argument of one parameter; they are {names}",
                "give each parameter a list or a tensor, or pass all without names",
                user_line(),
            ) from None

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> str:
        return self.__qualname__  # by name, as a Python function

    def __repr__(self) -> str:
        return f"<pto.jit program {self.__name__}>"

    def plain(self, args: tuple, kwargs: dict[str, Any]) -> tuple["Program", tuple, dict[str, Any]]:
        if not has_lists((*args, *kwargs.values())):
            return self, args, kwargs
        program, flat = self.with_flat_lists(args, kwargs)
        return program, tuple(flat), {}

    def with_compiled(self, compiled: Any) -> "Program":
        """The same program around another compiled part."""
        made = object.__new__(Program)
        made.__dict__.update(self.__dict__)
        made.compiled = compiled
        return made

    def recorded_form(self) -> "Program":
        """The program as one that tells a recording of its statements."""
        return self.with_compiled(self.compiled.recorded_form())

    def jit_of(self, calls: list[tuple[tuple, dict]]) -> Any:
        """The function that is compiled for such calls."""
        return self.compiled

    def package(self, path: Any, *examples: Any, texts: bool = False) -> None:
        """Saves the program compiled for such calls, to be loaded by pto.load(): package.py."""
        self.compiled.package(path, *examples, texts=texts)

    def warm(self, *args: Any, **kwargs: Any) -> "Program":
        """Prepares calls with such arguments without running one."""
        self.compiled.warm(*args, **kwargs)
        return self
