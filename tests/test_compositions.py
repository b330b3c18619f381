# SPDX-License-Identifier: Apache-2.0
"""Functions that are composed of others: their errors, compiled and by definition."""

import math

import numpy as np
import pytest
import torch

import pto

draw = np.random.default_rng(0)
NEAR = np.concatenate([draw.standard_normal(400) * 3, 10.0 ** draw.uniform(-12, 0, 200),
                       -(10.0 ** draw.uniform(-12, 0, 200)), [0.0, 1.0, -1.0, 0.5]])  # fmt: skip
FAR = np.concatenate([NEAR, [80.0, -80.0, 1e4, -1e4, math.inf, -math.inf, math.nan]])
UNIT = np.concatenate([draw.uniform(-1, 1, 600), 1 - 10.0 ** draw.uniform(-7, 0, 100), [1, -1, 0]])
POSITIVE = np.concatenate([10.0 ** draw.uniform(-30, 30, 600), [0.0, 1.0, math.inf]])

# name: (arguments, the function in f64)
FUNCTIONS = {
    "expm1": (FAR, np.expm1),
    "log1p": (np.concatenate([FAR[FAR > -1], [-1.0, math.inf, 1e30]]), np.log1p),
    "exp2": (FAR, np.exp2),
    "log2": (POSITIVE, np.log2),
    "log10": (POSITIVE, np.log10),
    "softplus": (FAR, lambda x: np.logaddexp(0, x)),
    "tan": (NEAR, np.tan),
    "atan": (FAR, np.arctan),
    "asin": (UNIT, np.arcsin),
    "acos": (UNIT, np.arccos),
    "sinh": (np.concatenate([NEAR, [88.0, -89.0, 9.01, 8.99]]), np.sinh),
    "cosh": (np.concatenate([NEAR, [88.0, -89.0]]), np.cosh),
    "asinh": (np.concatenate([FAR, POSITIVE]), np.arcsinh),
    "acosh": (np.concatenate([1 + POSITIVE, [0.5, -2.0, -1e10, -3e38]]), np.arccosh),
    "atanh": (UNIT * (1 - 2.0**-20), np.arctanh),
}
ULPS = {"f4": 8, "f8": 16}


def check(name, got, x, kind):
    with np.errstate(all="ignore"):
        want = FUNCTIONS[name][1](x.astype("f8" if kind == "f4" else np.longdouble))
        rounded = want.astype(kind)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(got[~finite], rounded[~finite], err_msg=name)
    off = np.abs(got[finite] - want[finite]) / np.spacing(np.abs(rounded[finite]))
    worst = int(np.argmax(off)) if off.size else 0
    assert off.size == 0 or off[worst] <= ULPS[kind], (name, x[finite][worst], off[worst])


def test_compiled_functions_are_as_exact_as_their_pages_say():
    for name in FUNCTIONS:
        x = FUNCTIONS[name][0].astype("f4")

        @pto.jit
        def one(x, name=name):
            return getattr(pto, name)(x)

        assert "==== C++ ====" in one.explain(x)
        check(name, one(x), x, "f4")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_in_double_are_as_exact_as_their_pages_say(name):
    x = FUNCTIONS[name][0]
    trace = pto.Trace("case")
    graph, _ = trace.finish(getattr(trace.input("x", "f64", x.shape), name)())
    check(name, pto.interpret(graph, x), x, "f8")


def run(function, *arrays):
    trace = pto.Trace("case")
    inputs = [trace.input(f"x{i}", a.dtype, a.shape) for i, a in enumerate(arrays)]
    with trace.active():
        graph, _ = trace.finish(function(*inputs))
    return pto.interpret(graph, *arrays)


X = np.array([[0.5, -1.25, 3.0, -7.0], [2.0, 0.0, 7.5, -0.25]])
Y = np.array([[1.5, 2.0, -0.5, -0.0], [0.25, 4.0, -2.0, -3.0]])
ODD = np.array([0.0, -0.0, 1.5, -2.5, math.inf, -math.inf, math.nan])
t = torch.from_numpy

COMPOSED = [
    (lambda x, y: pto.atan2(x, y), np.arctan2(X, Y)),
    (lambda x, y: pto.logaddexp(x, y), np.logaddexp(X, Y)),
    (lambda x, y: x.logsumexp(1), torch.logsumexp(t(X), 1).numpy()),
    (lambda x, y: pto.logsumexp(x), torch.logsumexp(t(X), (0, 1)).numpy()),
    (lambda x, y: pto.mish(x), torch.nn.functional.mish(t(X)).numpy()),
    (lambda x, y: x.hardswish(), torch.nn.functional.hardswish(t(X)).numpy()),
    (lambda x, y: x.hardsigmoid(), torch.nn.functional.hardsigmoid(t(X)).numpy()),
    (lambda x, y: x.logsigmoid(), torch.nn.functional.logsigmoid(t(X)).numpy()),
    (lambda x, y: pto.elu(x, 2.0), torch.nn.functional.elu(t(X), 2.0).numpy()),
    (lambda x, y: pto.leaky_relu(x, 0.5), torch.nn.functional.leaky_relu(t(X), 0.5).numpy()),
    (lambda x, y: pto.relu6(x), np.clip(X, 0, 6)),
    (lambda x, y: pto.lerp(x, y, 0.25), X + 0.25 * (Y - X)),
    (lambda x, y: x.frac() + pto.sign(y), np.modf(X)[0] + np.sign(Y)),
    (lambda x, y: pto.expand_clone(x[:1], [3, -1]), np.broadcast_to(X[:1], (3, 4))),
    (lambda x, y: x.reshape(4, 2, valid_shape=[3, 1], inplace=True), X.reshape(4, 2)[:3, :1]),
    (lambda x, y: x.flatten(0, 1), X.reshape(-1)),
]


