# SPDX-License-Identifier: Apache-2.0
"""@pto.jit: numbers of the call, constants, results in containers, methods, copies."""

import collections
import copy
import dataclasses
import pickle
import warnings

import numpy as np
import pytest
import torch

import pto
from pto import _core

Pair = collections.namedtuple("Pair", "low high")


@pto.jit
def scaled_add(x, y, factor=2.0, *, shift=0.0):
    return x * factor + y * (1.0 - shift)


def kernels(call):
    before = _core.kernel_count()
    call()
    return _core.kernel_count() - before


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_a_float_that_steers_nothing_is_a_number_of_the_call(dtype):
    def scaled_difference(x, y, factor=2.0, *, shift=0.0):  # which no other test compiles
        return x * factor - y * (1.0 - shift)

    difference = pto.jit(scaled_difference)
    x, y = np.arange(6).astype(dtype), np.ones(6, dtype)
    numbers = (0.25, -0.0, 1e-7, float("inf"), float("nan"), np.float64(3.5))
    assert kernels(lambda: [difference(x, y, k, shift=0.5) for k in numbers]) == 1
    for k in numbers:
        constant = pto.jit(constants=("factor", "shift"))(scaled_difference)
        got, want = difference(x, y, k, shift=0.5), constant(x, y, float(k), shift=0.5)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, 2e-3 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize("function", [
    lambda x, k=2.0: k * x, lambda x, k=2.0: k + x * k, lambda x, k=2.0: (k * 3.0) * x + (x + k),
])  # fmt: skip
def test_a_number_in_front_of_a_tensor_is_one_of_the_call(function):
    scaled, x = pto.jit(function), np.arange(5, dtype=np.float32)
    assert kernels(lambda: [scaled(x, k) for k in (0.5, 1.5, -2.0)]) == 1
    np.testing.assert_allclose(scaled(x, 1.5), function(x, 1.5), 1e-6)


STEERED = {
    "a condition": lambda x, k: x * k if k > 1 else x + k,
    "a power": lambda x, k: x**k,
    "a conversion": lambda x, k: x * int(k),
    "a look-up": lambda x, k: x * {2.0: 3.0, 0.5: 7.0}.get(k, 11.0),
    "a text": lambda x, k: x * float(f"{k}") + k,
    "its type": lambda x, k: x * 2 if type(k) is float else x,
    "a sum over it": lambda x, k: x * sum((k, 1.0)) + float(k),
    "equality": lambda x, k: x if k == 0.5 else -x,
    "a caught condition": lambda x, k: _caught(x, k),
}


def _caught(x, k):
    try:
        return x * 2 if k > 1 else x
    except TypeError:
        return x * 5


@pytest.mark.parametrize("name", STEERED)
def test_a_float_that_steers_is_a_constant(name):
    function = STEERED[name]
    jitted = pto.jit(lambda x, k: function(x, k))
    x = np.linspace(0.5, 2, 7)
    for value in (2.0, 0.5, 3.0, 2.0):
        np.testing.assert_allclose(jitted(x, value), function(x, value), 1e-12)


def test_the_type_of_a_float_that_a_branch_or_loop_reads_steers():
    @pto.jit
    def in_a_branch(x, k):
        y = x
        if x[0] > 0:
            y = x * 2 if type(k) is float else x * 3
        return y

    @pto.jit
    def in_a_loop(x, k):
        for _ in pto.loop(x.shape[0]):
            x = x * 2 if type(k) is float else x * 3
        return x

    x = np.ones(2, "f4")
    assert in_a_branch(x, 0.5).tolist() == [2, 2] and in_a_loop(x, 0.5).tolist() == [4, 4]


