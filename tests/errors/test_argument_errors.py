# SPDX-License-Identifier: Apache-2.0
"""Arguments that a compiled function refuses: what, why, fix, and the line of the call."""

import fractions

import numpy as np
import pytest
import torch

import pto
from pto._core import MAX_TENSORS


@pto.jit
def double(x, times=1):
    return x * 2


@pto.jit
def add(x, y):
    return x + y


@pto.jit
def both(x):
    return x + 1, x.sum()


@pto.jit
def named(x):
    return {"a": x, "b": x.sum()}


@pto.jit
def program(x, out):
    for i in pto.loop(x.shape[0]):
        out[i] = x[i]


@pto.jit
def calls_program(x, out):
    program(x)


@pto.jit
def static(x: pto.Tensor[pto.DYN, pto.STATIC], y):
    return x + y


T, N = torch.ones(4, 3), np.ones((4, 3), "f4")
GRAD = torch.ones(3, requires_grad=True)
BYTES = bytearray(64)
MISPLACED = np.frombuffer(BYTES, np.uint8)[1:33].view("f4")
UNEVEN = np.lib.stride_tricks.as_strided(np.frombuffer(BYTES, "f4"), (4,), (6,))
READ_ONLY = np.broadcast_to(np.ones(3, "f4"), (4, 3))


