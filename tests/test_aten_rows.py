# SPDX-License-Identifier: Apache-2.0
"""Our rows for ATen's overloads: within their distance of ATen, the same bits in every form.

Each row of pto/aten/table.py is compared in f32; the deep run has all types, and asks the laws of
forms and special values of every row instead of one in four.
"""

import pytest
import torch

import pto.aten
from pto.aten import rows
from pto.aten.face import Overload
from pto.aten.table import ROWS

TORCH = {name: getattr(torch, name) for name in (*rows.FLOATS, "int64", "int32", "uint8")}
NUMBERS = {"dim": -1, "weight": 0.3, "alpha": 2, "value": 0.5, "negative_slope": 0.1}
SPECIAL = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-40, 1e38, -1.0]


def overload(full_name):
    name, _, variant = full_name.partition(".")
    return pto.aten.family(name).overloads[variant or "default"]


def arguments(row, shape, dtype, seed=0):
    """Values for a functional call of a row: tensors of a shape, numbers beside them."""
    made, generator = {}, torch.Generator().manual_seed(seed)
    for argument in overload(row.overload).record.arguments:
        if argument.type == "Tensor":
            whole = torch.rand(shape, generator=generator) * 6 - 3
            is_small = row.overload in ("asin", "acos", "atanh", "erf")
            whole = whole / 3.5 if is_small else whole
            made[argument.name] = (
                whole.to(dtype) if dtype.is_floating_point else (whole * 9).to(dtype)
            )
        elif argument.is_required or argument.name in NUMBERS:
            made[argument.name] = NUMBERS.get(argument.name, 2)
    return made


def distance(row, got, want, given):
    """The largest distance in units of the last place, or inf where special values differ."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)} is not {want.dtype}{list(want.shape)}"
    if not got.is_floating_point():
        return 0 if torch.equal(got, want) else float("inf")
    finite = torch.isfinite(want) & torch.isfinite(got)
    if not torch.equal(got[~finite].nan_to_num(7), want[~finite].nan_to_num(7)):
        return float("inf")
    terms = [t.double() for t in given.values() if isinstance(t, torch.Tensor)]
    largest = max(float(t[t.isfinite()].abs().max()) for t in terms) if row.is_sum else 0.0
    a, b, info = got[finite].double(), want[finite].double(), torch.finfo(got.dtype)
    scale = b.abs().clamp(min=max(largest, info.tiny))
    unit = torch.exp2(torch.floor(torch.log2(scale))) * info.eps
    return float(((a - b).abs() / unit).max()) if a.numel() else 0.0


@pytest.fixture
def chosen(name, deep):
    """A row; in the quick run those that are not one of four are skipped."""
    if not deep and list(ROWS).index(name) % 4:
        pytest.skip("in ./dev test --deep")
    return ROWS[name]


@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_as_near_to_aten_as_it_says(name, deep):
    row = ROWS[name]
    for kind in [k for k in row.types if k in TORCH and (deep or k == "float32")]:
        given = arguments(row, (7, 33), TORCH[kind])
        want, got = (overload(name)(**given, slot=slot) for slot in (8, 0))
        apart = distance(row, got, want, given)
        assert not isinstance(apart, str) and apart <= row.ulp, (kind, apart)


@pytest.mark.parametrize("name", ROWS)
def test_special_values_are_those_of_aten(name, chosen):
    row = chosen
    given = arguments(row, (8, 8), torch.float32)
    tensors = [key for key, value in given.items() if isinstance(value, torch.Tensor)]
    given[tensors[0]] = torch.tensor(SPECIAL).repeat(8, 1)
    if len(tensors) > 1:
        given[tensors[1]] = torch.tensor(SPECIAL).repeat(8, 1).T.contiguous()
    got, want = (overload(name)(**given, slot=slot) for slot in (0, 8))
    assert torch.equal(torch.isnan(got.double()), torch.isnan(want.double()))
    assert torch.equal(torch.isinf(got.double()), torch.isinf(want.double()))


def same(got, want):
    """Whether two tensors have the same bits; one NaN is as another."""
    return got.dtype == want.dtype and torch.equal(got.nan_to_num(7), want.nan_to_num(7))


@pytest.mark.parametrize("name", ROWS)
def test_every_form_and_layout_of_a_row_has_the_same_bits(name, chosen):
    row = chosen
    given = arguments(row, (6, 40), torch.float32)
    want = overload(name)(**given, slot=0)
    strided = {
        key: torch.cat([value, value], 1)[:, :40] if isinstance(value, torch.Tensor) else value
        for key, value in given.items()
    }
    transposed = {
        key: value.T.contiguous().T if isinstance(value, torch.Tensor) else value
        for key, value in given.items()
    }
    in_numpy = {k: v.numpy() if isinstance(v, torch.Tensor) else v for k, v in given.items()}
    for values in (strided, transposed):
        assert same(overload(name)(**values, slot=0), want)
    assert same(torch.from_numpy(overload(name)(**in_numpy, slot=0)), want)
    for full in rows.forms(row):
        record = overload(full).record
        values = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in given.items()}
        values |= {a.name: torch.empty_like(want) for a in record.outputs}
        made = Overload(record)(**values, slot=0)
        assert same(made, want), full
        if record.name.endswith("_"):
            assert made is values["self"]


@pytest.mark.parametrize("name", ROWS)
def test_empty_tensors_and_single_elements_are_taken(name, chosen):
    row = chosen
    for shape in ((0, 4), (1, 1)):
        given = arguments(row, shape, torch.float32)
        got, want = (overload(name)(**given, slot=slot) for slot in (0, 8))
        assert got.shape == want.shape and got.dtype == want.dtype


def test_what_a_row_does_not_take_falls_through_with_the_reason():
    x = torch.rand(3, 4)
    needs = torch.rand(3, 4, requires_grad=True)
    for args, reason in [
        ((x, x.double()), "not of one"),
        ((x.to(torch.complex64), 2), "no formula for complex64"),
        ((needs, x), "without gradient"),
        ((x, x.to_sparse()), "no dense array"),
    ]:
        with pytest.raises(ValueError, match=reason):
            pto.aten.add(*args, slot=0)
        assert "not slot 0 tile" in pto.aten.explain("add", *args)
        pto.aten.add(*args)
    with pytest.raises(ValueError, match="shares memory"):
        pto.aten.add(x, 1, out=x, slot=0)
    with pytest.raises(ValueError, match="no formula for dtype"):
        pto.aten.softmax(x, -1, torch.float64, slot=0)
    assert "nobody has measured" in pto.aten.explain("exp", x)
    assert torch.equal(pto.aten.add(needs, x), needs + x)
