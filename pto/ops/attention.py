# SPDX-License-Identifier: Apache-2.0
"""Attention: softmax(scale q kᵀ + bias) v of many heads, without the scores ever in memory.

Scores are computed in f32 for every element type, and rounded once, at the end. A query that sees
no key has zeros, and -infinity as the logarithm of its sum.
"""

import math

import numpy as np

from pto.errors import InvalidType, InvalidValue
from pto.language.dtypes import bf16, boolean, f16, f32
from pto.language.infer import (
    Size,
    Spec,
    require_equal,
    require_shape,
    size_broadcast,
    size_max,
    where_needed,
)
from pto.language.native_kernel import cpp_kernel
from pto.language.op import op
from pto.ops.product import FLOPS_A_BYTE

TOLERANCE = {f32: 1e-5, f16: 4e-3, bf16: 3e-2}
LAYOUTS = ("HLD", "LHD")

ARGUMENTS = (
    "(Tensor q, Tensor k, Tensor v, Tensor? mask=None, Tensor? lengths=None, Tensor? slopes=None,"
    " *, float? scale=None, bool causal=False, int[2] window=[-1, -1], float softcap=0.0,"
    " SymInt position=0, str layout='HLD', float dropout=0.0, SymInt seed=0)"
)
WHERE = "where T: f32 f16 bf16, M: f32 f16 bf16 bool"
WANTED = ("q", "k", "v", "mask")
SAVED = ("q", "k", "v", "mask", "lengths", "slopes", "result")


def _fail(what: str, why: str, fix: str) -> None:
    raise InvalidValue(f"attention: {what}", why, fix)


def _heads(spec: Spec, name: str, layout: str) -> tuple[tuple, Size, Size, Size]:
    """Batch, heads, positions and width; a matrix is one head."""
    if spec.ndim < 2:
        _fail(
            f"{name} has {spec.ndim} axes", "it has at least positions and elements",
            f"give {name} the shape [batch..., heads, positions, elements]",
        )  # fmt: skip
    if spec.ndim == 2:
        return (), 1, *spec.shape
    a, b, width = spec.shape[-3:]
    return (spec.shape[:-3], a, b, width) if layout == "HLD" else (spec.shape[:-3], b, a, width)


def _check_mask(mask: Spec, q: Spec, shape: tuple) -> None:
    if mask.dtype not in (boolean, q.dtype):
        raise InvalidType(
            f"attention: the mask has element type {mask.dtype}, and q {q.dtype}",
            "a mask of numbers is added to the scores, one of bool says which keys count",
            f"convert the mask to {q.dtype} or bool",
        )
    if mask.ndim > len(shape):
        _fail(
            f"the mask has {mask.ndim} axes, and the scores {len(shape)}",
            "it broadcasts to [batch..., heads, queries, keys]", "remove axes of the mask",
        )  # fmt: skip
    for size, own in zip(shape[len(shape) - mask.ndim :], mask.shape, strict=True):
        require_equal(size_broadcast(size, own), size, "attention: mask and scores")


