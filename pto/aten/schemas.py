# SPDX-License-Identifier: Apache-2.0
"""Compares the schemas of the installed PyTorch with those that this surface was tested with.

    pto.aten.differences()      # Differences(tested="2.13.0", installed="2.14.0", added=[...], ...)

`schemas_2_13_0.txt` has a line for each name: its overloads, each with a digest of its schema.
Thread safety: pure functions.
"""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from pto.aten.records import library

TESTED = "2.13.0"
_TABLE = Path(__file__).with_name("schemas_2_13_0.txt")


@dataclass(frozen=True)
class Differences:
    """Full names of overloads, as "add.out", by which the installed PyTorch differs."""

    tested: str
    installed: str
    added: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.added or self.dropped or self.changed)


def differences() -> Differences:
    """The overloads by which the installed PyTorch differs from the tested one."""
    then, now = _read(_TABLE.read_text()), _installed()
    return Differences(
        TESTED,
        library().version,
        added=sorted(now.keys() - then.keys()),
        dropped=sorted(then.keys() - now.keys()),
        changed=sorted(name for name in now.keys() & then.keys() if now[name] != then[name]),
    )


def table() -> str:
    """The text of the table for the installed PyTorch."""
    lines: dict[str, list[str]] = {}
    for full, digest in sorted(_installed().items()):
        name, _, overload = full.partition(".")
        lines.setdefault(name, []).append(f"{overload}:{digest}")
    return "".join(f"{name} {' '.join(several)}\n" for name, several in lines.items())


def _installed() -> dict[str, str]:
    records = (record for name in library().names() for record in library().records(name))
    return {r.full_name: hashlib.sha256(r.schema.encode()).hexdigest()[:8] for r in records}


def _read(text: str) -> dict[str, str]:
    found = {}
    for line in text.splitlines():
        name, *overloads = line.split(" ")
        for one in overloads:
            overload, _, digest = one.partition(":")
            found[f"{name}.{overload}" if overload else name] = digest
    return found