def test_a_program_that_writes_takes_floats_as_numbers_of_the_call():
    @pto.jit
    def step(w, gradient, rate, decay=0.0):
        w[:] = w - rate * (gradient + decay * w)

    @pto.jit
    def steps(w, gradient, rate):
        for i in pto.loop(w.shape[0]):
            w[i] = w[i] - rate * gradient[i]

    w, gradient = np.ones((3, 2), "f4"), np.full((3, 2), 2, "f4")
    want, places = w.astype("f8"), [(1.0, 0.5), (0.25, 0.0), (0.125, 3.0)]
    assert kernels(lambda: [step(w, gradient, *numbers) for numbers in places]) == 1
    for rate, decay in places:
        want = want - rate * (gradient + decay * want)
    np.testing.assert_allclose(w, want, 1e-6)
    for rate in (0.5, 0.25):
        steps(w, gradient, rate)
        want = want - rate * gradient
    np.testing.assert_allclose(w, want, 1e-6)
    with pytest.raises(ValueError, match="no parameter 'rat' that could be a constant"):
        pto.jit(constants="rat")(step.__wrapped__)


@pytest.mark.parametrize("count, floats", [(5, 3), (39, 8), (39, 1), (32, 32)])
def test_any_of_the_most_parameters_may_be_a_number(count, floats):
    names = [f"a{place}" for place in range(count)]
    terms = "".join(f" + {place + 1} * {name}" for place, name in enumerate(names))
    namespace = {}
    exec(f"def many(x, {', '.join(names)}):\n    return x{terms}\n", namespace)
    many = pto.jit(namespace["many"])
    for first in (0, 3):
        values = [first + place % 7 + 0.5 * (place >= count - floats) for place in range(count)]
        values = [float(v) if place >= count - floats else int(v) for place, v in enumerate(values)]
        want = sum((place + 1) * value for place, value in enumerate(values))
        assert many(np.zeros(2), *values).tolist() == [want, want]


def test_isinstance_of_a_number_is_that_of_a_float():
    jitted = pto.jit(lambda x, k: x * k if isinstance(k, float) else x)
    x = np.ones(3, "f4")
    assert kernels(lambda: [jitted(x, 2.0), jitted(x, 3.0)]) == 1
    assert jitted(x, 3.0).tolist() == [3, 3, 3] and jitted(x, 3).tolist() == [1, 1, 1]


def test_random_functions_of_numbers_compute_as_with_constants(deep):
    random = np.random.default_rng(0)
    steps = ["x * {k}", "x + {k}", "x - {j}", "{k} - x", "pto.maximum(x, {j})", "x * ({k} - 1.0)",
             "x / ({j} + 3.0)", "x * (2.0 * {k} + {j})", "x * -{k}"]  # fmt: skip
    for _ in range(60 if deep else 6):
        lines = [f"    x = {random.choice(steps).format(k='k', j='j')}" for _ in range(4)]
        text = "\n".join(["def f(x, k, j):", *lines, "    return x"])
        space = {"pto": pto}
        exec(text, space)
        numbers, constants = pto.jit(space["f"]), pto.jit(constants=("k", "j"))(space["f"])
        x = random.standard_normal(9)
        for k, j in random.standard_normal((3, 2)):
            want = constants(x, float(k), float(j))
            np.testing.assert_allclose(numbers(x, float(k), float(j)), want, 1e-12, err_msg=text)


@pytest.mark.parametrize("kind, fix", [(float, "arithmetic only"), (int, "as a float")])
def test_the_eighth_version_of_a_parameter_is_told_once(kind, fix):
    jitted = pto.jit(lambda x, k, n=1: x * k if k > 2 else x)
    x = np.ones(3, "f4")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for value in range(7):
            jitted(x, kind(value))
        assert not seen
        for value in range(12):
            jitted(x, kind(value))
    (warning,) = seen
    text = str(warning.message)
    assert "compiled for 8 values of k" in text and "why:" in text and fix in text
    assert warning.filename.endswith("test_jit_values.py")


def test_the_options_are_checked():
    with pytest.raises(pto.Error, match="no parameter 'z'.*\n.*x, k"):
        pto.jit(constants=("z",))(lambda x, k: x)
    with pytest.raises(pto.Error, match="autocast is 'high'"):
        pto.jit(autocast="high")(lambda x: x)


