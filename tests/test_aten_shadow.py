# SPDX-License-Identifier: Apache-2.0
"""pto.aten.shadow and pto.aten.measure: what they see, save, print and write."""

import dataclasses

import ml_dtypes
import numpy as np
import pytest
import torch

import pto.aten
from pto.aten import enabling, measuring, shadowing, wins
from pto.aten.records import library
from pto.aten.rows import _row_of
from pto.aten.shadowing import save_call
from pto.aten.table import ROWS
from pto.config import config

x = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)


def test_a_shadow_sees_our_calls_and_keeps_quiet_where_they_are_near_aten():
    with pto.aten.shadow(["exp", "add"]) as seen:
        pto.aten.exp(x, slot=0)
        pto.aten.add(torch.ones(3), 2, slot=0)
        pto.aten.add_(x.copy(), 2, slot=0)
        pto.aten.log(x + 3, slot=0)  # another name
        pto.aten.exp(x, slot=8)  # ATen itself
    assert seen.calls == 3 and seen.first is None
    pto.aten.exp(x, slot=0)
    assert seen.calls == 3
    with pto.aten.shadow("exp") as seen:  # a text is one name
        pto.aten.exp(x, slot=0)
    assert seen.calls == 1


@pytest.fixture
def wrong(monkeypatch):
    """A row of exp whose results are half as large again."""
    library()  # puts the rows into their slots
    row = dataclasses.replace(_row_of["exp"], formula=lambda self: pto.exp(self) * 1.5)
    monkeypatch.setitem(_row_of["exp"].__dict__, "program", row.program)


@pytest.mark.usefixtures("wrong")
@pytest.mark.parametrize("kind", [np.float32, ml_dtypes.bfloat16])
def test_the_first_call_that_leaves_its_tolerance_is_named_and_can_be_made_again(kind, tmp_path):
    given = x.astype(kind)
    with pytest.warns(UserWarning, match="exp is .* from ATen's result"):  # noqa: SIM117
        with pto.aten.shadow(folder=tmp_path) as seen:
            pto.aten.exp(given, slot=0)
            pto.aten.exp(given, slot=0)
    assert seen.calls == 1 and seen.first.overload == "exp" and seen.first.distance > 1
    overload, values = pto.aten.load_call(seen.first.file)
    assert overload.record.full_name == "exp" and values["self"].tobytes() == given.tobytes()


@pytest.mark.usefixtures("wrong")
def test_each_departure_keeps_its_file_and_a_full_disk_takes_no_result(monkeypatch, tmp_path):
    files = []
    for given in (x, x + 1):
        with pytest.warns(UserWarning), pto.aten.shadow(folder=tmp_path) as seen:
            pto.aten.exp(given, slot=0)
        files.append(seen.first.file)
    for file, given in zip(files, (x, x + 1), strict=True):
        assert np.array_equal(pto.aten.load_call(file)[1]["self"], given)
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        pto.aten.shadow(folder=tmp_path / "nothing").__enter__()

    def full(*args):
        raise OSError("no space left on device")

    monkeypatch.setattr(shadowing, "save_call", full)
    with pytest.warns(UserWarning, match="not saved: no space left"):  # noqa: SIM117
        with pto.aten.shadow(folder=tmp_path) as seen:
            assert pto.aten.exp(x, slot=0).shape == x.shape
    assert seen.first.file == "" and {str(one) for one in tmp_path.iterdir()} == {*files}


def test_lists_numbers_and_types_of_a_saved_call_come_back(tmp_path):
    file = tmp_path / "call.npz"
    values = {"tensors": [x, x * 2], "dim": -1}
    save_call(file, "cat", values)
    overload, found = pto.aten.load_call(file)
    assert np.array_equal(overload(**found), pto.aten.cat([x, x * 2], -1))
    with pytest.raises(FileNotFoundError, match="no such file"):
        pto.aten.load_call(tmp_path / "other.npz")
    with pytest.raises(ValueError, match="tolerance is -1"):
        pto.aten.shadow(tolerance=-1).__enter__()
    with pytest.raises(ValueError, match="tolerance is '2'"):
        pto.aten.shadow(tolerance="2").__enter__()
    with pytest.raises(AttributeError, match="no operator nothing"):
        pto.aten.shadow(["nothing"]).__enter__()


@pytest.fixture
def cells(monkeypatch, tmp_path):
    """A table of what wins, and a file of this machine, that no other test sees."""
    monkeypatch.setattr(wins, "measured_file", lambda: tmp_path / "cells.json")
    monkeypatch.setattr(measuring, "measured_file", lambda: tmp_path / "cells.json")
    monkeypatch.setattr(wins, "table", lambda: table)
    wins.own.cache_clear()
    ratios = {"exp": [1.5], "log": [0.5], "cat": [0.5], "neg": [0.5, 0.5, 2, 3]}
    table = {wins.target(): {name: {"float32": found} for name, found in ratios.items()}}
    yield table
    wins.own.cache_clear()
    config.measured = config.by_size = False


def test_the_table_decides_who_takes_a_call(cells):
    wide = torch.rand(8, 8)
    assert "chosen: slot 0 tile" in pto.aten.explain("exp", x)
    assert "chosen: slot 0 tile" in pto.aten.explain("exp.out", x, out=x.copy())
    assert "not slot 0 tile: ATen takes 0.50 of our time" in pto.aten.explain("log", x)
    assert "nobody has measured" in pto.aten.explain("sin", x)
    assert "nobody has measured" in pto.aten.explain("exp", x.astype(np.float64))
    assert "order of its axes" in pto.aten.explain("exp", wide.T)
    assert "ATen takes 0.50 of our time" in pto.aten.explain("cat", [x, x])
    assert "config.by_size" not in pto.aten.explain("log", x)
    config.target = "avx2"
    try:
        if wins.target() not in cells:
            assert "nobody has measured" in pto.aten.explain("exp", x)
    finally:
        config.target = ""


