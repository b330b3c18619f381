# SPDX-License-Identifier: Apache-2.0
"""pto.print and pto.breakpoint: look at values inside of a jitted function.

    @pto.jit
    def softmax(x):
        e = pto.exp(x - pto.amax(x, -1, keepdim=True))
        pto.print("largest", pto.amax(e))           # largest 1.0
        return e / pto.sum(e, -1, keepdim=True)

A call that meets one of them runs in steps on the interpreter: stepping.py. Every call does so
while pto.config.interpret is True. Thread safety: as a trace.
"""

import builtins
import os
import sys
from types import FrameType
from typing import Any

from pto.errors import InvalidType
from pto.language.location import fail, is_users, traced_line
from pto.language.stepping import NeedsSteps, Steps
from pto.language.trace import current, is_tracing


def print(*values: Any, sep: str = " ", end: str = "\n") -> None:
    """Prints as Python's print() does, tensors as NumPy arrays with their values, sizes as numbers.

    In a loop it prints in each iteration, in a branch only where that is taken. A call that prints
    is interpreted: its results are right, and slow. Raises an Error where a call cannot run in
    steps: explain(), package(), an operator of a framework, a gradient.

    Shapes: any
    Example:
        pto.print("largest", pto.amax(x))
        return pto.maximum(x, y)
    """
    for name, text in (("sep", sep), ("end", end)):
        if not isinstance(text, str):
            raise InvalidType(
                f"pto.print: {name} is {text!r}",
                "it is printed between the values, or behind them",
                f"pass a string, or leave {name} out",
            )
    if not is_tracing():
        builtins.print(*values, sep=sep, end=end)
    elif steps := _steps("print"):
        builtins.print(*map(steps.shown, values), sep=sep, end=end)


def breakpoint() -> None:
    """Enters pdb at this line, where names of tensors stand for NumPy arrays with their values.

    PYTHONBREAKPOINT=0 passes over it. Raises as pto.print does.

    Shapes: those of the lines around it
    Example:
        pto.breakpoint()
        return pto.maximum(x, y)
    """
    if not is_tracing():
        return builtins.breakpoint()
    if (steps := _steps("breakpoint")) and os.environ.get("PYTHONBREAKPOINT") != "0":
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not is_users(frame.f_code.co_filename):
            frame = frame.f_back
        from pto.language.debugger import Debugger  # pdb takes its time to load

        assert frame is not None
        Debugger(steps).stop_at(frame)
    return None


def _steps(name: str) -> Steps | None:
    """The values of the trace; None where the function is only looked over."""
    trace = current(name)
    if trace.is_stepping:
        return trace.steps
    if trace.trials:
        return None
    if trace.steps is not None:
        fail(f"pto.{name} in an expression that chooses what it computes",
             "a statement `if` runs one of its ways, while `a if b else c` is one operation",
             "write it as `if` with statements")  # fmt: skip
    error = NeedsSteps(
        f"pto.{name} is met, and nothing here runs in steps",
        "a kernel computes whole tensors in an order of its own, so a line of Python has no values "
        "there; a plain call is interpreted for it, step by step",
        "call a function under @pto.jit with arrays or plain tensors (x.detach()), and an operator "
        "from such a function; or take the line away",
    )
    file, line = traced_line()
    error.location = f"{file}:{line}"
    raise error
