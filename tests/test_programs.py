# SPDX-License-Identifier: Apache-2.0
"""Programs: functions with loops, parts, products and writes."""

import enum
import math
import re
import threading

import numpy as np
import pytest
import torch

import pto

F32 = np.float32


class Mode(enum.IntEnum):
    PLAIN, NEGATED = 0, 1


@pto.jit
def attend(q, keys, values, table, lengths, out):
    page_size = keys.shape[1]
    for i in pto.loop(q.shape[0]):
        n = lengths[i]
        for h in pto.loop(q.shape[1]):
            m = pto.full([q.shape[2], 1], -math.inf)
            l, o = pto.zeros([q.shape[2], 1]), pto.zeros(q.shape[2:])  # noqa: E741
            for j in pto.loop((n + page_size - 1) // page_size):
                size = pto.min(page_size, n - j * page_size)
                k, v = keys[table[i, j], :size, h], values[table[i, j], :size, h]
                s = pto.matmul(q[i, h], k, b_trans=True, out_dtype=pto.f32) * 0.5
                highest = pto.maximum(m, s.amax(-1, keepdim=True))
                p, old = (s - highest).exp(), (m - highest).exp()
                l = l * old + p.sum(-1, keepdim=True)  # noqa: E741
                o = o * old + pto.matmul(p, v.float())
                m = highest
            out[i, h] = pto.cast(pto.where(l > 0, o / l, 0.0), out.dtype)


def attention(q, keys, values, table, lengths):
    out = np.zeros(q.shape)
    for i, n in enumerate(lengths):
        k, v = (a[table[i]].reshape(-1, *a.shape[2:])[:n] for a in (keys, values))
        for h in range(q.shape[1] if n else 0):
            p = np.exp(s - s.max(-1, keepdims=True)) if (s := q[i, h] @ k[:, h].T / 2).size else s
            out[i, h] = p / p.sum(-1, keepdims=True) @ v[:, h]
    return out


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float64])
def test_attention_over_a_paged_cache_is_written_as_one_explains_it(kind):
    """One program serves all batch sizes, lengths and page tables."""
    kinds = torch.float32 if kind == torch.float64 else kind
    for batch, lengths in ((3, [0, 5, 17]), (1, [24]), (2, [8, 1])):
        generator = torch.Generator().manual_seed(batch)
        sizes = ((batch, 2, 3, 4), (9, 8, 2, 4), (9, 8, 2, 4))
        q, keys, values = (torch.randn(s, generator=generator).to(kinds) for s in sizes)
        table = torch.randperm(9, generator=generator)[: 3 * batch].reshape(batch, 3)
        out = torch.full(q.shape, 7.0, dtype=kind)
        attend(q, keys, values, table.int(), torch.tensor(lengths), out)
        arrays = [a.double().numpy() for a in (q, keys, values)]
        want = attention(*arrays, table.numpy(), lengths)
        allowed = 1e-2 if kind == torch.bfloat16 else 1e-5
        np.testing.assert_allclose(out.double().numpy(), want, rtol=allowed, atol=allowed)


