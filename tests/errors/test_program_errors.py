# SPDX-License-Identifier: Apache-2.0
"""Mistakes in programs: each message says what, why and fix, and names the user's line."""

import numpy as np
import pytest
import torch

import pto
from pto.language.op import op

X, ROWS, OUT = np.ones((3, 2), "f4"), np.array([0, 2, 1]), np.zeros((3, 2), "f4")
WIDE, BYTES = np.ones((3, 2)), np.ones((3, 2), "i1")


def changes_shape(x, rows, out):
    total = pto.zeros([1])
    for i in pto.loop(3):
        total = total + x[i]
    return total


def changes_type(x, rows, out):
    total = 0.0
    for _ in pto.loop(3):
        total = total + x
    return total


def grows(x, rows, out):
    for _ in pto.loop(3):
        x = pto.concat([x, x], 0)
    out[0] = x[0, 0]


def grows_on_a_path(x, rows, out):
    y = pto.concat([x, x], 0) if rows[0] > 0 else x
    out[0] = y[0, 0]


def lost(x, rows, out):
    for i in pto.loop(3):
        row = x[i]
    return row * 2


def lost_in_a_list(x, rows, out):
    kept = []
    for i in pto.loop(3):
        kept.append(x[i])
    return kept[0] + 1


def leaves(x, rows, out):
    for i in pto.loop(3):
        try:
            break
        finally:
            out[i] = x[i]


def leaves_versions(x, rows, out):
    for i, k in pto.loop_unroll(3, unroll_list=[2]):
        if rows[i] > k:
            break
        out[i] = x[i]


def leaves_side_by_side(x, rows, out):
    for i in pto.loop(3, parallel=True):
        if rows[i] > 1:
            break
        out[i] = x[i]


def returns(x, rows, out):
    for i in pto.loop(3):
        return x[i]


def real_count(x, rows, out):
    for i in pto.loop(2.5):
        out[i] = x[i]


def step_0(x, rows, out):
    for i in pto.loop(0, 3, 0):
        out[i] = x[i]


def as_list_index(x, rows, out):
    for i in pto.loop(3):
        out[i] = x[i] * [1.0, 2.0, 3.0][i]


def writes_type(x, rows, out):
    out[0] = pto.cast(x[0], pto.f64)


def writes_rank(x, rows, out):
    out[0] = x


def writes_shape(x, rows, out):
    out[0, :2] = pto.zeros([3])


def read_beyond(x, rows, out):
    for i in pto.loop(4):
        out[0] = x[i]


def write_beyond(x, rows, out):
    for i in pto.loop(3):
        out[rows[i] + 1] = x[i]


def negative_size(x, rows, out):
    for i in pto.loop(3):
        out[i, : rows[i] - 1] = 0


def data_sized(x, rows, out):
    return x[: rows[1]] * 2


def branches_differ(x, rows, out):
    return pto.cond(rows[0] > 0, lambda: x, lambda: x[0])


def branch_of_vector(x, rows, out):
    return pto.cond(rows > 0, lambda: x, lambda: -x)


def helper(x):
    for _ in pto.loop(2):
        x = x * 2
    return x


def loop_in_a_helper(x, rows, out):
    out[0] = [helper][0](x[0])


def step_of_slice(x, rows, out):
    out[0] = x[::-2][0]


def real_index(x, rows, out):
    out[0] = x[1.5]


def too_many(x, rows, out):
    out[0, 0, 0] = 1


def position_beyond(x, rows, out):
    out[:] = x[rows + 1]


def position_below(x, rows, out):
    out[rows - 2] = x


def real_positions(x, rows, out):
    out[:] = x[x[:, 0]]


def condition_as_index(x, rows, out):
    out[:] = x[rows > 1]


def two_tensors(x, rows, out):
    out[:, 0] = x[rows, rows % 2]


def number_apart(x, rows, out):
    y = x.reshape(3, 2, 1)
    out[:, 0] = y[rows, :, 0][:, 0]


def index_rank(x, rows, out):
    out[:] = pto.gather(x, 0, rows)


def vector_of_positions(x, rows, out):
    out[:] = pto.index_select(x, 0, x)


def scattered_type(x, rows, out):
    out.scatter_(0, rows[:, None], rows[:, None])


def row_of_cache(x, rows, out):
    out[:] = pto.scatter_update(out, rows, x[0, 0])