def infer_attention(q, k, v, mask, lengths, slopes, window, layout) -> tuple[Spec, Spec]:
    """The outputs, and the logarithms of the sums."""
    if layout not in LAYOUTS:
        _fail(f"the layout is {layout!r}", "it is 'HLD' or 'LHD'", "name the order of the axes")
    if len(window) != 2:
        _fail(
            f"window has {len(window)} numbers", "it says how many keys count before and after",
            "pass two, -1 for all",
        )  # fmt: skip
    if k.ndim != q.ndim or v.ndim != q.ndim:
        _fail(
            f"q, k and v have {q.ndim}, {k.ndim} and {v.ndim} axes", "they have the same number",
            "reshape them",
        )  # fmt: skip
    batch, heads, queries, width = _heads(q, "q", layout)
    k_batch, k_heads, keys, k_width = _heads(k, "k", layout)
    v_batch, v_heads, v_keys, v_width = _heads(v, "v", layout)
    require_equal(width, k_width, "attention: the widths of q and k")
    require_equal(keys, v_keys, "attention: the positions of k and v")
    require_equal(k_heads, v_heads, "attention: the heads of k and v")
    for own, of_k, of_v in zip(batch, k_batch, v_batch, strict=True):
        require_equal(own, of_k, "attention: the batches of q and k")
        require_equal(own, of_v, "attention: the batches of q and v")
    because = "attention: the heads of q, a multiple of those of k, and these times a whole number"
    require_equal(heads, heads // size_max(k_heads, 1) * k_heads, because)
    if mask is not None:
        _check_mask(mask, q, (*batch, *([heads] if q.ndim > 2 else []), queries, keys))
    if lengths is not None:
        _check_vector("lengths", lengths, math.prod(batch))
    if slopes is not None:
        _check_vector("slopes", slopes, heads)
    inner = (heads, queries) if layout == "HLD" else (queries, heads)
    shape = (*batch, *inner, v_width) if q.ndim > 2 else (queries, v_width)
    sums = (*batch, heads, queries) if q.ndim > 2 else (queries,)
    return q.like(shape), q.like(sums, f32)


def _check_vector(name: str, spec: Spec, size: Size) -> None:
    if spec.ndim != 1:
        _fail(f"{name} has {spec.ndim} axes", "it has one", f"reshape {name}")
    require_equal(spec.shape[0], size, f"attention: {name}")


def work_of(q: Spec, k: Spec, v: Spec, layout: str) -> tuple[Size, Size]:
    batch, heads, queries, width = _heads(q, "q", layout)
    _, k_heads, keys, _ = _heads(k, "k", layout)
    v_width = v.shape[-1]
    rows, read = math.prod(batch) * heads * queries, math.prod(batch) * k_heads * keys
    multiplied = rows * keys * (width + v_width) // (2 * FLOPS_A_BYTE)  # half of a product's cost
    return rows, multiplied + (read * (width + v_width) + rows * v_width) * 4


def scores_in_numpy(q, k, mask, lengths, slopes, scale, causal, window, softcap, position):
    """[batch..., heads, queries, keys]; -infinity for a key that is not seen."""
    scores = np.einsum("...qc,...kc->...qk", q, k)
    scores = scores * (1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else scale)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    places = np.arange(q.shape[-2])[:, None] + position
    keys = np.arange(k.shape[-2])
    if slopes is not None:
        scores = scores - slopes.reshape(-1, 1, 1) * np.abs(places - keys)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    before, after = window[0], 0 if causal else window[1]
    seen = (before < 0) | (keys >= places - before)
    seen = seen & ((after < 0) | (keys <= places + after))
    if lengths is not None:
        lengths = lengths.reshape(*q.shape[:-3], *[1] * min(q.ndim, 3))
        seen = seen & (keys < lengths)
    return np.where(seen, scores, -np.inf)


def kept_in_numpy(shape, dropout, seed):
    """[batch..., heads, queries, keys]: which weights stay.

    Key j of query i and head h, counted over all batches, stays if word j % 64 // 16 of Philox4x32,
    10 rounds, with the seed as key and the counter (j // 64 * 16 + j % 16, i, h, h >> 32), is at
    least dropout * 2^32, dropout being rounded to f32.
    """
    heads, queries, keys = math.prod(shape[:-2]), *shape[-2:]
    h, i, j = np.ogrid[:heads, :queries, :keys]
    low = 0xFFFFFFFF
    words = [x + 0 * (h + i + j) for x in (j // 64 * 16 + j % 16, i, h & low, h >> 32)]
    a, b, c, d = (x.astype(np.uint64) for x in words)
    k, m = seed & low, seed >> 32 & low
    for _ in range(10):
        p, q = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = q >> 32 ^ b ^ k, q & low, p >> 32 ^ d ^ m, p & low
        k, m = k + 0x9E3779B9 & low, m + 0xBB67AE85 & low
    word = np.choose(j % 64 // 16 + 0 * (h + i), (a, b, c, d))
    return (word >= int(float(np.float32(dropout)) * 2**32)).reshape(shape)


def attention_in_numpy(
    q, k, v, mask=None, lengths=None, slopes=None, *, scale=None, causal=False, window=(-1, -1),
    softcap=0.0, position=0, layout="HLD", dropout=0.0, seed=0,
):  # fmt: skip
    """Outputs and logarithms of sums, by the whole matrix of scores."""
    if layout == "LHD" and q.ndim > 2:
        q, k, v = (np.swapaxes(x, -2, -3) for x in (q, k, v))
    if q.ndim > 2 and k.shape[-3] != q.shape[-3]:
        k, v = (np.repeat(x, q.shape[-3] // max(x.shape[-3], 1), axis=-3) for x in (k, v))
    changes = (mask, lengths, slopes, scale, causal, window, softcap, position)
    scores = scores_in_numpy(q, k, *changes)
    most = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isneginf(most), 0, most))
    total = weights.sum(-1, keepdims=True)
    shares = weights / np.where(total == 0, 1, total)
    if dropout:
        kept = kept_in_numpy(shares.shape, dropout, seed)
        shares = shares * kept / (1 - dropout if dropout < 1 else 1)
    out = shares @ v
    with np.errstate(divide="ignore"):
        sums = (np.where(np.isneginf(most), 0, most) + np.log(total))[..., 0]
    return (np.swapaxes(out, -2, -3) if layout == "LHD" and q.ndim > 2 else out), sums


def samples_of(tensor):
    yield (tensor(5, 8), tensor(7, 8), tensor(7, 3)), {}
    mask = np.tri(6, 9, 3, dtype=bool)
    yield (tensor(2, 4, 6, 5), tensor(2, 2, 9, 5), tensor(2, 2, 9, 5), mask), {}
    yield (tensor(2, 4, 6, 5), tensor(2, 2, 9, 5), tensor(2, 2, 9, 5), tensor(4, 1, 9)), {}
    yield (tensor(3, 2, 8), tensor(5, 2, 8), tensor(5, 2, 8)), {"layout": "LHD", "causal": True}
    yield (tensor(1, 1, 17), tensor(1, 40, 17), tensor(1, 40, 20)), {"position": 39}
    yield (tensor(2, 20, 4), tensor(2, 20, 4), tensor(2, 20, 4)), {"window": [3, 1], "scale": 0.5}
    yield (tensor(2, 3, 4), tensor(1, 5, 4), tensor(1, 5, 4)), {"softcap": 2.0}
    yield (tensor(2, 3, 4), tensor(2, 70, 4), tensor(2, 70, 4)), {"dropout": 0.3, "seed": 2**63 - 5}


def samples_without_keys(tensor):
    yield from samples_of(tensor)
    yield (tensor(2, 3, 4), tensor(1, 0, 4), tensor(1, 0, 4)), {}


def infer_gradients(results, sums, q, k, v, mask, lengths, slopes, window, layout, needs):
    """`results`, `sums`: what has the shape of the outputs, of the logarithms of the sums."""
    result, log_sums = infer_attention(q, k, v, mask, lengths, slopes, window, layout)
    for spec in results:
        require_shape(spec, result.shape, "the result and its gradient")
    for spec in sums:
        require_shape(spec, log_sums.shape, "the logarithms of sums and their gradient")
    return where_needed(needs, q, k, v, q.like((0,) if mask is None else mask.shape))


def work_of_gradients(q: Spec, k: Spec, v: Spec, layout: str) -> tuple[Size, Size]:
    batch, heads = _heads(k, "k", layout)[:2]
    jobs = size_max(math.prod(batch) * heads, 1)  # without heads a mask has zeros
    return jobs, work_of(q, k, v, layout)[1] * 3


class AttentionBackward:
    """The gradients of attention by q, k, v and a mask of numbers."""

    types = f"(T, T, T, T, M, i64, f32, T) -> (T, T, T, T) {WHERE}"

    def infer(
        d_result, q, k, v, mask, lengths, slopes, result, scale, causal, window, softcap, position,
        layout, dropout, seed, needs,
    ):  # fmt: skip
        operands = q, k, v, mask, lengths, slopes
        return infer_gradients((d_result, result), (), *operands, window, layout, needs)

    def work(
        d_result, q, k, v, mask, lengths, slopes, result, scale, causal, window, softcap, position,
        layout, dropout, seed, needs,
    ):  # fmt: skip
        return work_of_gradients(q, k, v, layout)

    kernel = cpp_kernel("attention.cpp", "attention_backward", takes_strides=True)


class AttentionWithLogSumsBackward:
    """The gradients of attention_with_log_sums by q, k, v and a mask of numbers."""

    types = f"(T, f32, T, T, T, M, i64, f32, T, f32) -> (T, T, T, T) {WHERE}"

    def infer(
        d_result, d_log_sums, q, k, v, mask, lengths, slopes, result, log_sums, scale, causal,
        window, softcap, position, layout, dropout, seed, needs,
    ):  # fmt: skip
        operands, sums = (q, k, v, mask, lengths, slopes), (d_log_sums, log_sums)
        return infer_gradients((d_result, result), sums, *operands, window, layout, needs)

    def work(
        d_result, d_log_sums, q, k, v, mask, lengths, slopes, result, log_sums, scale, causal,
        window, softcap, position, layout, dropout, seed, needs,
    ):  # fmt: skip
        return work_of_gradients(q, k, v, layout)

    kernel = cpp_kernel("attention.cpp", "attention_with_log_sums_backward", takes_strides=True)


@op(f"attention{ARGUMENTS} -> Tensor")
class Attention:
    """softmax(scale q kᵀ + bias) v for q [batch..., heads, queries, width], k and v
    [batch..., key heads, keys, width]; each head of k serves heads / key heads of q in a row.

    Query i counts as position i + `position` among the keys. It sees the keys from `window[0]`
    before it to `window[1]` behind it (-1: all), none behind it if `causal`, of `lengths[batch]`
    ones. Scores become softcap tanh(score / softcap), minus slopes[head] |distance|, plus the mask
    (of bool: -infinity where it is False). layout 'LHD': positions come before heads.
    `dropout` is the share of weights that are dropped, by a generator that counts (kept_in_numpy):
    which depends on `seed`, head, query and key alone.
    """

    types = f"(T, T, T, M, i64, f32) -> T {WHERE}"

    def infer(
        q, k, v, mask, lengths, slopes, scale, causal, window, softcap, position, layout,
        dropout, seed,
    ):  # fmt: skip
        return infer_attention(q, k, v, mask, lengths, slopes, window, layout)[0]

    def work(
        q, k, v, mask, lengths, slopes, scale, causal, window, softcap, position, layout,
        dropout, seed,
    ):  # fmt: skip
        return work_of(q, k, v, layout)

    def oracle(q, k, v, mask=None, lengths=None, slopes=None, **options):
        return attention_in_numpy(q, k, v, mask, lengths, slopes, **options)[0]

    samples = samples_without_keys
    tolerance = TOLERANCE
    kernel = cpp_kernel("attention.cpp", "attention", takes_strides=True)
    gradient, saved, wanted = AttentionBackward, SAVED, WANTED


@op(f"attention_with_log_sums{ARGUMENTS} -> (Tensor result, Tensor log_sums)")
class AttentionWithLogSums:
    """attention, and the logarithms of the sums of exponentials of scores, [batch..., heads,
    queries] in f32: two parts of the keys are attended apart and joined by them."""

    types = f"(T, T, T, M, i64, f32) -> (T, f32) {WHERE}"

    def infer(
        q, k, v, mask, lengths, slopes, scale, causal, window, softcap, position, layout,
        dropout, seed,
    ):  # fmt: skip
        return infer_attention(q, k, v, mask, lengths, slopes, window, layout)

    def work(
        q, k, v, mask, lengths, slopes, scale, causal, window, softcap, position, layout,
        dropout, seed,
    ):  # fmt: skip
        return work_of(q, k, v, layout)

    def oracle(q, k, v, mask=None, lengths=None, slopes=None, **options):
        return attention_in_numpy(q, k, v, mask, lengths, slopes, **options)

    samples = samples_of
    tolerance = TOLERANCE
    kernel = cpp_kernel("attention.cpp", "attention_with_log_sums", takes_strides=True)
    gradient, saved = AttentionWithLogSumsBackward, (*SAVED, "log_sums")
    wanted = WANTED
