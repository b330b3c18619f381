# SPDX-License-Identifier: Apache-2.0
"""Fronts before PyTorch's kernels (fronts.cpp), by the full names of their overloads.

    fronts = Fronts(run)          # run(index, slot, arguments) -> (result, plan): aten_front.cpp
    fronts.install("exp")         # once in a process; a text: why it cannot be
    here = fronts.enter(["exp"])  # on for this thread, until leave(here)

Thread safety: one thread at a time installs, and sets the choice of the process; any may enter.
"""

import ctypes
import functools
from collections.abc import Callable, Collection

from pto.adapters import build as libraries
from pto.adapters.torch import build, direct
from pto.errors import Failure

_ANY_SLOT, _FIRST_SLOT = 1, 2


class Fronts:
    """The fronts of the process; see records.Fronts. Raises Failure where a part is not built."""

    def __init__(self, run: Callable):
        part = libraries.load(build.fronts())
        runner = direct.aten_runner(run)
        if part is None or runner is None:
            raise Failure(
                "pto.aten.enable needs a part of the adapter that is not built",
                "what stands before PyTorch's kernels is compiled for the PyTorch installed",
                "run: python -m pto adapters build torch",
            )
        self._part = part
        part.pto_aten_front_name.restype = ctypes.c_char_p
        part.pto_aten_front_install.restype = ctypes.c_char_p
        part.pto_aten_front_enter.restype = ctypes.c_int64
        part.pto_aten_front_leave.argtypes = [ctypes.c_int64]
        part.pto_aten_front_runner.argtypes = [ctypes.c_void_p]
        part.pto_aten_front_runner(runner)
        self.names = tuple(map(self._name, range(part.pto_aten_front_count())))
        self._index = {name: i for i, name in enumerate(self.names)}

    def _name(self, index: int) -> str:
        name, overload = (self._part.pto_aten_front_name(index, i).decode() for i in (0, 1))
        return name.removeprefix("aten::") + (f".{overload}" if overload else "")

    def install(self, full_name: str) -> str | None:
        reason = self._part.pto_aten_front_install(self._index[full_name])
        return None if reason is None else reason.decode()

    def forget(self) -> None:
        direct.forget_fronts()
        self._part.pto_aten_front_forget()

    def process(self, names: Collection[str] | None, slot: int | None = None) -> None:
        self._part.pto_aten_front_process(None if names is None else self._wishes(names, slot))

    def enter(self, names: Collection[str], slot: int | None = None) -> int:
        return self._part.pto_aten_front_enter(self._wishes(names, slot))

    def leave(self, entered: int) -> None:
        if self._part.pto_aten_front_leave(entered) != 0:
            raise Failure(
                "pto.aten.enable ends before what began inside it, or in another thread",
                "PyTorch keeps such choices, and its profiler's, as a stack of each thread",
                "end the inner one first, on the thread that began it",
            )

    def _wishes(self, names: Collection[str], slot: int | None) -> ctypes.Array:
        return _wishes(self.names, tuple(names), slot)


@functools.lru_cache(maxsize=64)
def _wishes(fronts: tuple[str, ...], names: tuple[str, ...], slot: int | None) -> ctypes.Array:
    """A Wish of fronts.hpp for each front; those that `names` has not are off."""
    chosen, wish = set(names), _ANY_SLOT if slot is None else _FIRST_SLOT + slot
    return (ctypes.c_uint8 * len(fronts))(*(wish * (name in chosen) for name in fronts))
