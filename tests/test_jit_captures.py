# SPDX-License-Identifier: Apache-2.0
"""Numbers that a jitted function captures are compared at each call: none goes stale."""

import enum
import functools
import gc
import os
import sys
import types
import weakref

import numpy as np
import pytest

import pto

X = np.ones((2, 3), "f4")
FACTOR = 2.0
SETTINGS = types.SimpleNamespace(factor=2.0)
SETTINGS_OF_A_MODULE = types.ModuleType("settings_of_a_user")
SETTINGS_OF_A_MODULE.factor = 2.0
TABLE = {"factor": 2.0, "inner": {"factors": [1.0, 2.0]}, 1.5: 2.0}
BY_NAME = {"factor": 2.0, "least": -1.0}


class Mode(enum.Enum):
    PLAIN = 0
    DOUBLE = 1


MODE = Mode.PLAIN


class Base:
    factor = 2.0


class Layer(Base):
    def __init__(self):
        self.bias = 1.0

    @property
    def doubled_factor(self):
        return self.factor * 2

    @classmethod
    def of_class(cls, x):
        return x * cls.factor

    @staticmethod
    def static(x):
        return x * Base.factor

    def scaled(self, x):
        return x * self.factor + self.bias


LAYER = Layer()


def helper(x):
    return x * FACTOR


@pto.jit
def jitted_helper(x):
    return x * FACTOR


def value(jit):
    return float(jit(X)[0, 0])


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    """Puts everything back that a test sets here."""
    for name in ("FACTOR", "MODE", "helper"):
        monkeypatch.setattr(sys.modules[__name__], name, globals()[name])
    for owner in (SETTINGS, SETTINGS_OF_A_MODULE, Base):
        monkeypatch.setattr(owner, "factor", 2.0)
    for table, key in ((TABLE, "factor"), (TABLE, 1.5), (BY_NAME, "factor")):
        monkeypatch.setitem(table, key, 2.0)
    monkeypatch.setenv("FACTOR", "2")
    monkeypatch.setitem(TABLE, "inner", {"factors": [1.0, 2.0]})
    ARRAY[1] = 2.0
    settings = SETTINGS
    yield
    globals()["SETTINGS"] = settings
    vars(LAYER).pop("factor", None)
    if "factor" in vars(Layer):
        del Layer.factor


def in_globals(number):
    globals()["FACTOR"] = number


def in_another_object(number):
    globals()["SETTINGS"] = types.SimpleNamespace(factor=number)


def in_a_list(number):
    TABLE["inner"]["factors"][1] = number


def in_the_environment(number):
    os.environ["FACTOR"] = str(float(number))


ARRAY = np.array([1.0, 7.0, 2.0])[::2]
getenv = os.getenv
scaled_by = functools.partial(lambda x, y: x * y * FACTOR, y=1.0)


