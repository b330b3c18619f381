# SPDX-License-Identifier: Apache-2.0
"""Our rows for ATen's overloads: within their distance of ATen, the same bits in every form.

Each row of pto/aten/table/ is compared in f32; the deep run has all types, and asks the laws of
forms and special values of every row instead of one in eight.
"""

import dataclasses

import numpy as np
import pytest
import torch

import pto.aten
from pto.aten import rows, samples, wins
from pto.aten.binding import Bound, bind
from pto.aten.distance import apart
from pto.aten.face import Overload
from pto.aten.implementations import choose
from pto.aten.records import library, record_of
from pto.aten.table import ALIASES, LEFT, ROWS

KINDS = (*rows.FLOATS, "int64", "int32", "uint8", "bool")
OWN = [name for name in ROWS if name.partition(".")[0] not in ALIASES]
SPECIAL = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-40, 1e38, -1.0]


# Rows whose results for special values are other ones than ATen's, and why.
OTHERWISE = {
    "gelu": "ATen gives NaN for infinity",
    "_add_relu.Tensor": "ATen gives the largest number for infinity",
    "_add_relu.Scalar": "ATen gives the largest number for infinity",
    "fmod.Tensor": "ATen gives NaN where the divisor is subnormal",
    "remainder.Tensor": "ATen gives NaN where the divisor is subnormal",
    "remainder.Scalar_Tensor": "ATen gives NaN where the divisor is subnormal",
}


def overload(full_name):
    name, _, variant = full_name.partition(".")
    return pto.aten.family(name).overloads[variant or "default"]


def mapped(given, function):
    """The arguments of a call with a function of its tensors."""

    def one(value):
        if isinstance(value, list):
            return [one(each) for each in value]
        return function(value) if isinstance(value, torch.Tensor) else value

    return {name: one(value) for name, value in given.items()}


def arguments(row, shape, kind, seed=0):
    """Values for a functional call of a row, its tensors PyTorch's."""
    made = samples.arguments(row, *shape, kind, seed)
    return {name: library().as_tensors(value) for name, value in made.items()}


def several(made):
    return made if isinstance(made, tuple | list) else (made,)


@pytest.fixture
def chosen(name, deep):
    """A row; in the quick run those that are not one of eight are skipped."""
    if not deep and list(ROWS).index(name) % 8:
        pytest.skip("in ./dev test --deep")
    return ROWS[name]


@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_as_near_to_aten_as_it_says(name, deep):
    row = ROWS[name]
    first = next(k for k in row.types if k in KINDS)
    for kind in [k for k in row.types if k in KINDS and (deep or k == first)]:
        for shape in ((7, 32), (3, 72)):
            given = arguments(row, shape, kind)
            want, got = (overload(name)(**mapped(given, torch.clone), slot=slot) for slot in (8, 0))
            found = apart(row, given, got, want)
            assert not isinstance(found, str) and found <= row.ulp, (kind, shape, found)


@pytest.mark.parametrize("name", OWN)
def test_special_values_are_those_of_aten(name, chosen):
    row = chosen
    if "float32" not in row.types or row.sample is not None:
        pytest.skip("its arguments are not one shape of floats")
    given = arguments(row, (8, 8), "float32")
    names = [key for key, value in given.items() if isinstance(value, torch.Tensor)]
    given[names[0]] = torch.tensor(SPECIAL).repeat(8, 1)
    if len(names) > 1:
        given[names[1]] = torch.tensor(SPECIAL).repeat(8, 1).T.contiguous()
    got, want = (several(overload(name)(**mapped(given, torch.clone), slot=n)) for n in (0, 8))
    pairs = [(a.double(), b.double()) for a, b in zip(got, want, strict=True)]
    alike = all(
        torch.equal(a.isnan(), b.isnan()) and torch.equal(a.isinf(), b.isinf()) for a, b in pairs
    )
    assert alike != (name in OTHERWISE), OTHERWISE.get(name)


