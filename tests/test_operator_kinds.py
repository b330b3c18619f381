# SPDX-License-Identifier: Apache-2.0
"""Tests what a schema may say: lists, optional ones, sizes of the call, in-place, types, kernels.

Defined once here, called through PyTorch.
"""

import re

import kinds_of_operators  # noqa: F401
import numpy as np
import pytest

import pto
from pto import op
from pto.adapters.record import Record
from pto.language.infer import where_needed
from pto.language.native_kernel import cpp_kernel

torch = pytest.importorskip("torch")
import pto.torch  # noqa: E402
from pto.language.op import operators  # noqa: E402


@op("kinds_blend(Tensor x, *, float share=0.5) -> Tensor")
class Blend:
    def build(x, share):
        return share * x + (1 - share)


@op("kinds_both(Tensor x, Tensor? y=None, *, bool swap=False) -> Tensor[]")
class Both:
    def build(x, y, swap):
        pair = [x + 1, x if y is None else y]
        return pair[::-1] if swap else pair


@op("kinds_shrink(Tensor x, int[2] by=1, str? how=None) -> (Tensor, Tensor)")
class Shrink:
    def build(x, by, how):
        return x * (1.0 / by[0]), x * (1.0 / by[1]) if how is None else -x


@op("kinds_softplus(Tensor x) -> Tensor")
class Softplus:
    inplace = True

    def build(x):
        return pto.log(1 + pto.exp(x))


@op("kinds_take_rows(Tensor x, Tensor indices) -> Tensor")
class TakeRows:
    types = "(T, I) -> T where T: any, I: i32 i64"

    def infer(x, indices):
        return x.like((indices.shape[0], x.shape[1]))

    kernel = cpp_kernel("kernels_of_operators.cpp", "take_rows")


TRIPLED = """
#include "pto/operators/named_arguments.hpp"
PTO_OPERATOR_KERNEL(tripled) {
  const pto_tensor &x = in.tensor(0), &y = in.tensor(1);
  for (int64_t i = 0; i < y.sizes[0]; ++i)
    static_cast<PTO_TYPE_0*>(y.data)[i] = 3 * static_cast<PTO_TYPE_0*>(x.data)[i];
  return 0;
}"""


class TripledBackward:
    def infer(d_result, needs):
        return where_needed(needs, d_result)

    def work(d_result, needs):
        return d_result.shape[0], d_result.shape[0]

    kernel = cpp_kernel(TRIPLED, "tripled")


@op("kinds_tripled(Tensor x) -> Tensor")
class Tripled:
    def infer(x):
        return x

    def work(x):
        return x.shape[0], x.shape[0]

    kernel = cpp_kernel(TRIPLED, "tripled")
    gradient, wanted, linear = TripledBackward, ("x",), True


ops = torch.ops.pto


def test_the_schemas_of_gradients_by_hand_follow_and_a_linear_one_ends_in_itself():
    x, d = (torch.randn(5, requires_grad=True) for _ in range(2))
    (d_x,) = torch.autograd.grad(ops.kinds_tripled(x), x, d, create_graph=True)
    (d_d,) = torch.autograd.grad(d_x, d, torch.ones(5))
    assert torch.equal(d_x, 3 * d) and torch.equal(d_d, torch.full((5,), 3.0))
    known = {one.name: one.signature.partition("(")[2] for one in operators()}
    assert known["kinds_tripled_backward"] == "Tensor d_result, *, int needs=-1) -> (Tensor d_x)"
    assert known["kinds_tripled_backward_backward"] == (
        "Tensor d_d_x, *, int needs=-1, int needs_=-1) -> (Tensor d_d_result)"
    )


def test_lists_of_tensors_come_in_with_their_gradients():
    xs = [torch.randn(3, requires_grad=True) for _ in range(3)]
    y = ops.kinds_weighted_sum(xs, [1, 2, 3], 0.5)
    torch.testing.assert_close(y, xs[0] + 2 * xs[1] + 3 * xs[2] + 0.5)
    torch.testing.assert_close(ops.kinds_weighted_sum(xs[:1], [4]), 4 * xs[0])
    y.sum().backward()
    assert [x.grad.tolist() for x in xs] == [[1] * 3, [2] * 3, [3] * 3]


def test_lists_of_tensors_come_out_and_an_optional_may_be_absent():
    x, y = torch.randn(2), torch.randn(3)
    a, b = ops.kinds_both(x, y)
    assert torch.equal(a, x + 1) and torch.equal(b, y)
    b, a = ops.kinds_both(x, swap=True)
    assert torch.equal(a, x + 1) and torch.equal(b, x)


