# SPDX-License-Identifier: Apache-2.0
"""What parameters, local tensors and the slides' spellings declare."""

from typing import Annotated

import numpy as np
import pytest

import pto

F32 = np.float32
X = np.arange(24, dtype=F32).reshape(4, 3, 2)
W = np.array([1, 10], F32)


@pto.jit
def scaled(x: pto.Tensor[pto.DYN, pto.STATIC, 2], w: pto.Constant, out: "pto.Tensor[..., 2]"):
    total = x * 0
    for i in range(x.shape[1]):  # a number, so Python counts
        total = total + x[:, i : i + 1] * w
    out[:] = total


def test_static_sizes_are_numbers_while_tracing_one_function_for_each_value():
    for x in (X, X[:2], X[:, :2], X[:1, :2], X):
        scaled(x, W, out := np.zeros_like(x))
        np.testing.assert_array_equal(out, np.repeat(x.sum(1, keepdims=True) * W, x.shape[1], 1))
    assert len(scaled.made) == 2
    assert "%x: f32[s0, 3, 2]" in str(scaled.trace(X, W, X.copy()))


def test_constant_marks_a_parameter_and_its_input():
    assert scaled.constant_parameters == ("w",)
    assert "%w: f32[s3] !constant=[1]" in str(scaled.trace(X, W, X.copy()))

    @pto.jit
    def product(x, w: pto.Constant[2, pto.DYN]):
        return x @ w

    assert product.constant_parameters == ("w",)
    assert "%w: f32[2, s3] !constant=[1]" in str(product.trace(X[0], X[0].T.copy()))


@pto.jit
def annotated(x: Annotated[pto.Tensor, pto.Tensor[pto.DYN, 2]], w: Annotated[int, pto.Constant]):
    return x @ w


def test_annotated_says_what_its_own_forms_say():
    assert annotated.constant_parameters == ("w",)
    assert "%x: f32[s0, 2]" in str(annotated.trace(X[0], X[0].T.copy()))


def fixed(x: pto.Tensor[pto.DYNAMIC, 3, 2], y: pto.Tensor[..., pto.f32] = None, n: int = 1):
    return x * n + (0 if y is None else pto.sum(y))


@pytest.mark.parametrize("x, y, what", [
    (X[:, :2], None, "axis 1 of x has size 2, but 3 is required"),
    (X[:, :, :1], None, "x has the size 1 along axis 2"),
    (X[0], None, "x has 2 axes, and is annotated as pto.Tensor[pto.DYN, 3, 2]"),
    (X, W.astype(int), "y is i64, and is annotated as pto.Tensor[..., pto.f32]"),
])  # fmt: skip
def test_another_size_than_the_annotated_one_is_an_error(x, y, what):
    program = pto.jit(fixed)
    np.testing.assert_array_equal(program(X, W), X + 11)
    with pytest.raises(pto.Error) as caught:
        program(x, y)
    assert what in str(caught.value) and caught.value.why and caught.value.fix


def test_a_fixed_size_is_checked_before_a_trace_with_the_sizes_of_others():
    @pto.jit
    def copied(x: pto.Tensor[pto.DYN, 8], out: pto.Tensor[pto.STATIC, pto.STATIC]):
        out[:] = x

    with pytest.raises(ValueError, match="x has the size 2 along axis 1, .*DYN, 8]"):
        copied(X[0], X[0].copy())


@pytest.mark.parametrize("sizes", ["a", (-1, 2), (..., 3, ...), (2.5,), True])
def test_an_annotation_that_is_none_is_an_error_at_once(sizes):
    with pytest.raises(pto.Error) as caught:
        pto.Tensor[sizes]
    assert "test_annotations.py:" in caught.value.location and "annotation" in caught.value.what


def test_what_others_write_as_annotations_is_left_alone():
    @pto.jit
    def annotated(x: "unknown.Name", y: list[int] = None, z: pto.Tensor = None):  # noqa: F821
        return x * 2

    np.testing.assert_array_equal(annotated(X), X * 2)


def test_local_tensors_are_read_behind_their_first_write():
    @pto.jit
    def local(x, n, out):
        rows, part = pto.tensor([x.shape[0], 2], pto.f64), pto.tensor()
        part[:] = x[:, 0] * 2
        for i in pto.loop(n[0]):
            rows[i] = pto.cast(part[i], pto.f64)
            if i > 1:
                rows[i] = rows[i] + rows[0]
        corner = pto.tensor(name="corner")
        pto.assemble(x[0, :1], [0, 0], corner)
        corner[0] = corner[0] + 1
        out[:] = pto.cast(rows, pto.f32) + corner

    local(X, np.array([3]), out := np.zeros((4, 2), F32))
    want = X[:, 0] * 2
    want[2] += want[0]
    want[3] = 0
    np.testing.assert_array_equal(out, want + X[0, 0] + 1)


def softmax_compute(input, output):
    row_max = input.row_max_single()
    exp = pto.exp(pto.sub(input, row_max))
    esum = exp.row_sum_single()
    output[:] = pto.div(exp, esum)


@pto.jit
def dynamic_softmax(x, y):
    tile_b = 1
    b, n1, n2, dim = x.shape
    b = pto.symbolic_scalar(b)
    n = b / tile_b
    with pto.function("SOFTMAX", [x], [y]):
        for b_idx in pto.loop(0, n, 1, name="LOOP_L0_bIdx", idx_name="b_idx"):
            offset = b_idx * tile_b
            tile = pto.view(x, [tile_b, n1, n2, dim], [offset, 0, 0, 0])
            out = pto.tensor()
            pto.set_vec_tile_shapes(1, 4, 1, 64)
            softmax_compute(tile, out)
            pto.assemble(out, [offset, 0, 0, 0], y)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("shape", [(1, 4, 1, 64), (3, 4, 1, 64), (2, 8, 2, 64)])
