# SPDX-License-Identifier: Apache-2.0
"""@pto.jit: methods notice what their object gets, and functions see what lies around them."""

import dataclasses
import datetime
import functools
import gc
import sys
import types
import weakref

import numpy as np
import pytest

import pto

X = np.arange(6, dtype=np.float32).reshape(3, 2)


def written(function, *args):
    """The array of X's shape that a call writes."""
    function(*args, X, out := np.zeros_like(X))
    return out


class Base:
    def step(self, x):
        return x * 2


class Scale:
    by = 2

    def scaled(self, x):
        return x * self.by


FACTOR = 2
INSIDE = [2]


class Layer(Base):
    width = 2

    def reads_outside(self, x):
        return x * FACTOR * type(self).width + self.__class__.width

    @pto.jit
    def outside(self, x):
        return self.reads_outside(x)

    def __init__(self):
        self.act = lambda x: x + 1
        self.other = Scale()
        self.bound = self.other.scaled
        self.scales = np.array([2.0, 3.0])
        self.scale = np.float32(3)
        self.inside, self.by_name, self.pair = [Scale(), Scale()], {"a": Scale()}, (0, Scale())
        self.outer = lambda x: x * INSIDE[0]

    @pto.jit
    def calls(self, x):
        return self.step(x)

    @pto.jit
    def acts(self, x):
        return self.act(x)

    @classmethod
    def of_class(cls, x):
        return x * 2

    @pto.jit
    def borrows(self, x):
        return self.bound(x) + self.of_class(x)

    @pto.jit
    def asks(self, x):
        return x * 3 if hasattr(self, "extra") else x * getattr(self, "more", 1)

    def __len__(self):
        return self.width

    def __getitem__(self, place):
        return self.inside[place]

    @pto.jit
    def applies(self, x):
        for one in self.inside:
            x = one.scaled(x)
        return self.by_name["a"].scaled(x) * self.pair[1].by

    @pto.jit
    def calls_outside(self, x):
        return self.outer(x)

    @pto.jit
    def asks_itself(self, x):
        return x * len(self) * self[0].by

    @pto.jit
    def asks_dict(self, x):
        return x * self.__dict__.get("more", 1) * vars(self).get("extra", 1)

    @pto.jit
    def asks_class(self, x):
        return x * 3 if hasattr(type(self), "extra") else x * getattr(type(self), "more", 1)

    @pto.jit
    def names_of_class(self, x):
        return x * len(vars(type(self)))

    @pto.jit
    def reads_long(self, x):
        return x * float(self.long[99]) * self.long.shape[0] if hasattr(self, "long") else x

    @pto.jit
    def reads(self, x):
        return x * self.scales[0] * self.scale


