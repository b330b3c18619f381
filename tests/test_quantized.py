# SPDX-License-Identifier: Apache-2.0
"""Linear layers with weights of 8 and 4 bits: their bits are those of the widened weight."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import pto
import pto.torch
from pto import _core, ops
from pto.errors import Error
from pto.ops.linear import PackWeight
from pto.ops.quantized import PackInt4, PackInt8, numbers_of

TORCH = torch.ops.pto
# Rows, inputs, outputs: a few rows, many, primes, less and more than a panel and than a part.
SIZES = [(1, 1, 1), (2, 37, 67), (3, 512, 96), (5, 1031, 33), (16, 130, 40), (101, 67, 800)]
SIZES_4 = [(1, 32, 1), (2, 64, 67), (3, 1152, 96), (6, 256, 33), (16, 384, 40), (101, 128, 800)]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
EPS = {torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
every_type = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def bytes_of(*shape):
    """The whole range, its least number often."""
    one = torch.randint(-128, 128, shape, dtype=torch.int8)
    return one.masked_fill_(torch.rand(shape) < 0.05, -128)


def int8_layer(m, k, n, dtype=torch.float32):
    torch.manual_seed(m * k + n)
    x, b, r = (torch.randn(size).to(dtype) for size in ((m, k), (n,), (m, n)))
    return x, bytes_of(n, k), (torch.rand(n) / 128).to(dtype), b, r


def int4_layer(m, k, n, group, dtype=torch.float32):
    x, weight, _, b, r = int8_layer(m, k // 2, n, dtype)
    x = torch.randn(m, k).to(dtype)
    scale, zero = (torch.randn(k // group, n).to(dtype) / 8 for _ in range(2))
    return x, weight.view(torch.uint8), scale, zero, b, r


def are_same(got, want):
    """Tells whether a layer has the bits of `linear`, which are others where that takes parts."""
    if _core.way_of_floats() == "multiply-adds of f32":
        return torch.equal(got, want)
    return torch.allclose(got, want, rtol=1e-5, atol=1e-5 * want.abs().max().item())


def widened(weight, scale, zero, group):
    """The weight as f32: one rounding."""
    wide = torch.from_numpy(numbers_of(weight.numpy())).double()
    wide = wide * scale.double().repeat_interleave(group, 0).t()
    if zero is not None:
        wide = wide + zero.double().repeat_interleave(group, 0).t()
    return wide.float()


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_int8_has_the_bits_of_the_product_with_its_numbers(size):
    x, w, _, b, _ = int8_layer(*size)
    one = torch.ones(size[2])
    assert are_same(TORCH.linear_int8(x, w, one), TORCH.linear(x, w.float()))
    half = TORCH.linear_int8(x, w, one / 2, activation="gelu")
    assert are_same(half, TORCH.linear(x, w.float() / 2, activation="gelu"))


@pytest.mark.parametrize("size", SIZES_4, ids=str)
def test_int4_has_the_bits_of_the_product_with_the_widened_weight(size):
    for group in (32, 64, 128):
        if size[1] % group:
            continue
        x, w, scale, zero, b, r = int4_layer(*size, group)
        for z in (None, zero):
            got = TORCH.linear_int4(x, w, scale, z, b, r, group=group, activation="silu")
            wide = widened(w, scale, z, group)
            assert are_same(got, TORCH.linear(x, wide, b, r, activation="silu"))


@every_type
@pytest.mark.parametrize("activation", ["none", "relu", "silu", "gelu", "gelu_tanh"])
def test_layers_are_their_formula_in_every_type(dtype, activation):
    act = {
        "none": lambda y: y, "relu": torch.relu, "silu": F.silu, "gelu": F.gelu,
        "gelu_tanh": lambda y: F.gelu(y, approximate="tanh"),
    }[activation]  # fmt: skip
    for m in (2, 24):
        x, w, s, b, r = int8_layer(m, 45, 130, dtype)
        for scale in (s, s.float(), s.bfloat16()):
            want = act(x.double() @ w.double().t() * scale.double() + b.double()) + r.double()
            got = TORCH.linear_int8(x, w, scale, b, r, activation=activation)
            assert got.dtype == dtype
            torch.testing.assert_close(got.double(), want, rtol=EPS[dtype], atol=8 * EPS[dtype])
        x, w, s, z, b, r = int4_layer(m, 64, 130, 32, dtype)
        want = act(x.double() @ widened(w, s, z, 32).double().t() + b.double()) + r.double()
        got = TORCH.linear_int4(x, w, s, z, b, r, group=32, activation=activation)
        torch.testing.assert_close(got.double(), want, rtol=EPS[dtype], atol=16 * EPS[dtype])


def test_a_row_has_the_bits_that_it_has_alone_packed_and_on_any_number_of_threads():
    x, w, s, b, _ = int8_layer(200, 300, 900)
    x4, w4, s4, z4, b4, _ = int4_layer(200, 320, 900, 64)
    p, p4 = torch.from_numpy(PackInt8(w.numpy())), torch.from_numpy(PackInt4(w4.numpy()))
    threads, whole = torch.get_num_threads(), TORCH.linear_int8(x, w, s, b)
    whole4 = TORCH.linear_int4(x4, w4, s4, z4, b4, group=64)
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            for rows in (slice(0, 1), slice(3, 5), slice(4, 8), slice(9, 22), slice(7, 107)):
                for own, own4 in ((None, None), (p, p4)):
                    part = TORCH.linear_int8(x[rows], w, s, b, packed=own)
                    assert torch.equal(part, whole[rows])
                    part = TORCH.linear_int4(x4[rows], w4, s4, z4, b4, packed=own4, group=64)
                    assert torch.equal(part, whole4[rows])
    finally:
        torch.set_num_threads(threads)


def test_layouts_do_not_matter():
    x, w, s, b, r = int8_layer(12, 40, 20)
    want = TORCH.linear_int8(x, w, s, b, r)
    apart = torch.zeros(12, 80)
    apart[:, ::2] = x
    turned = w.t().contiguous().t()
    got = TORCH.linear_int8(
        apart[:, ::2].view(3, 4, 40), turned, s.repeat_interleave(2)[::2], b, r.view(3, 4, 20)
    )
    assert torch.equal(got.view(12, 20), want)
    np.testing.assert_array_equal(
        ops.linear_int8(*(t.numpy() for t in (x, w, s, b, r))), want.numpy()
    )


@pytest.mark.skipif(not pto.torch.has_cpp_gradients(), reason="weights need the C++ parts")
def test_a_weight_that_is_seen_again_is_packed_and_a_change_is_noticed():
    x, w, s, _, _ = int8_layer(3, 64, 80)
    x4, w4, s4, _, _, _ = int4_layer(3, 64, 80, 32)
    before = pto.memory()["packed_weights"]
    for _ in range(3):
        TORCH.linear_int8(x, w, s), TORCH.linear_int4(x4, w4, s4, group=32)
    assert pto.memory()["packed_weights"] >= before + w.numel() + w4.numel()
    w[5, 7] = -w[5, 7] + 1
    w4[3, 2] ^= 0x17
    for _ in range(4):
        assert are_same(TORCH.linear_int8(x, w, torch.ones(80)), TORCH.linear(x, w.float()))
        wide = widened(w4, s4, None, 32)
        assert are_same(TORCH.linear_int4(x4, w4, s4, group=32), TORCH.linear(x4, wide))


@pytest.mark.parametrize("signs", [(a, b) for a in "iu" for b in "iu"], ids="".join)
def test_products_of_bytes_are_exact_as_i32(signs):
    kinds = [{"i": torch.int8, "u": torch.uint8}[sign] for sign in signs]
    for m, k, n in ((1, 1, 1), (5, 13, 7), (1, 1009, 33), (97, 101, 103), (3, 0, 2)):
        a, b = (bytes_of(*s).view(t) for s, t in zip(((m, k), (k, n)), kinds, strict=True))
        want = (a.long() @ b.long()).int()
        assert torch.equal(TORCH.matmul_i32(a, b), want)
        turned = TORCH.matmul_i32(
            a.t().contiguous(), b.t().contiguous(), transpose_a=True, transpose_b=True
        )
        assert torch.equal(turned, want)
        assert torch.equal(TORCH.matmul_i32(a.expand(2, m, k), b)[1], want)
    worst = bytes_of(1, 1).fill_(-128).expand(2, 33000)
    assert (TORCH.matmul_i32(worst, worst, transpose_b=True) == 128 * 128 * 33000).all()


@every_type
def test_products_as_f32_are_the_sums_that_matmul_rounds(dtype):
    a, b = torch.randn(3, 9, 70).to(dtype), torch.randn(70, 33).to(dtype)
    wide = TORCH.matmul_f32(a, b)
    assert wide.dtype == torch.float32
    torch.testing.assert_close(wide, a.float() @ b.float(), rtol=1e-5, atol=1e-4)
    assert torch.equal(TORCH.matmul(a, b), wide.to(dtype))
    a.requires_grad_(), b.requires_grad_()
    d = torch.randn(3, 9, 33)
    got = torch.autograd.grad(TORCH.matmul_f32(a, b), (a, b), d)
    want = torch.autograd.grad(a.float() @ b.float(), (a, b), d)
    for one, other in zip(got, want, strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(one, other, rtol=EPS[dtype], atol=8 * EPS[dtype])


@every_type
def test_rows_become_bytes_within_half_a_step_and_multiply_exactly(dtype):
    torch.manual_seed(1)
    x = (torch.randn(2, 37, 131) * 3).to(dtype)
    x[0, 3], x[0, 4, 7], x[0, 5, 130], x[1, 6] = 0, float("inf"), float("nan"), -2.5
    numbers, scale = TORCH.quantize_rows(x)
    assert numbers.shape == x.shape and scale.shape == (2, 37) and scale.dtype == torch.float32
    assert scale[0, 3] == 0 and scale[0, 4:6].isnan().all() and not scale[1].isnan().any()
    assert (numbers[1].abs().amax(-1) == 127).all()
    good = ~scale.isnan()
    error = (numbers * scale[..., None] - x.float())[good].abs()
    assert (error <= scale[good][:, None] * 0.5001).all()

    b, r = bytes_of(70, 131), torch.randn(2, 37, 70).to(dtype)
    cols, bias = (torch.rand(70) / 8).to(dtype), torch.randn(70).to(dtype)
    got = TORCH.scaled_matmul(numbers, b, scale, cols, bias, r, activation="gelu")
    want = (numbers.long() @ b.long().t()).double() * scale[..., None].double() * cols.double()
    want = F.gelu(want + bias.double()) + r.double()
    assert got.dtype == dtype and got[~good].isnan().all()
    torch.testing.assert_close(got[good].double(), want[good], rtol=EPS[dtype], atol=4 * EPS[dtype])
    plain = TORCH.scaled_matmul(numbers[1], b, torch.ones(37), torch.ones(70))
    assert torch.equal(plain, TORCH.matmul_i32(numbers[1], b, transpose_b=True).float())


def test_a_product_of_bytes_has_its_bits_packed_and_in_any_part_of_its_rows():
    torch.manual_seed(2)
    for m, k, n in SIZES:
        a, b, rows = bytes_of(m, k), bytes_of(n, k), torch.rand(m)
        cols, bias = torch.rand(n), torch.randn(n)
        want = TORCH.scaled_matmul(a, b, rows, cols, bias)
        packed = torch.from_numpy(PackWeight(b.numpy()))
        assert torch.equal(TORCH.scaled_matmul(a, b, rows, cols, bias, packed=packed), want)
        for row in range(0, m, 7):
            one = TORCH.scaled_matmul(a[row], b, rows[row], cols, bias, packed=packed)
            assert torch.equal(one, want[row])
    before = pto.memory()["packed_weights"]
    for _ in range(4):  # `b` is seen again
        assert torch.equal(TORCH.scaled_matmul(a, b, rows, cols, bias), want)
    assert pto.memory()["packed_weights"] >= before + b.numel()
    b[5, 3] += 1
    assert torch.equal(
        TORCH.scaled_matmul(a, b, rows, cols, bias),
        TORCH.scaled_matmul(a, b.clone(), rows, cols, bias),
    )


@every_type
@pytest.mark.parametrize("rotation", [16, 32, 64, 128])
def test_rotated_rows_keep_their_products_and_lose_less_to_outliers(dtype, rotation):
    torch.manual_seed(4)
    x, w = torch.randn(2, 9, 256).to(dtype), torch.randn(33, 256).to(dtype)
    x[..., 17] *= 60
    right = x.double() @ w.double().t()

    def product(rotation):
        a, row_scale = TORCH.quantize_rows(x, rotation=rotation)
        b, col_scale = TORCH.quantize_rows(w, rotation=rotation)
        assert (a.abs().amax(-1) == 127).all()
        return TORCH.scaled_matmul(a, b, row_scale, col_scale).double()

    plain, rotated = ((product(r) - right).square().mean().sqrt() for r in (0, rotation))
    assert rotated < plain / 2 < right.square().mean().sqrt() / 8
    one, scale = TORCH.quantize_rows(x[1, 4], rotation=rotation)
    rows, scales = TORCH.quantize_rows(x, rotation=rotation)
    assert torch.equal(one, rows[1, 4]) and torch.equal(scale, scales[1, 4])


def test_a_rotated_row_that_is_not_finite_tells_so_alone():
    x = torch.ones(5, 64)
    x[0, 3], x[1, 63], x[2], x[3] = float("inf"), float("nan"), 0, 1e-44
    numbers, scale = TORCH.quantize_rows(x, rotation=32)
    assert scale[:2].isnan().all() and (scale[2:4] == 0).all() and scale[4] > 0
    assert (numbers[:4] == 0).all()
    want = torch.zeros(64, dtype=torch.int8)
    want[::32] = 127  # a run of ones is its sum, once
    assert torch.equal(numbers[4], want)


@every_type
@pytest.mark.parametrize("symmetric", [True, False])
def test_quantised_weights_are_within_half_a_step(dtype, symmetric):
    torch.manual_seed(0)
    weight = (torch.randn(37, 256) * 3 + 1).to(dtype)
    weight[3, :64] = 0
    weight[4, :64] = 2.5
    for group in (32, 64, 128):
        numbers, scale, zero = TORCH.quantize_int4(weight, group=group, symmetric=symmetric)
        assert numbers.shape == (37, 128) and scale.shape == zero.shape == (256 // group, 37)
        wide = widened(numbers, scale, zero, group)
        step = scale.repeat_interleave(group, 0).t()
        assert ((wide - weight.float()).abs() <= step * 0.5001 + 1e-6).all()
        assert symmetric is bool((zero == 0).all())


def test_a_group_with_infinities_or_nan_tells():
    for bad in (float("inf"), float("-inf"), float("nan")):
        weight = torch.randn(2, 64)
        weight[1, 40] = bad
        numbers, scale, zero = TORCH.quantize_int4(weight, group=32)
        assert scale.isnan().tolist() == [[False, False], [False, True]]
        assert TORCH.linear_int4(torch.ones(1, 64), numbers, scale, group=32).isnan().tolist() == [
            [False, True]
        ]


@every_type
@pytest.mark.parametrize("bad", [float("inf"), float("-inf")])
def test_an_infinite_scale_or_zero_of_numbers_of_both_signs_gives_nan(dtype, bad):
    x, weight = torch.ones(3, 64, dtype=dtype), torch.randint(0, 256, (2, 32), dtype=torch.uint8)
    x[:, ::3] = -1
    scale, zero = torch.ones(2, 2), torch.zeros(2, 2)
    for grid in (scale, zero):
        grid[1, 0] = bad
        got = TORCH.linear_int4(x, weight, scale, zero, group=32)
        assert got[:, 0].isnan().all() and got[:, 1].isfinite().all()
        grid[1, 0] = 0


@every_type
@pytest.mark.parametrize("group", [32, 64, 128])
def test_weights_that_pytorch_packed_give_its_results(dtype, group):
    inputs, outputs = 384, 96
    torch.manual_seed(group)
    numbers = torch.randint(0, 16, (outputs, inputs), dtype=torch.int32)
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(numbers, 1)
    grid = (torch.rand(inputs // group, outputs, 2) / 8).to(dtype)
    weight, scale, zero = pto.torch.int4_from_torch(packed, grid, group)
    assert (numbers_of(weight.numpy()) + 8 == numbers.numpy()).all()
    x = torch.randn(5, inputs).to(dtype)
    want = torch.ops.aten._weight_int4pack_mm_for_cpu(x, packed, group, grid)
    got = TORCH.linear_int4(x, weight, scale, zero, group=group)
    torch.testing.assert_close(got, want, rtol=4 * EPS[dtype], atol=16 * EPS[dtype])
    for wrong in (
        (packed, grid, 2 * group), (packed, grid[0, 0, 0], group), (packed, grid, None),
        (packed.int(), grid, group), (None, grid, group), (packed.numpy(), grid, group),
        (packed[:3], grid[:, :3], group), (packed[:, :0], grid[:0], group),
        (packed, grid.int(), group), (packed.to_sparse(), grid, group),
    ):  # fmt: skip
        with pytest.raises(Error, match="int4_from_torch: packed is"):
            pto.torch.int4_from_torch(*wrong)
    turned = packed.t().contiguous().t()
    assert torch.equal(pto.torch.int4_from_torch(turned, grid, group)[0], weight)


ARRAYS_8 = {"x": "4,6 f4", "weight": "7,6 i1", "scale": "7 f4", "bias": "7 f4"}
ARRAYS_4 = {"x": "4,64 f4", "weight": "7,32 u1", "scale": "2,7 f4", "zero": "2,7 f4"}


@pytest.mark.parametrize(
    "layer, change, message",
    [
        ("linear_int8", {"x": "4,5 f4"}, "sizes 5 and 6 differ in linear_int8: inputs of"),
        ("linear_int8", {"weight": "7 i1"}, "linear_int8: weight has 1 axes"),
        ("linear_int8", {"weight": "7,6 u1"}, "weight.*u8"),
        ("linear_int8", {"scale": "6 f4"}, "sizes 6 and 7 differ in linear_int8: scale"),
        ("linear_int8", {"scale": "1,7 f4"}, "linear_int8: scale.*2 axes"),
        ("linear_int8", {"bias": "6 f4"}, "sizes 6 and 7 differ in linear_int8: bias"),
        ("linear_int8", {"residual": "4,6 f4"}, "sizes 6 and 7 differ in linear_int8: residual"),
        ("linear_int8", {"activation": "tanh"}, "linear_int8: activation is 'tanh'"),
        ("linear_int8", {"packed": "99 f4"}, "the packed weight has another number"),
        ("linear_int4", {"group": 16}, "linear_int4: group is 16"),
        ("linear_int4", {"group": 128}, "sizes 0 and 64 differ in linear_int4: inputs are groups"),
        ("linear_int4", {"scale": "3,7 f4"}, "sizes 3 and 2 differ in linear_int4: scale"),
        ("linear_int4", {"zero": "2,6 f4"}, "sizes 6 and 7 differ in linear_int4: zero"),
        ("linear_int4", {"zero": "2,7 i1"}, "zero.*i8"),
        ("linear_int4", {"weight": "7,32 i1"}, "weight.*i8"),
        ("linear_int4", {"weight": "7,31 u1"}, "linear_int4: inputs are groups"),
        ("linear_int4", {"packed": "99 f4"}, "the packed weight has another number"),
        ("matmul_i32", {"a": "2,3 i1", "b": "4,2 u1"}, "sizes 3 and 4 differ in matmul"),
        ("matmul_i32", {"a": "2,3 i2", "b": "3,2 u1"}, "a.*i16"),
        ("matmul_f32", {"a": "2,3 f2", "b": "3,2 f4"}, "matmul_f32"),
        (
            "scaled_matmul",
            {"row_scale": "5 f4"},
            "sizes 5 and 4 differ in scaled_matmul: row_scale",
        ),
        (
            "scaled_matmul",
            {"col_scale": "6 f4"},
            "sizes 6 and 7 differ in scaled_matmul: col_scale",
        ),
        ("scaled_matmul", {"b": "7,5 i1"}, "sizes 6 and 5 differ in scaled_matmul: inputs of both"),
        ("scaled_matmul", {"row_scale": "4 f2"}, "row_scale.*f16"),
        ("scaled_matmul", {"a": "4,6 f4"}, "a.*f32"),
        ("quantize_rows", {"x": " f4"}, "quantize_rows: x has no axes"),
        ("quantize_rows", {"x": "3,64 f4", "rotation": 8}, "quantize_rows: rotation is 8"),
        ("quantize_rows", {"x": "3,72 f4", "rotation": 64}, "sizes 64 and 72 differ in quantize_r"),
        ("scaled_matmul", {"packed": "99 f4"}, "the packed matrix has another number of rows"),
        ("quantize_int4", {"group": 48}, "quantize_int4: group is 48"),
        ("quantize_int4", {"group": 128}, "sizes 0 and 64 differ in quantize_int4: inputs are"),
        ("quantize_int4", {"weight": "64 f4"}, "quantize_int4: weight has 1 axes"),
    ],
)
def test_what_does_not_fit_is_refused(layer, change, message):
    given = {
        "linear_int8": ARRAYS_8,
        "linear_int4": ARRAYS_4 | {"group": 32},
        "scaled_matmul": {"a": "4,6 i1", "b": "7,6 i1", "row_scale": "4 f4", "col_scale": "7 f4"},
        "quantize_int4": {"weight": "7,64 f4"},
    }.get(layer, {})

    def array(text):
        shape, kind = text.split(" ")
        return np.ones([int(n) for n in shape.split(",") if n], kind)

    arrays = {
        k: array(v) if isinstance(v, str) and k != "activation" else v
        for k, v in (given | change).items()
    }
    with pytest.raises(Error, match=message) as raised:
        getattr(ops, layer)(**arrays)
    assert raised.value.why and raised.value.fix
