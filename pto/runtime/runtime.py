# SPDX-License-Identifier: Apache-2.0
"""Runtime: the one class that users make; its level chooses the engine behind it.

with pto.Runtime(level="chip", platform="cpu", device=0) as rt: ...
"""

import importlib
from collections.abc import Iterable
from typing import Any

from pto.errors import InvalidType, InvalidValue

_LEVELS = {  # module and class
    "chip": ("pto.runtime.chip", "ChipRuntime"),
    "host": ("pto.runtime.host_runtime", "HostRuntime"),
}


class Runtime:
    """Registers programs and runs them.

    Level "chip": pto.runtime.chip; level "host": pto.runtime.host_runtime.
    """

    level = ""

    def __new__(cls, level: str = "chip", **options: Any) -> "Runtime":
        if cls is not Runtime:
            return super().__new__(cls)
        name = level.lower() if isinstance(level, str) else level
        if name not in _LEVELS:
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
    """Raises TypeError, with those that exist, where there is an unknown keyword."""
    for name in unknown:
        raise InvalidType(
            f"{call}: unknown keyword {name!r}",
            f"supported: {', '.join(supported)}",
            "take one of these; a keyword that nobody reads would be lost silently",
        )