WAYS = {
    "a global": (lambda x: x * FACTOR, in_globals),
    "an inner function": (lambda x: (lambda y: y * FACTOR)(x), in_globals),
    "a function that is called": (lambda x: helper(x), in_globals),
    "a jitted function that is called": (lambda x: jitted_helper(x), in_globals),
    "an object": (lambda x: x * SETTINGS.factor, lambda n: setattr(SETTINGS, "factor", n)),
    "a module": (
        lambda x: x * SETTINGS_OF_A_MODULE.factor,
        lambda n: setattr(SETTINGS_OF_A_MODULE, "factor", n),
    ),
    "a class": (lambda x: x * Base.factor, lambda n: setattr(Base, "factor", n)),
    "the class of an object": (
        lambda x: LAYER.scaled(x) - LAYER.bias, lambda n: setattr(Base, "factor", n),
    ),
    "a property": (
        lambda x: x * LAYER.doubled_factor / 2, lambda n: setattr(Base, "factor", n),
    ),
    "a class method": (lambda x: Layer.of_class(x), lambda n: setattr(Base, "factor", n)),
    "a static method": (lambda x: LAYER.static(x), lambda n: setattr(Base, "factor", n)),
    "a partial call": (lambda x: scaled_by(x), in_globals),
    "a dict": (lambda x: x * TABLE["factor"], lambda n: TABLE.update(factor=n)),
    "a key that is no name": (lambda x: x * TABLE[1.5], lambda n: TABLE.update({1.5: n})),
    "the environment": (lambda x: x * float(os.environ["FACTOR"]), in_the_environment),
    "a function of the environment": (lambda x: x * float(getenv("FACTOR")), in_the_environment),
    "all values of a dict": (
        lambda x: x * max(BY_NAME.values()), lambda n: BY_NAME.update(factor=n),
    ),
    "a list in a dict": (lambda x: x * TABLE["inner"]["factors"][1], in_a_list),
    "an element of an array": (lambda x: x * ARRAY[1], lambda n: ARRAY.__setitem__(1, n)),
    "the sum of an array": (lambda x: x * (ARRAY.sum() - 1), lambda n: ARRAY.__setitem__(1, n)),
    "another object": (lambda x: x * SETTINGS.factor, in_another_object),
    "another dict in a dict": (
        lambda x: x * TABLE["inner"]["factors"][1],
        lambda n: TABLE.update(inner={"factors": [1.0, n]}),
    ),
    "what hides the class's in an object": (
        lambda x: LAYER.scaled(x) - LAYER.bias, lambda n: setattr(LAYER, "factor", n),
    ),
    "what hides the base's in a class": (
        lambda x: LAYER.scaled(x) - LAYER.bias, lambda n: setattr(Layer, "factor", n),
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("numbers", [
    (2.0, 3.0, -0.5), (2.0, 5), (2.0, True), (2.0, np.float32(4)), (2.0, np.int64(7)),
])  # fmt: skip
def test_a_captured_number_is_the_one_of_the_call(way, numbers):
    function, assign = WAYS[way]
    jit = pto.jit(function)
    assert value(jit) == 2
    for number in (*numbers, *numbers):
        assign(number)
        assert value(jit) == float(number), number


@pytest.mark.parametrize("way", WAYS)
def test_a_captured_number_is_the_one_of_the_call_through_pytorch(way):
    torch = pytest.importorskip("torch")
    pytest.importorskip("pto.torch")
    function, assign = WAYS[way]
    jit, x = pto.jit(function), torch.ones(2, 3, requires_grad=True)
    assert jit(x)[0, 0].item() == 2
    for number in (3.0, 2.0, 5):
        assign(number)
        assert jit(x)[0, 0].item() == number


def test_an_element_that_a_list_gets_later_counts():
    numbers = [2.0]
    jit = pto.jit(lambda x: x * sum(numbers))
    assert value(jit) == 2
    numbers.append(3.0)
    assert value(jit) == 5
    numbers[1] = 4.0
    assert value(jit) == 6
    numbers.pop()
    assert value(jit) == 2


def test_what_a_function_assigns_itself_makes_no_other_operator():
    torch = pytest.importorskip("torch")
    count = 0

    @pto.jit
    def counted(x):
        nonlocal count
        count += 1
        return x + 1

    x = torch.ones(2, requires_grad=True)
    made = counted.operator(x)
    assert counted(x).tolist() == [2, 2] and counted.operator(x) is made


def test_a_number_in_a_closure():
    factor = 2.0

    @pto.jit
    def scaled(x):
        return x * factor

    assert value(scaled) == 2
    factor = 3.0
    assert value(scaled) == 3


def test_numbers_steer_and_texts_choose():
    mode, count = "once", 1

    @pto.jit
    def repeated(x):
        for _ in range(count):
            x = x + 1
        return x * 2 if mode == "twice" else x

    assert value(repeated) == 2
    count = 3
    assert value(repeated) == 4
    mode = "twice"
    assert value(repeated) == 8


def test_a_member_of_an_enumeration():
    jit = pto.jit(lambda x: x * 2 if MODE is Mode.DOUBLE else x)
    assert value(jit) == 1
    globals()["MODE"] = Mode.DOUBLE
    assert value(jit) == 2


def test_a_function_that_is_called_may_become_another():
    jit = pto.jit(lambda x: helper(x))
    assert value(jit) == 2
    globals()["helper"] = lambda x: x * SETTINGS.factor + 10
    assert value(jit) == 12
    SETTINGS.factor = 4.0
    assert value(jit) == 14


def test_a_function_of_a_library_may_become_another():
    function = pto.exp
    jit = pto.jit(lambda x: function(x))
    assert value(jit) == pytest.approx(np.e)
    function = pto.neg
    assert value(jit) == -1


def test_the_size_of_an_array_is_that_of_the_call():
    array = np.ones(2)
    jit = pto.jit(lambda x: x * array.size)
    assert value(jit) == 2
    array = np.ones(3)
    assert value(jit) == 3


def test_arrays_of_former_calls_are_freed():
    jit, former = pto.jit(lambda x: x * array.size), []
    for n in range(100):
        array = np.ones(n % 3 + 1)
        former.append(weakref.ref(array))
        assert value(jit) == array.size
    assert sum(one() is not None for one in former) <= 64


def test_a_global_that_appears_later_is_seen():
    jit = pto.jit(lambda x: x * APPEARS)  # noqa: F821
    with pytest.raises(NameError):
        jit(X)
    globals()["APPEARS"] = 5.0
    try:
        assert value(jit) == 5
        globals()["APPEARS"] = 6.0
        assert value(jit) == 6
    finally:
        del globals()["APPEARS"]


def traced(function):
    """A jitted function and the list that grows with each tracing."""
    tracings = []

    @functools.wraps(function)
    def counted(x):
        tracings.append(1)
        return function(x)

    return pto.jit(counted), tracings


def test_equal_numbers_compile_nothing_and_an_earlier_one_finds_its_kernel():
    jit, tracings = traced(lambda x: x * FACTOR + FACTOR)
    for number in (2.5, float("2.5"), 3.5, np.float32(1), np.float32(1), 2.5, 3.5, float("nan")):
        globals()["FACTOR"] = number
        jit(X)
    assert len(tracings) == 4


def test_what_a_function_assigns_itself_is_no_capture():
    count = 0

    @pto.jit
    def counted(x):
        nonlocal count
        count += 1
        return x + 1

    for _ in range(3):
        counted(X)
    assert count == 1
    counts = {"tracings": 0, "elements": [0]}

    @pto.jit
    def counted_in_a_dict(x):
        counts["tracings"] += 1
        counts["elements"].append(1)
        return x + 1

    for _ in range(3):
        counted_in_a_dict(X)
    assert counts == {"tracings": 1, "elements": [0, 1]}


def test_an_equal_object_in_the_place_of_another_compiles_nothing(monkeypatch):
    jit, tracings = traced(lambda x: x * LAYER.factor)
    for _ in range(5):
        monkeypatch.setitem(globals(), "LAYER", Layer())
        jit(X)
    assert len(tracings) == 1


def test_an_array_of_rank_0_is_no_captured_number():
    factor = np.array(2.0)
    with pytest.raises(TypeError, match="from outside the function"):
        pto.jit(lambda x: x * factor)(X)


def test_0_and_minus_0_differ():
    jit = pto.jit(lambda x: x * FACTOR)
    for zero in (0.0, -0.0, 0.0):
        globals()["FACTOR"] = zero
        assert np.signbit(jit(X)[0, 0]) == np.signbit(zero)


def test_library_code_is_not_searched():
    captured = pto.jit(lambda x: pto.exp(x) * np.pi).captured()
    assert captured == ((), (), ())


def test_a_function_that_captures_itself_is_freed():
    def made():
        @pto.jit
        def halved(x):
            return x * 0.5 if halved else x

        halved(X)
        return weakref.ref(halved.__wrapped__)

    gone = made()
    gc.collect()
    assert gone() is None


def test_a_captured_tuple_of_any_depth():
    deep = (1,)
    for _ in range(100000):
        deep = (deep,)
    jit = pto.jit(lambda x: x * 2 if deep else x)
    assert value(jit) == 2
    deep = ()
    assert value(jit) == 1


def test_a_constant_parameter_has_a_depth_that_can_be_compared():
    jit = pto.jit(lambda x, c: x * 2 if c else x)
    for depth, refused in ((60, False), (65, True), (1000000, True)):
        deep = (1,)
        for _ in range(depth):
            deep = (deep,)
        if refused:
            with pytest.raises(pto.Error, match="c is a tuple of tuples, more than 64 deep"):
                jit(X, deep)
        else:
            assert jit(X, deep)[0, 0] == 2
