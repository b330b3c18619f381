# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of docs/aten.md and pto/aten/surface.json: ./dev docs

The samples are those of the deep run of tests/test_aten_samples.py, made here once more, and for
overloads with a row those of tests/test_aten_rows.py.
"""

import sys
from collections import Counter
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent), str(DOCS.parent / "tests")]

from aten_samples import samples  # noqa: E402

from pto.aten import surface  # noqa: E402

MARK = "## Each row that ATen keeps\n"
KEPT = """
`./dev docs` writes this table of the rows that were measured and do not take over: the least ratio
of ATen's time to ours, the call that has it, and the bytes that ours and ATen's move there.

"""
NAMES = "## Each name\n"
INTRO = """
`./dev docs` writes this table, and `pto/aten/surface.json` with the same content. `ours` counts the
overloads with a row of the tile language in slot 0, `types` are those of its tensors; `takes over`
says by target for which types it was measured to be faster; `samples` counts calls of the tests.

"""
SEED = 20261126  # that of tests/test_aten_samples.py


def main() -> int:
    names = (DOCS.parent / "tests/aten_names.txt").read_text().split()
    counted = Counter(sample.record.full_name for sample in samples(SEED, 1))
    found = surface.surface(names, counted)
    surface.FILE.write_text(surface.text(found))
    file = DOCS / "aten.md"
    by_hand = file.read_text().partition(MARK)[0].partition(NAMES)[0]
    kept = MARK + KEPT + surface.kept_page() + "\n"
    file.write_text(by_hand + kept + NAMES + INTRO + surface.page(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
