# SPDX-License-Identifier: Apache-2.0
"""Products that run tile by tile with the kernels behind them."""

import numpy as np
import pytest

import pto
from pto import _core

F32 = np.float32


@pto.jit
def gelu_layer(x, w, bias):
    return pto.gelu(x @ w + bias)


@pto.jit
def normed(x, w, gamma):
    return pto.layer_norm(x @ w, gamma)


@pto.jit
def turned(x, w, bias):
    return pto.transpose(pto.exp(x @ w + bias), -1, -2)


@pto.jit
def two(x, w, bias):
    h = x @ w + bias
    return pto.relu(h), pto.sum(h, -1)


@pto.jit
def scaled(x, w, bias, alpha: float = 0.3, beta: float = -1.7):
    return x @ w * alpha + bias * beta


def causal(s):
    rows, columns = pto.arange(s.shape[-2]), pto.arange(s.shape[-1])
    return pto.where(columns <= pto.unsqueeze(rows, -1), s, -1.0) * pto.cast(rows[:, None], pto.f32)


@pto.jit
def masked(x, w, bias):
    return causal(x @ w + bias)


@pto.jit
def chain(x, w, bias):
    h = pto.tanh(x @ w + bias)
    return pto.sigmoid(pto.matmul(h, w, b_trans=True))


@pto.jit
def quantised(x, w: pto.Constant, w_scale, gamma):
    h = pto.rms_norm(x, gamma)
    s = 127.0 / pto.amax(pto.abs(h), -1, keepdim=True)
    q = pto.cast(pto.round(h * s), pto.i8, saturate=True)
    return pto.cast(pto.matmul(q, w, out_dtype=pto.i32).float() / s * w_scale, pto.f16)


@pto.jit
def product(x, w):
    return x @ w


# What follows the product, as a function of its own.
AFTER = {
    gelu_layer: pto.jit(lambda s, x, w, bias: pto.gelu(s + bias)),
    normed: pto.jit(lambda s, x, w, bias: pto.layer_norm(s, bias)),
    turned: pto.jit(lambda s, x, w, bias: pto.transpose(pto.exp(s + bias), -1, -2)),
    scaled: pto.jit(lambda s, x, w, bias: s * 0.3 + bias * -1.7),
    masked: pto.jit(lambda s, x, w, bias: causal(s + bias)),
    two: pto.jit(lambda s, x, w, bias: (pto.relu(s + bias), pto.sum(s + bias, -1))),
}
SHAPES = [((1,), 70, 1030), ((7,), 3, 65), ((1000,), 5, 200), ((961,), 2, 700), ((3, 5), 8, 300),
          ((1, 9), 4, 600), ((970, 2), 3, 100), ((0,), 4, 5), ((4,), 0, 600)]  # fmt: skip


def arrays(rows, depth, columns):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((*rows, depth)).astype(F32)
    return (
        x,
        rng.standard_normal((depth, columns)).astype(F32),
        np.linspace(-1, 1, columns, dtype=F32),
    )


def listed(made):
    return made if isinstance(made, tuple) else (made,)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("function", AFTER, ids=lambda f: f.__name__)
def test_tiles_have_the_bits_of_the_whole_product(function, shape, monkeypatch):
    x, w, bias = arrays(*shape)
    whole = AFTER[function](product(x, w), x, w, bias)
    for threads in (1, 2, 3):
        monkeypatch.setattr(pto.config, "threads", threads)
        made = function(x, w, bias)
        for one, other in zip(listed(made), listed(whole), strict=True):
            assert one.tobytes() == other.tobytes()


def steps(function, *arguments):
    return str(function.explain(*arguments)).split("==== steps ====")[1].split("====")[0]


@pytest.mark.parametrize("function", [gelu_layer, normed, turned, scaled, masked, two, chain],
                         ids=lambda f: f.__name__)  # fmt: skip
def test_the_tiles_of_a_product_run_side_by_side(function):
    lines = steps(function, *arrays((7,), 3, 65)).splitlines()
    products = [i for i, line in enumerate(lines) if "product matmul" in line]
    assert len(products) == (2 if function is chain else 1)
    for at in products:
        assert lines[at].startswith("  product") and "loop side by side" in lines[at - 1]


def test_a_quantised_layer_never_holds_its_sums_whole():
    rows, depth, columns = 2048, 96, 1536
    rng = np.random.default_rng(1)
    x, gamma = rng.standard_normal((rows, depth)).astype(F32), np.ones(depth, F32)
    w = rng.integers(-127, 128, (depth, columns), np.int8)
    scale = rng.random(columns).astype(F32)
    found = quantised.explain(x, w, scale, gamma)
    quantised(x, w, scale, gamma)
    before = _core.memory_stats()["live_bytes"]
    _core.reset_peak_live_bytes()
    made = quantised(x, w, scale, gamma)
    taken = _core.memory_stats()["peak_live_bytes"] - before - made.nbytes
    assert found.memory.peak(2) < rows * columns * 4 / 2
    assert taken < rows * columns * 4 / 2

    h = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
    s = 127 / np.abs(h).max(-1, keepdims=True)
    q = np.round(h * s).clip(-128, 127)
    np.testing.assert_allclose(made, q @ w.astype(F32) / s * scale, rtol=2e-3, atol=0.3)


def test_more_workers_have_more_tiles_with_the_same_bits():
    @pto.jit
    def for_many(x, w, bias):
        with pto.options(workers=64):
            return pto.softmax(x @ w + bias)

    @pto.jit
    def plain(x, w, bias):
        return pto.softmax(x @ w + bias)

    x, w, bias = arrays((4096,), 8, 64)
    trips = [f.explain(x, w, bias).steps_of("loop")[0].trips for f in (plain, for_many)]
    assert trips[0] < 32 and 48 <= trips[1] <= 64
    assert plain(x, w, bias).tobytes() == for_many(x, w, bias).tobytes()