def test_parts_joins_and_reshapes_are_those_of_numpy():
    @pto.jit
    def parts(x):
        return (x[1], x[-1, 1:], x[:, None, :2], x[..., 0], x[1:, -2:], pto.view(x, [2, 1], [0, 2]),
                pto.concat([x, x[:1]]), x.reshape(-1), x.reshape(2, -1, 3), x.permute((1, 0)),
                x.transpose(0, -1), x[2:1], x[:7])  # fmt: skip

    x = np.arange(24, dtype=F32).reshape(4, 6)
    wanted = (x[1], x[-1, 1:], x[:, None, :2], x[..., 0], x[1:, -2:], x[:2, 2:3],
              np.concatenate([x, x[:1]]), x.reshape(-1), x.reshape(2, -1, 3), x.T, x.T,
              x[2:2])  # fmt: skip
    found = parts.trace(x)
    assert "f32[2, 1]" in str(found) and "f32[s0-1, 2]" in str(found)
    with pytest.raises(pto.Error, match="a view lies inside its tensor|negative"):
        parts(x)

    @pto.jit
    def inside(x):
        return (x[1], x[-1, 1:], x[:, None, :2], x[..., 0], x[1:, -2:], pto.view(x, [2, 1], [0, 2]),
                pto.concat([x, x[:1]]), x.reshape(-1), x.reshape(2, -1, 3), x.permute((1, 0)),
                x.transpose(0, -1), x[2:2])  # fmt: skip

    for got, want in zip(inside(x), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_products_have_batches_transposes_and_wider_results():
    @pto.jit
    def products(a, b, c, d):
        return (a @ b, pto.matmul(b, a, a_trans=True, b_trans=True),
                pto.matmul(c, c, b_trans=True, out_dtype=pto.i32),
                pto.matmul(d, d, pto.f32))  # fmt: skip

    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (2, 3, 5)).astype(F32), rng.integers(-4, 5, (5, 2)).astype(F32)
    c, d = np.full((2, 300), 100, np.int8), np.full((3, 3), 1.5, np.float16)
    found = products(a, b, c, d)
    wanted = a @ b, b.T @ a.swapaxes(1, 2), np.full((2, 2), 3000000), np.full((3, 3), 6.75, F32)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    assert [x.dtype for x in found] == [F32, F32, np.int32, F32]


EXTENDED = [  # element type, out_dtype, the names of extend_params, what NumPy makes of a @ b
    ("int8", "f16", {"scale": 0.25, "scale_tensor": None}, lambda ab, b, s: ab * 0.25),
    ("int8", "f16", {"scale_tensor": "s", "relu": True}, lambda ab, b, s: np.maximum(ab, 0) * s),
    ("int8", "i32", {"bias_tensor": "b", "relu": True}, lambda ab, b, s: np.maximum(ab + b, 0)),
    ("int8", "f32", {"bias_tensor": "b", "scale": -2, "relu": True},
     lambda ab, b, s: np.maximum(ab + b, 0) * -2),
    ("float16", "f16", {"bias_tensor": "s"}, lambda ab, b, s: ab + s),
    ("float16", "f32", {"bias_tensor": "s", "scale_tensor": "s"}, lambda ab, b, s: (ab + s) * s),
    ("float32", "f32", {"relu": True, "scale": 3.0}, lambda ab, b, s: np.maximum(ab, 0) * 3),
    ("float64", "f16", {"relu": False, "bias_tensor": "b"}, lambda ab, b, s: ab + b),
    ("int32", "i64", {"bias_tensor": "b"}, lambda ab, b, s: ab + b),
]  # fmt: skip


@pytest.mark.parametrize("case", EXTENDED, ids=lambda case: f"{case[:3]}")
def test_extended_products_are_rounded_once(case):
    kind, out_dtype, names, want = case

    @pto.jit
    def product(a, b, bias, s):
        given = {name: {"b": bias, "s": s}.get(value, value) for name, value in names.items()}
        return pto.matmul(a, b, out_dtype, b_trans=True, extend_params=given)

    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 10, (2, 5, 7)).astype(kind), rng.integers(-9, 10, (3, 7)).astype(kind)
    bias, s = rng.integers(-99, 99, 3).astype(np.int32), np.array([0.5, 3, -0.25], F32)
    found = product(a, b, bias, s)
    exact = want(a.astype(np.float64) @ b.T.astype(np.float64), bias, s)
    np.testing.assert_array_equal(found, exact.astype(found.dtype))
    assert found.dtype == np.dtype({"f": "float", "i": "int"}[out_dtype[0]] + out_dtype[1:])


