# SPDX-License-Identifier: Apache-2.0
"""The language by its definition: what tracing records, run by the interpreter, against NumPy."""

import math

import numpy as np
import pytest
import torch

import pto
from pto import _core

A = np.array([[0.5, -1.25, 3.0], [2.0, -0.0, 7.5]], np.float32)
B = np.array([[1.5, 2.0, -0.5], [0.25, 4.0, 2.0]], np.float32)
I32 = np.array([[7, -7, 3], [0, 12, -5]], np.int32)
J32 = np.array([[2, 2, -2], [5, -5, 3]], np.int32)
U8 = np.array([[200, 7, 3], [0, 12, 255]], np.uint8)
BOOL = np.array([[True, False, True], [False, True, True]])


def run(function, *arrays):
    """The function on arrays, by its definition."""
    trace = pto.Trace("case")
    inputs = [trace.input(f"x{i}", a.dtype, a.shape) for i, a in enumerate(arrays)]
    graph, _ = trace.finish(function(*inputs))
    return pto.interpret(graph, *arrays)


def same(got, want):
    want = np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape, (got.dtype, got.shape)
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), 2e-6, 1e-30)


@pytest.mark.parametrize("row", _core.operations(), ids=lambda row: row[0])
def test_every_operation_of_the_table_is_a_function_with_the_value_of_its_oracle(row):
    name, _, family, arity, oracle, kinds = row
    positive = name in ("log", "sqrt", "rsqrt", "pow")
    a, b = (np.abs(A) + 0.5, np.abs(B)) if positive else (A, B)
    a, b = {"Integer": (I32, J32), "Bool": (BOOL, ~BOOL)}.get(kinds, (a, b))
    space = {"np": np, "math": math, "a": a, "b": b, "c": BOOL, "axis": 1, "t": np.float16}
    space |= {"divide": np.divide, "power": np.power}
    with np.errstate(all="ignore"):
        want = np.asarray(eval(oracle, space))
    want = want.astype(a.dtype) if family in ("unary", "binary") else want
    if name == "where":
        same(run(pto.where, BOOL, a, b), want)
    elif family == "convert":
        same(run(lambda x: pto.cast(x, pto.f16), a), want)
    elif family == "reduce":
        same(run(lambda x: getattr(pto, name)(x, 1), a), want)
    else:
        same(run(getattr(pto, name), *(a, b)[:arity]), want)


