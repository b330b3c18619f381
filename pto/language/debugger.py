# SPDX-License-Identifier: Apache-2.0
"""pdb in a jitted function that runs in steps: pto.breakpoint() of debug.py."""

import bdb
import pdb
import sys
from types import FrameType
from typing import Any

from pto.language.location import is_users
from pto.language.stepping import Steps


class Debugger(pdb.Pdb):
    """pdb, for which the names of tensors stand for their values."""

    def __init__(self, steps: Steps):
        super().__init__(skip=["pto", "pto.*"])
        self.steps = steps

    def stop_at(self, frame: FrameType) -> None:
        """Stops now, at the line that the frame is at; set_trace() would at the next one."""
        self.reset()
        frames = [frame]
        while frames[-1].f_back is not None:
            frames.append(frames[-1].f_back)
        self.botframe = frames[-1]
        self.interaction(frame, None)
        if self.quitting:
            raise bdb.BdbQuit
        if self.stoplineno != -1 or self.breaks:  # not `continue`: it goes on line by line
            for one in frames:
                one.f_trace = self.trace_dispatch
            sys.settrace(self.trace_dispatch)

    def setup(self, f: Any, tb: Any) -> None:
        super().setup(f, tb)
        self._show_values()

    def _select_frame(self, number: int) -> None:
        super()._select_frame(number)  # type: ignore[misc]  of up and down
        self._show_values()

    def _show_values(self) -> None:
        names: dict[str, Any] = {}
        for frame, _ in reversed(self.stack[: self.curindex + 1]):
            names = frame.f_locals | names
            if not frame.f_code.co_name.startswith("__pto_"):  # the body of a loop or branch
                break
        self.curframe_locals = {name: self._value(value) for name, value in names.items()}

    def get_stack(self, f: Any, t: Any) -> tuple[list, int]:
        """The frames of the user's functions alone, for `u` and `d`."""
        stack, at = super().get_stack(f, t)
        kept = [one for one in stack if one[0] is f or is_users(one[0].f_code.co_filename)]
        return kept, kept.index(stack[at])

    def _value(self, value: Any) -> Any:
        try:
            return self.steps.shown(value)
        except Exception:  # noqa: BLE001 what has no value keeps its text
            return value