@pytest.mark.parametrize("given, message", [
    ({"scaled": 2}, "extend_params has 'scaled'"),
    ([2], "extend_params is a value of type builtins.list"),
    ({"scale": 2, "scale_tensor": "x"}, "has a scale and a scale_tensor"),
    ({"scale_tensor": 2.0}, "scale_tensor is the float 2.0"),
    ({"scale_tensor": "i"}, "scale_tensor is i8"),
    ({"scale": "x"}, "the scale is a value of type pto.language.tensor.Tensor"),
    ({"relu": 2}, "relu is the int 2"),
    ({"bias_tensor": "x"}, "the bias_tensor is f32, the products are i32"),
    ({"scale": 2.0}, "the result is i8, what extend_params makes of the products is f32"),
])  # fmt: skip
def test_a_mistake_in_extend_params_is_told_at_its_line(given, message):
    @pto.jit
    def product(i, x):
        named = {k: {"x": x[0], "i": i[0]}.get(v, v) if isinstance(v, str) else v
                 for k, v in given.items()} if isinstance(given, dict) else given  # fmt: skip
        return pto.matmul(i, i, extend_params=named)

    with pytest.raises(pto.Error, match=f"test_programs.py.*{re.escape(message)}"):
        product(np.ones((3, 3), np.int8), np.ones((3, 3), F32))


