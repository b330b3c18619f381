# SPDX-License-Identifier: Apache-2.0
"""Mistakes in a traced function: each message says what, why and fix, and names the user's line."""

import operator

import numpy as np
import pytest
import torch

import pto

F32, I32, BOOL = np.zeros((2, 3), "f4"), np.zeros((2, 3), "i4"), np.zeros((2, 3), "?")
F16, OTHER, ROW = F32.astype("f2"), np.zeros((4, 5), "f4"), np.zeros(3, "f4")


def steer(x):
    if x > 0:
        return x
    return -x


def add_in_place(x):
    x += 1
    return x


def forget(x):
    x * 2


class Leak:
    kept = None

    @classmethod
    def keep(cls, x):
        cls.kept, cls.number = x * 2, pto.amax(x)
        return x + 1

    USES = {
        "sum": lambda kept, x: kept + x,
        "product": lambda kept, x: pto.matmul(x, kept, b_trans=True),
        "concat": lambda kept, x: pto.concat([x, kept]),
        "number": lambda kept, x: pto.full([2], kept[0, 0]),
        "filling": lambda kept, x: pto.full([2], Leak.number),
    }


CASES = {
    "shapes": (
        lambda x, y: x + y, (F32, OTHER), ValueError,
        "sizes 2 and 4 differ in add", "axis 0", "broadcast",
    ),
    "mixed types": (
        lambda x, y: x + y, (F32, F16), TypeError,
        "add: the operands have different element types, f32 and f16", "casts nothing silently",
        "pto.cast(x, pto.f32)",
    ),
    "no such axis": (
        lambda x: x * x.size(5), (F32,), IndexError, "size: there is no axis 5 in a tensor of 2",
        "", "from -2 to 1",
    ),
    "no shape yet": (
        lambda x: x * pto.tensor().size(0), (F32,), TypeError, "a tensor has no shape yet",
        "first write", "t[:] = value",
    ),
    "no axes yet": (
        lambda x: x * pto.tensor().dim(), (F32,), TypeError, "a tensor has no shape yet",
        "first write", "t[:] = value",
    ),
    "offsets": (
        lambda x: pto.assemble(x, 0, pto.tensor()), (F32,), TypeError, "assemble: offsets: the int",
        "a tuple or list", "pass a tuple or list",
    ),
    "mixed int and float": (lambda x, y: x * y, (I32, F32), TypeError, "i32 and f32", "", "f32"),
    "data-dependent if": (
        steer, (F32,), TypeError, "a condition (if, while) is bool[", "one condition", "pto.where",
    ),
    "data-dependent and": (
        lambda x: (x > 0) and (x < 1), (F32,), TypeError, "a condition", "", "combine conditions",
    ),
    "chained comparison": (lambda x: 0 < x < 1, (F32,), TypeError, "a condition", "", "& |"),
    "in": (lambda x: 1 in [x], (F32,), TypeError, "a condition", "", "pto.where"),
    "float()": (lambda x: float(x), (F32,), TypeError, "conversion to a Python number", "", "keep"),
    "int()": (lambda x: int(x), (F32,), TypeError, "conversion to a Python number", "", ""),
    "item": (lambda x: x.item(), (F32,), TypeError, "conversion to a Python number", "", ""),
    "range": (lambda x: range(x), (F32,), TypeError, "conversion to a Python number", "", ""),
    "len": (lambda x: x * len(x), (F32,), TypeError, "len() on a traced tensor", "", "x.shape[0]"),
    "iteration": (lambda x: list(x), (F32,), TypeError, "iteration", "", "whole tensors"),
    "numpy function": (
        lambda x: np.asarray(x), (F32,), TypeError, "conversion to an array", "", "",
    ),
    "torch function": (
        lambda x: torch.exp(x), (F32,), TypeError, "torch.exp() on a traced tensor", "", "pto.exp",
    ),
    "size steers": (
        lambda x: x if x.shape[0] == 4 else -x, (F32,), TypeError,
        "the size s0 was compared with 4", "one kernel serves all sizes", "a parameter",
    ),
    "in-place": (
        add_in_place, (F32,), TypeError, "writing into an input with +=", "", "y = x + ...",
    ),
    "no output": (forget, (F32,), TypeError, "returned None", "every output is a tensor", "return"),
    "output not computed": (
        lambda x: (x, 3), (F32,), TypeError, "the int 3 at [1]", "computed from the inputs", "",
    ),
    "foreign output": (lambda x: np.ones(3), (F32,), TypeError, "numpy.ndarray", "", "return"),
    "nothing returned": (lambda x: (), (F32,), TypeError, "an empty sequence", "", ""),
    "captured array": (
        lambda x: x + OTHER, (F32,), TypeError, "from outside the function", "captures",
        "make it a parameter",
    ),
    "captured tensor": (
        lambda x: x + torch.ones(3), (F32,), TypeError, "torch", "", "",
    ),
    "string operand": (lambda x: x + "1", (F32,), TypeError, "the operand is the str '1'", "", ""),
    "bool arithmetic": (
        lambda x: x + x, (BOOL,), TypeError, "add: the operand is bool", "", "cast",
    ),
    "bits of floats": (
        lambda x: x & x, (F32,), TypeError, "bitwise_and: the operands are f32", "", "",
    ),
    "condition type": (
        lambda x: pto.where(x, x, x), (F32,), TypeError, "where: the condition is f32",
        "", "x != 0",
    ),
    "number too large": (
        lambda x: x + 2**40, (I32,), ValueError,
        "the number 1099511627776 does not fit i32", "", "cast",
    ),
    "mean of integers": (
        lambda x: x.mean(), (I32,), TypeError, "mean: the operand is i32", "", "cast",
    ),
    "axis": (
        lambda x: x.sum(2), (F32,), IndexError, "no axis 2 in a tensor of 2 axes", "", "-2 to 1",
    ),
    "axis type": (lambda x: x.sum("a"), (F32,), TypeError, "the axis is the str 'a'", "", ""),
    "axis twice": (lambda x: x.sum((0, -2)), (F32,), ValueError, "the axes [0, -2] repeat", "", ""),
    "axis flipped twice": (
        lambda x: pto.flip(x, (1, -1)), (F32,), ValueError, "flip: the axes [1, -1] repeat", "", "",
    ),
    "dim and axis": (lambda x: x.sum(0, axis=0), (F32,), TypeError, "both dim and axis", "", ""),
    "index": (lambda x: x["a"], (F32,), IndexError, "the index 'a'", "whole numbers", "slices"),
    "reshape": (
        lambda x: x.reshape(-1, -1), (F32,), ValueError, "does not become [-1, -1]",
        "number of elements", "same product",
    ),
    "element type": (
        lambda x: x.to("f8"), (F32,), TypeError, "unknown element type 'f8'", "f32", "",
    ),
    "no tensor": (
        lambda x: pto.exp(2.0), (F32,), TypeError, "exp: x is the float 2.0", "", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_while_tracing_is_told_with_its_line(name):
    function, arrays, kind, what, why, fix = CASES[name]
    jit = pto.jit(function)
    with pytest.raises(kind) as caught:
        jit(*arrays)
    error = caught.value
    assert isinstance(error, pto.Error), repr(error)
    assert what in error.what and why in error.why and fix in error.fix, str(error)
    assert error.why and error.fix
    if name not in ("no output", "output not computed", "foreign output", "nothing returned",
                    "element type", "size steers"):  # fmt: skip
        file, line = error.location.rsplit(":", 1)
        first = function.__code__.co_firstlineno
        assert file.endswith("test_tracing_errors.py") and first <= int(line) <= first + 3


@pytest.mark.parametrize("name", ["no output", "foreign output", "element type", "size steers"])
def test_these_name_the_function_or_a_line_of_it_too(name):
    function, arrays = CASES[name][:2]
    with pytest.raises(pto.Error) as caught:
        pto.jit(function)(*arrays)
    assert "test_tracing_errors.py:" in caught.value.location


def test_shape_errors_say_both_shapes():
    with pytest.raises(ValueError) as caught:
        pto.jit(lambda x, y: x + y)(F32, OTHER)
    assert "2" in caught.value.what and "4" in caught.value.what


@pytest.mark.parametrize("use", Leak.USES)
def test_a_traced_tensor_is_of_no_use_outside_its_function(use):
    pto.jit(lambda x: Leak.keep(x))(F32)
    with pytest.raises(pto.Error) as caught:
        pto.jit(lambda x: Leak.USES[use](Leak.kept, pto.exp(x) + x * 3))(F32)
    assert "after its tracing ended" in caught.value.what or "two functions" in caught.value.what


@pytest.mark.parametrize("bad", [lambda *x: x, lambda **x: x, operator.add, 3])
def test_what_cannot_be_compiled_is_refused_at_the_decorator(bad):
    with pytest.raises(pto.Error, match="not a plain function with named parameters"):
        pto.jit(bad)


def test_a_function_is_decorated_once():
    with pytest.raises(pto.Error, match=r"@pto.jit: twice \(Jit\) is not a plain(.|\n)*only once"):

        @pto.jit
        @pto.jit
        def twice(x):
            return x + x
