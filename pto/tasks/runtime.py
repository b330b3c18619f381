# SPDX-License-Identifier: Apache-2.0
"""Runtime: the one class that users make; its level chooses the engine behind it.

with pto.Runtime(level="chip", platform="cpu", device=0) as rt: ...
"""

import importlib
import os
from collections.abc import Iterable, Mapping
from typing import Any

from pto.errors import Failure, InvalidType, InvalidValue, UnknownName
from pto.tasks.package import CompiledPackage

_LEVELS = {  # module and class
    "chip": ("pto.tasks.chip", "ChipRuntime"),
    "host": ("pto.tasks.host_runtime", "HostRuntime"),
}


class Runtime:
    """Registers programs and runs them.

    Level "chip": pto.tasks.chip; level "host": pto.tasks.host_runtime.
    """

    level = ""

    def __new__(cls, level: str = "chip", **options: Any) -> "Runtime":
        if cls is not Runtime:
            return super().__new__(cls)
        name = level.lower() if isinstance(level, str) else level
        if not isinstance(name, str) or name not in _LEVELS:
            supported = ", ".join(map(repr, _LEVELS))
            raise InvalidValue(
                f"unknown level {level!r}", f"supported: {supported}", "take one of these"
            )
        module, kind = _LEVELS[name]
        return super().__new__(getattr(importlib.import_module(module), kind))

    def close(self) -> None:
        """Ends what has not begun and waits for the rest; every later call raises."""

    def __enter__(self) -> "Runtime":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def refuse_unknown(call: str, unknown: Iterable[str], supported: Iterable[str]) -> None:
    """Raises TypeError for an unknown keyword; the text lists the known ones."""
    for name in unknown:
        raise InvalidType(
            f"{call}: unknown keyword {name!r}",
            f"supported: {', '.join(supported)}",
            "take one of these; a keyword that nobody reads would be lost silently",
        )


def refuse_fork(process: int) -> None:
    """Raises Failure in a process that was forked from the one that made the runtime."""
    if os.getpid() != process:
        raise Failure(
            "the runtime belongs to the process that made it",
            "this one was forked from it, without its threads and workers",
            "make a Runtime here",
        )


def registered(programs: Mapping[str, Any], name: str) -> Any:
    """The program of that name; UnknownName, with the known names, if there is none."""
    if not isinstance(name, str):
        raise InvalidType(
            f"run: the name {name!r:.60} is a {type(name).__name__}",
            "programs are registered under a str",
            "pass the name that register() got",
        )
    if name in programs:
        return programs[name]
    raise UnknownName(
        f"nothing is registered under {name!r}",
        f"registered: {', '.join(map(repr, list(programs))) or 'none'}",
        "register it first, or take one of these",
    )


def check_platform_of(package: CompiledPackage, platform: str, what: str) -> None:
    """Raises InvalidValue for a package of another platform."""
    if package.platform != platform:
        raise InvalidValue(
            f"register: {what} was compiled for {package.platform}, this runtime is {platform}",
            "platforms differ in what their cores hold",
            f"compile it with platform={platform!r}",
        )
