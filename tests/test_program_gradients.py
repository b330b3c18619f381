# SPDX-License-Identifier: Apache-2.0
"""Gradients of programs, their loops, branches and writes, against PyTorch's of the same text."""

import numpy as np
import pytest
import torch

import pto
import pto.torch  # noqa: F401
from pto.language.differentiate import differentiate
from pto.language.op import op
from pto.language.trace import Trace

F64 = torch.float64


@pto.jit
def tower(x, w, n):
    h = x * 1
    for i in pto.loop(w.shape[0]):
        h = h + pto.tanh(h * w[i])
    return h


def tower_of_torch(x, w, n):
    h = x * 1
    for i in range(w.shape[0]):
        h = h + torch.tanh(h * w[i])
    return h


@pto.jit
def rows(x, w, n):
    out = pto.zeros([x.shape[0], x.shape[1]], pto.f64)
    for i in pto.loop(n[0], -1, -1):
        out[i] = pto.exp(x[i]) * w[0]
        out[i, :1] += x[i, 1:2]
    return out * x


def rows_of_torch(x, w, n):
    made = torch.zeros_like(x)
    made[: n[0] + 1] = x[: n[0] + 1].exp() * w[0]
    made[: n[0] + 1, :1] += x[: n[0] + 1, 1:2]
    return made * x


@pto.jit
def recurrence(x, w, n):
    out = x * 2
    for i in pto.loop(1, n[1], 2):
        out[i] = out[i - 1] * w[i] + x[i] * out[i]
        out[0] = out[i]
    return out


def recurrence_of_torch(x, w, n):
    out = x * 2
    for i in range(1, n[1], 2):
        row = out[i - 1] * w[i] + x[i] * out[i]
        out = torch.cat([row[None], out[1:i], row[None], out[i + 1 :]])
    return out


@pto.jit
def nested(x, w, n):
    total = pto.sum(x, 0)
    for i in pto.loop(n[0]):
        for j in pto.loop(i, n[1]):
            total = total * w[j] + x[i, :1] * pto.sum(w[: j + 1], 0)
        total = pto.sin(total)
    return total


def nested_of_torch(x, w, n):
    total = x.sum(0)
    for i in range(n[0]):
        for j in range(i, n[1]):
            total = total * w[j] + x[i, :1] * w[: j + 1].sum(0)
        total = total.sin()
    return total


@pto.jit
def ways(x, w, n):
    out, h = pto.zeros([x.shape[0], x.shape[1]], pto.f64), x[0] * 1
    for i in pto.loop(n[1]):
        if n[i] > 1:
            h = h * w[i]
            out[i] = h
        elif x.shape[0] > 3:
            out[i] = x[i] * h * h
    return out


def ways_of_torch(x, w, n):
    made, h = [torch.zeros_like(x[0])] * x.shape[0], x[0] * 1
    for i in range(n[1]):
        if n[i] > 1:
            h = h * w[i]
            made[i] = h
        elif x.shape[0] > 3:
            made[i] = x[i] * h * h
    return torch.stack(made)


@pto.jit
def rounds(x, w, n):
    h, k, y = x[0] * w[0], 0, pto.sum(x, 0)
    while k < n[1] and n[0] > 0:
        h, k = pto.sin(h) * w[k] + x[k], k + 1
        y = y + h
    return h * y


def rounds_of_torch(x, w, n):
    h, k, y = x[0] * w[0], 0, x.sum(0)
    while k < n[1] and n[0] > 0:
        h, k = h.sin() * w[k] + x[k], k + 1
        y = y + h
    return h * y


@pto.jit
def versions(x, w, n):
    h = x * 1
    for i in pto.loop(n[1], unroll_list=[2]):
        h = h * w[i] + x[i : i + 1]
    h.index_add_(0, n[2:4], w[:2] * w[1:3])
    h[n[:1]] = x[:1] * h[1:2]
    return h


def versions_of_torch(x, w, n):
    h = x * 1
    for i in range(n[1]):
        h = h * w[i] + x[i : i + 1]
    h = h.index_add(0, n[2:4], w[:2] * w[1:3])
    return torch.cat([h[: n[0]], x[:1] * h[1:2], h[n[0] + 1 :]])


@pto.jit
def attention(x, w, n):
    """x is the queries, w pages of two keys; n says which of them are read, n[1] how many."""
    m = pto.full([x.shape[0], 1], -1e30, pto.f64)
    total, o = pto.zeros([x.shape[0], 1], pto.f64), pto.zeros([x.shape[0], x.shape[1]], pto.f64)
    for j in pto.loop(n[1]):
        size = pto.min(2, 2 * n[1] - 1 - j * 2)
        k = w.reshape(-1, 2, x.shape[1])[n[j] % 2, :size]
        s = pto.matmul(x, k, b_trans=True)
        top = pto.maximum(m, s.amax(-1, keepdim=True))
        p, old = pto.exp(s - top), pto.exp(m - top)
        total, o, m = total * old + p.sum(-1, keepdim=True), o * old + p @ k, top
    return o / total