def test_a_size_of_the_call_needs_no_new_kernel():
    row = torch.randn(4)
    assert torch.equal(ops.kinds_repeat_row(row, 3), row.expand(3, 4))
    before = pto._core.kernel_count()
    for rows in (0, 2, 7):
        assert torch.equal(ops.kinds_repeat_row(row, rows), row.expand(rows, 4))
    assert pto._core.kernel_count() == before
    assert torch.equal(ops.kinds_repeat_row(row, 1), row.expand(1, 4))
    with pytest.raises(RuntimeError, match="kinds_repeat_row: rows is -1"):
        ops.kinds_repeat_row(row, -1)


def test_one_number_stands_for_a_list_of_two():
    x = torch.randn(3)
    a, b = ops.kinds_shrink(x, 2)
    assert torch.equal(a, x * 0.5) and torch.equal(b, x * 0.5)
    a, b = ops.kinds_shrink(x, [1, 2], "negate")
    assert torch.equal(a, x) and torch.equal(b, -x)


@pytest.mark.parametrize("layout", ["dense", "transposed", "every second", "backwards"])
def test_a_mutable_argument_gets_its_new_elements_in_any_layout(layout):
    base = torch.randn(6, 6)
    x = {"dense": base, "transposed": base.t(), "every second": base[::2, ::2],
         "backwards": torch.flip(base, [0]).t()}[layout]  # fmt: skip
    y = torch.randn(x.shape)
    want = x * 3 + y
    assert ops.kinds_scale_(x, y, factor=3.0) is x
    torch.testing.assert_close(x, want)


def test_a_mutable_argument_may_overlap_the_others():
    base = torch.arange(5.0)
    want = base[1:] * 2 + base[:-1]
    ops.kinds_scale_(base[1:], base[:-1])
    assert torch.equal(base[1:], want)
    x = torch.ones(3)
    ops.kinds_scale_(x, x)
    assert torch.equal(x, torch.full((3,), 3.0))
    a, b = torch.zeros(2), torch.ones(2)
    ops.kinds_swap_(a, b)
    assert a.tolist() == [1, 1] and b.tolist() == [0, 0]


def test_an_expanded_tensor_is_not_written():
    with pytest.raises(RuntimeError, match="kinds_scale_: elements of x share memory"):
        ops.kinds_scale_(torch.ones(1).expand(3), torch.ones(3))
    with pytest.raises(RuntimeError, match="new elements of x have another shape"):
        ops.kinds_scale_(torch.ones(3), torch.ones(2, 3))


def test_a_compiled_function_keeps_the_mutation():
    @torch.compile(fullgraph=True, backend="aot_eager")
    def f(x, y):
        ops.kinds_scale_(x, y)
        return x + 1

    x, y = torch.randn(4), torch.randn(4)
    want = x * 2 + y
    torch.testing.assert_close(f(x, y), want + 1)
    torch.testing.assert_close(x, want)


def test_inplace_is_the_same_operator_on_its_argument():
    x = torch.randn(5)
    want = ops.kinds_softplus(x)
    ops.kinds_softplus_(x)
    assert torch.equal(x, want)


def test_types_say_which_element_types_fit_together():
    x, mask = torch.arange(4, dtype=torch.int32), torch.tensor([True, False, True, False])
    y, rest = ops.kinds_select(x, mask)
    assert y.tolist() == [0, 0, 2, 0] and rest.dtype == torch.bool
    with pytest.raises(RuntimeError, match="kinds_select: x is f16"):
        ops.kinds_select(x.half(), mask)
    with pytest.raises(RuntimeError, match="kinds_select: mask is i32"):
        ops.kinds_select(x, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8, torch.float64])
def test_a_hand_written_kernel_is_compiled_for_each_type(dtype):
    x = torch.arange(12).reshape(6, 2).to(dtype)
    parts = ops.kinds_split_rows(x, [1, 0, 5])
    assert all(map(torch.equal, parts, x.split([1, 0, 5])))
    parts = ops.kinds_split_rows(x.flip(0)[::2], [3])
    assert torch.equal(parts[0], x.flip(0)[::2])
    rows = ops.kinds_take_rows(x, torch.tensor([5, 0, 5]))
    assert torch.equal(rows, x[[5, 0, 5]])


def test_a_hand_written_kernel_refuses_bad_input():
    x = torch.ones(3, 2)
    with pytest.raises(RuntimeError, match="sizes? .*differ in splitting"):
        ops.kinds_split_rows(x, [1, 1])
    with pytest.raises(RuntimeError, match="an index is out of range"):
        ops.kinds_take_rows(x, torch.tensor([3]))