def too_many_best(x, rows, out):
    out[:] = pto.topk(x, 3, 1).values[:, :2]


def step_of_range(x, rows, out):
    out[:, 0] = pto.arange(0, 3, rows[0])


def real_range(x, rows, out):
    out[:, 0] = pto.arange(0.5, x.shape[0])


def classes(x, rows, out):
    out[:] = pto.one_hot(x[:, 0], 2, pto.f32)


def triangle_of_vector(x, rows, out):
    out[0] = pto.tril(x[0])


def odd_pads(x, rows, out):
    out[:] = pto.pad(x, (1, 0, 1))


def negative_pad(x, rows, out):
    out[:] = pto.pad(x, (1, -1))


def sum_along_nothing(x, rows, out):
    out[:] = pto.cumsum(x, 2)


def maximum_of_bool(x, rows, out):
    out[:] = pto.where(pto.cummax(x > 0, 0), x, 0)


def counts_by_a_lost_one(x, rows, out):
    if rows[0] > 3:
        n = rows[1]
    for i in pto.loop(n):
        out[i] = x[i]


def cuts_by_a_lost_one(x, rows, out):
    if rows[0] > 3:
        n = rows[1]
    out[:n] = x[:n]


def compares_a_lost_one(x, rows, out):
    if rows[0] > 3:
        n = rows[1]
    if n == 3:
        out[0] = x[0]


CASES = {
    counts_by_a_lost_one: (TypeError, "the variable n has no value here", "one path", "of the if"),
    cuts_by_a_lost_one: (TypeError, "the variable n has no value here", "one path", "of the if"),
    compares_a_lost_one: (TypeError, "the variable n has no value here", "one path", "of the if"),
    changes_shape: (TypeError, "the variable total is f32[1] in front", "one type and shape", ""),
    changes_type: (TypeError, "the variable total is f32[] in front", "", "pto.zeros"),
    grows: (RuntimeError, "differ in the variable x, which a loop carries", "equal", "fit"),
    grows_on_a_path: (RuntimeError, "differ in what the paths of an if give", "equal", "fit"),
    lost: (TypeError, "the variable row has no value here", "lost behind it", "in front"),
    lost_in_a_list: (TypeError, "changes kept[0]", "traced once", "pto.zeros"),
    leaves: (TypeError, "a break inside of pto.loop", "below `if` and `with`", "an if"),
    leaves_versions: (TypeError, "a break inside of pto.loop", "several iterations", "an if"),
    leaves_side_by_side: (ValueError, "parallel=True, but its body has a break", "", "away"),
    returns: (TypeError, "a return inside of pto.loop", "", ""),
    real_count: (TypeError, "loop: the float 2.5 is no whole number", "integers", "cast"),
    step_0: (ValueError, "loop: the step is 0", "", ""),
    as_list_index: (TypeError, "conversion to a Python number", "", ""),
    writes_type: (TypeError, "a write of f64 into a tensor of f32", "silently", "pto.cast"),
    writes_rank: (ValueError, "a write of the shape", "at most as many axes", "reshape"),
    writes_shape: (ValueError, "shape [3] does not broadcast to [2]", "", ""),
    read_beyond: (RuntimeError, "offset 3 and size 1 of 3", "inside its tensor", "from 0 to 2"),
    write_beyond: (RuntimeError, "update: axis 0, offset 3", "inside its tensor", "from 0 to 2"),
    negative_size: (RuntimeError, "a size is -1", "not negative", "pto.max(n, 0)"),
    data_sized: (ValueError, "depends on data", "before the function runs", "out[:n]"),
    branches_differ: (TypeError, "one branch returns", "equal", ""),
    branch_of_vector: (TypeError, "the condition is bool[", "one condition", "pto.where"),
    loop_in_a_helper: (TypeError, "whose text was not read", "", "@pto.jit"),
    step_of_slice: (IndexError, "a slice with the step -2", "above 0", "pto.flip"),
    real_index: (IndexError, "the index 1.5", "whole numbers", ""),
    too_many: (IndexError, "3 positions", "one position for each axis", ""),
    position_beyond: (IndexError, "gather: position 3 along axis 0", "less than", "pto.clip"),
    position_below: (RuntimeError, "scatter: position -2 along", "-1 writes nothing", "pto.clip"),
    real_positions: (TypeError, "an index: the index is f32", "integers", "pto.cast"),
    condition_as_index: (IndexError, "an index: the index is bool", "data", "pto.where"),
    two_tensors: (IndexError, "an index with 2 tensors", "one axis", "x[rows][:, columns]"),
    number_apart: (IndexError, "a number apart from it", "NumPy", "x[i][:, rows]"),
    index_rank: (ValueError, "an index of the shape [s2] for a tensor of 2", "", "index_select"),
    vector_of_positions: (TypeError, "index_select: the index is f32", "integers", "pto.cast"),
    scattered_type: (TypeError, "scatter: <traced i64[", "element type", "pto.f32"),
    row_of_cache: (ValueError, "scatter_update: rows", "axes of the index", "reshape"),
    too_many_best: (ValueError, "sizes 3 and 2 differ in topk, whose axis has k elements", "", ""),
    step_of_range: (ValueError, "the step is known only at the call", "", "multiply"),
    real_range: (TypeError, "arange: a value of type pto._core.Dim in", "", "multiply"),
    classes: (TypeError, "one_hot: the classes are f32", "", "pto.cast"),
    triangle_of_vector: (ValueError, "tril: the operand has the shape [s1]", "", "two axes"),
    odd_pads: (ValueError, "pad: 3 numbers", "last one first", "(left, right)"),
    negative_pad: (TypeError, "pad: -1 elements", "takes some out", "from 0"),
    sum_along_nothing: (IndexError, "cumsum: there is no axis 2", "", ""),
    maximum_of_bool: (TypeError, "cummax: the operand is bool", "arithmetic", ""),
}


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_a_mistake_in_a_program_is_told_with_its_line(function):
    kind, what, why, fix = CASES[function]
    with pytest.raises(kind) as caught:
        pto.jit(function)(X, ROWS, OUT.copy())
    error = caught.value
    assert isinstance(error, pto.Error), repr(error)
    assert what in str(error) and why in error.why and fix in error.fix, str(error)
    assert error.why and error.fix and (error.__context__ is None or error.__cause__ is not None)
    place = f"{error.location} {error.what}".split("test_program_errors.py:")[1]
    line, first = int(place.split(":")[0].split()[0]), function.__code__.co_firstlineno
    inside = first <= line <= first + 6
    assert inside or function is loop_in_a_helper, str(error)


