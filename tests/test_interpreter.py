# SPDX-License-Identifier: Apache-2.0
"""The interpreter against NumPy: every row of isa/instructions.def on every element type.

The interpreter evaluates a row's C++ expression; here its NumPy column is the second opinion.
"""

import math
from functools import reduce

import ml_dtypes
import numpy as np
import pytest

import pto
from pto import _core

FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, -7.0, 0.1, 88.0, math.pi, 1e-3, 6e4]
FLOATS += [6e-8, math.inf, -math.inf, math.nan]
INTEGERS = [0, 1, 2, 3, 5, 7, 63, 64, 100, 127]
LIBRARY = {"exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "erf", "pow", "prod"}
SETS = {
    "Float": {"float"},
    "Integer": {"signed", "unsigned"},
    "Arithmetic": {"float", "signed", "unsigned"},
    "Ordered": {"float", "signed", "unsigned"},
    "Bool": {"bool"},
    "Any": {"float", "signed", "unsigned", "bool"},
}
KINDS = {row.name: row.kind for row in _core.dtypes()}


def numpy_type(dtype: str) -> np.dtype:
    if dtype in ("bf16", "bool"):
        return np.dtype(ml_dtypes.bfloat16 if dtype == "bf16" else bool)
    return np.dtype({"f": "float", "i": "int", "u": "uint"}[dtype[0]] + dtype[1:])


def divide(a, b):
    """C's division: integers truncate, x / 0 is 0."""
    if a.dtype.kind == "f":
        return a / b
    quotient = [abs(int(x)) // abs(int(y)) if y else 0 for x, y in zip(a, b, strict=True)]
    signs = [-1 if (x < 0) != (y < 0) else 1 for x, y in zip(a, b, strict=True)]
    return wrapped([q * s for q, s in zip(quotient, signs, strict=True)], a.dtype)


def power(a, b):
    """C's power: integers wrap, negative exponents truncate."""
    if a.dtype.kind == "f":
        return np.power(a, b)
    pairs = [(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    negative = {1: lambda y: 1, -1: lambda y: 1 if y % 2 == 0 else -1}
    values = [pow(x, y, 1 << 64) if y >= 0 else negative.get(x, zero)(y) for x, y in pairs]
    return wrapped(values, a.dtype)


def zero(_: int) -> int:
    return 0


def wrapped(values: list[int], dtype: np.dtype) -> np.ndarray:
    mask = (1 << 8 * dtype.itemsize) - 1
    return np.array([v & mask for v in values], np.uint64).astype(dtype)


def samples(dtype: str) -> np.ndarray:
    """Values of the type; floats as double, which the oracle computes in."""
    kind = KINDS[dtype]
    if kind == "float":
        return np.array(FLOATS).astype(numpy_type(dtype)).astype(np.float64)
    if kind == "bool":
        return np.array([False, True])
    ends = [np.iinfo(numpy_type(dtype)).min, np.iinfo(numpy_type(dtype)).max]
    signs = (1, -1) if kind == "signed" else (1,)
    return np.array([s * v for v in INTEGERS for s in signs] + ends, numpy_type(dtype))


def oracle(expression: str, dtype: str, **names) -> np.ndarray:
    scope = {"np": np, "math": math, "divide": divide, "power": power, **names}
    with np.errstate(all="ignore"):
        value = np.asarray(eval(expression, scope))
        return value if value.dtype == bool else value.astype(numpy_type(dtype))


def assert_equal(got: np.ndarray, want: np.ndarray, op: str, dtype: str) -> None:
    assert got.dtype == want.dtype
    if KINDS[dtype] != "float":
        np.testing.assert_array_equal(got, want)
        return
    got, want = got.astype(np.float64), want.astype(np.float64)
    ulp = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-50}[dtype]
    tolerance = ulp if op in LIBRARY else 0
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=6e-8 if dtype == "f16" else 0)


def graph_of(op: str, parameters: dict[str, str], result: str, attributes: str = "") -> _core.Graph:
    inputs = ", ".join(f"%{name}: {kind}" for name, kind in parameters.items())
    operands = ", ".join(f"%{name}" for name in parameters)
    return _core.Graph.parse(
        f"graph g({inputs}) -> ({result}) {{\n"
        f"  %0 = {op}({operands}){attributes} : {result}\n"
        "  return %0\n}"
    )


CASES = [
    (op, family, arity, expression, dtype)
    for op, _, family, arity, expression, kinds in _core.operations()
    for dtype in KINDS
    if KINDS[dtype] in SETS[kinds] and family in ("unary", "binary", "compare")
]
REDUCTIONS = [
    (op, expression, dtype)
    for op, _, family, _, expression, kinds in _core.operations()
    for dtype in KINDS
    if family == "reduce" and KINDS[dtype] in SETS[kinds]
]
ROWS = {row[0]: row for row in _core.operations()}


@pytest.mark.parametrize(("op", "family", "arity", "expression", "dtype"), CASES)
def test_an_operation_has_the_value_of_its_numpy_column(op, family, arity, expression, dtype):
    values = samples(dtype)
    a, b = (grid.ravel() for grid in np.meshgrid(values, values))
    operands = {"a": a, "b": b} if arity == 2 else {"a": values}
    result = "bool[s0]" if family == "compare" else f"{dtype}[s0]"
    graph = graph_of(op, dict.fromkeys(operands, f"{dtype}[s0]"), result)
    want = oracle(expression, dtype, **operands)
    assert_equal(pto.interpret(graph, *operands.values()), want, op, result.split("[")[0])


@pytest.mark.parametrize(("op", "expression", "dtype"), REDUCTIONS)
def test_a_reduction_has_the_value_of_its_numpy_column(op, expression, dtype):
    draw = np.random.default_rng(0)
    wide = np.float64 if KINDS[dtype] == "float" else numpy_type(dtype)
    values = draw.integers(0, 4, (3, 5, 4)).astype(wide)
    for axis in (0, 1, 2, (0, 2), (0, 1, 2)):
        axes = axis if isinstance(axis, tuple) else (axis,)
        shape = ", ".join("1" if i in axes else f"s{i}" for i in range(3))
        graph = graph_of(
            op, {"a": f"{dtype}[s0, s1, s2]"}, f"{dtype}[{shape}]", f" {{axes={list(axes)}}}"
        )
        got = pto.interpret(graph, values)
        want = oracle(expression, dtype, a=values, axis=axis).reshape(got.shape)
        assert_equal(got, want, op, dtype)


@pytest.mark.parametrize("to", KINDS)
@pytest.mark.parametrize("dtype", KINDS)
def test_a_cast_has_the_value_of_its_numpy_column(dtype, to):
    values = samples(dtype)
    if KINDS[dtype] == "float" and KINDS[to] in ("signed", "unsigned"):
        low = 0 if KINDS[to] == "unsigned" else -100
        values = values[(values >= low) & (values <= 100)]
    graph = graph_of("cast", {"a": f"{dtype}[s0]"}, f"{to}[s0]")
    want = oracle(ROWS["cast"][4], to, a=values, t=numpy_type(to))
    got = pto.interpret(graph, values)
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))


