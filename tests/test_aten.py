# SPDX-License-Identifier: Apache-2.0
"""pto.aten: overloads, values, arrays of any kind, what is written, and what is refused."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import children
import ml_dtypes
import numpy as np
import pytest
import torch

import pto
import pto.aten
from pto.aten import choice
from pto.aten.binding import bind
from pto.aten.implementations import Implementation, implement, ours, withdraw
from pto.aten.schemas import _TABLE, table

NAMES = (Path(__file__).parent / "aten_names.txt").read_text().split()
WITHOUT_KERNEL = {"hspmm", "sparse_sampled_addmm", "_conv_depthwise2d", "batch_norm_elemt",
                  "mkldnn_adaptive_avg_pool2d", "cudnn_convolution"}  # fmt: skip
x = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)


def test_every_required_name_is_there_and_says_where_it_has_no_kernel():
    without = set()
    for name in NAMES:
        records = pto.aten.family(name)._records
        if not any(record.cpu for record in records):
            without.add(name)
    assert without == WITHOUT_KERNEL
    with pytest.raises(pto.Error, match=r"no kernel of it for dense tensors of the CPU"):
        pto.aten.hspmm(x, x)


def test_records_are_the_schemas_of_the_dispatcher():
    for name in ("add", "sort", "sum", "index", "uniform_", "histogramdd", "stft"):
        for record in pto.aten.family(name)._records:
            schema = record.handle._schema
            assert record.schema == str(schema).removeprefix("aten::")
            for argument, theirs in zip(record.arguments, schema.arguments, strict=True):
                assert f"{argument.type} {argument.name}" in re.sub(r"\([a-z]!?\)", "", str(schema))
                assert argument.is_keyword_only == theirs.kwarg_only
                assert argument.is_required == (not theirs.has_default_value())


@pytest.mark.parametrize(
    "call, overload",
    [
        (lambda f: f.add.bind((x, x), {"alpha": 2}), "Tensor"),
        (lambda f: f.add.bind((x, 2), {}), "Scalar"),
        (lambda f: f.add.bind((x, x), {"out": x}), "out"),
        (lambda f: f.mean.bind((x,), {}), ""),
        (lambda f: f.mean.bind((x, 0), {}), "dim"),
        (lambda f: f.sum.bind((x,), {"dim": (0, 1)}), "dim_IntList"),
        (lambda f: f.sort.bind((x,), {"stable": True}), "stable"),
        (lambda f: f.sort.bind((x,), {"out": (x, x)}), "values"),
        (lambda f: f.pow.bind((2, x), {}), "Scalar"),
        (lambda f: f.pow.bind((x, 2), {}), "Tensor_Scalar"),
        (lambda f: f.max.bind((x, x), {}), "other"),
        (lambda f: f.max.bind((x, 1), {}), "dim"),
        (lambda f: f.where.bind((x > 0, x, 0.0), {}), "ScalarOther"),
    ],
)
def test_a_call_means_the_overload_that_is_nearest(call, overload):
    assert call(pto.aten).record.overload == overload


def test_results_have_the_kind_of_the_arrays():
    y = pto.aten.add(x, x, alpha=2)
    assert isinstance(y, np.ndarray) and np.array_equal(y, x * 3)
    t = torch.from_numpy(x)
    assert torch.equal(pto.aten.add(t, t, alpha=2), t * 3)
    values, indices = pto.aten.sort(x, dim=0, descending=True)
    assert np.array_equal(values, -np.sort(-x, 0)) and indices.dtype == np.int64
    assert isinstance(pto.aten.zeros([2]), torch.Tensor)
    assert isinstance(pto.aten.zeros([2], like="numpy"), np.ndarray)
    assert isinstance(pto.aten.zeros([2], dtype=pto.f64, like=x), np.ndarray)
    z = np.exp(1j * x)
    assert pto.aten.conj_physical(z).dtype == z.dtype
    assert np.array_equal(pto.aten.conj_physical(z), z.conj())


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_types_that_numpy_lacks_come_back_as_ml_dtypes(name):
    given = x.astype(getattr(ml_dtypes, name))
    made = pto.aten.clone(given)
    assert made.dtype == given.dtype and made.tobytes() == given.tobytes()


def test_views_of_any_stride_and_order_are_read():
    for view in (
        x[::-1],
        x[:, ::-2],
        x.T,
        x.astype(">f4"),
        np.broadcast_to(x[:1], (3, 4)),
        x[1, 2],
    ):
        assert np.array_equal(pto.aten.neg(np.asarray(view)), -np.asarray(view))
    frozen = x.copy()
    frozen.flags.writeable = False
    assert np.array_equal(pto.aten.neg(frozen), -x)


def test_a_view_of_what_is_read_only_is_read_only():
    frozen = x.copy()
    frozen.flags.writeable = False
    parts = pto.aten.split(frozen, 1)
    assert not any(one.flags.writeable for one in (pto.aten.t(frozen), *parts))
    assert pto.aten.t(x).flags.writeable and pto.aten.neg(frozen).flags.writeable
    y = x.copy()
    frozen = y.view()
    frozen.flags.writeable = False
    assert pto.aten.neg(frozen, out=y) is y and y.flags.writeable and np.array_equal(y, -x)


def test_what_is_written_is_the_callers_own_array():
    y = x.copy()
    assert pto.aten.add_(y, 1) is y and np.array_equal(y, x + 1)
    values, indices = np.empty_like(x), np.empty(x.shape, np.int64)
    made = pto.aten.sort(x, out=(values, indices))
    assert made[0] is values and made[1] is indices and np.array_equal(values, np.sort(x))
    t = torch.empty(0)
    assert pto.aten.add(torch.from_numpy(x), 1.0, out=t) is t and t.shape == x.shape
    strided = np.zeros((3, 8), np.float32)[:, ::2]
    pto.aten.neg(x, out=strided)
    assert np.array_equal(strided, -x)


@pytest.mark.parametrize("view", [lambda y: y[::-1], lambda y: y.view(">f4"), None])
def test_what_cannot_be_written_where_it_lies_is_refused_and_left(view):
    y = x.copy()
    if view is None:
        y.flags.writeable = False
    given = view(y) if view else y
    before = given.tobytes()
    with pytest.raises(ValueError, match=r"writes self.*\n.*copy"):
        pto.aten.add_(given, 1)
    assert given.tobytes() == before


class Exporter:
    """An array that is known by DLPack alone; `version`: whether it knows DLPack 1.0."""

    def __init__(self, array, version=True):
        self.array, self.version = array, version

    def __dlpack__(self, **options):
        if "max_version" in options and not self.version:
            raise TypeError("max_version")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_a_read_only_array_of_dlpack_is_refused_and_left():
    frozen, y = np.zeros(3, np.float32), np.zeros(3, np.float32)
    frozen.flags.writeable = False
    one = Exporter(np.ones(3, np.float32))
    with pytest.raises(ValueError, match="writes out, .* it is read-only"):
        pto.aten.neg(one, out=Exporter(frozen))
    assert not frozen.any()
    for version in (True, False):
        y[:] = 0
        pto.aten.neg(one, out=Exporter(y, version))
        assert y.tolist() == [-1, -1, -1]


@pytest.mark.parametrize("make", [np.zeros, torch.zeros])
def test_an_output_of_another_size_is_refused_with_both_and_left(make):
    out = make((3, 3), dtype=(np if make is np.zeros else torch).float32)
    given = x if make is np.zeros else torch.from_numpy(x)
    for call in (pto.aten.add.out, pto.aten.neg.out, pto.aten.mean.out):
        args = {"other": given} if call is pto.aten.add.out else {}
        args |= {"dim": [0]} if call is pto.aten.mean.out else {}
        with pytest.raises(ValueError, match=r"out has sizes \[3, 3\], the result has \["):
            call(given, **args, out=out)
    assert not np.asarray(out).any() and tuple(out.shape) == (3, 3)


def test_an_output_whose_size_elements_decide_is_refused_and_left():
    given, out = torch.tensor([0.0, 2.0, 3.0]), torch.full((3, 1), 7)
    with pytest.raises(ValueError, match=r"out has sizes \[3, 1\], the result has \[2, 1\]"):
        pto.aten.nonzero(given, out=out)
    assert (out == 7).all() and out.shape == (3, 1)
    assert pto.aten.nonzero(given, out=out[:2]).tolist() == [[1], [2]]
    assert out.flatten().tolist() == [1, 2, 7]


def test_an_input_that_shares_a_part_of_what_is_written_is_refused():
    y = x.copy()
    with pytest.raises(ValueError, match="shares a part"):
        pto.aten.add(y[:-1], y[1:], out=y[1:])
    assert np.array_equal(y, x)
    pto.aten.add(y, y, out=y)
    assert np.array_equal(y, x + x)


def test_random_numbers_follow_a_generator():
    first, second = (torch.Generator().manual_seed(7) for _ in range(2))
    y = pto.aten.rand([5], generator=first, like="numpy")
    assert np.array_equal(y, torch.rand(5, generator=second).numpy())


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: pto.aten.addd, AttributeError, "did you mean add"),
        (lambda: pto.aten.add.Tenso, AttributeError, "did you mean Tensor"),
        (lambda: pto.aten.add(x), TypeError, "other is missing"),
        (lambda: pto.aten.add(x, x, beta=1), TypeError, "has no beta"),
        (lambda: pto.aten.add.Tensor(x, "2"), TypeError, "other is '2', not Tensor"),
        (lambda: pto.aten.neg(x, x), TypeError, "takes 1 positional arguments, 2 are given"),
        (lambda: pto.aten.neg(x, self=x), TypeError, "self is given twice"),
        (lambda: pto.aten.sum(x, dim=1.5), TypeError, "dim is 1.5"),
        (lambda: pto.aten.add(x, torch.ones(4)), TypeError, "NumPy.*PyTorch"),
        (lambda: pto.aten.mm(x, x), RuntimeError, "mat1 and mat2"),
        (lambda: pto.aten.sum(x, 5), IndexError, "Dimension out of range"),
        (lambda: pto.aten.pow(x, 2**70), OverflowError, "PyTorch refuses the call"),
        (lambda: pto.aten.t_(x.copy()), TypeError, "other sizes or strides"),
        (lambda: pto.aten.neg(np.array(["a"])), TypeError, "no such element type"),
        (lambda: pto.aten.to_sparse(x), TypeError, "dense arrays"),
        (lambda: pto.aten.zeros([2], like=3), TypeError, "like is 3"),
        (lambda: pto.aten.add(x, x, slot=3), ValueError, "its slots are 0 tile, 8 aten"),
        (lambda: pto.aten.explain("nothing", x), AttributeError, "no operator nothing"),
    ],
)
def test_a_wrong_call_says_what_why_and_how_to_mend_it(call, error, text):
    with pytest.raises(error, match=text) as caught:
        call()
    assert isinstance(caught.value, pto.Error) and caught.value.why and caught.value.fix


def test_the_lowest_slot_that_takes_a_call_runs_it():
    name = "special_i1e"  # whose slots no other test looks at
    record = pto.aten.family(name)._records[0]

    def refuses(bound):
        return None if bound.values["self"].dtype == np.float32 else "only float32"

    before = ours(name)
    implement(
        name, Implementation(2, "marked", "cpu", refuses, lambda bound, like: bound.values["self"])
    )
    try:
        while_asked = ours(name)
        assert not before  # a call that asks meanwhile sees one list or the other
        assert repr(getattr(pto.aten, name).default.slots("cpu")) == "[2 marked, 8 aten]"
        assert pto.aten.special_i1e(x) is x
        assert pto.aten.special_i1e(x.astype(np.float64)) is not x
        assert np.array_equal(pto.aten.special_i1e(x, slot=8), torch.special.i1e(torch.tensor(x)))
        with pytest.raises(pto.Error, match="only float32"):
            pto.aten.special_i1e(x.astype(np.float64), slot=2)
        text = pto.aten.explain(name, x.astype(np.float64))
        assert "chosen: slot 8 aten" in text and "not slot 2 marked: only float32" in text
        with pytest.raises(ValueError, match="taken"):
            implement(name, Implementation(2, "again", "cpu", refuses, lambda bound, like: None))
    finally:
        withdraw(name, 2)
    assert len(while_asked) == 1
    assert not ours(name) and pto.aten.special_i1e(x) is not x
    with pytest.raises(ValueError, match="slot 2 of special_i1e is empty"):
        withdraw(name, 2)
    assert bind([record], (x,), {}).distance == 0


def test_the_tested_pytorch_differs_in_nothing_and_another_is_compared(monkeypatch):
    found = pto.aten.differences()
    if found.installed == found.tested:
        assert not found and _TABLE.read_text() == table()
    then = _TABLE.read_text().replace("\nneg :", "\nneg :0").replace("\nabs :", "\nabss :")
    monkeypatch.setattr("pto.aten.schemas._TABLE", Text(then))
    found = pto.aten.differences()
    assert (found.added, found.dropped, found.changed) == (
        ["abs", "abs.out"],
        ["abss", "abss.out"],
        ["neg"],
    )


class Text:
    """A file that holds a text."""

    def __init__(self, text):
        self.text = text

    def read_text(self):
        return self.text


def test_a_list_restricts_the_names(tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("add\nneg\n")
    try:
        pto.aten.restrict(names)
        assert pto.aten.names() == ["add", "neg"] and np.array_equal(pto.aten.neg(x), -x)
        with pytest.raises(AttributeError, match="restricted to the 2 names of"):
            pto.aten.mul(x, x)
        names.write_text("add\nnegg\n")
        with pytest.raises(ValueError, match="negg(.|\n)*did you mean neg"):
            pto.aten.restrict(names)
        with pytest.raises(FileNotFoundError, match="cannot be read"):
            pto.aten.restrict(tmp_path / "nothing")
    finally:
        pto.aten.restrict(None)
    assert "mul" in pto.aten.names()
    names.write_text("add")
    text = "import pto.aten; print(pto.aten.names())"
    environment = {**os.environ, "PTO_ATEN_NAMES": str(names)}
    made = children.run("-c", text, env=environment)
    assert made.stdout == "['add']\n", made.stderr


def test_a_restriction_that_cannot_be_read_is_an_error_each_time(tmp_path, monkeypatch):
    monkeypatch.setattr(choice, "_is_read", False)
    monkeypatch.setenv("PTO_ATEN_NAMES", str(tmp_path / "nothing"))
    for _ in range(2):
        with pytest.raises(FileNotFoundError, match="cannot be read"):
            pto.aten.names()


def test_a_callable_shows_its_schema():
    overload = pto.aten.uniform_.default
    assert list(inspect.signature(overload).parameters) == ["self", "from_", "to", "generator"]
    assert overload.__doc__.startswith("uniform_(Tensor(a!) self")
    y = x.copy()
    pto.aten.uniform_(y, from_=2, to=3)
    assert ((y >= 2) & (y <= 3)).all()
    assert "add" in dir(pto.aten) and "Tensor" in dir(pto.aten.add)


def test_without_pytorch_the_first_use_says_what_to_install():
    text = (
        "import sys; sys.modules['torch'] = None\nimport pto, pto.aten\n"
        "try: pto.aten.add\nexcept pto.Error as error: print(error)"
    )
    made = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert "pip install torch==2.13.0" in made.stdout, made.stderr


def test_modules_of_the_package_are_imported_without_pytorch():
    text = "import sys; from pto.aten import rows, wins; print('torch' in sys.modules)"
    made = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert made.stdout == "False\n", made.stderr
    with pytest.raises(pto.Error, match="no operator wims"):
        getattr(pto.aten, "wims")  # noqa: B009