def attention_of_torch(x, w, n):
    k = torch.cat([w.reshape(-1, 2, x.shape[1])[n[j] % 2] for j in range(n[1])])[:-1]
    return torch.softmax(x @ k.T, -1) @ k


PROGRAMS = {f.__name__: (f, twin) for f, twin in [
    (tower, tower_of_torch), (rows, rows_of_torch), (recurrence, recurrence_of_torch),
    (nested, nested_of_torch), (ways, ways_of_torch), (rounds, rounds_of_torch),
    (versions, versions_of_torch), (attention, attention_of_torch),
]}  # fmt: skip
NUMBERS = [[2, 4, 1, 0], [3, 3, 0, 2], [0, 1, 2, 3]]


def operands(seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, dtype=F64, generator=generator).requires_grad_()
            for shape in ((4, 3), (4, 3))]  # fmt: skip


def interpreted(function, x, w, n, d):
    """The gradients by x and w of a traced program, evaluated by the interpreter."""
    trace = Trace("f")
    given = [trace.input("x", "f64", x.shape), trace.input("w", "f64", w.shape)]
    numbers = trace.input("n", "i64", n.shape)
    with trace.active():
        result = function(*given, numbers)
        by = trace.input("d", "f64", result.shape)
        graph, _ = trace.finish(differentiate([result], [by], given))
    graph.verify()
    return pto.interpret(graph, x.detach(), w.detach(), n, d)


