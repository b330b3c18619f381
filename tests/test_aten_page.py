# SPDX-License-Identifier: Apache-2.0
"""docs/aten.md names what is there; test_pages.py runs its code."""

import re
from pathlib import Path

import pto.aten
from pto.aten import surface, wins
from pto.aten.rows import forms
from pto.aten.table import ROWS

TEXT = (Path(__file__).parents[1] / "docs/aten.md").read_text(encoding="utf-8")


def test_the_names_without_a_kernel_are_those_of_the_page():
    text = TEXT.partition("a call says so:")[2].partition(". PyTorch")[0]
    for name in re.findall(r"`(\w+)`", text):
        assert not any(o.record.cpu for o in pto.aten.family(name).overloads.values()), name


def test_the_table_of_names_and_its_json_are_those_of_the_rows():
    recorded = surface.recorded()
    names = (Path(__file__).parent / "aten_names.txt").read_text().split()
    counts = {
        (name if variant == "default" else f"{name}.{variant}"): one["samples"]
        for name, about in recorded.items()
        for variant, one in about["overloads"].items()
        if "samples" in one
    }
    assert surface.text(surface.surface(names, counts)) == surface.FILE.read_text(), (
        "run ./dev docs"
    )
    assert TEXT.endswith(surface.page(recorded)), "run ./dev docs"
    assert surface.kept_page() in TEXT, "run ./dev docs"
    without = {n for n, about in recorded.items() if about.get("reason") == surface.NO_KERNEL}
    assert len(without) == 6


def test_each_row_that_leaves_calls_to_aten_says_where_it_is_slowest():
    for column, cells in wins.table().items():
        if column not in wins.losses():  # its cells are older than the places
            continue
        kept = {name for name, kinds in cells.items() if min(kinds.get("float32", [1])) < 1}
        places = wins.losses().get(column, {})
        assert kept == {name for name, kinds in places.items() if "float32" in kinds}, column
        for name, kinds in places.items():
            for kind, where in kinds.items():
                assert min(cells[name][kind]) < 1
                assert re.fullmatch(r".* of [\d.]+ GB/s", where), name


def test_every_slot_of_ours_in_the_json_is_a_form_of_a_row_that_the_tests_run():
    tested = {full for row in ROWS.values() for full in forms(row)}
    for name, about in surface.recorded().items():
        for variant, one in about["overloads"].items():
            full = name if variant == "default" else f"{name}.{variant}"
            assert ("0" in one["slots"]) == (full in tested), full


def test_an_overload_with_an_active_slot_has_samples():
    without = [
        f"{name}.{variant}"
        for name, about in surface.recorded().items()
        for variant, one in about["overloads"].items()
        if one["slots"] and not one.get("samples")
    ]
    assert not without, "write calls of these in aten_samples_by_overload.py"