def test_the_programs_of_the_slides_run(shape):
    """By themselves, with lists, and the reductions as functions."""
    x = np.random.default_rng(0).standard_normal(shape, F32)
    for program in (dynamic_softmax, pto.jit(softmax_compute)):
        for as_lists in (False, True):
            y = np.zeros_like(x)
            assert program(*(([x], [y]) if as_lists else (x, y))) is None
            np.testing.assert_allclose(y, softmax(x), rtol=1e-5)
    pto.device_synchronize()
    text = str(dynamic_softmax.trace([x], [x.copy()]))
    assert '!function="SOFTMAX"' in text and "!vec_tile=[1, 4, 1, 64]" in text
    both = pto.jit(lambda x: (pto.row_max_single(x), pto.row_sum_single(x)))(x)
    np.testing.assert_array_equal(both[0], x.max(-1, keepdims=True))
    np.testing.assert_allclose(both[1], x.sum(-1, keepdims=True), rtol=1e-4, atol=1e-5)


def test_lists_of_tensors_are_lists_where_the_text_uses_them_so():
    @pto.jit
    def sums(inputs, outputs, factor=2.0):
        first, second = inputs
        outputs[0][:] = (first + second) * factor
        for one in outputs[1:]:
            one[:] = first - second

    @pto.jit
    def one_by_one(a, b, out):
        out[:] = a * b

    for factor in (2.0, 3.0):
        outs = [np.zeros_like(X) for _ in range(3)]
        sums([X, X * 2], outs, factor)
        np.testing.assert_array_equal(outs, [X * 3 * factor, -X, -X])
    one_by_one([X, X], [outs[0]])
    np.testing.assert_array_equal(outs[0], X * X)
    with pytest.raises(pto.Error, match="2 arguments with 4 tensors for 3 parameters"):
        one_by_one([X, X, X], [outs[0]])


def test_arguments_by_name_stand_beside_lists_of_tensors():
    @pto.jit
    def sums(inputs, outputs, shift=0.0, factor=1.0, *, divisor=1.0):
        outputs[0][:] = (inputs[0] + inputs[1] + shift) * factor / divisor

    out = np.zeros_like(X)
    for named, want in (({"factor": 2.0}, X * 4), ({"divisor": 2.0}, X),
                        ({"shift": 1.0, "divisor": 4.0}, (X * 2 + 1) / 4)):  # fmt: skip
        sums([X, X], [out], **named)
        np.testing.assert_array_equal(out, want)


def never_written(x, out):
    with pto.function("NAME", [x], [out]):
        x.row_sum_single()


def nothing_at_all(x, out):
    for _ in pto.loop(3):
        x * 2


def read_before_a_write(x, out):
    t = pto.tensor(x.shape)
    out[:] = t + 1


def written_in_parts_without_a_shape(x, out):
    t = pto.tensor()
    t[0] = x[0]


def shape_of_none(x, out):
    out[:] = pto.zeros(pto.tensor().shape)


def function_of_arrays(x, out):
    with pto.function("NAME", [X], [out]):
        out[:] = x


def function_without_a_name(x, out):
    with pto.function(x, out):
        out[:] = x


_MISTAKES = {
    never_written: (1, "function NAME: output 0 is never written", "out[:] = value"),
    nothing_at_all: (0, "writes none of its parameters and returns nothing", "write an output"),
    read_before_a_write: (2, "a tensor is read that nothing has written", "pto.zeros"),
    written_in_parts_without_a_shape: (2, "a tensor has no shape yet", "declare"),
    shape_of_none: (1, "a tensor has no shape yet", "declare"),
    function_of_arrays: (1, "function: a value of type numpy.ndarray among", "traced"),
    function_without_a_name: (1, "function: the name is a value of type", "a text"),
}


@pytest.mark.parametrize("function", _MISTAKES, ids=lambda f: f.__name__)
def test_a_mistake_in_a_declaration_is_told_with_its_line(function):
    line, what, fix = _MISTAKES[function]
    with pytest.raises(pto.Error) as caught:
        pto.jit(function)(X, X.copy())
    error = caught.value
    assert what in str(error) and error.why, str(error)
    place = function.__code__.co_firstlineno + line
    assert error.location.endswith(f"test_annotations.py:{place}"), str(error)


@pytest.mark.parametrize("given, named, told", [
    (([X], X), {"out": X}, "missing a required argument: 'c'"),
    (([X, X], X, X), {"c": X}, "multiple values for argument 'c'"),
    (([X], X, X), {"output": X}, "missing a required argument: 'out'"),
])  # fmt: skip
def test_a_name_beside_lists_that_stand_for_several_parameters_is_refused(given, named, told):
    @pto.jit
    def product(a, b, c, out):
        out[:] = a * b * c

    with pytest.raises(pto.Error, match=told) as raised:
        product(*given, **named)
    assert isinstance(raised.value, TypeError) and "they are a, b, c, out" in raised.value.why
    assert raised.value.fix and "test_annotations.py" in str(raised.value)


def test_a_float_beside_lists_may_be_a_constant_and_left_out():
    @pto.jit(constants="scale")
    def scaled(inputs, outputs, scale=2.0):
        outputs[0][:] = inputs[0] * (scale if scale > 0 else 1.0)

    for more, want in (((), 2), ((3.0,), 3), ((-1.0,), 1)):
        scaled([X], [out := np.zeros_like(X)], *more)
        np.testing.assert_array_equal(out, X * want)