CHANGES = {
    "a function": ("acts", lambda one: setattr(one, "act", lambda x: x * 5), 5 * X),
    "a method of the object": ("calls", lambda one: setattr(one, "step", lambda x: x * 7), 7 * X),
    "a bound method": (
        "calls",
        lambda one: setattr(one, "step", types.MethodType(lambda self, x: x * 6, one)),
        6 * X,
    ),
    "a new attribute": ("asks", lambda one: setattr(one, "extra", 1), 3 * X),
    "a new attribute with a default": ("asks", lambda one: setattr(one, "more", 4), 4 * X),
    "an object in a list": ("applies", lambda one: setattr(one.inside[1], "by", 3), 24 * X),
    "an object in a dict": ("applies", lambda one: setattr(one.by_name["a"], "by", 3), 24 * X),
    "an object in a tuple": ("applies", lambda one: setattr(one.pair[1], "by", 3), 24 * X),
    "another object in a list": ("applies", lambda one: one.inside.append(Scale()), 32 * X),
    "its length": ("asks_itself", lambda one: setattr(one, "width", 3), 6 * X),
    "its element": ("asks_itself", lambda one: setattr(one.inside[0], "by", 3), 6 * X),
    "an attribute in its dict": ("asks_dict", lambda one: setattr(one, "more", 4), 4 * X),
    "an attribute in vars()": ("asks_dict", lambda one: setattr(one, "extra", 5), 5 * X),
    "an element of a long array": (
        "reads_long",
        lambda one: setattr(one, "long", np.full(100, 2.0)),
        200 * X,
    ),
    "a method of another object": (
        "borrows",
        lambda one: setattr(one, "bound", Layer().step),
        4 * X,
    ),
    "what another object has": ("borrows", lambda one: setattr(one.other, "by", 9), 11 * X),
    "an element": ("reads", lambda one: one.scales.__setitem__(0, 5), 15 * X),
    "an array": ("reads", lambda one: setattr(one, "scales", np.array([4.0])), 12 * X),
    "a number of NumPy": ("reads", lambda one: setattr(one, "scale", np.float32(2)), 4 * X),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_method_notices_what_its_object_gets(name):
    method, change, want = CHANGES[name]
    layer = Layer()
    before = [getattr(layer, method)(X) for _ in range(3)][-1]  # at first it knows of no reads
    change(layer)
    np.testing.assert_array_equal(getattr(layer, method)(X), want)
    np.testing.assert_array_equal(getattr(Layer(), method)(X), before)


def test_a_method_notices_a_method_that_its_class_gets():
    class Own(Layer):
        pass

    np.testing.assert_array_equal(Own().calls(X), 2 * X)
    Own.step = lambda self, x: x * 9
    np.testing.assert_array_equal(Own().calls(X), 9 * X)


def test_a_method_notices_what_a_function_of_its_object_reads(monkeypatch):
    layer = Layer()
    for _ in range(3):
        np.testing.assert_array_equal(layer.calls_outside(X), 2 * X)
    monkeypatch.setattr(sys.modules[__name__], "INSIDE", [2])
    np.testing.assert_array_equal(layer.calls_outside(X), 2 * X)
    INSIDE[0] = 7
    np.testing.assert_array_equal(layer.calls_outside(X), 7 * X)


@pytest.mark.parametrize("name, factor", [("extra", 3), ("more", 4)])
def test_a_method_notices_an_attribute_that_its_class_gets(name, factor):
    class Own(Layer):
        pass

    np.testing.assert_array_equal(Own().asks_class(X), X)
    setattr(Own, name, 4)
    np.testing.assert_array_equal(Own().asks_class(X), factor * X)


def test_a_method_sees_the_names_of_its_class():
    np.testing.assert_array_equal(Layer().names_of_class(X), len(vars(Layer)) * X)


@pytest.mark.parametrize("kind", ["NumPy", "PyTorch"])
def test_a_method_notices_an_element_and_a_size_of_an_array(kind):
    make = np.full if kind == "NumPy" else pytest.importorskip("torch").full
    layer = Layer()
    for size, value in ((100, 2.0), (100, 3.0), (200, 3.0)):
        layer.long = make((size,), value)
        np.testing.assert_array_equal(layer.reads_long(X), size * value * X)
    layer.long[99] = 5.0
    np.testing.assert_array_equal(layer.reads_long(X), 1000 * X)


def test_a_compared_function_keeps_no_object_alive():
    def gone():
        layer = Layer()
        layer.act = lambda x: x + len(layer.scales)
        np.testing.assert_array_equal(layer.acts(X), X + 2)
        return weakref.ref(layer)

    layer = gone()
    gc.collect()
    assert layer() is None


@pytest.mark.parametrize("kind", ["NumPy", "a gradient"])
def test_a_method_notices_what_methods_that_it_calls_capture(kind, monkeypatch):
    class Own(Layer):
        pass

    def right(want):
        x = X
        if kind == "a gradient":
            torch = pytest.importorskip("torch")
            x = torch.from_numpy(X).requires_grad_()
        got = Own().outside(x)
        np.testing.assert_array_equal(got if kind == "NumPy" else got.detach(), want)

    right(4 * X + 2)
    monkeypatch.setitem(globals(), "FACTOR", 5)
    right(10 * X + 2)
    Own.width = 3
    right(15 * X + 3)


class Derived(Base):
    factor = 3

    @pto.jit
    def looped(self, x, out):
        for i in pto.loop(x.shape[0]):
            out[i] = super().step(x[i])

    @pto.jit
    def branched(self, x, out):
        if x.shape[0] > 2:
            out[:] = super().step(x)

    @pto.jit
    def named(self, x, out):
        for i in pto.loop(x.shape[0]):
            out[i] = x[i] * __class__.factor  # noqa: F821 Python's name of the class


@pytest.mark.parametrize("name", ["looped", "branched", "named"])
def test_super_works_in_bodies_of_a_program(name):
    np.testing.assert_array_equal(written(getattr(Derived(), name)), (2 + (name == "named")) * X)


def test_a_program_calls_a_function_that_is_defined_behind_it():
    @pto.jit
    def rows(x, out):
        for i in pto.loop(x.shape[0]):
            out[i] = tripled(x[i])

    def tripled(x):
        return x * 3

    np.testing.assert_array_equal(written(rows), 3 * X)


def test_a_decorator_between_a_function_and_jit_has_its_own_text_and_signature():
    def with_three(function):
        @functools.wraps(function)
        def wrapper(x, out):
            function(x, out, 3)

        return wrapper

    @pto.jit
    @with_three
    def scaled(x, out, factor):
        for i in pto.loop(x.shape[0]):
            out[i] = x[i] * factor

    np.testing.assert_array_equal(written(scaled), 3 * X)
    with pytest.raises(TypeError, match=r"the signature is scaled\(x, out\)"):
        scaled(X)


def test_tools_take_a_bound_method_or_the_object_in_front():
    layer, method = Layer(), Layer.calls
    assert str(pto.health(layer.calls, X)) == str(pto.health(method, layer, X))
    assert pto.verify(layer.calls, X).is_equal
    assert str(method.explain(layer, X)) == str(method.explain(Layer(), X))
    with pytest.raises(TypeError, match=r"takes the object first: Layer.f.explain\(layer, x\)"):
        layer.calls.explain(X)


@dataclasses.dataclass
class Point:
    x: int


class Compares:
    """An object whose methods ask which of its objects are the same, or equal."""

    def __init__(self):
        self.first, self.other = Scale(), Scale()
        self.chosen, self.layers = self.first, [self.first, self.other]
        self.point, self.corner = Point(1), Point(1)
        self.day, self.end = (datetime.date(2026, month, 1) for month in (5, 6))

    @pto.jit
    def by_is(self, x):
        return x * (2 if self.chosen is self.first else 3)

    @pto.jit
    def by_equal(self, x):
        return x * (2 if self.chosen == self.first else 3)

    @pto.jit
    def by_unequal(self, x):
        return x * (3 if self.chosen != self.first else 2)

    @pto.jit
    def in_a_loop(self, x):
        return x * sum(2 + i for i, one in enumerate(self.layers) if one is self.chosen)

    @pto.jit
    def by_index(self, x):
        return x * (2 + self.layers.index(self.chosen))

    @pto.jit
    def by_key(self, x):
        return x * {self.first: 2}.get(self.chosen, 3)

    @pto.jit
    def by_fields(self, x):
        return x * (2 if self.point == self.corner else 3)

    @pto.jit
    def by_unequal_fields(self, x):
        return x * (3 if self.point != self.corner else 2)

    @pto.jit
    def by_order(self, x):
        return x * (2 if self.day < self.end else 3)


WHICH = ("by_is", "by_equal", "by_unequal", "in_a_loop", "by_index", "by_key")


@pytest.mark.parametrize("method", WHICH)
def test_which_object_an_attribute_is_counts_where_a_method_asks(method):
    one = Compares()
    for chosen, factor in ((one.first, 2), (one.other, 3), (one.first, 2)):
        one.chosen = chosen
        np.testing.assert_array_equal(getattr(one, method)(X), X * factor)


@pytest.mark.parametrize("method", ["by_fields", "by_unequal_fields"])
def test_objects_are_equal_as_their_class_says(method):
    one = Compares()
    for x, factor in ((1, 2), (2, 3), (1, 2)):
        one.corner.x = x
        np.testing.assert_array_equal(getattr(one, method)(X), X * factor)


def test_objects_of_a_built_in_class_are_compared():
    one = Compares()
    for month, factor in ((6, 2), (4, 3), (7, 2)):
        one.end = datetime.date(2026, month, 1)
        np.testing.assert_array_equal(one.by_order(X), X * factor)


SOUGHT, FOUND = Scale(), Scale()


def test_which_object_a_global_is_counts_where_a_function_asks(monkeypatch):
    function = pto.jit(lambda x: x * (2 if FOUND is SOUGHT else 3))
    for found, factor in ((FOUND, 3), (SOUGHT, 2), (FOUND, 3)):
        monkeypatch.setitem(globals(), "FOUND", found)
        np.testing.assert_array_equal(function(X), X * factor)
