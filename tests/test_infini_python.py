# SPDX-License-Identifier: Apache-2.0
"""`import infini.ops`: the operators of the public vendor-neutral library on arrays of any kind."""

from pathlib import Path

import children
import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch")
import pto.compat.infini  # noqa: E402

import pto  # noqa: E402
from pto import build_config  # noqa: E402

pto.compat.infini.install()
import infini.ops  # noqa: E402

x = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)


def test_inputs_stand_first_then_attributes_then_outputs():
    out = np.empty_like(x)
    assert infini.ops.add(x, x, 2.0, out, stream=0, implementation_index=8) is None
    assert np.array_equal(out, x * 3)
    infini.ops.add(x, x, out)
    assert np.array_equal(out, x + x)
    infini.ops.add(input=x, other=1, out=out)
    assert np.array_equal(out, x + 1)
    index = np.array([[2, 0, 0, 1]])
    picked = np.empty((1, 4), np.float32)
    infini.ops.gather(x, index, 0, False, picked)
    assert np.array_equal(picked, np.take_along_axis(x, index, 0))
    values, places = np.empty_like(x), np.empty(x.shape, np.int64)
    infini.ops.sort(x, 0, True, values, places)
    assert np.array_equal(values, -np.sort(-x, 0)) and places[0, 0] == 2


@pytest.mark.parametrize(
    "make", [np.array, torch.tensor, lambda v: torch.tensor(v).to(torch.bfloat16),
             lambda v: np.array(v).astype(ml_dtypes.bfloat16)])  # fmt: skip
def test_arrays_of_each_kind(make):
    a, out = make([[1.0, -2.0]]), make([[0.0, 0.0]])
    infini.ops.abs(a, out)
    assert [float(one) for one in out[0]] == [1, 2]


class OnlyDlpack:
    """An array of a library that is neither."""

    def __init__(self, array):
        self.array = array
        self.__dlpack_device__ = array.__dlpack_device__

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


def test_dlpack_arrays_are_written_where_they_lie():
    out = np.zeros((3, 4), np.float32)
    infini.ops.neg(OnlyDlpack(x), OnlyDlpack(out))
    assert np.array_equal(out, -x)
    parts = [np.empty((3, 3), np.float32), np.empty((3, 1), np.float32)]
    infini.ops.split(OnlyDlpack(x), 3, 1, [*map(OnlyDlpack, parts)])  # it has no overload for them
    assert np.array_equal(parts[0], x[:, :3])


def test_factories_random_numbers_lists_and_results_that_are_copied():
    out = np.empty((2, 3))
    infini.ops.full([2, 3], 2.5, out)
    assert (out == 2.5).all()
    infini.ops.ones([2, 3], torch.float64, out)  # no overload writes this type: it is copied
    assert (out == 1).all()
    first, second = (torch.Generator().manual_seed(7) for _ in range(2))
    infini.ops.randn([2, 3], first, out)
    assert np.array_equal(out, torch.randn(2, 3, generator=second, dtype=torch.float64).numpy())
    joined = np.empty((3, 8), np.float32)
    infini.ops.cat([x, x], 1, joined)
    assert np.array_equal(joined, np.concatenate([x, x], 1))
    parts = [np.empty((3, 3), np.float32), np.empty((3, 1), np.float32)]
    infini.ops.split(x, 3, 1, parts)
    assert np.array_equal(parts[1], x[:, 3:])
    where = np.empty_like(x)
    infini.ops.where(x > 0, x, 0.5, where)
    assert np.array_equal(where, np.where(x > 0, x, np.float32(0.5)))


def test_gemm_with_and_without_factors():
    a, b, c = (np.float32(np.arange(12)).reshape(s) for s in ((3, 4), (4, 3), (3, 4)))
    y = np.zeros((3, 3), np.float32)
    infini.ops.gemm(a, b, y)
    assert np.array_equal(y, a @ b)
    infini.ops.gemm(a, c, None, 2.0, None, False, True, y, implementation_index=8)
    assert np.array_equal(y, 2 * (a @ c.T))
    infini.ops.gemm(a, b, y.copy(), None, 3.0, None, None, y)
    assert np.array_equal(y, a @ b + 6 * (a @ c.T))
    with pytest.raises(TypeError, match=r"has no y"):
        infini.ops.gemm(a, b, None, 1.0)
    with pytest.raises(TypeError, match=r"takes \(a, b, y\)"):
        infini.ops.gemm(a, b, y, a=a)
    scaled = infini.ops.Gemm(a, c, None, 2.0, None, False, True, y)
    scaled(a, c, None, 2.0, None, False, True, y)
    assert np.array_equal(y, 2 * (a @ c.T))
    with pytest.raises(TypeError, match=r"has no y"):
        infini.ops.Gemm(a, b, None, 1.0)


