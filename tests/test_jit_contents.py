# SPDX-License-Identifier: Apache-2.0
"""A function notices other contents of the containers, arrays and objects that it captures."""

import array
import collections
import contextvars
import dataclasses
import enum
import functools
import types
import warnings

import numpy as np
import pytest

import pto

X = np.ones((2, 3), "f4")


class Mode(enum.Enum):
    FAST = 1


class Calls:
    """An object that computes by its special methods."""

    def __init__(self):
        self.factor = 2

    def __call__(self, x):
        return x * self.factor

    def __getitem__(self, place):
        return self.factor

    def __len__(self):
        return self.factor

    def __iter__(self):
        yield self.factor


class OwnLength:
    length = 0

    def __len__(self):
        return self.length


@dataclasses.dataclass(slots=True)
class Slots:
    factor: float = 2


class OwnList(list):
    pass


class OwnArray(np.ndarray):
    pass


def with_default(x, factor=2):
    return x * factor


def with_list(x, factors=[2]):  # noqa: B006
    return x * factors[0]


def with_name(x, *, factor=2):
    return x * factor


def with_attribute(x):
    return x * with_attribute.factor


def reloaded(x):
    return x * 2


def of_five(x):
    return x * 5


def of_method(x, one):
    return x * one.factor


CONSTANT = 1


class Made:
    def __init__(self, factor):
        self.factor = factor * CONSTANT

    def __call__(self, x):
        return x * self.factor


variable = contextvars.ContextVar("variable", default=2)
plain = types.SimpleNamespace

# name: (what is captured, how a function computes 2 with it, how 5 comes of it)
WAYS = {
    "a set": ({2}, lambda x, c: x * sum(c), lambda c: c.add(3)),
    "a deque": (collections.deque([2]), lambda x, c: x * c[0], lambda c: c.__setitem__(0, 5)),
    "a list in a tuple": (([2],), lambda x, c: x * c[0][0], lambda c: c[0].__setitem__(0, 5)),
    "a list in a tuple in a dict": (
        {"a": (1, [2])}, lambda x, c: x * c["a"][1][0], lambda c: c["a"][1].__setitem__(0, 5)),
    "a key that comes later": ({}, lambda x, c: x * c.get("b", 2), lambda c: c.update(b=5)),
    "a key that is a member": (
        {Mode.FAST: 2}, lambda x, c: x * c[Mode.FAST], lambda c: c.update({Mode.FAST: 5})),
    "a key that is a tuple": (
        {(1, 2): 2}, lambda x, c: x * c[1, 2], lambda c: c.update({(1, 2): 5})),
    "a dict of a class of its own": (
        collections.OrderedDict(a=2), lambda x, c: x * c["a"], lambda c: c.update(a=5)),
    "a list of a class of its own": (
        OwnList([2]), lambda x, c: x * c[0], lambda c: c.__setitem__(0, 5)),
    "a long list": ([2] * 1000, lambda x, c: x * c[9], lambda c: c.__setitem__(9, 5)),
    "a long dict": (
        dict.fromkeys(range(1000), 2), lambda x, c: x * c[9], lambda c: c.update({9: 5})),
    "a long array": (np.full(8000, 2.0), lambda x, c: x * c[9], lambda c: c.__setitem__(9, 5)),
    "an array of a class of its own": (
        np.full(3, 2.0).view(OwnArray), lambda x, c: x * c[1], lambda c: c.__setitem__(1, 5)),
    "an array with a mask": (
        np.ma.array([2.0, 1.0], mask=[0, 1]), lambda x, c: x * float(c[0]),
        lambda c: c.__setitem__(0, 5)),
    "an array of bytes": (bytearray(b"\2"), lambda x, c: x * c[0], lambda c: c.__setitem__(0, 5)),
    "an array of Python": (
        array.array("d", [2]), lambda x, c: x * c[0], lambda c: c.__setitem__(0, 5)),
    "a variable of the context": (variable, lambda x, c: x * c.get(), lambda c: c.set(5)),
    "a default": (
        with_default, lambda x, c: c(x), lambda c: setattr(c, "__defaults__", (5,))),
    "a list as a default": (
        with_list, lambda x, c: c(x), lambda c: c.__defaults__[0].__setitem__(0, 5)),
    "a default by name": (
        with_name, lambda x, c: c(x), lambda c: c.__kwdefaults__.update(factor=5)),
    "the code of a function": (
        reloaded, lambda x, c: c(x), lambda c: setattr(c, "__code__", of_five.__code__)),
    "an attribute of a function": (
        with_attribute, lambda x, c: c(x), lambda c: setattr(c, "factor", 5)),
    "a name of a partial call": (
        functools.partial(with_default, factor=2), lambda x, c: c(x),
        lambda c: c.keywords.update(factor=5)),
    "a list of a partial call": (
        functools.partial(with_list, factors=[2]), lambda x, c: c(x),
        lambda c: c.keywords["factors"].__setitem__(0, 5)),
    "a slot": (Slots(), lambda x, c: x * c.factor, lambda c: setattr(c, "factor", 5)),
    "what getattr() reads": (
        plain(factor=2), lambda x, c: x * getattr(c, "factor"),  # noqa: B009
        lambda c: setattr(c, "factor", 5)),
    "what vars() reads": (
        plain(factor=2), lambda x, c: x * vars(c)["factor"], lambda c: setattr(c, "factor", 5)),
    "an object that is called": (Calls(), lambda x, c: c(x), lambda c: setattr(c, "factor", 5)),
    "an object with elements": (
        Calls(), lambda x, c: x * c[0], lambda c: setattr(c, "factor", 5)),
    "an object with a length": (
        Calls(), lambda x, c: x * len(c), lambda c: setattr(c, "factor", 5)),
    "an object that is true": (
        OwnLength(), lambda x, c: x * (2 if not c else 5), lambda c: setattr(c, "length", 1)),
    "an object that is walked through": (
        Calls(), lambda x, c: x * sum(c), lambda c: setattr(c, "factor", 5)),
    "an attribute that comes later": (
        plain(), lambda x, c: x * getattr(c, "factor", 2), lambda c: setattr(c, "factor", 5)),
    "whether there is an attribute": (
        plain(), lambda x, c: x * (5 if hasattr(c, "factor") else 2),
        lambda c: setattr(c, "factor", 1)),
    "a dict in an object of Python's": (
        collections.UserDict(a=2), lambda x, c: x * c["a"], lambda c: c.update(a=5)),
    "a list in an object of Python's": (
        collections.UserList([2]), lambda x, c: x * c[0], lambda c: c.__setitem__(0, 5)),
    "a global of a constructor": (
        Made, lambda x, c: c(2)(x), lambda c: globals().update(CONSTANT=2.5)),
}  # fmt: skip
with_attribute.factor = 2