def check_gradients(ours, theirs, numbers, seed=0):
    """Compares with PyTorch: interpreted, and compiled."""
    (x, w), n = operands(seed), torch.tensor(numbers)
    result = theirs(x, w, n)
    d = torch.randn(result.shape, dtype=F64, generator=torch.Generator().manual_seed(1))
    want = torch.autograd.grad(result, (x, w), d, allow_unused=True, materialize_grads=True)
    found = ours(x, w, n)
    torch.testing.assert_close(found, result)
    for a, b in zip(torch.autograd.grad(found, (x, w), d), want, strict=True):
        torch.testing.assert_close(a, b)
    for a, b in zip(interpreted(ours, x, w, n, d), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("numbers", NUMBERS, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_programs_gradients_are_those_of_pytorch(name, numbers):
    check_gradients(*PROGRAMS[name], numbers)


# Steps of random programs: of traced tensors, and of PyTorch's. Each takes what the loop carries, a
# vector and a matrix, what it reads, and the iteration.
def written(out, i, row):
    out[i % 4] = row
    return out


def replaced(out, i, row):
    return torch.cat([out[: i % 4], row[None], out[i % 4 + 1 :]])


STEPS = [
    (lambda h, o, x, w, i: (h * w[i % 4] + x[0], o), None),
    (lambda h, o, x, w, i: (pto.sin(h) + o[i % 4], o),
     lambda h, o, x, w, i: (h.sin() + o[i % 4], o)),
    (lambda h, o, x, w, i: (h, written(o, i, h * x[i % 3])),
     lambda h, o, x, w, i: (h, replaced(o, i, h * x[i % 3]))),
    (lambda h, o, x, w, i: (h, written(o, i + 1, o[i % 4] * w[i % 2])),
     lambda h, o, x, w, i: (h, replaced(o, i + 1, o[i % 4] * w[i % 2]))),
    (lambda h, o, x, w, i: (pto.cond(i % 2 == 0, lambda: h * 2, lambda: h * x[1]), o),
     lambda h, o, x, w, i: (h * 2 if i % 2 == 0 else h * x[1], o)),
    (lambda h, o, x, w, i: (h + pto.sum(o * w, 0), o),
     lambda h, o, x, w, i: (h + (o * w).sum(0), o)),
    (lambda h, o, x, w, i: (h + pto.tanh(o @ w[:3])[0], o),
     lambda h, o, x, w, i: (h + (o @ w[:3]).tanh()[0], o)),
    (lambda h, o, x, w, i: (h, o * pto.sigmoid(h)), lambda h, o, x, w, i: (h, o * h.sigmoid())),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(25))
def test_the_gradients_of_random_loops_are_those_of_pytorch(seed):
    random = np.random.default_rng(seed)
    steps = [STEPS[k] for k in random.integers(len(STEPS), size=random.integers(1, 5))]
    inner = [STEPS[k] for k in random.integers(len(STEPS), size=random.integers(0, 3))]

    @pto.jit
    def program(x, w, n):
        h, o = x[1] * 1, w * 1
        for i in pto.loop(n[0]):
            for ours, _ in steps:
                h, o = ours(h, o, x, w, i)
            for j in pto.loop(n[1] - i):
                for ours, _ in inner:
                    h, o = ours(h, o, x, w, i + j)
        return h * o

    (x, w), n = operands(seed), torch.tensor(random.integers(0, 4, 2))
    h, o = x[1] * 1, w * 1
    for i in range(n[0]):
        for ours, theirs in steps:
            h, o = (theirs or ours)(h, o, x, w, i)
        for j in range(n[1] - i):
            for ours, theirs in inner:
                h, o = (theirs or ours)(h, o, x, w, i + j)
    d = torch.randn(4, 3, dtype=F64, generator=torch.Generator().manual_seed(seed))
    want = torch.autograd.grad(h * o, (x, w), d, allow_unused=True, materialize_grads=True)
    for a, b in zip(interpreted(program, x, w, n, d), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)


def test_a_written_parameter_passes_gradients_of_what_it_was_and_of_what_was_written():
    @pto.jit
    def scaled(x, w, out):
        for i in pto.loop(1, x.shape[0]):
            out[i] = x[i] * w[0] * out[i - 1]

    x, w = operands(0)
    out = w * 2
    scaled(x, w, out)
    found = torch.autograd.grad(out.sum(), (x, w))
    out = list(w * 2)
    for i in range(1, 4):
        out[i] = x[i] * w[0] * out[i - 1]
    want = torch.autograd.grad(torch.stack(out).sum(), (x, w))
    for a, b in zip(found, want, strict=True):
        torch.testing.assert_close(a, b)


@op("program_gradients_tower(Tensor x, Tensor w) -> Tensor")
class Tower:
    grad = "automatic"

    def build(x, w):
        return tower(x, w, None)


def test_an_operator_of_a_program_has_first_and_second_gradients():
    x, w = operands(0)
    run = torch.ops.pto.program_gradients_tower
    assert torch.autograd.gradcheck(run, (x, w[:2]))
    assert torch.autograd.gradgradcheck(run, (x[:2], w[:2]))


def test_a_loop_keeps_only_the_values_that_its_gradient_reads():
    def kept(function):
        trace = Trace("f")
        x = trace.input("x", "f64", (5, 3))
        with trace.active():
            y = function(x)
            graph, _ = trace.finish(differentiate([y], [trace.input("d", "f64", y.shape)], [x]))
        return str(graph).count("%stack")

    @pto.jit
    def linear(x):
        out = pto.zeros([5, 3], pto.f64)
        for i in pto.loop(5):
            out[i] = x[i] * x[i]
        return out

    @pto.jit
    def curved(x):
        h = x[0]
        for i in pto.loop(5):
            h = pto.sin(h) * x[i]
        return h

    assert kept(linear) == 0 and kept(curved) > 0


def test_an_operation_without_a_rule_in_a_loop_is_told_with_its_line():
    @pto.jit
    def product(x):
        h = x[0]
        for _ in pto.loop(2):
            h = h * pto.prod(x, 0)
        return h

    x = torch.ones(2, 3, requires_grad=True)
    line = product.__wrapped__.__code__.co_firstlineno + 4
    with pytest.raises(RuntimeError, match="the derivative of prod is not known") as error:
        product(x).sum().backward()
    assert f"test_program_gradients.py:{line}" in str(error.value)


def test_whole_numbers_carry_no_gradient():
    @pto.jit
    def counted(x):
        total, largest = x[0] * 0, 0
        for i in pto.loop(x.shape[0]):
            best = pto.argmax(x[i])
            largest = pto.max(largest, best)
            total = total + x[i] * pto.cast(best, pto.f64)
        return total * pto.cast(largest, pto.f64)

    x, _ = operands(0)
    found = torch.autograd.grad(counted(x).sum(), x)[0]
    best = x.argmax(1)
    torch.testing.assert_close(found, (best * best.max())[:, None].expand(4, 3).to(F64))


@pytest.mark.parametrize("count", [8, 12, 24])
def test_a_function_of_many_tensors_has_a_gradient(count):
    """Of 24 the second one would take 49 tensors, more than a call has: that one is refused."""
    names = ", ".join(f"x{i}" for i in range(count))
    cubes = " + ".join(f"x{i} ** 3" for i in range(count))
    found = {}
    exec(f"def cubes({names}): return {cubes}", found)
    xs = [torch.full((2,), i + 1.0, dtype=F64, requires_grad=True) for i in range(count)]
    first = torch.autograd.grad(pto.jit(found["cubes"])(*xs).sum(), xs, create_graph=True)
    torch.testing.assert_close(torch.stack(first), 3 * torch.stack(xs) ** 2)
    if count < 24:
        second = torch.autograd.grad(sum(one.sum() for one in first), xs)
        torch.testing.assert_close(torch.stack(second), 6 * torch.stack(xs))
