# SPDX-License-Identifier: Apache-2.0
"""The surface as data: each name's overloads, slots, types, and why it has no row or no kernel.

    surface(["add"])["add"]["overloads"]["Tensor"]["slots"]      # {"0": "tile", "8": "aten"}

`surface.json` holds it for the required names (tests/aten_names.txt), with the number of samples
that the tests call each overload with; `./dev docs` writes it and the table of docs/aten.md.
Thread safety: pure functions.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pto.aten.implementations import ATEN, implementations
from pto.aten.records import Record, library
from pto.aten.rows import Row, row_of
from pto.aten.wins import is_faster, losses, profile, table

FILE = Path(__file__).with_name("surface.json")
NO_KERNEL = "PyTorch has no kernel of it for dense tensors of the CPU"


@functools.cache
def recorded() -> Mapping[str, Any]:
    """The surface that the package was tested with, read from surface.json."""
    return json.loads(FILE.read_text())


def records_of(names: Sequence[str]) -> dict[str, list[Record]]:
    """The overloads of each name, and those with `out` of the base names of names in place.

    add_ has no overload with `out`: `add.out` writes its result elsewhere.
    """
    found = {name: list(library().records(name)) for name in names}
    in_place = [name for name in names if name.endswith("_") and not name.endswith("__")]
    for base in {name.removesuffix("_") for name in in_place} - found.keys():
        if outs := [one for one in library().records(base) if one.outputs]:
            found[base] = outs
    return dict(sorted(found.items()))


def surface(names: Sequence[str], samples: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Each name's overloads, and why it has no slot of ours, or none at all.

    `samples` says how many calls of an overload, by full name, the tests make.
    """
    from pto.aten.table import LEFT  # the table of rows reads this package

    found = {}
    for name, records in records_of(names).items():
        overloads = {r.overload or "default": _overload(r, samples or {}) for r in records}
        about: dict[str, Any] = {"overloads": overloads}
        if not any(one["slots"] for one in overloads.values()):
            about["reason"] = NO_KERNEL
        elif name in LEFT:
            about["reason"] = f"no row: {LEFT[name]}"
        found[name] = about
    return found


def _overload(record: Record, samples: Mapping[str, int]) -> dict[str, Any]:
    slots = {str(one.slot): one.name for one in implementations(record) if one.slot != ATEN}
    about: dict[str, Any] = {"schema": record.schema, "platforms": ["cpu"], "slots": slots}
    if record.cpu:
        slots[str(ATEN)] = "aten"
    if record.full_name in samples:
        about["samples"] = samples[record.full_name]
    row = row_of(record.full_name)
    if row is not None:
        about |= {"types": list(row.types), "ulp": row.ulp, "takes_over": takes_over(row)}
    return about


def takes_over(row: Row) -> dict[str, list[str]]:
    """The element types for which a row takes calls by itself, by target."""
    found = {}
    for column, cells in sorted(table().items()):
        ratios = cells.get(row.base or row.overload, {})
        if kinds := sorted(kind for kind, cell in ratios.items() if is_faster(cell)):
            found[column] = kinds
    return found


def text(found: Mapping[str, Any]) -> str:
    """The JSON, a line a name."""
    lines = [f"{json.dumps(name)}: {json.dumps(about)}" for name, about in found.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def page(found: Mapping[str, Any]) -> str:
    """The table of docs/aten.md: a line a name."""
    lines = [
        "| name | overloads | ours | types | takes over | samples | reason |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, about in found.items():
        overloads = about["overloads"].values()
        ours = [one for one in overloads if "0" in one["slots"]]
        types = ", ".join(sorted({t for one in ours for t in one["types"]}, key=_by_kind))
        columns: dict[str, set[str]] = {}
        for one in ours:
            for column, kinds in one["takes_over"].items():
                columns.setdefault(column, set()).update(kinds)
        over = "; ".join(f"{c}: {', '.join(sorted(k, key=_by_kind))}" for c, k in columns.items())
        samples = sum(one.get("samples", 0) for one in overloads)
        lines.append(
            f"| `{name}` | {len(overloads)} | {len(ours) or ''} | {_short(types)} | {_short(over)}"
            f" | {samples or ''} | {about.get('reason', '')} |"
        )
    return "\n".join(lines) + "\n"


def kept_page() -> str:
    """The table of the rows that were measured and leave calls to ATen: a line a row."""
    lines = ["| row | least ratio | where it is, and what binds |", "|---|---|---|"]
    for column, cells in sorted(losses().items()):
        for name, kinds in sorted(cells.items()):
            for kind in sorted(kinds, key=_by_kind):
                ratio, why = min(table()[column][name][kind]), profile(column, name, kind)
                lines.append(f"| `{name}`, {_short(kind)}, {column} | {ratio:.2f} | {why} |")
    return "\n".join(lines) + "\n"


def _by_kind(kind: str) -> tuple[bool, str]:
    return "float" not in kind, kind


def _short(text: str) -> str:
    for kind, short in (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i")):
        text = text.replace(kind, short)
    return text
