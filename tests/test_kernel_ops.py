# SPDX-License-Identifier: Apache-2.0
"""The operators of the library with hand-written kernels, against their definitions in NumPy."""

import itertools

import numpy as np
import pytest
from operator_cases import tolerance

from pto import ops

torch = pytest.importorskip("torch")
torch_ops = torch.ops.pto

ALL = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool)


def numbers(shape, dtype=torch.float32):
    return (torch.randn(shape, dtype=torch.float64) * 3).to(dtype)


def as_numpy(x):
    return x.double().numpy() if x.dtype is torch.bfloat16 else x.numpy()


def assert_same(got, want):
    np.testing.assert_array_equal(as_numpy(got), want)


def views():
    """Tensors dense, permuted, with gaps, repeated, empty, of one element."""
    x = numbers((3, 4, 5, 6))
    yield x
    yield x.permute(3, 1, 0, 2)
    yield x[:, ::2, :, 1:]
    yield numbers((1, 4, 1, 6)).expand(3, 4, 5, 6)
    yield x[:0]
    yield x[:1, :1, :1, :1]
    yield numbers((2, 70, 3, 65))


def test_every_permutation_of_every_layout():
    for x in views():
        for perm in itertools.permutations(range(4)):
            assert_same(torch_ops.transpose(x, perm), as_numpy(x).transpose(perm))
    x = numbers(())
    assert torch.equal(torch_ops.transpose(x, ()), x)


SLICES = [
    ([1], [3], [1], [1]),
    ([0, -1], [3, -7], [0, -1], [2, -2]),
    ([5], [0], [2], [-1]),
    ([-100], [100], [3], [3]),
    ([4], [1], [1], [1]),
    ([2**62], [-(2**62)], [0], [-2]),
    ([1], [9], [1], [2**63 - 1]),
    ([9], [-(2**63)], [1], [-(2**63)]),
]


@pytest.mark.parametrize("arguments", SLICES)
def test_slices_are_pythons(arguments):
    for x in views():
        want = ops.slice.member("oracle")(as_numpy(x), *arguments)
        assert_same(torch_ops.slice(x, *arguments), want)


@pytest.mark.parametrize("dtype", ALL)
def test_every_element_type_moves(dtype):
    x = numbers((3, 40, 5), dtype)
    indices = torch.tensor([[0, -1], [2, 1]])
    assert torch.equal(torch_ops.transpose(x, (2, 1, 0)), x.permute(2, 1, 0))
    assert torch.equal(torch_ops.slice(x, [1], [30], [1], [3]), x[:, 1:30:3])
    assert torch.equal(torch_ops.gather(x, indices), x[indices])
    assert torch.equal(torch_ops.gather(x, indices.int(), 2), x[:, :, indices])
    assert torch.equal(torch_ops.concat([x, x[:, :0], x], 1), torch.cat([x, x], 1))


def test_parts_follow_each_other_along_every_axis():
    for x in views():
        for dim in range(-4, 4):
            assert_same(torch_ops.concat([x, x * 2], dim),
                        np.concatenate([as_numpy(x), 2 * as_numpy(x)], dim))  # fmt: skip
            if x.shape[dim] > 2:
                chosen = torch.tensor([1, -1, 0])
                assert_same(torch_ops.gather(x, chosen, dim), np.take(as_numpy(x), [1, -1, 0], dim))


PRODUCTS = [
    ((3, 4), (4, 5)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((4,), (4,)),
    ((2, 1, 3, 4), (5, 4, 6)),
    ((130, 300), (300, 800)),
    ((0, 4), (4, 5)),
    ((3, 0), (0, 5)),
]


@pytest.mark.parametrize("dtype", [t for t in ALL if t is not torch.bool])
def test_products_of_every_type_and_batch(dtype):
    for shapes in PRODUCTS:
        a, b = (numbers(shape, dtype) for shape in shapes)
        want = torch.matmul(a.double(), b.double())
        got = torch_ops.matmul(a, b)
        assert got.dtype == dtype and got.shape == want.shape
        allowed = 0 if dtype is torch.int64 else tolerance(ops.matmul, dtype)
        assert torch.allclose(got.double(), want, rtol=allowed, atol=60 * allowed)


def test_products_take_transposed_operands_and_any_layout():
    for transpose_a, transpose_b in itertools.product((False, True), repeat=2):
        a = numbers((70, 30) if transpose_a else (30, 70))
        b = numbers((50, 70) if transpose_b else (70, 50))
        keywords = {"transpose_a": transpose_a, "transpose_b": transpose_b}
        plain = torch_ops.matmul(a.T.contiguous() if transpose_a else a,
                                 b.T.contiguous() if transpose_b else b)  # fmt: skip
        assert torch.equal(torch_ops.matmul(a, b, **keywords), plain)
        c = numbers((50,))
        got = torch_ops.gemm(a, b, c, alpha=0.5, beta=2.0, **keywords)
        torch.testing.assert_close(got, 0.5 * plain + 2 * c)
        assert torch.equal(torch_ops.gemm(a, b, **keywords), plain)


def test_a_product_does_not_depend_on_threads():
    a, b = numbers((200, 130)), numbers((130, 900))
    threads = torch.get_num_threads()
    try:
        results = []
        for n in (1, 2):
            torch.set_num_threads(n)
            results.append(torch_ops.matmul(a, b))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*results)


REFUSED = {
    "sizes 4 and 5 differ in matmul": lambda x: torch_ops.matmul(x, x.new_ones(5, 2)),
    "perm is \\[0, 0\\]": lambda x: torch_ops.transpose(x, (0, 0)),
    "no axis 2 in a tensor of 2 axes": lambda x: torch_ops.gather(x, torch.tensor([0]), 2),
    "index 7 is out of range for an axis of size 3": lambda x: torch_ops.gather(
        x, torch.tensor([7])
    ),
    "each axis has one start": lambda x: torch_ops.slice(x, [0], [1], [0], [0]),
    "sizes 4 and 5 differ in concat": lambda x: torch_ops.concat([x, x.new_ones(3, 5)]),
    "tensors have 2 and 1 axes": lambda x: torch_ops.concat([x, x[0]]),
    "the ranks of a and b are 2 and 1": lambda x: torch_ops.gemm(x, x[0]),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_does_not_fit_is_refused(text):
    with pytest.raises(RuntimeError, match=text):
        REFUSED[text](torch.ones(3, 4))
