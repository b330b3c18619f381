# SPDX-License-Identifier: Apache-2.0
"""The findings of the conformance matrix, and its page.

In use:

    write("PyTorch", "gelu", {"eager": {"passed": 40, "reasons": []}})   # by the test
    python tests/conformance/report.py                                   # docs/conformance.md
    missing(PAGE.read_text(), ["gelu"])                                  # {"PyTorch": ["gelu"]}
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "conformance"
PAGE = ROOT / "docs" / "conformance.md"
_HEAD = """# The conformance matrix

Every operator of the library in every framework: how many calls gave the expected result, mode by
mode. Made by `./dev test --frameworks`; tests/test_conformance.py says what is compared. Results
have the bits of those on NumPy arrays, subnormals, NaN and infinities included; NumPy's are within
the operator's tolerance of its definition. A number in brackets is that of the reason, listed below
the tables, for which cases were left out.
"""


def write(framework: str, operator: str, cells: dict) -> None:
    """Keeps the cells of one operator in one framework."""
    folder = FOLDER / framework.replace(" ", "_")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{operator}.json").write_text(json.dumps({"framework": framework, "cells": cells}))


def page() -> str:
    """The page of all that was written."""
    tables: dict[str, dict[str, dict]] = {}
    for path in sorted(FOLDER.glob("*/*.json")):
        found = json.loads(path.read_text())
        tables.setdefault(found["framework"], {})[path.stem] = found["cells"]
    parts, reasons = [_HEAD], []
    for framework, rows in tables.items():
        modes = list(next(iter(rows.values())))
        parts.append(f"\n## {framework}\n")
        parts.append("| operator | " + " | ".join(modes) + " |")
        parts.append("|---" * (len(modes) + 1) + "|")
        for operator, cells in rows.items():
            texts = []
            for mode in modes:
                cell = cells[mode]
                marks = []
                for reason in cell["reasons"]:
                    if reason not in reasons:
                        reasons.append(reason)
                    marks.append(f"[{reasons.index(reason) + 1}]")
                texts.append(" ".join([str(cell["passed"] or "–"), *marks]))
            parts.append(f"| {operator} | " + " | ".join(texts) + " |")
    parts.append("\n## Reasons\n")
    parts += [f"{number}. {reason}" for number, reason in enumerate(reasons, 1)]
    return "\n".join(parts) + "\n"


def missing(text: str, operators: Iterable[str]) -> dict[str, list[str]]:
    """The operators that the page has no row for, by framework."""
    found = {}
    for table in text.split("\n## ")[1:-1]:  # the last part is the reasons
        rows = set(re.findall(r"^\| (\w+) \|", table, re.MULTILINE))
        if absent := sorted(set(operators) - rows):
            found[table.partition("\n")[0]] = absent
    return found


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE.relative_to(ROOT))
