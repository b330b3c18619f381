# SPDX-License-Identifier: Apache-2.0
"""Runtime: the one class that users make; its level chooses the engine behind it.

with pto.Runtime(level="chip", platform="cpu", device=0) as rt: ...
"""

import importlib
from collections.abc import Iterable
from typing import Any

from pto.errors import InvalidType, InvalidValue

_LEVELS = {"chip": ("pto.runtime.chip", "ChipRuntime")}  # module and class


class Runtime:
    """Registers programs and runs them; see pto.runtime.chip for level "chip"."""

    level = ""

    def __new__(cls, level: str = "chip", **options: Any) -> "Runtime":
        if cls is not Runtime:
            return super().__new__(cls)
        name = level.lower() if isinstance(level, str) else level
        if name == "host":
            raise InvalidValue(
                "level 'host' is not available in this version",
                "worker processes for several devices are not built yet",
                "take level 'chip': one device, its tasks on all cores",
            )
        if name not in _LEVELS:
            supported = ", ".join(map(repr, _LEVELS))
            raise InvalidValue(
                f"unknown level {level!r}", f"supported: {supported}", "take one of these"
            )
        module, kind = _LEVELS[name]
        return super().__new__(getattr(importlib.import_module(module), kind))

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> "Runtime":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def refuse_unknown(call: str, unknown: Iterable[str], supported: Iterable[str]) -> None:
    """Raises TypeError, with those that exist, where there is an unknown keyword."""
    for name in unknown:
        raise InvalidType(
            f"{call}: unknown keyword {name!r}",
            f"supported: {', '.join(supported)}",
            "take one of these; a keyword that nobody reads would be lost silently",
        )