def test_by_size_a_row_takes_the_sizes_where_it_is_faster(cells):
    few, some, many = (torch.rand(size // 4) for size in (100 << 10, 1 << 20, 5 << 20))
    for x in (few, some, many):
        assert "pto.config.by_size takes the sizes where" in pto.aten.explain("neg", x)
    config.by_size = True
    assert "not slot 0 tile: ATen takes 0.50" in pto.aten.explain("neg", few)
    assert "not slot 0 tile: ATen takes 0.50" in pto.aten.explain("neg", some)  # faster at 4 MB
    assert "chosen: slot 0 tile" in pto.aten.explain("neg", many)
    assert "not slot 0 tile" in pto.aten.explain("log", many)
    for x in (few, some, many):
        assert torch.equal(pto.aten.neg(x), -x)
        with pto.aten.enable(only=["neg"]) as on:
            assert enabling.reaches(on, x.neg) == (x is many)
            assert torch.equal(x.neg(), x * -1)
    config.by_size = False
    with pytest.raises(ValueError, match="nothing of neg can be enabled"):
        pto.aten.enable(only=["neg"])


@pytest.mark.parametrize("content, wrong", [
    (b'{"avx512": {"exp"', "Expecting"),  # as a full disk leaves it
    (b"\xff", "can't decode byte"),
    (b"[1]", r"it is \[1\], no object"),
    (b'{"avx2": 5}', "avx2 is 5, no object"),
    (b'{"avx2": {"exp": [2.0]}}', r"avx2, exp is \[2.0\], no object"),
    (b'{"avx2": {"exp": {"float32": 2.0}}}', "avx2, exp, float32 is 2.0, no list of ratios"),
    (b'{"avx2": {"exp": {"float32": [2, NaN]}}}', r"float32 is \[2, nan\], no list of ratios"),
    (b'{"avx2": {"exp": {"float32": ["2"]}}}', r"float32 is \['2'\], no list of ratios"),
    (b'{"avx2": {"exp": {"float32": [-1]}}}', r"float32 is \[-1\], no list of ratios"),
])  # fmt: skip
def test_a_damaged_file_of_cells_is_none_and_a_warning_says_how_to_mend_it(cells, content, wrong):
    wins.measured_file().write_bytes(content)
    config.measured = True
    with pytest.warns(RuntimeWarning, match=rf"cells\.json is not read: .*{wrong}") as told:
        assert wins.own() == {}
        assert "chosen: slot 0 tile" in pto.aten.explain("exp", x)
        assert pto.aten.log(x + 3).dtype == np.float32
    assert len(told) == 1 and "fix: remove it, or measure again" in str(told[0].message)


def test_a_row_of_another_version_in_a_file_of_cells_changes_no_other(cells):
    rows = {"no_such_row": {"float32": [2]}, "log": {"float32": [2]}}
    wins.measured_file().write_text(wins.text({wins.target(): rows}))
    assert "not slot 0 tile" in pto.aten.explain("log", x)
    config.measured = True
    assert "chosen: slot 0 tile" in pto.aten.explain("log", x)


def test_measure_writes_cells_that_count_where_they_are_asked_for(cells, capsys, monkeypatch):
    monkeypatch.setattr(measuring, "SIZES", (16 << 10,) * 3)
    found = pto.aten.measure(["exp", "log"], kinds=["float32"])
    ratio = found[wins.target()]["log"]["float32"]
    assert wins.measured_file().exists() and min(ratio) > 0
    printed = capsys.readouterr().out
    assert ("log float32: now ours" in printed) == (min(ratio) >= 1)
    assert wins.cell(wins.target(), "log", "float32") == [0.5]
    config.measured = True
    assert wins.cell(wins.target(), "log", "float32") == ratio
    with pytest.raises(TypeError, match="config.measured is 1"):
        config.measured = 1
    with pytest.raises(ValueError, match="no row of nothing"):
        pto.aten.measure(["nothing"])
    with pytest.raises(ValueError, match="int32 is not measured"):
        pto.aten.measure(["neg"], kinds=["int32"])


@pytest.mark.usefixtures("aten_parts")
def test_aten_is_measured_without_rows_whatever_the_process_enables(monkeypatch):
    on = pto.aten.enable(slot=0)
    alone = enabling.enable(only=["exp"], slot=0)
    alone.off()

    x = torch.rand(4, 8)
    try:
        with measuring._without_rows():
            taken = []
            monkeypatch.setattr(enabling, "_on_taken", [taken.append])
            enabling._loaded().forget()
            torch.exp(x)
            assert not taken
            assert enabling.reaches(alone, lambda: torch.exp(x))
            assert not enabling.reaches(alone, lambda: torch.exp(x.to(torch.complex64)))
            taken.clear()
        torch.exp(x * 2)
        assert "exp" in taken or "mul.Tensor" in taken
    finally:
        on.off()
    ours, aten, _ = measuring._calls(ROWS["exp"], {"self": x}, False, False)
    assert ours is aten
    ours, aten, _ = measuring._calls(
        ROWS["_add_relu.Scalar"], {"self": x, "other": 2}, False, False
    )
    assert ours is not aten  # such a call does not reach the row