@pytest.mark.parametrize("number", [np.float32(3), np.int64(3), np.float16(3), np.bool_(True)])
def test_numbers_of_numpy_beside_arrays_are_constants(number):
    x = torch.ones(4)
    for y in (x, x.numpy(), x.requires_grad_()):
        got = scaled_add(y, y, number)
        assert type(got) is type(y) and got.dtype == y.dtype
        assert got.tolist() == [1 + float(number)] * 4


@dataclasses.dataclass
class Options:
    eps: float
    sizes: tuple = (1, 2)
    mode: str = "a"


@dataclasses.dataclass(frozen=True)
class Outer:
    inner: Options
    scale: np.float32 = np.float32(2)


DEFAULT = Outer(Options(0.5))


def test_dataclasses_are_constants_and_compared_by_their_fields():
    traced = []

    @pto.jit
    def f(x, options=DEFAULT):
        traced.append(1)
        return x * options.scale + options.inner.eps + sum(options.inner.sizes)

    x = np.ones(3, "f4")
    mutable = Options(0.5)
    for options in (Outer(Options(0.5)), Outer(mutable), Outer(Options(0.5, (1, 2), "a"))):
        assert f(x, options).tolist() == f(x).tolist() == [5.5] * 3
    assert len(traced) == 1
    mutable.eps = 1.5
    assert f(x, Outer(mutable)).tolist() == [6.5] * 3
    t = torch.ones(3, requires_grad=True)
    assert f(t, Outer(mutable)).tolist() == [6.5] * 3
    mutable.eps = 2.5
    assert f(t, Outer(mutable)).tolist() == [7.5] * 3
    with pytest.raises(pto.Error, match=r"options.inner is a value of type fractions"):
        f(x, Outer(__import__("fractions").Fraction(1)))


def test_tuples_of_what_may_change_are_constants_and_compared_by_content():
    traced = []

    @pto.jit
    def f(x, options):
        traced.append(1)
        (first, *_), sizes = options
        return x * first.eps + sum(sizes) + options[0][1]["k"]

    mutable, sizes = Options(0.5), [1, 2]
    given = (mutable, {"k": np.float32(3)}), sizes
    for x in (np.ones(3, "f4"), torch.ones(3, requires_grad=True)):
        mutable.eps, sizes[:] = 0.5, [1, 2]
        traced.clear()
        for options in (given, ((Options(0.5), {"k": np.float32(3)}), [1, 2])):
            assert f(x, options).tolist() == [6.5] * 3
        count = len(traced)
        mutable.eps = 1.5
        assert f(x, given).tolist() == [7.5] * 3
        sizes.append(4)
        assert f(x, given).tolist() == [11.5] * 3
        assert len(traced) == 3 * count


FORMS = {
    "list": lambda x: [x + 1, x * 2],
    "tuple of one": lambda x: (x + 1,),
    "dict": lambda x: {"b": x + 1, "a": x * 2},
    "nested": lambda x: {"a": [x, (x + 1, {"c": x * 3})], "b": ()},
    "named tuple": lambda x: Pair(x.sum(-1), [x]),
    "nine tensors": lambda x: [x * i for i in range(9)],
}


@pytest.mark.parametrize("name", FORMS)
def test_results_stand_in_the_containers_of_the_function(name):
    function = FORMS[name]
    jitted = pto.jit(lambda x: function(x))
    x = torch.randn(3, 4)
    want = function(x)
    for given in (x, x.clone().requires_grad_()):
        got = jitted(given)
        assert repr(torch.utils._pytree.tree_structure(got)) == repr(
            torch.utils._pytree.tree_structure(want)
        )
        for a, b in zip(*map(torch.utils._pytree.tree_leaves, (got, want)), strict=True):
            torch.testing.assert_close(a, b)
    out = torch.utils._pytree.tree_map(torch.zeros_like, want)
    assert jitted(x, out=out) is out
    for a, b in zip(*map(torch.utils._pytree.tree_leaves, (out, want)), strict=True):
        torch.testing.assert_close(a, b)


