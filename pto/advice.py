# SPDX-License-Identifier: Apache-2.0
"""Advice: the changes that would make a run shorter, by simulation, in reports of all kinds.

    best(duration, [("split", "parts half as large", 0.9 * duration)])[0].gain    # 0.1

Thread safety: plain values.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pto.units import time_text

_CHANGES = 3
_LEAST_GAIN = 0.01  # of the run; less is noise


@dataclass(frozen=True)
class Change:
    """A change that would make a run shorter. `gain` is the share of the run that it saves."""

    kind: str
    what: str
    gain: float
    predicted_s: float


def best(duration_s: float, found: Iterable[tuple[str, str, float]]) -> tuple[Change, ...]:
    """The best few of (kind, what, seconds with it), where the run took `duration_s`."""
    changes = [Change(kind, what, 1 - with_it / duration_s, with_it)
               for kind, what, with_it in found]  # fmt: skip
    changes.sort(key=lambda one: one.predicted_s)
    return tuple(one for one in changes[:_CHANGES] if one.gain >= _LEAST_GAIN)


def change_lines(changes: tuple[Change, ...]) -> list[str]:
    if not changes:
        return ["  no single change would help, by simulation"]
    lines = ["  what would help most, by simulation:"]
    for one in changes:
        lines.append(f"  {one.gain:5.0%} less with {one.what}: {time_text(one.predicted_s)}")
    return lines
