# SPDX-License-Identifier: Apache-2.0
"""Says how much memory this process may use: the machine's, or its control group's if less.

memory_limit()        # bytes
"""

import os
from collections.abc import Iterator
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def memory_limit(groups: str | None = None, root: Path = _CGROUPS) -> int:
    """`groups`: the text of /proc/self/cgroup; `root`: where control groups are mounted."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_limits(_own_groups() if groups is None else groups, root)])


def _own_groups() -> str:
    try:
        return Path("/proc/self/cgroup").read_text()
    except OSError:
        return ""


def _limits(groups: str, root: Path) -> Iterator[int]:
    """The limits of the process's groups, of either version, and of the groups around them."""
    for line in groups.splitlines():
        _, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if controllers == "":
            yield from _upwards(root, path, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _upwards(root / "memory", path, "memory.limit_in_bytes")


def _upwards(mount: Path, path: str, name: str) -> Iterator[int]:
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for depth in range(len(parts), -1, -1):
        try:
            text = mount.joinpath(*parts[:depth], name).read_text().strip()
        except OSError:
            continue
        if text.isdigit() and int(text) > 0:  # "max" is no limit
            yield int(text)