@pytest.mark.parametrize("dtype", KINDS)
def test_where_has_the_value_of_its_numpy_column(dtype):
    values = samples(dtype)
    condition = np.arange(len(values)) % 3 == 0
    types = {"c": "bool[s0]", "a": f"{dtype}[s0]", "b": f"{dtype}[s0]"}
    got = pto.interpret(graph_of("where", types, f"{dtype}[s0]"), condition, values, values[::-1])
    want = oracle(ROWS["where"][4], dtype, c=condition, a=values, b=values[::-1])
    assert_equal(got, want, "where", dtype)


def test_a_long_chain_of_additions_wraps_like_numpy():
    values = np.array([2**31 - 1, 2**31 - 1, 5], np.int32)
    graph = graph_of("sum", {"a": "i32[s0]"}, "i32[1]", " {axes=[0]}")
    want = reduce(lambda x, y: (x + y + 2**31) % 2**32 - 2**31, values.tolist())
    assert pto.interpret(graph, values).tolist() == [want]


def test_an_interpretation_has_limits_and_takes_what_the_graph_names():
    graph = _core.Graph.parse(
        "graph g(%x: f32[s0]) -> (f32[1000, s0]) {\n"
        "  %0 = broadcast(%x) : f32[1000, s0]\n  return %0\n}"
    )
    assert pto.interpret(graph, np.ones(3, "f4")).shape == (1000, 3)
    for limits in ({"operations": 3000}, {"elements": 1000}):
        with pytest.raises(ValueError, match="interpret: the graph takes more than"):
            pto.interpret(graph, np.ones(3, "f4"), **limits)
    for inputs in ((), (1, 2), ("a",), (None,), (10**30,), ({},)):
        with pytest.raises(pto.Error):
            pto.interpret(graph, *inputs)


@pytest.mark.parametrize("dtype, values", [
    ("i8", [1.7]), ("i8", [300]), ("u8", [-1]), ("i64", [math.nan]), ("i32", ["1"]), ("bool", [2]),
    ("i64", [2**63]), ("u64", [-1]), ("f32", [1 + 2j]), ("f32", ["1"]), ("bool", [1.0]),
])  # fmt: skip
def test_an_interpretation_takes_numbers_of_the_type_alone(dtype, values):
    graph = _core.Graph.parse(f"graph g(%x: {dtype}[s0]) -> ({dtype}[s0]) {{ return %x }}")
    with pytest.raises(
        pto.Error, match=f"is no array of {dtype}: its elements, of type .*, are no"
    ):
        pto.interpret(graph, np.array(values))
    assert pto.interpret(graph, np.array([1, 0])).tolist() == [1, 0]
    assert pto.interpret(graph, []).tolist() == []


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_numbers_of_another_type_round_to_that_of_their_input(dtype):
    graph = _core.Graph.parse(
        f"graph g(%x: {dtype}[s0], %n: scalar {dtype}) -> (f64[s0]) {{\n"
        f"  %0 = broadcast(%n) : {dtype}[s0]\n  %1 = cast(%0) : f64[s0]\n"
        "  %2 = cast(%x) : f64[s0]\n  %3 = sub(%1, %2) : f64[s0]\n  return %3\n}"
    )
    narrow = np.array([0.3]).astype(numpy_type(dtype))
    for x in (np.array([0.3]), narrow):
        assert pto.interpret(graph, x, 0.3) == 0
