# SPDX-License-Identifier: Apache-2.0
"""Threads that a runtime starts handle no signal: a handler of Python runs in the main thread."""

import signal
from pathlib import Path

import pytest

import pto


def blocked_signals() -> dict[str, int]:
    """The mask of blocked signals of each thread of this process."""
    found = {}
    for status in Path("/proc/self/task").glob("*/status"):
        (line,) = [x for x in status.read_text().splitlines() if x.startswith("SigBlk")]
        found[status.parent.name] = int(line.split()[1], 16)
    return found


@pytest.mark.parametrize("options", [
    {"level": "host", "devices": [0, 1], "memory": 1 << 26}, {"level": "chip", "workers": 2},
])  # fmt: skip
def test_threads_of_a_runtime_handle_no_signal(options):
    before = blocked_signals()
    with pto.Runtime(**options):
        made = {name: mask for name, mask in blocked_signals().items() if name not in before}
    wanted = sum(1 << (number - 1) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM))
    assert all(mask & wanted == wanted for mask in made.values())
    assert made or options["level"] == "chip"
