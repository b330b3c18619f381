# SPDX-License-Identifier: Apache-2.0
"""Trace: runs a Python function on symbolic tensors and keeps what it computes as a Graph.

    trace = Trace("double")
    x = trace.input("x", "f32", (Dim.symbol(0), 384))
    graph, form = trace.finish(x * 2)

Thread safety: a trace belongs to one thread; several may run at once.
"""

import os
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import NoReturn

from pto import _core
from pto.errors import Error, InvalidType, InvalidValue, working_folder
from pto.language.dtypes import dtype as element_type
from pto.language.results import Form, taken_apart
from pto.language.tensor import Tensor

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_OURS = os.path.dirname(os.path.dirname(_HERE)) + os.sep


def traced_line() -> tuple[str, int]:
    """File and line of the innermost frame outside this folder: what a node stands for."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return shown(frame.f_code.co_filename), frame.f_lineno


def user_line() -> str:
    """ "file.py:12" of the innermost frame that is neither ours nor PyTorch's: whose mistake it is.

    "" where there is none: a framework called from a thread of its own.
    """
    frame = sys._getframe(1)
    while frame is not None and not _is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{shown(frame.f_code.co_filename)}:{frame.f_lineno}" if frame else ""


def _is_users(file: str) -> bool:
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    theirs = torch and file.startswith(os.path.dirname(torch) + os.sep)
    return not (file.startswith(_OURS) or theirs)


def shown(file: str) -> str:
    """A path as errors and graphs show it: from the working folder, where it lies in there.

    Our own files begin with "<pto>": no error calls them the place of a user's mistake.
    """
    if file.startswith(_OURS):
        return f"<pto>/{file.removeprefix(_OURS)}"
    folder = working_folder()
    return file.removeprefix(folder + os.sep) if folder else file


def line_of(error: BaseException) -> str:
    """The innermost line of the user's through which an error passed, "file.py:12", or ""."""
    line, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if _is_users(file):
            line = f"{shown(file)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return line


def without_our_frames(error: BaseException) -> BaseException:
    """The error, its traceback only of the user's lines."""
    frames, trace = [], error.__traceback__
    while trace is not None:
        if _is_users(trace.tb_frame.f_code.co_filename):
            frames.append(trace)
        trace = trace.tb_next
    for frame in reversed(frames):
        trace = TracebackType(trace, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return error.with_traceback(trace)


def fail(what: str, why: str, fix: str, kind: type[Error] = InvalidValue) -> NoReturn:
    """Raises an Error that names the user's line."""
    raise kind(what, why, fix, user_line())


class Trace:
    """One tracing: inputs first, then the operations that its Tensors record, then `finish`."""

    def __init__(self, name: str):
        self.name = name
        self.builder = _core.GraphBuilder(name)
        self.open = True
        self.has_numbers = False  # parameters that may turn out to steer: call_numbers.py

    def here(self) -> _core.GraphBuilder:
        """The builder, told the user's line, for the node that is recorded next."""
        if not self.open:
            fail(
                f"a traced tensor of {self.name} was used after its tracing ended",
                "a traced tensor stands for a value inside one compiled function only",
                "return it from the function; don't keep it in a variable outside",
                InvalidType,
            )
        self.builder.set_location(*traced_line())
        return self.builder

    def input(self, name: str, dtype: object, shape: Sequence) -> Tensor:
        """A tensor parameter; sizes are int, or Dim where known only at the call."""
        return Tensor(
            self, self.builder.input(name, str(element_type(dtype)), tuple(shape)), is_input=True
        )

    def scalar(self, name: str, dtype: object) -> Tensor:
        """A number given at each call; it takes the element type of what it meets."""
        return Tensor(self, self.builder.scalar(name, str(element_type(dtype))), weak=True)

    def outputs_of(self, result: object) -> tuple[list[Tensor], Form]:
        """The tensors of `result`, one or a container of them, and how they stand in it.

        Raises InvalidType where one was never computed by the function.
        """
        outputs, form = taken_apart(result)
        if not outputs:
            self._not_computed(f"an empty {'dict' if form.kind is dict else 'sequence'}", "")
        for place, output in enumerate(outputs):
            if not isinstance(output, Tensor) or output.trace is not self:
                self._not_computed(describe(output), "" if form.is_leaf else f"output {place} ")
        return outputs, form

    def finish(self, result: object) -> tuple[_core.Graph, Form]:
        """The graph that returns `result`, and its form; see outputs_of()."""
        outputs, form = self.outputs_of(result)
        for output in outputs:
            self.builder.output(output.value)
        self.open = False
        return self.builder.build(), form

    def _not_computed(self, found: str, which: str) -> NoReturn:
        raise InvalidType(
            f"{self.name} returned {which or ''}{found}, which it did not compute",
            "every output is a tensor computed from the inputs; what is not returned is lost",
            "return the result, a tensor, or a tuple, list or dict of tensors",
        )


def describe(value: object) -> str:
    """A value in an error message: its kind, and its text where that is short."""
    if value is None:
        return "None"
    if isinstance(value, bool | int | float | str):
        return f"the {type(value).__name__} {value!r}"[:60]
    return f"a value of type {type(value).__module__}.{type(value).__qualname__}"