OPERATORS = [
    (lambda x, y: x + y, A, B, A + B),
    (lambda x, y: x - y, A, B, A - B),
    (lambda x, y: x * y, A, B, A * B),
    (lambda x, y: x / y, A, B, A / B),
    (lambda x, y: x / y, I32, J32, (I32 / J32).astype(np.float32)),
    (lambda x, y: x // y, A, B, A // B),
    (lambda x, y: x // y, I32, J32, I32 // J32),
    (lambda x, y: x // y, U8, np.full_like(U8, 7), U8 // 7),
    (lambda x, y: x % y, A, B, A % B),
    (lambda x, y: x % y, I32, J32, I32 % J32),
    (lambda x, y: abs(x) ** y, A, B, np.abs(A) ** B),
    (lambda x, y: (x > y) & (y > 0), A, B, (A > B) & (B > 0)),
    (lambda x, y: (x >= y) | (y < 0), A, B, (A >= B) | (B < 0)),
    (lambda x, y: (x == y) ^ (x != 0), A, B, (A == B) ^ (A != 0)),
    (lambda x, y: ~(x <= y), A, B, ~(A <= B)),
    (lambda x, y: x ^ y & 3 | 8, I32, J32, I32 ^ J32 & 3 | 8),
    (lambda x, y: -x + +y, A, B, -A + B),
    (lambda x, y: 2 - x, A, B, 2 - A),
    (lambda x, y: 2 / y, A, B, 2 / B),
    (lambda x, y: 7 // x, B, A, 7 // B),
    (lambda x, y: 7 % y, A, B, 7 % B),
    (lambda x, y: 2.0**x, A, B, 2.0**A),
    (lambda x, y: x == y, BOOL, ~BOOL, BOOL == ~BOOL),
    (lambda x, y: x < y, BOOL, ~BOOL, BOOL < ~BOOL),
    (lambda x, y: pto.maximum(x, y), BOOL, ~BOOL, BOOL | ~BOOL),
]


@pytest.mark.parametrize("case", range(len(OPERATORS)))
def test_operators_mean_what_they_mean_in_numpy(case):
    function, a, b, want = OPERATORS[case]
    same(run(function, a, b), want)


def test_floor_division_agrees_with_numpy_at_the_edges():
    values = np.array([0.0, -0.0, 1.0, -1.0, 7.5, -7.5, np.inf, -np.inf, np.nan])
    a, b = np.meshgrid(values, values)
    with np.errstate(all="ignore"):
        want = a // b
    got = run(lambda x, y: x // y, a, b)
    np.testing.assert_array_equal(got, want)


NUMBERS = [
    (lambda x: x + 1, A, "float32"),
    (lambda x: x + 1.5, I32, "float32"),
    (lambda x: x + 1, I32, "int32"),
    (lambda x: x + True, I32, "int32"),
    (lambda x: x / 2, I32, "float32"),
    (lambda x: x == 2.5, I32, "bool"),
    (lambda x: pto.maximum(x, 2), BOOL, "int64"),
    (lambda x: x + np.float64(1.5), A, "float32"),
    (lambda x: np.float32(2) * x, A, "float32"),
    (lambda x: pto.where(x > 0, 1.0, 0), A, "float32"),
    (lambda x: pto.where(x > 0, 1, 0), A, "int64"),
    (lambda x: pto.where(x > 0, x, 0), A, "float32"),
    (lambda x: pto.where(x > 0, True, False), A, "bool"),
    (lambda x: x.sum(), U8, "int64"),
    (lambda x: x.sum(), BOOL, "int64"),
    (lambda x: x.prod(), I32, "int64"),
    (lambda x: x.amax(), BOOL, "bool"),
    (lambda x: pto.exp(x), I32, "float32"),
    (lambda x: pto.floor(x), I32, "int32"),
    (lambda x: x.mean(), A.astype(np.float16), "float16"),
]


@pytest.mark.parametrize("case", range(len(NUMBERS)))
def test_numbers_and_functions_give_the_types_that_pytorch_gives(case):
    function, a, want = NUMBERS[case]
    assert run(function, a).dtype == want


COMPOSED = [
    (lambda x: x.mean(-1), A.mean(-1)),
    (lambda x: x.mean(), A.mean()),
    (lambda x: pto.var(x, 0, correction=0), A.var(0)),
    (lambda x: pto.std(x, 1), A.std(1, ddof=1)),
    (lambda x: x.sum((0, 1), keepdim=True), A.sum(keepdims=True)),
    (lambda x: x.sum(axis=0, keepdims=True), A.sum(0, keepdims=True)),
    (lambda x: x.amin(-2), A.min(0)),
    (lambda x: x.clip(0, 2), A.clip(0, 2)),
    (lambda x: x.softmax(-1), np.exp(A) / np.exp(A).sum(-1, keepdims=True)),
    (lambda x: x.log_softmax(0), A - np.log(np.exp(A.astype("f8")).sum(0))),
    (lambda x: pto.silu(x), A / (1 + np.exp(-A))),
    (lambda x: pto.gelu(x), A * 0.5 * (1 + np.vectorize(math.erf)(A / math.sqrt(2)))),
    (lambda x: pto.rms_norm(x), A / np.sqrt((A * A).mean(-1, keepdims=True) + 1e-6)),
    (lambda x: x[:, None, ...], A[:, None, ...]),
    (lambda x: x[None][..., None], A[None][..., None]),
    (lambda x: x.unsqueeze(1).squeeze(), A),
    (lambda x: x.reshape(1, -1, 3, 1), A.reshape(1, 2, 3, 1)),
    (lambda x: x.amax(1, True).expand(2, 5), np.broadcast_to(A.max(1, keepdims=True), (2, 5))),
    (lambda x: pto.full_like(x, 3) + pto.zeros_like(x), np.full_like(A, 3)),
    (lambda x: x * x.shape[1], A * 3),
]


@pytest.mark.parametrize("case", range(len(COMPOSED)))
def test_compositions_and_shapes_agree_with_numpy(case):
    function, want = COMPOSED[case]
    same(run(function, A), np.asarray(want, np.float32))


@pytest.mark.filterwarnings("ignore")  # PyTorch warns where it divides by 0
@pytest.mark.parametrize("correction", [-2.5, -1, 0, 1, 3, 4.5])
def test_a_variance_is_never_divided_by_less_than_0(correction):
    torch = pytest.importorskip("torch")
    for size in (3, 1, 0):  # with fewer elements than the correction: inf, or NaN
        x = A[:, :size]
        for own, theirs in (
            (lambda x: pto.var(x, 1, correction=correction), torch.var),
            (lambda x: pto.std(x, 1, correction=correction), torch.std),
        ):
            want = theirs(torch.tensor(x), 1, correction=correction).numpy()
            np.testing.assert_allclose(pto.jit(own)(x), want, 1e-6)
            np.testing.assert_allclose(pto.interpret(pto.jit(own).trace(x), x), want, 1e-6)


def symbolic(function, *types):
    trace = pto.Trace("case")
    sizes = iter(range(99))
    inputs = [
        trace.input(
            f"x{i}", dtype, [_core.Dim.symbol(next(sizes)) if n is None else n for n in dims]
        )
        for i, (dtype, dims) in enumerate(types)
    ]
    return trace.finish(function(*inputs))[0]


def test_sizes_stay_symbolic_and_enter_arithmetic():
    graph = symbolic(lambda x: x.sum(-1) / x.shape[-1], ("f32", [None, None]))
    assert str(graph.outputs) == "[('f32', (s0,))]"
    np.testing.assert_allclose(pto.interpret(graph, A), A.mean(-1), 1e-6)


def test_broadcasting_two_symbols_leaves_a_guard():
    graph = symbolic(lambda x, y: x + y, ("f32", [None]), ("f32", [None]))
    assert [(str(a), str(b), why) for a, b, why, _ in graph.guards] == [("s0", "s1", "add")]


@pytest.mark.parametrize("mean, spread", [(1000, 0.01), (100, 0.1), (-3e4, 1), (0, 1)])
def test_a_variance_does_not_lose_the_digits_that_the_mean_takes(mean, spread):
    x = torch.tensor(np.random.default_rng(0).normal(mean, spread, (16, 500)), dtype=torch.float32)
    for axis in (0, 1):
        exact = x.double().var(axis)
        error, eager = (
            float(((found.double() - exact) / exact).abs().max())
            for found in (pto.jit(lambda x, a=axis: pto.var(x, a))(x), x.var(axis))
        )
        assert error <= 2 * eager + 2e-7


@pytest.mark.parametrize("function", [pto.sum, pto.prod, pto.mean, pto.var, pto.softmax])
def test_half_types_accumulate_in_f32_and_round_once(function):
    graph = symbolic(function, ("f16", [None]))
    body = [line for line in str(graph).splitlines() if " = " in line]
    halves = [line for line in body if " : f16[" in line]
    assert "cast(%x0) : f32" in body[0] and halves == [body[-1]] and "cast(" in body[-1]
    x = np.full(4096, 1.0 + 2**-10, np.float16)
    assert run(lambda x: x.sum(), x) == np.float16(x.astype(np.float64).sum())


def test_sum_to_undoes_broadcasting():
    graph = symbolic(lambda x, y: pto.sum_to(x * y, y), ("f32", [None, None]), ("f32", [None, 1]))
    np.testing.assert_allclose(
        pto.interpret(graph, A, B[:, :1]), (A * B[:, :1]).sum(1, keepdims=True), 1e-6
    )


def test_graph_text_parses_back_and_names_the_users_line():
    graph = symbolic(lambda x: pto.softmax(x), ("f32", [None, None]))
    assert _core.Graph.parse(str(graph)) == graph
    assert 'test_language.py":' in str(graph) and "nn.py" not in str(graph)


def test_scalars_take_the_type_of_what_they_meet():
    trace = pto.Trace("scaled")
    x, factor = trace.input("x", "f16", (3,)), trace.scalar("factor", "f64")
    graph, _ = trace.finish(x * factor)
    got = pto.interpret(graph, A[0].astype(np.float16), 0.5)
    np.testing.assert_array_equal(got, A[0].astype(np.float16) * np.float16(0.5))


def declared(x, dtype):
    y = pto.tensor(x.shape, dtype=dtype)
    y[:] = 1
    return y


@pytest.mark.parametrize("dtype", ["i8", "f64"])
def test_new_tensors_take_their_element_type_by_its_name(dtype):
    ways = [
        lambda x: pto.zeros(x.shape, dtype=dtype),
        lambda x: pto.ones(x.shape, dtype=dtype),
        lambda x: pto.full(x.shape, 3, dtype=dtype),
        lambda x: pto.arange(3, dtype=dtype),
        lambda x: declared(x, dtype),
    ]
    for make in ways:
        assert f"-> ({dtype}[" in str(pto.jit(make).trace(A))


def test_the_transposes_of_numpy():
    cube = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for array in (A[0, 0], A[0], A, cube):
        same(run(lambda x: x.T + 0, array), array.T)
    for array in (A, cube):
        same(run(lambda x: x.mT @ x, array), np.swapaxes(array, -1, -2) @ array)
    with pytest.raises(pto.errors.InvalidType, match="x.mT has two axes or more, and x has 1"):
        run(lambda x: x.mT, A[0])


@pytest.mark.parametrize("dim", range(-3, 3))
def test_stack_puts_tensors_beside_each_other_along_a_new_axis(dim):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    stacked = pto.jit(lambda x, y: pto.stack([x, y * 2, x + y], dim))
    np.testing.assert_array_equal(stacked(x, -x), np.stack([x, x * -2, x * 0], dim))
    with pytest.raises(pto.Error, match=r"stack: tensors of the shapes \[s0, s1\] and \[s3\]"):
        pto.jit(lambda x, y: pto.stack([x, y[0]], dim))(x, x)