@pytest.mark.parametrize(
    ("name", "tensors", "attributes", "sizes", "want"),
    [
        ("kinds_scale_", [("f32", 2), ("f32", 1)], [2.0], [3, 4, 4], [(3, 4)]),
        ("kinds_scale_", [("f32", 2), ("f32", 1)], [2.0], [3, 1, 5], [(3, 5)]),
        ("kinds_repeat_row", [("f32", 1)], [0], [4, 9], [(9, 4)]),
        ("kinds_split_rows", [("i8", 2)], [[1, 2]], [3, 4], [(1, 4), (2, 4)]),
        ("kinds_both", [("f32", 1), None], [False], [3], [(3,), (3,)]),
        ("kinds_weighted_sum", [[("f32", 1), ("f32", 2)]], [[1, 2], None], [4, 2, 1], [(2, 4)]),
    ],
)
def test_shapes_follow_from_ranks_alone(name, tensors, attributes, sizes, want):
    [operator] = [o for o in range(pto._core.operator_count()) if Record(o).name == name]
    outputs = Record(operator).shapes(tensors, attributes).evaluate(sizes)
    flat = [m for o in outputs for m in (o if isinstance(o, list) else [o])]
    assert [shape for _, shape in flat] == want


SIZES = [
    (lambda a, b: a // b, [4, 0], "the size s0//s1 divides by zero: its operands are 4 and 0"),
    (lambda a, b: a % b, [4, 0], "the size s0%s1 divides by zero"),
    (lambda a, b: a * b - 2, [2**40, 2**40], "the size s0*s1 leaves 64 bits: its operands are"),
    (lambda a, b: a + b, [2**62, 2**62], "the size s0+s1 leaves 64 bits"),
]


@pytest.mark.parametrize("case", range(len(SIZES)))
def test_sizes_of_an_adapter_have_a_value_or_an_error(case):
    formula, symbols, text = SIZES[case]

    @pto.op(f"kinds_size_{case}(Tensor x, Tensor y) -> Tensor")
    class Sized:
        def infer(x, y):
            return x.like((formula(x.shape[0], y.shape[0]),))

        def build(x, y):
            return x * pto.sum(y)

    shapes = Record(Sized.index).shapes([("f32", 1), ("f32", 1)], [])
    assert shapes.evaluate([7, 3]) == [("f32", (formula(7, 3),))]
    with pytest.raises(ValueError, match=re.escape(f"kinds_size_{case}: {text}")):
        shapes.evaluate(symbols)
    with pytest.raises(ValueError, match=f"kinds_size_{case}: the size {2**70} leaves 64 bits"):
        shapes.evaluate([2**70, 1])


def test_fake_tensors_agree_with_real_ones_for_every_kind():
    from torch._subclasses.fake_tensor import FakeTensorMode

    calls = [
        ("kinds_weighted_sum", ([torch.ones(3), torch.ones(1)], [1, 2]), {}),
        ("kinds_both", (torch.ones(2),), {"swap": True}),
        ("kinds_repeat_row", (torch.ones(3), 5), {}),
        ("kinds_split_rows", (torch.ones(3, 2), [1, 2]), {}),
        ("kinds_take_rows", (torch.ones(3, 2), torch.tensor([1, 1, 0, 0])), {}),
        ("kinds_select", (torch.ones(3), torch.ones(3, dtype=torch.bool)), {}),
    ]
    for name, args, kwargs in calls:
        real = getattr(ops, name)(*args, **kwargs)
        with FakeTensorMode() as mode:
            fakes = torch.utils._pytree.tree_map_only(torch.Tensor, mode.from_tensor, args)
            fake = getattr(ops, name)(*fakes, **kwargs)
        flatten = torch.utils._pytree.tree_leaves
        assert [(t.shape, t.dtype) for t in flatten(fake)] == [
            (t.shape, t.dtype) for t in flatten(real)
        ]


def test_the_registry_lists_what_was_defined_here():
    names = {o.name for o in operators()}
    assert {"kinds_softplus", "kinds_softplus_", "kinds_weighted_sum_backward"} <= names
    assert np.all([o.schema for o in operators()])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_a_number_of_the_call_meets_tensors_of_every_type_where_only_shapes_are_known(dtype):
    x = torch.ones(3, 4, dtype=dtype)
    with torch._subclasses.FakeTensorMode() as mode:
        x = mode.from_tensor(x)
        y = torch.ops.pto.kinds_blend(x)
    assert (y.shape, y.dtype) == (x.shape, dtype)