@pytest.fixture(autouse=True)
def restored():
    yield
    globals().update(CONSTANT=1)
    variable.set(2)


def first(result):
    return float(getattr(result, "detach", lambda: result)().reshape(-1)[0])


@pytest.mark.parametrize("name", WAYS)
def test_a_changed_content_is_that_of_the_call(name):
    captured, compute, change = WAYS[name]
    jit = pto.jit(lambda x: compute(x, captured))
    assert first(jit(X)) == 2 == first(jit(X))
    change(captured)
    assert first(jit(X)) == 5 == first(jit(X))


def test_a_changed_content_is_that_of_the_call_through_pytorch():
    torch = pytest.importorskip("torch")
    factors, scale, by_kind = [2.0], torch.tensor([2.0]), {Mode.FAST: 2.0}

    def scaled(x):
        parts = []
        parts.append(x * factors[0])
        return parts[0] * scale.item() * by_kind[Mode.FAST]

    for x in (torch.ones(2, 3), torch.ones(2, 3, requires_grad=True)):
        jit = pto.jit(scaled)
        factors[0] = by_kind[Mode.FAST] = scale[0] = 2.0
        assert first(jit(x)) == 8
        factors[0] = 3.0
        assert first(jit(x)) == 12
        scale[0] = 5.0
        assert first(jit(x)) == 30
        by_kind[Mode.FAST] = 1.0
        assert first(jit(x)) == 15


def test_a_number_of_a_module_of_pytorch_is_that_of_the_call():
    torch = pytest.importorskip("torch")
    norm = torch.nn.LayerNorm(3, eps=2.0)
    jit = pto.jit(lambda x: x * (norm.eps if norm.training else 7))
    assert first(jit(X)) == 2
    norm.eps = 5.0
    assert first(jit(X)) == 5
    norm.eval()
    assert first(jit(X)) == 7


