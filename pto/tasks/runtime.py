# SPDX-License-Identifier: Apache-2.0
"""Runtime: the one class that users make; its level chooses the engine behind it.

with pto.Runtime(level="chip", platform="cpu", device=0) as rt: ...
"""

import importlib
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from pto.errors import InvalidType, InvalidValue, UnknownName
from pto.tasks.package import CompiledPackage
from pto.tasks.report import TraceReport
from pto.tasks.run import RunQueue, refuse_fork
from pto.tasks.tracing import Tracing

if TYPE_CHECKING:
    from pto.tasks.chip import ChipRuntime
    from pto.tasks.host_runtime import HostRuntime

R = TypeVar("R", bound="Runtime")
_LEVELS = {  # module and class
    "chip": ("pto.tasks.chip", "ChipRuntime"),
    "host": ("pto.tasks.host_runtime", "HostRuntime"),
}


class Runtime:
    """Registers programs and runs them.

    Level "chip": pto.tasks.chip; level "host": pto.tasks.host_runtime.
    """

    level = ""
    _process: int  # that made it
    _queue: RunQueue
    _tracing: Tracing

    @overload
    def __new__(cls, level: Literal["chip"] = "chip", **options: Any) -> "ChipRuntime": ...
    @overload
    def __new__(cls, level: Literal["host"], **options: Any) -> "HostRuntime": ...
    def __new__(cls, level: str = "chip", **options: Any) -> "Runtime":
        if cls is not Runtime:
            return super().__new__(cls)
        name = level.lower() if isinstance(level, str) else level
        if not isinstance(name, str) or name not in _LEVELS:
            supported = ", ".join(map(repr, _LEVELS))
            raise InvalidValue(
                f"unknown level {level!r}",
                "the level says where tasks run",
                f"pass one of {supported}",
            )
        module, kind = _LEVELS[name]
        return super().__new__(getattr(importlib.import_module(module), kind))

    def trace(self, path: str | os.PathLike | None, level: int = 1) -> None:
        """Runs and replays that begin from now on are traced: each writes its trace to `path`.

        The file opens in Perfetto and chrome://tracing: a lane a worker, at level host a device.
        `level`: 0 counts calls, 1 keeps a record of each task, 2 of each submission too, 3 of each
        edge too, which is drawn as an arrow. The path None ends it.
        """
        self._check_usable()
        self._tracing.set(path, level)

    def report(self) -> TraceReport:
        """Reports how the last traced run or replay spent its time, and what would help."""
        return self._tracing.report()

    def close(self) -> None:
        """Ends what has not begun and waits for the rest; every later call but close() raises."""

    def _check_usable(self) -> None:
        refuse_fork(self._process)
        self._queue.check_open()

    def __enter__(self: R) -> R:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def refuse_unknown(call: str, unknown: Iterable[str], supported: Iterable[str]) -> None:
    """Raises TypeError for an unknown keyword; the text lists the known ones."""
    for name in unknown:
        raise InvalidType(
            f"{call}: unknown keyword {name!r}",
            "pto does not ignore keywords that it does not read",
            f"leave it out, or use one of {', '.join(supported)}",
        )


def check_program_name(name: Any) -> None:
    """Raises TypeError for what is no name of a program."""
    if not isinstance(name, str) or not name:
        raise InvalidType(
            f"register: the name is {name!r}",
            "a program has a str as its name",
            "pass a str that is not empty",
        )


def registered(programs: Mapping[str, Any], name: str) -> Any:
    """The program of that name; UnknownName, with the known names, if there is none."""
    if not isinstance(name, str):
        raise InvalidType(
            f"run: the name {name!r:.60} is of type {type(name).__name__}",
            "the name of a program is a str",
            "pass the name that register() got",
        )
    if name in programs:
        return programs[name]
    raise UnknownName(
        f"nothing is registered under {name!r}",
        f"registered: {', '.join(map(repr, list(programs))) or 'none'}",
        "register it first, or run a program of that list",
    )


def check_platform_of(package: CompiledPackage, platform: str, what: str) -> None:
    """Raises InvalidValue for a package of another platform."""
    if package.platform != platform:
        raise InvalidValue(
            f"register: {what} was compiled for {package.platform}, this runtime is {platform}",
            "cores of different platforms hold different amounts of memory",
            f"compile it with platform={platform!r}",
        )