def test_a_dict_without_tensors_and_an_out_of_another_form_are_refused():
    with pytest.raises(TypeError, match="returned an empty dict"):
        pto.jit(lambda x: {})(np.ones(3))
    jitted = pto.jit(lambda x: {"a": x})
    with pytest.raises(TypeError, match="the function returns a dict of a"):
        jitted(np.ones(3), out={"b": np.ones(3)})


VIEWS = {
    "columns": lambda m: m[:, ::2],
    "transposed": lambda m: m[:3, :4].T[:, :3].T,
    "reversed": lambda m: m[::-1, :3],
    "a row apart": lambda m: m[::2, 1:4],
}


@pytest.mark.parametrize("name", VIEWS)
def test_out_may_have_gaps(name):
    memory = np.zeros((9, 9))
    out = VIEWS[name](memory)
    x = np.random.default_rng(0).standard_normal(out.shape)
    assert scaled_add(x, x, 3.0, out=out) is out
    np.testing.assert_allclose(out, 4 * x)
    assert np.count_nonzero(memory) == np.count_nonzero(x)
    t = torch.zeros(9, 9)
    view = t[:, ::2][: x.shape[0], : x.shape[1]]
    assert scaled_add(torch.ones(view.shape), torch.ones(view.shape), 3.0, out=view) is view
    assert t.sum() == 4 * view.numel() == view.sum()


def test_an_out_whose_elements_share_memory_is_refused():
    out = torch.zeros(1).expand(3)
    with pytest.raises(ValueError, match="elements of out share memory"):
        scaled_add(torch.ones(3), torch.ones(3), out=out)


def test_pickled_and_copied_by_name():
    for function in (scaled_add, Scaler.apply):
        assert pickle.loads(pickle.dumps(function)) is copy.deepcopy(function) is function
    assert copy.copy(scaled_add) is scaled_add
    module = torch.nn.Module()
    module.act = scaled_add
    assert copy.deepcopy(module).act is scaled_add
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(pto.jit(lambda x: x))


class Scaler:
    factor = 2

    def __init__(self, shift):
        self.shift = shift
        self.inner = Options(shift)

    def helper(self, x):
        return x + self.inner.eps

    @property
    def both(self):
        return self.factor + self.shift

    @pto.jit
    def apply(self, x, k=1.0):
        """Text."""
        return self.helper(x) * self.factor + self.both * k

    @staticmethod
    @pto.jit
    def plain(x, k=1):
        return x * k

    @classmethod
    @pto.jit
    def of_class(cls, x):
        return x * cls.factor


def test_methods_read_constants_of_their_object():
    x = np.ones(3, "f4")
    objects = [Scaler(1.0), Scaler(5.0), Scaler(1.0)]

    def right(one):
        want = (1 + one.inner.eps) * one.factor + (one.factor + one.shift) * 3
        assert one.apply(x, 3.0).tolist() == [want] * 3

    for one in objects:
        right(one)
    for one in objects:
        assert kernels(lambda one=one: right(one)) <= 1
    assert kernels(lambda: [right(one) for one in objects]) == 0
    objects[0].shift = 7.0
    objects[1].inner.eps = 9.0
    objects[2].factor = 3
    for one in objects:
        right(one)
    assert Scaler.plain(x, 3).tolist() == objects[0].plain(x, 3).tolist() == [3] * 3
    assert Scaler.of_class(x).tolist() == [2] * 3 and Scaler.apply.__doc__ == "Text."
    assert Scaler.apply(objects[0], x).tolist() == objects[0].apply(x).tolist()


def test_a_method_changes_nothing():
    class Counter:
        @pto.jit
        def count(self, x):
            self.calls = 1
            return x

    with pytest.raises(TypeError, match="writing calls of an object"):
        Counter().count(np.ones(3))