CASES = {
    "a look at what PyTorch computes": (
        double.explain, lambda: (GRAD,), {}, ValueError, "no plain tensors", "they lie", "cpu",
    ),
    "sparse": (double, lambda: (T.to_sparse(),), {}, TypeError, "x cannot be read", "dense", "CPU"),
    "complex torch": (
        double, lambda: (torch.ones(3, dtype=torch.complex64),), {}, TypeError,
        "the element type torch.complex64", "f32", "convert",
    ),
    "complex numpy": (
        double, lambda: (np.ones(3, "c8"),), {}, TypeError, "the element type complex64", "f32", "",
    ),
    "quad": (
        double, lambda: (np.ones(3, np.longdouble),), {}, TypeError, "the element type", "f32", "",
    ),
    "strings": (double, lambda: (np.array(["a"]),), {}, TypeError, "the element type <U1", "", ""),
    "objects": (double, lambda: (np.array([None]),), {}, TypeError, "element type object", "", ""),
    "dates": (
        double, lambda: (np.zeros(2, "M8[s]"),), {}, TypeError, "element type datetime64", "", "",
    ),
    "big-endian": (
        double, lambda: (np.ones(3, ">f4"),), {}, TypeError, "element type >f4", "native byte", "",
    ),
    "records": (
        double, lambda: (np.zeros(3, "f4,i4"),), {}, TypeError, "the element type", "", "convert",
    ),
    "8-bit float": (
        double, lambda: (torch.ones(3).to(torch.float8_e4m3fn),), {}, TypeError,
        "the element type torch.float8_e4m3fn", "", "",
    ),
    "misplaced": (
        double, lambda: (MISPLACED,), {}, ValueError,
        "multiple of its element size", "aligned", "copy",
    ),
    "uneven strides": (
        double, lambda: (UNEVEN,), {}, ValueError, "multiple of its element size", "", "copy",
    ),
    "nine axes": (
        double, lambda: (np.ones((1,) * 9, "f4"),), {}, ValueError, "x has 9 axes", "at most 8", "",
    ),
    "list": (double, lambda: ([1.0, 2.0],), {}, TypeError,
        "no argument is an array", "arrays", "numpy.asarray"),
    "masked": (
        double, lambda: (np.ma.masked_array(N),), {}, TypeError, "MaskedArray", "", "masked",
    ),
    "fraction": (
        double, lambda: (T, fractions.Fraction(1)), {}, TypeError, "times is a value of", "", "",
    ),
    "set in tuple": (double, lambda: (T, (1, {2})), {}, TypeError,
        "times[1] is a value of type builtins.set", "tuples, lists", "convert"),
    "array in tuple": (double, lambda: (T, (1, (T,))), {}, TypeError,
        "times[1][0] is a value", "constants of the comp", "a parameter"),
    "out in other containers": (named, lambda: (T,), {"out": lambda: {"a": T, "c": [T]}}, TypeError,
        "out is a dict of a, c (one tensor, a list of 1), but the function returns a dict of a, b",
        "containers", "same"),
    "no array": (double, lambda: (3.0,), {}, TypeError, "no argument is an array", "", "asarray"),
    "two libraries": (
        add, lambda: (T, N), {}, TypeError, "y is a value of type numpy.ndarray", "one library", "",
    ),
    "sizes": (
        add, lambda: (T, torch.ones(5)), {}, ValueError, "sizes 3 and 5 differ in add", "axis", "",
    ),
    "out of another type": (
        double, lambda: (T,), {"out": lambda: torch.empty(4, 3, dtype=torch.float64)}, ValueError,
        "out is torch's torch.float64 of shape [4, 3], but the output is f32[4, 3]", "", "allocate",
    ),
    "out of another shape": (
        double, lambda: (T,), {"out": lambda: torch.empty(3, 4)}, ValueError,
        "of shape [3, 4], but the output is f32[4, 3]", "", "",
    ),
    "out of another library": (
        double, lambda: (T,), {"out": lambda: N.copy()}, TypeError, "out is a value", "library", "",
    ),
    "out without room": (
        double, lambda: (T,), {"out": lambda: torch.empty(1).expand(4, 3)}, ValueError,
        "elements of out share memory", "several", "own",
    ),
    "out over the input": (
        double, lambda: (T,), {"out": lambda: T}, ValueError,
        "out overlaps an input", "read", "own",
    ),
    "out that is read-only": (
        double, lambda: (N,), {"out": lambda: READ_ONLY}, ValueError, "out is read-only", "", "",
    ),
    "too few outs": (
        both, lambda: (T,), {"out": lambda: (torch.empty(4, 3),)}, ValueError,
        "the function has outputs, 2", "", "tuple",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_argument_that_cannot_be_taken_is_refused_with_the_line_of_the_call(name):
    function, args, kwargs, kind, what, why, fix = CASES[name]
    args, kwargs = args(), {key: make() for key, make in kwargs.items()}
    with pytest.raises(kind) as caught:
        function(*args, **kwargs)
    error = caught.value
    assert isinstance(error, pto.Error), repr(error)
    assert what in error.what and why in error.why and fix in error.fix, str(error)
    assert error.why and error.fix
    assert "test_argument_errors.py:" in error.location


@pytest.mark.parametrize(
    "call",
    [
        lambda: double(),
        lambda: double(T, 1, 2),
        lambda: double(T, x=T),
        lambda: double(T, other=1),
        lambda: add(T),
        lambda: calls_program(T, T.clone()),
        lambda: static(T),
    ],
)
def test_arguments_that_do_not_fit_raise_pythons_own_error(call):
    names = "(double|add|program|static)"
    text = (
        rf"test_argument_errors.py:\d+: {names}\(\) .*argument.*\n  why: the signature is {names}\("
    )
    with pytest.raises(TypeError, match=text):
        call()


def test_one_tensor_too_many_is_named():
    names = [f"x{i}" for i in range(MAX_TENSORS + 1)]
    space = {}
    exec(f"def many({', '.join(names)}):\n    return {' + '.join(names)}", space)
    with pytest.raises(ValueError, match=f"many: {names[-1]} is the {len(names)}"):
        pto.jit(space["many"])(*[T] * len(names))


def test_a_function_that_calls_itself_with_arrays_is_refused():
    @pto.jit
    def again(x):
        return again(T) + x

    with pytest.raises(ValueError, match="calls itself with arrays"):
        again(T)


@pytest.mark.parametrize("rank, fix", [(0, "pass a tensor with an axis"), (2, "from -2 to 1")])
def test_an_axis_that_infer_does_not_find_is_told_with_the_operator(rank, fix):
    x = np.ones((3,) * rank, "f4")
    with pytest.raises(ValueError) as caught:
        pto.ops.concat([x, x], rank)
    assert caught.value.what == f"concat: there is no axis {rank} in a tensor of {rank} axes"
    assert fix in caught.value.fix


def test_an_element_of_a_list_is_named_by_its_place():
    x, text = np.ones(3, "f4"), r"concat: tensors\[2\] is f64 but tensors\[1\] is f32"
    with pytest.raises(TypeError, match=text):
        pto.ops.concat([x, x, x.astype("f8")], 0)


def test_settings_refuse_what_they_cannot_take():
    with pytest.raises(ValueError, match="config.target is 'sse'"):
        pto.config.target = "sse"
    with pytest.raises(TypeError, match="config.dump is 3"):
        pto.config.dump = 3
    with pytest.raises(ValueError, match="no text with a NUL in it"):
        pto.config.cache_dir = "a\0b"
    with pytest.raises(TypeError, match="config.cxx is 3"):
        pto.config.cxx = 3
    with pytest.raises(AttributeError):
        pto.config.cache = "x"
    with pytest.raises(ValueError):
        pto.config.threads = 0