def same(got, want):
    """Whether results have the same bits; one NaN is as another."""
    return all(
        a.dtype == b.dtype and torch.equal(a.nan_to_num(7), b.nan_to_num(7))
        for a, b in zip(several(got), several(want), strict=True)
    )


@pytest.mark.parametrize("name", OWN)
def test_every_form_and_layout_of_a_row_has_the_same_bits(name, chosen):
    row = chosen
    kind = "float32" if "float32" in row.types else row.types[0]
    given = arguments(row, (6, 40), kind)
    want = overload(name)(**mapped(given, torch.clone), slot=0)
    strided = mapped(given, lambda t: torch.cat([t, t], -1)[..., : t.shape[-1]] if t.ndim else t)
    offset = mapped(given, lambda t: torch.cat([t.flatten()[:1], t.flatten()])[1:].view(t.shape))
    transposed = mapped(given, lambda t: t.mT.contiguous().mT if t.ndim > 1 else t)
    for values in (strided, offset, *[transposed] * row.is_pointwise):
        assert same(overload(name)(**values, slot=0), want)
    in_numpy = mapped(given, lambda t: t.clone().numpy())
    made = several(overload(name)(**in_numpy, slot=0))
    assert same([torch.as_tensor(one) for one in made], want)
    for full in rows.forms(row):
        record = overload(full).record
        values = mapped(given, torch.clone)
        places = [torch.empty_like(one) for one in several(want)]
        if record.outputs and not all(one.numel() for one in places):
            continue  # an empty output is ATen's
        values |= {a.name: p for a, p in zip(record.outputs, places, strict=False)}
        made = Overload(record)(**values, slot=0)
        assert same(made, want), full
        if record.name.endswith("_"):
            assert made is values["self"]


@pytest.mark.parametrize("name", OWN)
def test_results_lie_as_those_of_aten(name, chosen, seed=3):
    """Random orders of axes, gaps, sizes of 1 and repeated elements."""
    row, random = chosen, np.random.default_rng(seed)
    if row.sample is not None or row.overload.startswith("glu"):
        pytest.skip("its arguments are not of any sizes")
    kind = "float32" if "float32" in row.types else row.types[0]
    for turn in range(3):
        sizes = [int(n) for n in random.choice([1, 2, 3, 4], 4)]
        axes, is_alike = random.permutation(4), turn == 0
        gap = 1 if is_alike else int(random.integers(1, 3))

        def laid(t, sizes=sizes, axes=axes, gap=gap, is_alike=is_alike):
            back = [int(axis) for axis in np.argsort(axes)]
            whole = t.new_zeros([sizes[axis] * gap for axis in axes]).permute(back)
            made = whole[tuple(slice(0, n) for n in sizes)]
            made.copy_(t.flatten()[: made.numel()].view(sizes))
            return made if is_alike or random.random() < 0.7 else made.contiguous()

        given = mapped(arguments(row, (16, 16), kind), laid)
        kept = mapped(given, torch.clone) if name.partition(".")[0].endswith("_") else given
        want = several(overload(name)(**kept, slot=8))
        try:
            got = several(overload(name)(**given, slot=0))
        except ValueError as error:
            is_odd = "an axis of size 1 has another stride" in str(error)  # which a clone keeps
            assert is_odd or (
                "in other orders" in str(error) and not (is_alike and row.is_pointwise)
            )
            continue
        for a, b in zip(got, want, strict=True):
            steps = [zip(t.shape, t.stride(), strict=True) for t in (a, b)]
            ours, theirs = ([step for n, step in each if n > 1] for each in steps)
            assert ours == theirs or not b.numel(), (sizes, axes, gap)
            assert a is given.get("self") or not a._is_view()
            assert apart(row, given, [a], [b]) <= row.ulp


