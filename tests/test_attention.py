# SPDX-License-Identifier: Apache-2.0
"""Attention against PyTorch's, against the whole matrix of scores, and its errors."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import pto.torch  # noqa: F401 registers torch.ops.pto
from pto import ops
from pto.errors import Error
from pto.ops.attention import attention_in_numpy, kept_in_numpy

attention = torch.ops.pto.attention


def heads(*shape):
    torch.manual_seed(sum(shape))
    return torch.randn(shape)


@pytest.mark.parametrize("queries, keys", [(1, 1), (33, 33), (7, 300), (130, 65)])
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}], ids=str)
def test_it_is_pytorchs(queries, keys, options):
    q, k, v = heads(2, 4, queries, 32), heads(2, 4, keys, 32), heads(2, 4, keys, 32)
    ours = {"causal" if name == "is_causal" else name: x for name, x in options.items()}
    expected = F.scaled_dot_product_attention(q, k, v, **options)
    torch.testing.assert_close(attention(q, k, v, **ours), expected, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("shape", [(9, 14), (3, 1, 1, 14), (2, 9, 1), (3, 2, 9, 14)], ids=str)
@pytest.mark.parametrize("is_bool", [True, False])
def test_a_mask_broadcasts_as_pytorchs(shape, is_bool):
    q, k, v = heads(3, 2, 9, 16), heads(3, 2, 14, 16), heads(3, 2, 14, 16)
    mask = heads(*shape)
    mask = mask > -1 if is_bool else mask
    expected = F.scaled_dot_product_attention(q, k, v, mask).nan_to_num()  # rows without a key
    torch.testing.assert_close(attention(q, k, v, mask), expected, atol=2e-6, rtol=1e-5)


def test_the_least_number_in_a_mask_is_finite():
    q, k, v = heads(1, 2, 3, 8), heads(1, 2, 20, 8), heads(1, 2, 20, 8)
    mask = torch.zeros(3, 20)
    mask[1], mask[2, 7:] = torch.finfo(torch.float32).min, torch.finfo(torch.float32).min
    expected = F.scaled_dot_product_attention(q, k, v, mask)
    torch.testing.assert_close(attention(q, k, v, mask), expected, atol=2e-6, rtol=1e-5)


def test_heads_of_q_share_those_of_k():
    q, k, v = heads(2, 6, 11, 16), heads(2, 2, 20, 16), heads(2, 2, 20, 16)
    expected = attention(q, k.repeat_interleave(3, 1), v.repeat_interleave(3, 1), causal=True)
    assert torch.equal(attention(q, k, v, causal=True), expected)


def random_options(random):
    options = {"causal": random.random() < 0.3, "position": int(random.integers(30))}
    if random.random() < 0.4:
        options["window"] = [int(n) for n in random.integers(-1, 20, 2)]
    if random.random() < 0.3:
        options["softcap"] = 2.0
    if random.random() < 0.4:
        options |= {"dropout": 0.3, "seed": int(random.integers(2**63))}
    return options


@pytest.mark.parametrize("seed", range(12))
def test_all_options_together(seed):
    random = np.random.default_rng(seed)
    batch, groups, kv, queries, keys, width, v_width = (int(n) for n in random.integers(1, 20, 7))
    batch, groups, kv = batch % 3 + 1, groups % 3 + 1, kv % 3 + 1
    q, k, v = (
        random.standard_normal(shape).astype("f4")
        for shape in (
            (batch, groups * kv, queries, width),
            (batch, kv, keys, width),
            (batch, kv, keys, v_width),
        )
    )  # fmt: skip
    mask = random.standard_normal((queries, keys)).astype("f4")
    mask = mask > -0.5 if seed % 3 == 1 else mask if seed % 3 == 2 else None
    lengths = random.integers(0, keys + 1, batch) if seed % 2 else None
    slopes = random.random(groups * kv).astype("f4") if seed % 4 == 0 else None
    options = random_options(random)
    found, sums = ops.attention_with_log_sums(q, k, v, mask, lengths, slopes, **options)
    wide = [None if x is None or x.dtype == bool else x.astype("f8") for x in (q, k, v, mask)]
    wide[3] = mask if mask is not None and mask.dtype == bool else wide[3]
    expected, logs = attention_in_numpy(*wide, lengths, slopes, **options)
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(sums, logs, atol=1e-5, rtol=1e-5)
    np.testing.assert_array_equal(ops.attention(q, k, v, mask, lengths, slopes, **options), found)


def test_bits_depend_on_neither_threads_nor_layout_nor_batch():
    q, k, v = heads(3, 70, 4, 24), heads(3, 300, 2, 24), heads(3, 300, 2, 24)
    expected = attention(q, k, v, layout="LHD", causal=True, position=230)
    apart = [x.transpose(1, 2) for x in (q, k, v)]
    assert torch.equal(attention(*apart, causal=True, position=230).transpose(1, 2), expected)
    one = attention(q[1:2], k[1:2], v[1:2], layout="LHD", causal=True, position=230)
    assert torch.equal(one, expected[1:2])
    last = attention(q[:, 69:], k, v, layout="LHD", causal=True, position=299)
    assert torch.equal(last, expected[:, 69:])
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            again = attention(q, k, v, layout="LHD", causal=True, position=230)
            assert torch.equal(again, expected)
    finally:
        torch.set_num_threads(threads)


def test_what_is_dropped_depends_on_neither_threads_nor_cut_nor_type():
    """It shows in values that tell the keys: a result is zero where its key was dropped."""
    q, k, v = (
        torch.zeros(2, 3, 9, 8),
        torch.zeros(2, 3, 200, 8),
        torch.eye(200).expand(2, 3, -1, -1),
    )
    kept = torch.from_numpy(kept_in_numpy((2, 3, 9, 200), 0.3, 123456789123))
    options = {"dropout": 0.3, "seed": 123456789123}
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            for dtype in (torch.float32, torch.float16, torch.bfloat16):
                found = attention(*(x.to(dtype) for x in (q, k, v)), **options)
                assert torch.equal(found != 0, kept)
            turned = [x.transpose(1, 2) for x in (q, k, v)]
            found = attention(*turned, layout="LHD", **options).transpose(1, 2)
            assert torch.equal(found != 0, kept)
    finally:
        torch.set_num_threads(threads)
    ours, sums = torch.ops.pto.attention_with_log_sums(q, k, v, **options)
    torch.testing.assert_close(ours[ours != 0], torch.full((int(kept.sum()),), 1 / 200 / 0.7))
    assert torch.equal(sums, torch.ops.pto.attention_with_log_sums(q, k, v)[1])
    assert abs(kept.double().mean() - 0.7) < 0.02


def test_dropout_of_nothing_and_of_all():
    q = heads(2, 3, 40, 16).requires_grad_()
    assert torch.equal(attention(q, q, q, seed=7), attention(q, q, q))
    out = attention(q, q, q, dropout=1.0)
    assert torch.equal(out, torch.zeros_like(q))
    assert torch.equal(torch.autograd.grad(out.sum(), q)[0], torch.zeros_like(q))


@pytest.mark.parametrize("dropout", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_share_beyond_all_is_refused(dropout):
    q = np.zeros((3, 4), "f4")
    with pytest.raises(Error, match=f"dropout is {dropout:g}"):
        ops.attention(q, q, q, dropout=dropout)


def test_the_generator_has_the_numbers_that_its_authors_publish():
    """The four words of Philox4x32-10 for a counter and a key of zeros: keys 0, 16, 32, 48."""
    words = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    for key, word in zip((0, 16, 32, 48), words, strict=True):
        # Half a step of f32 below and above the word.
        for share, stays in ((word / 2**32 - 1e-7, True), (word / 2**32 + 1e-7, False)):
            assert kept_in_numpy((1, 1, 64), share, 0)[0, 0, key] == stays


def test_lengths_and_slopes_lie_anywhere():
    q, lengths, slopes = heads(3, 2, 9, 8), torch.tensor([4, 0, 9, 0, 1, 0]), torch.rand(4)
    expected = attention(q, q, q, None, torch.tensor([4, 9, 1]), slopes[::2].clone())
    assert torch.equal(attention(q, q, q, None, lengths[::2], slopes[::2]), expected)


def test_two_parts_of_the_keys_join_by_the_logarithms_of_their_sums():
    q, k, v = heads(1, 2, 5, 8), heads(1, 2, 40, 8), heads(1, 2, 40, 8)
    whole = attention(q, k, v)
    parts = [
        torch.ops.pto.attention_with_log_sums(q, k[:, :, at], v[:, :, at])
        for at in (slice(0, 13), slice(13, 40))
    ]
    sums = torch.stack([log_sums for _, log_sums in parts])
    weights = torch.softmax(sums, 0).unsqueeze(-1)
    joined = sum(w * out for w, (out, _) in zip(weights, parts, strict=True))
    torch.testing.assert_close(joined, whole, atol=1e-6, rtol=1e-5)


OPTIONS = [
    {}, {"causal": True, "position": 7}, {"window": [9, 3]}, {"softcap": 1.5}, {"scale": 0.7},
    {"slopes": True}, {"lengths": True}, {"mask": "numbers"}, {"mask": "bool"},
    {"layout": "LHD"}, {"dropout": 0.4, "seed": 9, "softcap": 1.5},
]  # fmt: skip


def differentiable(q, k, v, mask=None, lengths=None, slopes=None, **options):
    """The whole matrix of scores in f64: outputs, logarithms of sums."""
    if options.get("layout") == "LHD":
        q, k, v = (x.transpose(-2, -3) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    scores = q @ k.mT * options.get("scale", q.shape[-1] ** -0.5)
    if "softcap" in options:
        scores = options["softcap"] * torch.tanh(scores / options["softcap"])
    place = torch.arange(q.shape[-2])[:, None] + options.get("position", 0)
    key = torch.arange(k.shape[-2])
    if slopes is not None:
        scores = scores - slopes[:, None, None] * (place - key).abs()
    before, after = options.get("window", (1000, 1000))
    seen = (key >= place - before) & (key <= place + (0 if options.get("causal") else after))
    if lengths is not None:
        seen = seen & (key < lengths[:, None, None, None])
    if mask is not None and mask.dtype == torch.bool:
        seen = seen & mask
    elif mask is not None:
        scores = scores + mask
    scores = scores.masked_fill(~seen, -torch.inf)
    shares, dropout = scores.softmax(-1).nan_to_num(), options.get("dropout", 0)
    if dropout:
        kept = torch.from_numpy(kept_in_numpy(shares.shape, dropout, options["seed"]))
        shares = shares * kept / (1 - dropout)
    out = shares @ v
    return out.transpose(-2, -3) if options.get("layout") == "LHD" else out, scores.logsumexp(-1)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_gradients_are_those_of_the_whole_matrix_of_scores(options):
    q, k, v = heads(2, 4, 37, 20), heads(2, 2, 140, 20), heads(2, 2, 140, 9)
    kinds = {"numbers": heads(4, 37, 140), "bool": heads(37, 140) > -1}
    mask, options = kinds.get(options.get("mask")), dict(options)
    lengths = torch.tensor([140, 33]) if options.pop("lengths", None) else None
    slopes = torch.rand(4) if options.pop("slopes", None) else None
    options.pop("mask", None)
    if options.get("layout") == "LHD":
        q, k, v = (x.transpose(1, 2).contiguous() for x in (q, k, v))
    given = [x.requires_grad_() for x in (q, k, v)]
    wide = [x.detach().double().requires_grad_() for x in given]
    wider = None if mask is None or mask.dtype == torch.bool else mask.double()
    out, sums = differentiable(*wide, mask if wider is None else wider, lengths, slopes, **options)
    d, d_sums = torch.randn(out.shape), torch.randn(sums.shape)
    ours = attention(*given, mask, lengths, slopes, **options)
    for found, expected in zip(
        torch.autograd.grad(ours, given, d),
        torch.autograd.grad(out, wide, d.double(), retain_graph=True),
        strict=True,
    ):
        torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-4)
    both = torch.ops.pto.attention_with_log_sums(*given, mask, lengths, slopes, **options)
    for found, expected in zip(
        torch.autograd.grad(both, given, (d, d_sums)),
        torch.autograd.grad((out, sums), wide, (d.double(), d_sums.double())),
        strict=True,
    ):
        torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-4)


MASKS = [
    (37, 140),
    (4, 1, 140),
    (2, 1, 37, 1),
    (2, 4, 37, 140),
    (1, 4, 37, 140),
    (140,),
    (37, 1),
    (),
]
SHARED = [{}, {"causal": True, "position": 70}, {"softcap": 1.5, "dropout": 0.4, "seed": 9},
          {"lengths": True}]  # fmt: skip


@pytest.mark.parametrize("options", SHARED, ids=str)
@pytest.mark.parametrize("shape", MASKS, ids=str)
def test_the_gradient_of_a_mask_is_summed_over_what_shares_it(shape, options):
    """Also where it shifts all scores of a query alike, which changes nothing but the sums."""
    q, k, v = heads(2, 4, 37, 20), heads(2, 2, 140, 20), heads(2, 2, 140, 9)
    options = dict(options)
    lengths = torch.tensor([140, 33]) if options.pop("lengths", None) else None
    given = [x.requires_grad_() for x in (q, k, v, heads(*shape))]
    wide = [x.detach().double().requires_grad_() for x in given]
    out, sums = differentiable(*wide, lengths, None, **options)
    d, d_sums = torch.randn(out.shape), torch.randn(sums.shape)
    ours = attention(*given, lengths, None, **options)
    both = torch.ops.pto.attention_with_log_sums(*given, lengths, None, **options)
    expected = torch.autograd.grad(out, wide, d.double(), retain_graph=True)
    for found, one in zip(torch.autograd.grad(ours, given, d), expected, strict=True):
        torch.testing.assert_close(found.double(), one, atol=2e-5, rtol=1e-4)
    expected = torch.autograd.grad((out, sums), wide, (d.double(), d_sums.double()))
    for found, one in zip(torch.autograd.grad(both, given, (d, d_sums)), expected, strict=True):
        torch.testing.assert_close(found.double(), one, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("shape", [(130, 300), (4, 130, 300), (3, 1, 130, 300), (1, 300)], ids=str)
def test_the_gradient_of_a_mask_has_the_same_bits_for_every_number_of_threads(shape):
    q, mask = heads(3, 4, 130, 24), heads(*shape).requires_grad_()
    k, found, threads = heads(3, 2, 300, 24), [], torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found += torch.autograd.grad(attention(q, k, k, mask).square().sum(), mask)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_gradient_of_a_narrow_mask_rounds_once(dtype):
    q, k, mask = (x.to(dtype) for x in (heads(3, 4, 50, 40), heads(3, 4, 60, 40), heads(50, 60)))
    out, sums = torch.ops.pto.attention_with_log_sums(q, k, k, mask)
    gradient = torch.ops.pto.attention_with_log_sums_backward
    args = [out, torch.zeros_like(sums), q, k, k, mask, None, None, out, sums]
    expected = gradient(*(x.float() if x is not None else x for x in args))[3].to(dtype)
    assert torch.equal(gradient(*args)[3], expected)


def test_a_mask_lies_anywhere_and_hides():
    """Hidden keys and a transposed mask; the mask alone requires a gradient."""
    q, k = heads(2, 9, 16), heads(2, 14, 16)
    mask = heads(14, 9)
    mask[3], mask[:, 4] = -torch.inf, -torch.inf
    mask = mask.requires_grad_()
    (found,) = torch.autograd.grad(attention(q, k, k, mask.T).square().sum(), mask)
    wide = mask.detach().double().requires_grad_()
    out = differentiable(q.double(), k.double(), k.double(), wide.T)[0]
    (expected,) = torch.autograd.grad(out.square().sum(), wide)
    torch.testing.assert_close(found.double(), expected.nan_to_num(), atol=1e-5, rtol=1e-4)
    assert not found[3].any() and not found[:, 4].any()


@pytest.mark.parametrize("sizes", [(0, 9), (9, 0), (9, 9)], ids=str)
def test_the_gradient_of_a_mask_of_nothing_is_zero(sizes):
    queries, keys = sizes
    q, k = torch.randn(0 if queries == keys else 2, queries, 8), torch.randn(1, keys, 8)
    k = k.expand(q.shape[0], -1, -1)
    for shape in ((queries, keys), (1, keys), (queries, 1), (1, 1)):
        mask = torch.zeros(shape, requires_grad=True)
        (found,) = torch.autograd.grad(attention(q, k, k, mask).sum(), mask)
        assert torch.equal(found, torch.zeros(shape))


def test_slopes_have_no_gradient_and_say_so():
    q = heads(1, 2, 5, 8)
    slopes = torch.zeros(2, requires_grad=True)
    with pytest.raises((Error, RuntimeError), match="requires grad, but the operator has no gradi"):
        attention(q, q, q, None, None, slopes)


@pytest.mark.parametrize("queries", [0, 1, 30])
def test_empty_extents(queries):
    """No queries, no elements of keys (then all keys count the same), or of values, no keys."""
    q, v = torch.zeros(2, queries, 0), heads(2, 9, 4)
    expected = v.mean(1, keepdim=True).expand(2, queries, 4)
    torch.testing.assert_close(attention(q, torch.zeros(2, 9, 0), v), expected)
    q, k = heads(2, queries, 8), heads(2, 9, 8)
    assert attention(q, k, torch.zeros(2, 9, 0)).shape == (2, queries, 0)
    assert torch.equal(attention(q, k[:, :0], v[:, :0]), torch.zeros(2, queries, 4))
    given = [x.requires_grad_() for x in (q, k, v)]
    d_q, d_k, d_v = torch.autograd.grad(attention(*given).sum(), given)
    assert d_q.shape == q.shape and d_k.isfinite().all() and d_v.isfinite().all()


@pytest.mark.parametrize(
    "shapes, options, message",
    [
        (((4,), (4,), (4,)), {}, "q has 1 axes"),
        (((3, 4), (2, 3, 4), (3, 4)), {}, "q, k and v have 2, 3 and 2 axes"),
        (((3, 4), (5, 6), (5, 4)), {}, "the widths of q and k"),
        (((3, 4), (5, 4), (6, 4)), {}, "the positions of k and v"),
        (((5, 3, 4), (2, 3, 4), (2, 3, 4)), {}, "the heads of q, a multiple of those of k"),
        (((3, 4), (5, 4), (5, 4)), {"window": [1]}, "window"),
        (((3, 4), (5, 4), (5, 4)), {"layout": "DHL"}, "'HLD' or 'LHD'"),
        (((3, 4), (5, 4), (5, 4), (3, 6)), {}, "sizes 5 and 6 differ"),
        (((3, 4), (5, 4), (5, 4), (1, 3, 5)), {}, "the mask has 3 axes"),
    ],
    ids=str,
)  # fmt: skip
def test_what_does_not_fit_is_refused(shapes, options, message):
    with pytest.raises(Error, match=message):
        ops.attention(*(np.zeros(shape, "f4") for shape in shapes), **options)


@pytest.mark.parametrize("length", [-1, 10])
def test_a_length_beyond_the_keys_is_refused(length):
    q, k = heads(2, 1, 3, 4), heads(2, 1, 9, 4)
    with pytest.raises(RuntimeError, match=f"length {length} of batch 1, where there are 9 keys"):
        attention(q, k, k, None, torch.tensor([9, length]))


@pytest.mark.parametrize("dtype, name", [("f8", "f64"), ("i4", "i32")])
def test_a_type_that_it_lacks_is_refused_with_those_that_it_has(dtype, name):
    q, text = np.zeros((3, 4), dtype), f"q is {name}\n  why: q may be f16 bf16 f32\n  fix: convert"
    for called in (ops.attention, ops.attention_with_log_sums):
        with pytest.raises(Error, match=text):
            called(q, q, q)


def test_a_mask_of_another_type_is_refused():
    q = np.zeros((3, 4), "f4")
    with pytest.raises(Error, match="the mask has element type f16, and q f32"):
        ops.attention(q, q, q, np.zeros((3, 3), "f2"))