def test_a_view_has_the_valid_part_of_its_shape():
    @pto.jit
    def tails(x, out):
        for i in pto.loop((x.shape[0] + 3) // 4):
            left = pto.min(4, x.shape[0] - i * 4)
            part = pto.view(x, [4, x.shape[1]], [i * 4, 0], valid_shape=[left, x.shape[1]])
            out[i] = part.sum(0)

    x = np.arange(20, dtype=F32).reshape(10, 2)
    tails(x, out := np.zeros((3, 2), F32))
    np.testing.assert_array_equal(out, [x[:4].sum(0), x[4:8].sum(0), x[8:].sum(0)])
    with pytest.raises(pto.Error, match="the valid shape"):
        pto.jit(lambda x: pto.view(x, [2, 2], [0, 0], valid_shape=[3, 2]))(x)


def test_a_part_with_a_valid_shape_is_filled_up_to_the_shape_it_was_asked_in():
    @pto.jit
    def filled(x, n):
        part = x.view([3, 4], [1, 2], valid_shape=[n[0], 2])
        row = pto.reshape(x, [2, 10], valid_shape=[1, 10])
        assert part.valid_shape == part.shape and row.valid_shape == (1, 10)
        return pto.fillpad(part, value=-1.0), pto.fillpad(row), pto.fillpad(x)

    x = np.arange(20, dtype=F32).reshape(5, 4)
    part, row, whole = filled(x, np.array([2]))
    want = np.full((3, 4), -1, F32)
    want[:2, :2] = x[1:3, 2:]
    np.testing.assert_array_equal(part, want)
    np.testing.assert_array_equal(row, np.stack([x.reshape(2, 10)[0], np.zeros(10, F32)]))
    np.testing.assert_array_equal(whole, x)


def test_numbers_and_what_only_a_branch_computes_are_carried():
    @pto.jit
    def count(x, step=3):
        n, total = 0, 0.5
        for i in pto.loop(x.shape[0]):
            n = n + pto.cond(x[i] > 0, lambda: pto.full([], step), lambda: pto.full([], 1))
            total = total + x[i]
        return pto.zeros([2]) + n, pto.zeros([1]) + total

    n, total = count(np.array([1, -1, 2], F32))
    assert n.tolist() == [7, 7] and total.tolist() == [2.5]


def test_a_program_calls_another_and_runs_as_plain_python():
    @pto.jit
    def put(out, i, value):
        out[i] = value

    @pto.jit
    def fill(out):
        for i in pto.loop(1, out.shape[0]):
            put(out, i, out[i - 1] * 2)

    x = np.ones(4, F32)
    fill(x)
    assert x.tolist() == [1, 2, 4, 8]
    assert list(pto.loop(1, 6, 2)) == [1, 3, 5]


def add_rows(x, out, times, negate=False):
    for i in pto.loop(x.shape[0]):
        row = x[i] * times
        if i > 1 and not negate:
            row = -row
        out[i] = row


def through_another(x, out):
    add_rows(x, out, 3, True)
    return out * 2


def test_loops_of_plain_functions_that_a_program_calls_are_loops_of_the_program():
    """Also where it has none itself; what such a function writes counts."""

    def of_closure(x, out):
        for i in pto.loop(x.shape[0]):
            out[i] = out[i] + x[x.shape[0] - 1 - i]

    @pto.jit
    def outer(x, out):
        return through_another(x, out)

    @pto.jit
    def shadowed(x, out, add_rows):
        out[:] = add_rows(x) if callable(add_rows) else x

    @pto.jit
    def of_closure_and_another(x, out):
        add_rows(x, out, 2)
        of_closure(x, out)

    for n in (5, 3):
        x = np.arange(10, dtype=F32).reshape(5, 2)[:n]
        doubled = outer(x, out := np.zeros_like(x))
        np.testing.assert_array_equal(out, x * 3)
        np.testing.assert_array_equal(doubled, x * 6)
        assert "loop(" in str(outer.trace(x, out))
        of_closure_and_another(x, out)
        signs = np.array([1, 1, -1, -1, -1], F32)[:n, None]
        np.testing.assert_array_equal(out, x * 2 * signs + x[::-1])
    shadowed(x, out, 1)
    np.testing.assert_array_equal(out, x)


def test_a_function_that_writes_into_no_parameter_is_no_program():
    @pto.jit
    def rows(x):
        found, y = {}, x * 2
        y[:] = y + 1
        found["y"] = y
        return found

    assert isinstance(rows, pto.Jit) and "==== C++ ====" in rows.explain(np.ones((2, 2), F32))
    assert rows(np.ones((2, 2), F32))["y"].tolist() == [[3, 3], [3, 3]]
    x = torch.ones(2, 2, requires_grad=True)
    rows(x)["y"].sum().backward()
    assert x.grad.tolist() == [[2, 2], [2, 2]]


def test_two_threads_call_one_program_with_different_sizes():
    @pto.jit
    def rows(x, out):
        for i in pto.loop(x.shape[0]):
            out[i] = x[i] + 1

    def run(size, failures):
        for _ in range(20):
            x, out = np.full((size, 3), size, F32), np.zeros((size, 3), F32)
            rows(x, out)
            if not (out == size + 1).all():
                failures.append(out)

    failures: list = []
    threads = [threading.Thread(target=run, args=(size, failures)) for size in (2, 5, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_pythons_min_and_max_compare_sizes_and_a_tensor_moves_to_a_value():
    @pto.jit
    def tiled(x, out, sizes, mode):
        for i in pto.loop((x.shape[0] + 3) // 4):
            n = min(i * 4 + 4, x.shape[0], 100) - i * 4
            part = x[i * 4 : i * 4 + n] * sizes[0]
            out[i * 4 : i * 4 + n] = part if mode is Mode.PLAIN else -part
        out.move(out + max(*sizes) + max(sizes))

    x = np.arange(6, dtype=np.float32)
    for sizes, mode, sign in [([2, 5], Mode.PLAIN, 2), ([3, 5], Mode.PLAIN, 3),
                              ([3, 5], Mode.NEGATED, -3)]:  # fmt: skip
        tiled(x, out := np.zeros_like(x), sizes, mode)
        assert out.tolist() == (sign * x + 10).tolist()


@pto.jit
def joined(x, y, axis, lead):
    """Computed tensors beside each other, and the halves of what is joined, computed with."""
    z = pto.concat([x * x, y * 2, pto.sum(x, axis, keepdim=True), x - y], axis)
    whole = (slice(None),) * lead
    half = z.shape[axis] // 2
    first, last = z[(*whole, slice(0, half))], z[(*whole, slice(half, 2 * half))]
    return pto.concat([pto.abs(first) + last, z, first * 3], axis), first.sum(-1)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((5, 6), -1), ((1, 1), 0), ((3, 4, 5), -2), ((2, 3, 7, 1), -2), ((2, 3, 1, 16), -3)],
)
def test_computed_parts_are_joined_and_read_as_parts(shape, axis):
    random = np.random.default_rng(0)
    x, y = (random.integers(-4, 5, shape).astype(F32) for _ in range(2))
    axis %= len(shape)
    z = np.concatenate([x * x, y * 2, x.sum(axis, keepdims=True), x - y], axis)
    half = z.shape[axis] // 2
    first, last = (np.take(z, range(i * half, i * half + half), axis) for i in range(2))
    found, sums = joined(x, y, axis - len(shape), axis)
    wanted = np.concatenate([abs(first) + last, z, first * 3], axis)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(sums, first.sum(-1))