def copies(x, rows, out):
    for i in pto.loop(3):
        out[i] = x[i]


def test_an_array_that_cannot_be_written_is_refused():
    frozen = OUT.copy()
    frozen.flags.writeable = False
    with pytest.raises(pto.Error, match="out is read-only"):
        pto.jit(copies)(X, ROWS, frozen)


def test_two_written_arrays_that_overlap_are_refused():
    @pto.jit
    def both(x, y):
        x[0] = 1
        y[0] = 2

    memory = np.zeros(4, "f4")
    both(memory[:2], memory[2:])
    assert memory.tolist() == [1, 0, 2, 0]
    with pytest.raises(pto.Error, match="x and y are both written and share memory"):
        both(memory[:3], memory[1:])


def test_a_program_on_another_device_is_refused():
    x = torch.ones(3, 2, device="meta")
    with pytest.raises(pto.Error, match="loops and writes run on CPU tensors"):
        pto.jit(copies)(x, torch.from_numpy(ROWS), torch.zeros(3, 2))


def test_a_loop_without_a_file_is_refused():
    names = {"pto": pto}
    exec("def f(x):\n    for i in pto.loop(2):\n        x = x + 1\n    return x", names)
    with pytest.raises(pto.Error, match="the text of f cannot be read"):
        pto.jit(names["f"])


def test_a_parameter_is_written_under_its_own_name():
    def alias(x):
        y = x
        y[0] = 1
        return y

    with pytest.raises(pto.Error, match="writing into an input"):
        pto.jit(alias)(X)


def test_what_op_traces_writes_nothing():
    @op("writes_errors(Tensor x) -> Tensor")
    class Writes:
        def build(x):
            x[0] = 1
            return x

    with pytest.raises(pto.Error, match="writing into an input"):
        Writes(X)


def test_new_tensors_need_a_traced_function():
    with pytest.raises(pto.Error, match="zeros: no function is being traced|full: no function"):
        pto.zeros([2])
    with pytest.raises(pto.Error, match="call pto.ops.matmul"):
        pto.matmul(X, X)
