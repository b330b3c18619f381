# SPDX-License-Identifier: Apache-2.0
"""Goals of programs of the tile language that are not another's time."""

from typing import Any


def roofline(program: Any, *args: Any) -> float:
    """The seconds that no call takes less than here: those of all statements, one after another.

    Each is the larger of reading and computing; see pto/language/rooflines.py.
    """
    found = program.report(*args, repeats=1)
    threads = len(found.workers)
    return sum(
        one.roofline_s * one.calls / (threads if one.step.inside else 1)
        for one in found.statements if one.roofline_s is not None
    )  # fmt: skip
