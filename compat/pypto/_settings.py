# SPDX-License-Identifier: Apache-2.0
"""Settings of that package that ask for what options of the language do.

    options_of({"vec_nbuffer_setting": {-1: 4}})    # {"tiles_per_task": 4}

Thread safety: pure functions.
"""

from typing import Any

TASKS = ("vec_nbuffer_setting", "cube_nbuffer_setting", "cube_l1_reuse_setting")
ORDER = "device_sched_mode"
_ORDERS = {0: "submitted", 1: "depth", 2: "longest", 3: "depth"}
NESTED = ("pass_options", "runtime_options")


def flat(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with those of dicts in them."""
    inside = [value for key, value in settings.items() if key in NESTED and isinstance(value, dict)]
    return settings | {key: value for one in inside for key, value in one.items()}


def options_of(settings: dict[str, Any]) -> dict[str, Any]:
    """How many parts of one kind are one task, the most that is asked for; and their order."""
    given = flat(settings)
    counts = [_count(given[name]) for name in TASKS if name in given]
    found: dict[str, Any] = {"tiles_per_task": max(counts)} if max(counts, default=0) > 0 else {}
    return found | ({"order": _ORDERS[given[ORDER]]} if given.get(ORDER) in _ORDERS else {})


def _count(value: Any) -> int:
    """The number for all parts, or else the largest for one."""
    if isinstance(value, dict):
        value = value[-1] if -1 in value else max(value.values(), default=0)
    return value if isinstance(value, int) else 0