@pytest.mark.parametrize("case", range(len(COMPOSED)))
def test_compositions_have_the_values_of_numpy_and_torch(case):
    function, want = COMPOSED[case]
    np.testing.assert_allclose(run(function, X, Y), want, 1e-13, 1e-300)


def test_questions_about_numbers_are_answered_as_by_numpy():
    for x in (ODD, np.array([0, 3, -2]), np.array([0, 250], "u1")):
        found = run(lambda x: (pto.isnan(x), x.isinf(), x.isfinite(), x.sign()), x)
        wanted = np.isnan(x), np.isinf(x), np.isfinite(x), np.sign(x)
        for got, want in zip(found, wanted, strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(
        run(lambda x: pto.nan_to_num(x, 7.0, 8.0, -8.0), ODD), np.nan_to_num(ODD, True, 7, 8, -8)
    )


@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_shifts_are_those_of_numpy_beyond_the_last_bit_too(kind):
    bits, ends = 8 * np.dtype(kind).itemsize, np.iinfo(kind)
    values = np.array([0, 1, 5, ends.max, ends.min, ends.max // 3, ends.min // 2 + 1], kind)
    counts = np.array([0, 1, 3, bits - 2, bits - 1, bits, bits + 1]).astype(kind)
    a, b = (grid.ravel() for grid in np.meshgrid(values, counts))
    left, right = run(lambda a, b: (a << b, a >> b), a, b)
    np.testing.assert_array_equal(left, a << b)
    np.testing.assert_array_equal(right, a >> b)
    for n in (0, 2, bits - 2, bits - 1):
        left, right = run(lambda a, n=n: (a << n, pto.bitwise_right_shift(a, n)), values)
        np.testing.assert_array_equal(left, values << np.array(n, kind))
        np.testing.assert_array_equal(right, values >> np.array(n, kind))


def test_blocks_of_a_softmax_join_to_the_whole():
    s = np.concatenate([draw.standard_normal((3, 12)), np.full((1, 12), -np.inf)])
    v = draw.standard_normal((12, 2))

    def blocks(s, v):
        m, l = pto.full([4, 1], -math.inf, pto.f64), pto.zeros([4, 1], pto.f64)  # noqa: E741
        o = pto.zeros([4, 2], pto.f64)
        for i in range(0, 12, 4):
            p, old, m, l = pto.online_softmax(s[:, i : i + 4], m, l)  # noqa: E741
            o = o * old + p @ v[i : i + 4]
        return pto.where(l > 0, o / l, 0.0)

    want = torch.softmax(t(s[:3]), -1).numpy() @ v
    got = run(blocks, s, v)
    np.testing.assert_allclose(got[:3], want, 1e-12)
    assert got[3].tolist() == [0, 0]


def test_atan2_of_zeros_and_infinities_is_that_of_c():
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan], np.float32)
    y, x = (part.copy() for part in np.broadcast_arrays(special[:, None], special))
    got, want = pto.jit(lambda y, x: pto.atan2(y, x))(y, x), np.arctan2(y, x)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))


WEIGHED = {
    "lerp": (lambda w: pto.lerp(X, Y, w), lambda x, y, w: pto.lerp(x, y, w),
             lambda w: X + w * (Y - X), "weight"),
    "masked_fill": (lambda w: pto.masked_fill(X, X > 0, w),
                    lambda x, y, w: pto.masked_fill(x, x > 0, w),
                    lambda w: np.where(X > 0, w, X), "value"),
    "leaky_relu": (lambda w: pto.leaky_relu(X, w), lambda x, y, w: pto.leaky_relu(x, w),
                   lambda w: np.where(X > 0, X, X * w), "negative_slope"),
}  # fmt: skip


@pytest.mark.parametrize("name", WEIGHED)
def test_a_weight_is_a_number_or_a_tensor_inside_and_outside_of_functions(name):
    outside, inside, want, role = WEIGHED[name]
    for weight in (0.25, np.float64(0.25), np.array([0.25, 0.5, -1.0, 2.0]), X / 8):
        np.testing.assert_allclose(outside(weight), want(weight), 1e-13)
        np.testing.assert_allclose(run(inside, X, Y, np.asarray(weight)), want(weight), 1e-13)
    for wrong in ("a", None):
        with pytest.raises(pto.Error, match=f"{name}: {role} is") as raised:
            outside(wrong)
        assert raised.value.why == f"{role} must be a number or a tensor"