@pytest.mark.parametrize("name", OWN)
def test_empty_tensors_and_single_elements_are_taken(name, chosen):
    row = chosen
    if row.sample is not None or row.overload.startswith(("glu", "std", "var")):
        pytest.skip("its sizes have a least")
    kind = "float32" if "float32" in row.types else row.types[0]
    for shape in ((0, 4), (3, 0), (1, 1)):
        given = arguments(row, shape, kind)
        try:
            want = several(overload(name)(**given, slot=8))
        except pto.Error:
            continue  # no largest of no elements
        try:
            got = several(overload(name)(**given, slot=0))
        except ValueError as error:
            assert "self has no elements" in str(error) and 0 in shape
            continue
        for a, b in zip(got, want, strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype


@pytest.mark.parametrize("column", wins.table())
def test_a_row_that_takes_over_takes_what_it_was_measured_with(column, monkeypatch):
    monkeypatch.setattr(wins, "target", lambda: column)
    for name, cells in wins.table()[column].items():
        for kind in (kind for kind, ratios in cells.items() if min(ratios) >= 1):
            bound = bind([record_of(name)], (), arguments(ROWS[name], (4, 64), kind))
            assert choose(bound).slot == rows.SLOT, (name, kind, choose(bound))


def test_what_a_row_does_not_take_falls_through_with_the_reason():
    x = torch.rand(3, 4)
    needs = torch.rand(3, 4, requires_grad=True)
    for args, reason in [
        ((x, x.double()), "not one"),
        ((x.to(torch.complex64), 2), "no formula for complex64"),
        ((needs, x), "without gradient"),
        ((x, x.to_sparse()), "no dense array"),
        ((x.int(), 2.5), "gives int32 another type"),
        ((x.to(torch.uint8), 300), "does not hold"),
    ]:
        with pytest.raises(ValueError, match=reason):
            pto.aten.add(*args, slot=0)
        assert "not slot 0 tile" in pto.aten.explain("add", *args)
        pto.aten.add(*args)
    for out, reason in [
        (x, "shares memory"),
        (torch.empty(0), "may have to be resized"),
        (torch.empty(3, 4).double(), "is float64, not float32"),
    ]:
        with pytest.raises(ValueError, match=reason):
            pto.aten.add(x, 1, out=out, slot=0)
    with pytest.raises(ValueError, match="shares a part of self"):
        pto.aten.add_(x[:, :3], x[:, 1:], slot=0)
    with pytest.raises(ValueError, match="differ in broadcast|another size than the result"):
        pto.aten.add_(torch.rand(3, 1), x, slot=0)
    for name, axes in (("cumsum", 0), ("flip", [0])):
        with pytest.raises(ValueError, match="self has no axes"):
            getattr(pto.aten, name)(torch.tensor(2.0), axes, slot=0)
    with pytest.raises(ValueError, match="self has more axes than 8"):
        pto.aten.exp(torch.rand([1] * 9), slot=0)
    with pytest.raises(ValueError, match="no formula for dtype"):
        pto.aten.softmax(x, -1, torch.float64, slot=0)
    assert torch.equal(pto.aten.add(needs, x), needs + x)


SIZES = (  # an overload, the sizes of its tensors in order, its other arguments
    ("glu", ([2, 5],), {}), ("glu", ([],), {}), ("glu", ([4],), {"dim": 1}),
    ("dot", ([1], [5]), {}), ("mv", ([3, 5], [1]), {}), ("mv", ([3, 1], [5]), {}),
    ("bmm", ([1, 2, 3], [4, 3, 2]), {}), ("addr", ([5, 7], [1], [7]), {}),
    ("baddbmm", ([4, 2, 2], [1, 2, 3], [4, 3, 2]), {}),
    ("baddbmm", ([4, 2, 2], [1, 2, 3], [1, 3, 2]), {}),
    ("soft_margin_loss", ([1, 4], [3, 4]), {"reduction": 0}),
    ("vdot", ([1], [5]), {}),
    ("addmv", ([3], [3, 5], [1]), {}), ("addbmm", ([2, 2], [1, 2, 3], [4, 3, 2]), {}),
    ("glu_backward", ([2, 3], [2, 5]), {"dim": 1}),
    ("reflection_pad1d", ([2, 3],), {"padding": [3, 0]}),
    ("replication_pad2d", ([2, 3],), {"padding": [1, 0, 0, 1]}),
    ("_softmax_backward_data", ([3, 1], [3, 4]), {"dim": -1, "input_dtype": torch.float32}),
    ("_softmax_backward_data", ([4], [3, 4]), {"dim": -1, "input_dtype": torch.float32}),
)  # fmt: skip


CALLS = (  # that ATen refuses, or computes in another way than the formula
    ("all.dims", {"dim": []}), ("any.dims", {"dim": []}), ("flip", {"dims": [0, -2]}),
    ("floor_divide.Scalar", {"other": 0}), ("reflection_pad1d", {"padding": [-1, 1]}),
    ("narrow_copy", {"dim": 1, "start": -2, "length": 1}),
    ("clamp", {}), ("round.decimals", {"decimals": 400}), ("fill.Scalar", {"value": 1e300}),
)  # fmt: skip


@pytest.mark.parametrize(("name", "options"), CALLS)
def test_calls_that_aten_computes_otherwise_are_no_rows(name, options):
    given = np.ones((3, 4), np.float32)
    with pytest.raises(ValueError, match="nothing takes this call"):
        overload(name)(given, **options, slot=0)
    if name == "all.dims":
        assert overload(name)(given, **options).shape == (3, 4)


@pytest.mark.parametrize("correction", [-2, 0, 2.5, 4, 5, 100])  # of 4 elements
@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
@pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0:UserWarning")
def test_a_row_takes_every_correction_of_a_spread(name, correction):
    x = torch.tensor([[1, 2, 4, 8], [3, 3, 3, 3]], dtype=torch.float32)
    made = overload(f"{name}.correction")(x, [1], correction=correction, slot=0)
    want = getattr(torch, name)(x, [1], correction=correction)
    for a, b in zip(several(made), several(want), strict=True):
        torch.testing.assert_close(a, b, equal_nan=True)


@pytest.mark.parametrize("correction", [-2, 0, 4])
@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
def test_a_spread_of_no_elements_is_nan(name, correction):
    made = overload(f"{name}.correction")(torch.empty(2, 0), [1], correction=correction, slot=0)
    assert all(torch.equal(one.isnan(), torch.tensor([True, True])) for one in several(made))


@pytest.mark.parametrize("name", ["var", "std"])
@pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0:UserWarning")
def test_the_mean_beside_a_spread_is_that_of_mean_wherever_an_infinity_stands(name):
    inf = float("inf")
    x = torch.tensor([[inf, 1, 2], [1, inf, 2], [1, 2, inf], [-inf, -inf, 2], [inf, 1, -inf]])
    made, mean = overload(f"{name}_mean.correction")(x, [1], slot=0)
    assert made.isnan().all() and getattr(torch, name)(x, 1).isnan().all()
    assert torch.equal(mean.nan_to_num(7), torch.mean(x, 1).nan_to_num(7))


@pytest.mark.parametrize(("name", "shapes", "options"), SIZES)
def test_sizes_that_aten_refuses_are_no_rows(name, shapes, options):
    given = [np.ones(shape, np.float32) for shape in shapes]
    with pytest.raises(ValueError, match="nothing takes this call"):
        overload(name)(*given, **options, slot=0)
    with pytest.raises((RuntimeError, IndexError)):
        overload(name)(*given, **options)


def test_modes_transforms_and_autocast_see_atens_own_calls():
    x = torch.rand(3, 4)
    with torch.autocast("cpu"), pytest.raises(ValueError, match="no dense array"):
        pto.aten.exp(x, slot=0)
    made = torch.vmap(lambda row: pto.aten.exp(row))(x)
    assert torch.equal(made, torch.exp(x))


def test_a_wrong_formula_is_too_far_from_aten():
    def wrong(self):
        return pto.exp(self) * (1 + 1e-6)

    row = dataclasses.replace(ROWS["exp"], formula=wrong)
    given = arguments(row, (7, 33), "float32")
    record = overload("exp").record
    got = row.run(Bound(record, given, 0), None)
    assert apart(row, given, got, overload("exp")(**given, slot=8)) > row.ulp


def test_a_predicate_that_accepts_too_much_gives_another_result():
    row = dataclasses.replace(ROWS["add.Tensor"], types=("complex64",), unless=None)
    x = torch.rand(3, 4, dtype=torch.complex64)
    bound = Bound(overload("add.Tensor").record, {"self": x, "other": x}, 0)
    assert row.refuses(bound) is None and ROWS["add.Tensor"].refuses(bound)
    with pytest.raises(TypeError, match="complex64"):
        row.run(bound, None)


def test_a_name_without_a_row_says_why():
    for name, reason in LEFT.items():
        assert reason and not any(one.partition(".")[0] == name for one in ROWS), name
        assert pto.aten.family(name)


def test_elements_that_are_not_there_are_atens_to_take_or_refuse():
    """ATen's topk takes a tensor without axes; its logsumexp an axis without elements."""
    with pytest.raises(ValueError, match="axis -1 has 3 elements, not 4"):
        pto.aten.topk(torch.rand(2, 3), 4, slot=0)
    with pytest.raises(ValueError, match="self has no axis"):
        pto.aten.topk(torch.tensor(1.5), 1, slot=0)
    with pytest.raises(ValueError, match="self has no elements"):
        pto.aten.logsumexp(torch.empty(2, 0), [1], slot=0)
    assert pto.aten.topk(torch.tensor(1.5), 1)[0] == 1.5
    assert pto.aten.logsumexp(np.empty((2, 0), np.float32), [1]).tolist() == [-np.inf] * 2


def test_what_aten_refuses_by_values_is_refused_by_rows():
    x, index = torch.full((3, 4), 1.5), torch.full((3, 4), -1)
    with pytest.raises(RuntimeError, match="all elements of self are between 0 and 1"):
        pto.aten.binary_cross_entropy(x, x, slot=0)
    for call in (lambda: pto.aten.scatter(x, 1, index, x, slot=0),
                 lambda: pto.aten.scatter_add(x, 1, index, x, slot=0),
                 lambda: pto.aten.index_add(x, 1, index[0], x, slot=0),
                 lambda: pto.aten.take(x, index * 20, slot=0)):  # fmt: skip
        with pytest.raises(RuntimeError, match="position"):
            call()
    assert pto.aten.take(x, index, slot=0).tolist() == x.tolist()


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_the_scaled_erfc_of_the_largest_number_is_not_0(kind):
    x = torch.tensor([torch.finfo(kind).max, torch.finfo(kind).max / 3], dtype=kind)
    torch.testing.assert_close(
        pto.aten.special_erfcx(x, slot=0), torch.special.erfcx(x), rtol=1e-6, atol=0
    )


def test_a_batch_norm_that_writes_running_statistics_is_atens():
    x, mean = torch.rand(3, 4, 5), torch.zeros(4)
    with pytest.raises(ValueError, match="it writes the running statistics"):
        pto.aten.native_batch_norm(x, None, None, mean, mean + 1, True, 0.1, 1e-5, slot=0)


@pytest.mark.parametrize("amount", [-1, 0, 5, 7, 8, 15, 31, 64, 100])
@pytest.mark.parametrize("kind", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_every_amount_shifts_as_in_aten(kind, amount):
    x = torch.tensor([-128, -3, 0, 1, 77, 127]).to(kind)
    by = torch.full([6], amount).to(kind)
    for name in ("bitwise_left_shift", "bitwise_right_shift"):
        made, want = (overload(f"{name}.Tensor")(x, by, slot=slot) for slot in (0, 8))
        assert torch.equal(made, want), name