def test_classes_name_their_slots_and_make_operators():
    assert infini.ops.Add.active_implementation_indices("cpu") == [0, 8]
    assert infini.ops.LinalgDet.active_implementation_indices("cpu") == [8]
    assert infini.ops.Hspmm.active_implementation_indices("cpu") == []
    assert infini.ops.Add.active_implementation_indices("nvidia") == []
    out = np.empty_like(x)
    add = infini.ops.Add(x, x, 1.0, out)
    add(x, x, 2.0, out)
    assert np.array_equal(out, x * 3)
    with pytest.raises(TypeError, match="fits no signature"):
        infini.ops.Add(x, out)
    some = np.empty((), bool)
    infini.ops.Any(x, some)(x, some)
    assert some
    infini.ops.Add.clear_cache()
    infini.ops.add(x, x, out)
    assert np.array_equal(out, x + x)
    infini.ops.add(x, x, 1.0, out, implementation_index=0)
    assert np.array_equal(out, x + x)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda out: infini.ops.addd, AttributeError, "did you mean add"),
        (lambda out: infini.ops.Addd, AttributeError, "did you mean Add"),
        (lambda out: infini.ops.item, AttributeError, "returns no tensor"),
        (lambda out: infini.ops.add(x, out), TypeError, "other is missing"),
        (lambda out: infini.ops.add(x, x, 1.0, 2.0, out), TypeError, "takes 4 arguments, 5 are"),
        (lambda out: infini.ops.add(x, x, out, alpho=1), TypeError, "has no alpho"),
        (lambda out: infini.ops.add(x, x, out, input=x), TypeError, "input is given twice"),
        (lambda out: infini.ops.sort(out), TypeError, "indices is missing, outputs stand last"),
        (lambda out: infini.ops.add(x, x, out, implementation_index=3), ValueError,
         "no slot 3.*\n.*0 tile, 8 aten"),
        (lambda out: infini.ops.add(x, torch.ones(4), out), TypeError, "NumPy.*PyTorch"),
        (lambda out: infini.ops.add(x, x, out[:2]), ValueError, "result has"),
        (lambda out: infini.ops.hspmm(x, x, out), ValueError, "no kernel of it"),
        (lambda out: infini.ops.where(x > 0, x, 0.5, out[:2]), ValueError, "the result is"),
        (lambda out: infini.ops.add(x, x, 3), TypeError, "out is 3, not Tensor"),
        (lambda out: infini.ops.add(x, x, out, implementation_index="8"), TypeError, "slot is '8'"),
        (lambda out: infini.ops.neg(out[1:], out[:-1]), ValueError, "shares a part"),
        (lambda out: infini.ops.gemm(x, x, None, 2.0, None, False, True, 5), TypeError, "has no y"),
        (lambda out: infini.ops.split(x, 3, 1, [out]), ValueError, "a list of 2 results"),
    ],
)  # fmt: skip
def test_a_wrong_call_says_what_why_and_how_to_mend_it(call, error, text):
    out = np.zeros_like(x)
    with pytest.raises(error, match=text) as caught:
        found = call(out)
        found.signatures  # noqa: B018 of a name without any
    assert isinstance(caught.value, pto.Error) and caught.value.why and caught.value.fix
    assert not out.any()


def run(text, *folders, **options):
    path = f"import sys; sys.path[:0] = {list(map(str, folders))!r}\n"
    return children.run("-c", path + text, **options)


USE = "import numpy as np, infini.ops; y = np.zeros(2); infini.ops.add(y, 1, y); print(y)"


def test_the_folder_on_the_path_is_enough():
    made = run(USE, build_config.compat_dir())
    assert made.stdout == "[1. 1.]\n", made.stderr


def test_the_real_package_is_not_hidden(tmp_path):
    (tmp_path / "infini/ops").mkdir(parents=True)
    (tmp_path / "infini/ops/__init__.py").write_text("def add(*_): print('the real one')")
    made = run("import pto.compat.infini; pto.compat.infini.install()", tmp_path)
    assert made.returncode and "infini.ops is installed, at" in made.stderr, made.stderr
    made = run("import infini.ops", build_config.compat_dir(), tmp_path)
    assert made.returncode and "uninstall the package" in made.stderr, made.stderr
    assert "the real one" in run("import pto, infini.ops; infini.ops.add()", tmp_path).stdout


def test_a_list_of_names_restricts_the_face(tmp_path):
    names = Path(tmp_path / "names.txt")
    names.write_text("add_\n_softmax\n")
    pto.aten.restrict(names)
    try:
        assert infini.ops.names() == ["add", "internal_softmax"]
        infini.ops.add(x, x, np.empty_like(x))
        with pytest.raises(AttributeError, match="no operator neg(.|\n)*restricted to names of"):
            infini.ops.neg(x, x)
        names.write_text("where")
        pto.aten.restrict(names)
        out = np.empty_like(x)
        infini.ops.where(x > 0, x, 0.5, out)  # its result is copied, by copy_
        assert np.array_equal(out, np.where(x > 0, x, np.float32(0.5)))
    finally:
        pto.aten.restrict(None)
    assert "neg" in dir(infini.ops)
