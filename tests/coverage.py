# SPDX-License-Identifier: Apache-2.0
"""Lists forms and types of the instruction tables that no test ran: python tests/coverage.py FOLDER

FOLDER holds a file for each target that ran (tests/isa_coverage.hpp writes them). Prints a line for
each form and type that is missing there and ends with 1 if there is one; --all prints every form
with its types and the targets that ran them.
"""

import argparse
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "pto/isa"))
import table  # noqa: E402

Key = tuple[str, str, str]


def ran(folder: Path) -> dict[str, set[Key]]:
    """target -> (mnemonic, operands, types) of what it ran"""
    found = defaultdict(set)
    for file in folder.glob("*.txt"):
        for line in file.read_text().splitlines():
            target, mnemonic, operands, types = line.split("\t")
            found[target].add((mnemonic, operands, types))
    return found


def missing(found: dict[str, set[Key]]) -> list[tuple[str, Key]]:
    return [
        (target, key)
        for form in table.forms()
        for types in form.types
        for target, seen in sorted(found.items())
        if (key := (form.mnemonic, form.operands, types)) not in seen
    ]


def show_all(found: dict[str, set[Key]]) -> None:
    for form in table.forms():
        by_target = {
            target: [t for t in form.types if (form.mnemonic, form.operands, t) in seen]
            for target, seen in sorted(found.items())
        }
        status = ", ".join(f"{t} {len(r)}/{len(form.types)}" for t, r in by_target.items())
        print(f"{form.mnemonic:18} ({form.operands})  [{' '.join(form.types)}]  {status}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--all", action="store_true", help="print every form with its status")
    arguments = parser.parse_args()
    found = ran(arguments.folder)
    if not found:
        print(f"{arguments.folder} holds no record of a run: run the isa_* tests first (ctest)")
        return 1
    if arguments.all:
        show_all(found)
    gaps = missing(found)
    for target, (mnemonic, operands, types) in gaps:
        print(f"no test ran {mnemonic}({operands}) on {types} for the target {target}")
    total = sum(len(form.types) for form in table.forms())
    print(f"{total} forms and types, {len(found)} targets, {len(gaps)} not run")
    return int(bool(gaps))


if __name__ == "__main__":
    sys.exit(main())