def test_a_buffer_of_a_module_is_that_of_the_call():
    torch = pytest.importorskip("torch")

    class Scale(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("factor", torch.tensor(2.0))
            self.weight = torch.nn.Parameter(torch.ones(1))

    one = Scale()
    jit = pto.jit(lambda x: x * one.factor.item() * one.weight.tolist()[0])
    assert first(jit(X)) == 2
    one.factor.fill_(5)
    assert first(jit(X)) == 5
    one.weight.data[0] = 2
    assert first(jit(X)) == 10
    one.factor = torch.tensor(3.0)
    assert first(jit(X)) == 6


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int64", "complex64"])
def test_an_element_of_any_type_is_that_of_the_call(dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.full(6, 2, getattr(ml_dtypes, dtype, dtype))[::2]
    jit = pto.jit(lambda x: x * float(values[1].real))
    assert first(jit(X)) == 2
    values[1] = 5
    assert first(jit(X)) == 5


FACTORS = [2.0]


@pto.jit
def writes(x, out):
    out[:] = x * FACTORS[0]


def test_a_program_that_writes_notices_an_element():
    out = np.zeros_like(X)
    writes(X, out)
    FACTORS[0] = 5.0
    writes(X, out)
    assert (out == 5).all()


def test_a_store_to_a_local_container_hides_no_captured_one():
    factors, settings = [2.0], plain(factor=1.0)

    @pto.jit
    def stored(x):
        parts, one = {}, plain()
        parts["a"] = x * factors[0]
        one.factor = 7.0
        return parts["a"] * settings.factor

    assert first(stored(X)) == 2
    factors[0] = 3.0
    assert first(stored(X)) == 3
    settings.factor = 2.0
    assert first(stored(X)) == 6


def test_what_a_function_changes_through_another_name_compiles_once():
    counts = {"tracings": 0, "factor": 2.0, "seen": []}

    @pto.jit
    def counted(x):
        here = counts
        here["tracings"] += 1
        here["seen"].append(1)
        return x * counts["factor"]

    for factor, tracings in ((2.0, 1), (2.0, 1), (3.0, 2), (2.0, 2), (3.0, 2)):
        counts["factor"] = factor
        assert first(counted(X)) == factor
        assert counts["tracings"] == tracings == len(counts["seen"])


@dataclasses.dataclass
class State:
    scale: float = 2.0
    step: int = 0


class Meter(State):
    def __init__(self):
        super().__init__()
        self.history = []

    def __len__(self):
        return len(self.history)

    def __repr__(self):
        return f"{self.history}"


def test_what_a_function_does_not_reach_compiles_nothing():
    traces, state, meter = [], State(), Meter()

    @pto.jit
    def scaled(x):
        traces.append("step")
        return x * state.scale * meter.scale * (1 if x.dtype == pto.f32 else 2)

    for _ in range(3):
        assert first(scaled(X)) == 4
        state.step += 1
        meter.history.append(1)
    assert len(traces) == 1


def test_the_shape_of_an_array_compiles_once_for_all_elements():
    traces, values = [], np.zeros(4)

    @pto.jit
    def scaled(x):
        traces.append(1)
        return x * values.shape[0]

    for step in range(3):
        values[:] = step
        assert first(scaled(X)) == 4
    assert len(traces) == 1


@pytest.mark.parametrize("captured, told", [
    (np.zeros(100_000), "captures captured, an array of 800000 bytes, which no call compares"),
    (dict.fromkeys(range(5000), 1), "5000 elements, which no call compares"),
])  # fmt: skip
def test_what_is_too_large_to_compare_is_told_once(captured, told):
    jit = pto.jit(lambda x: x * captured[1])
    with pytest.warns(RuntimeWarning, match=told):
        jit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jit(X[0])


def test_what_is_large_and_never_changes_needs_no_warning():
    fixed, shaped, pair = np.zeros(100_000), np.zeros(100_000), tuple(range(5000))
    fixed.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pto.jit(lambda x: x * fixed[1] * shaped.shape[0] + pair[2])(X)
