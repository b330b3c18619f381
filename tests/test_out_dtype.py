# SPDX-License-Identifier: Apache-2.0
"""matmul(out_dtype=...): the product with a result of the wanted type, or which types there are."""

import ml_dtypes
import numpy as np
import pytest
import torch

import pto
import pto.torch
from pto import ops
from pto.errors import Error

FLOATS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]


def random(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def bytes_of(kind, *shape):
    limits = np.iinfo(kind)
    return np.random.default_rng(sum(shape)).integers(limits.min, limits.max + 1, shape, kind)


@pytest.mark.parametrize("kind", FLOATS, ids=lambda kind: kind.__name__)
def test_the_type_of_the_operands_is_that_of_matmul(kind):
    a, b = random(5, 9).astype(kind), random(9, 4).astype(kind)
    wanted = ops.matmul(a, b)
    for out_dtype in (None, kind, np.dtype(kind), pto.dtype(wanted.dtype)):
        got = ops.matmul(a, b, out_dtype=out_dtype)
        assert got.dtype == wanted.dtype and np.array_equal(got, wanted)


@pytest.mark.parametrize("kind", FLOATS[:2], ids=lambda kind: kind.__name__)
def test_f32_of_narrow_floats_is_matmul_f32(kind):
    a, b = random(2, 5, 9).astype(kind), random(4, 9).astype(kind)
    for out_dtype in ("f32", pto.f32, np.float32, torch.float32):
        got = ops.matmul(a, b, out_dtype=out_dtype, transpose_b=True)
        assert got.dtype == np.float32
        assert np.array_equal(got, ops.matmul_f32(a, b, transpose_b=True))


@pytest.mark.parametrize("kinds", [("i1", "i1"), ("i1", "u1"), ("u1", "i1"), ("u1", "u1")], ids=str)
def test_i32_of_bytes_is_matmul_i32(kinds):
    a, b = bytes_of(kinds[0], 5, 9), bytes_of(kinds[1], 9, 4)
    got = ops.matmul(a, b, out_dtype="i32")
    assert got.dtype == np.int32 and np.array_equal(got, a.astype(int) @ b.astype(int))
    assert np.array_equal(ops.matmul(a=a, b=b, out_dtype=np.int32), got)
    out = np.empty((5, 4), np.int32)
    assert ops.matmul(a, b, out_dtype="i32", out=out) is out and np.array_equal(out, got)


def test_tensors_of_pytorch_keep_their_gradient():
    a, b = (torch.randn(4, 4).bfloat16().requires_grad_() for _ in range(2))
    got = ops.matmul(a, b, out_dtype=torch.float32)
    assert got.dtype == torch.float32 and torch.equal(got, torch.ops.pto.matmul_f32(a, b))
    d = torch.randn(4, 4)
    found = torch.autograd.grad(got, (a, b), d)
    wanted = torch.autograd.grad(torch.ops.pto.matmul_f32(a, b), (a, b), d)
    assert all(map(torch.equal, found, wanted))
    codes = torch.randint(-128, 128, (4, 4), dtype=torch.int8)
    assert torch.equal(ops.matmul(codes, codes, out_dtype=torch.int32), codes.int() @ codes.int())


WRONG = [
    (
        "f2",
        "f2",
        "f64",
        "a f16, b f16\n.*result is 'f16' or 'f32'\n.*pass out_dtype='f16' or 'f32'",
    ),
    ("f4", "f4", "f16", "out_dtype is f16, .* a f32, b f32\n.*result is 'f32'"),
    ("i1", "u1", "i8", "out_dtype is i8, .* a i8, b u8\n.*result is 'i32'"),
    ("i4", "i4", "i64", "result is 'i32'"),
    ("i1", "f4", "f32", "a i8, b f32\n.*no product of these types\n.*to one type"),
    ("u2", "u2", "i32", "a u16, b u16\n.*no product of these types"),
]


@pytest.mark.parametrize("left, right, out_dtype, message", WRONG)
def test_a_type_that_no_product_gives_is_refused(left, right, out_dtype, message):
    with pytest.raises(Error, match=message):
        ops.matmul(np.ones((2, 2), left), np.ones((2, 2), right), out_dtype=out_dtype)


def test_mistakes_are_those_of_any_call():
    a = np.ones((2, 3), np.float16)
    with pytest.raises(Error, match="the element types are"):
        ops.matmul(a, a.T, out_dtype="f33")
    with pytest.raises(Error, match="matmul: sizes .*differ|matmul.*3.*2"):
        ops.matmul(a, a, out_dtype="f32")
    with pytest.raises(Error, match="matmul"):
        ops.matmul(a, "text", out_dtype="f32")
    with pytest.raises(Error, match="out_dtype"):
        ops.gemm(a, a.T, out_dtype="f32")
