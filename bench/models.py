# SPDX-License-Identifier: Apache-2.0
"""Operators of real models in the model's sizes, against separate operations of PyTorch and the
same under torch.compile. Sizes are the number of tokens; of what reads keys, the queries of a
sequence and how many keys each sequence has. Caches of the CPU are warm.

The limit is the larger of reading the operands once, and the sum of their multiply-adds, each type
at the peak of the machine, and of the functions and operations on elements that the formulas of
docs/models.md name: each at the speed of one row in the first cache, or at the peak of f32.
"""

from functools import partial

import torch

import pto.torch  # noqa: F401 registers torch.ops.pto
from bench import model_formulas as formulas
from bench.rooflines import WEIGHT, functions
from pto import models
from pto.bench.runner import Ceiling, Everything, OffByOne, Setting, case
from pto.ceilings import Peak, Read, ways

WITHIN = {torch.int8: OffByOne(1e-3), torch.int64: 0, torch.bfloat16: 3e-2}  # see Everything
SCALES_WITHIN = 2e-3
# Operations on an element, each a vector instruction that no product contains:
Q8 = 3  # q8: the largest so far, times the factor, to a byte
SCALED = 4  # a sum of bytes: to f32, times two scales, to bf16
NORM = 4  # RMSNorm: the sum of squares, times the root and gamma, to bf16
TURN = 3  # rope: times cos, plus the other one times sin, to bf16
INDEX = 5  # a score of the indexer: relu, to f32, to f16 and back, times the weight of the head
WIDE = 3  # a byte of a cache: to f32, times its scale, to bf16
GATED = 5  # silu(gate) * up beside its exponential: a sum, a quotient, a product, two roundings


def limits(setting: Setting, nbytes: int, elements: int = 0, exp: int = 0, **multiply_adds: int):
    """The ceilings of so many bytes to read; of multiply-adds of types, operations on elements and
    exponentials, which add up."""
    yield Ceiling("read", Read(torch.ones(nbytes, dtype=torch.uint8), setting.threads), 1)
    for dtype, count in multiply_adds.items():
        peaks = [Peak(kind, setting.threads) for kind, _ in ways(dtype, has_parts=False)]
        peak = max(peaks, key=lambda one: one.multiply_adds)
        yield Ceiling(f"peak ({dtype})", peak, count / peak.multiply_adds)
    yield from functions(setting.threads, elements, exp=exp)


def contenders(ours, formula, arguments: list, caches: slice, compiled=None, **others):
    """Each with caches of its own, which are among its results, and what is right of them.
    `compiled`: how the formula is compiled, if not as a whole."""

    def of(function):
        given = [x.clone() if is_cache else x for x, is_cache in marked]
        return lambda: (*function(*given), *given[caches])

    marked = [(x, i in range(*caches.indices(len(arguments)))) for i, x in enumerate(arguments)]
    rounding = {"emulate_precision_casts": True}  # as the separate operations round
    whole = partial(torch.compile, formula, dynamic=False)
    compiled = compiled(**rounding) if compiled else whole(options=rounding)
    yield "pto", of(ours)
    for name, other in others.items():
        yield name, of(other)
    yield "torch", of(formula)
    yield "torch.compile", of(compiled)
    right = of(formula)()
    yield Everything(right, tuple(WITHIN.get(x.dtype, SCALES_WITHIN) for x in right))


def of_index(t: int, columns: int, width: int, rope: int) -> int:
    """The operations on elements of the indexer's queries, whose products are rounded before q8,
    and of its keys."""
    heads = columns // width
    return t * (columns * (SCALED + 1 + Q8) + heads * rope * TURN + width * (NORM + 1 + Q8))


@case("indexer_prolog", sizes=[(8,), (512,)], dtypes=["i8"])
def indexer_prolog(setting: Setting):
    (t,) = setting.size
    arguments = formulas.indexer_arguments(t, eighth=False, pages=512)
    yield from contenders(models.indexer_prolog, formulas.indexer_prolog, arguments, slice(13, 15))
    (rank, columns), (hidden, width) = arguments[3].shape, arguments[5].shape
    keys = hidden * (width + columns // width) + width * width
    nbytes = sum(x.nbytes for x in arguments[:13])
    i8, bf16 = t * rank * columns, t * (keys + columns * width)
    elements = of_index(t, columns, width, arguments[9].shape[1])
    yield from limits(setting, nbytes, elements, i8=i8, bf16=bf16)


@case("lightning_indexer", sizes=[(2, 65536), (2, 65536, 971, 32869, 16383)], dtypes=["i8"])
def lightning_indexer(setting: Setting):
    s1, *lengths = setting.size
    arguments = formulas.lightning_arguments(lengths, s1, eighth=False)

    def marked(function):
        def found(*tensors):
            rows = function(*tensors).long()
            marks = torch.zeros(len(rows), max(lengths) + 1, dtype=torch.int8)
            return (marks.scatter_(1, rows.where(rows >= 0, max(lengths)), 1),)

        return found

    ours, theirs = marked(models.lightning_indexer), marked(formulas.lightning_indexer)
    yield from contenders(ours, theirs, arguments, slice(0, 0))
    q, keys = arguments[0], sum(lengths)
    row = arguments[3][0, 0].nbytes + arguments[4][0, 0].nbytes
    scores = keys * s1 * q.shape[1]
    nbytes = q.nbytes + keys * row
    yield from limits(setting, nbytes, INDEX * scores, i8=keys * s1 * q[0].numel())


def of_latent(t: int, rank: int, columns: int, w_uk: tuple[int, ...], rope: int) -> int:
    """The operations on elements of latent queries and keys; products are rounded to bf16."""
    heads, _, latent = w_uk
    queries = rank * (1 + NORM + Q8) + columns * SCALED + heads * (rope * TURN + latent)
    return t * (queries + latent * (1 + NORM + Q8) + rope * (1 + TURN))


@case("mla_prolog", sizes=[(8,), (128,)], dtypes=["i8"])
def mla_prolog(setting: Setting):
    (t,) = setting.size
    arguments = formulas.mla_arguments(t, eighth=False, pages=512)
    yield from contenders(models.mla_prolog, formulas.mla_prolog, arguments, slice(10, 13))
    bytes_up, keys = arguments[2].numel(), arguments[4].numel()
    bf16 = arguments[1].numel() + arguments[5].numel() + keys
    nbytes = sum(x.nbytes for x in arguments[:10]) + t * 2 * keys // arguments[4].shape[1]
    elements = of_latent(t, arguments[1].shape[1], arguments[2].shape[1], arguments[4].shape,
                         arguments[8].shape[1])  # fmt: skip
    yield from limits(setting, nbytes, elements, i8=t * bytes_up, bf16=t * bf16)


@case("sparse_attention", sizes=[(2, 65536, 16381, 666, 15), (256, 16384)], dtypes=["i8"])
def sparse_attention(setting: Setting):
    s1, *lengths = setting.size
    arguments = formulas.sparse_arguments(lengths, s1, eighth=False)
    scale = 192**-0.5

    def ours(*tensors):
        return (models.sparse_attention(*tensors, scale=scale),)

    def theirs(*tensors):
        return (formulas.sparse_attention(*tensors, scale),)

    yield from contenders(ours, theirs, arguments, slice(0, 0))
    q_nope, q_rope, kv, kr, scales, indices = arguments[:6]
    read = int((indices >= 0).sum())
    row = sum(x[0, 0].nbytes for x in (kv, kr, scales))
    nbytes = 2 * q_nope.nbytes + q_rope.nbytes + indices.nbytes + read * row
    q, scores = q_nope[0].numel(), read * q_nope.shape[1]
    elements = WEIGHT["bf16"] * scores + WIDE * read * q_nope.shape[2]
    bf16 = read * (2 * q + q_rope[0].numel())
    yield from limits(setting, nbytes, elements, exp=scores, bf16=bf16)


@case("mla_decode_step", sizes=[(2, 65536, 16381, 666, 15)], dtypes=["i8"])
def mla_decode_step(setting: Setting):
    s1, *lengths = setting.size
    arguments = formulas.decode_arguments(lengths, s1, eighth=False)
    k, caches = 2048, slice(18, 23)
    scale = 192**-0.5 / 8  # no key weighs much: which of two with nearly equal scores is selected

    def ours(*tensors):
        return (models.mla_decode_step(*tensors, scale=scale, k=k),)

    def theirs(*tensors):
        return (formulas.decode_step(formulas, tensors, scale, k),)

    def apart(*tensors):
        return (formulas.decode_step(models, tensors, scale, k),)

    yield from contenders(ours, theirs, arguments, caches, four_operators=apart)
    x, seen, kept = arguments[0], sum(lengths), sum(min(n, k) for n in lengths)
    (heads, nope, latent), (rank, columns), t = arguments[4].shape, arguments[10].shape, len(x)
    row = arguments[21].shape[3]
    bf16 = sum(a.numel() for a in (*arguments[1:6:4], *arguments[12:14])) + heads * nope * latent
    wide = 2 * latent + arguments[8].shape[1]
    nbytes = sum(a.nbytes for a in arguments[:18]) + seen * (row + 2) + t // s1 * kept * 656
    i8 = t * (arguments[2].numel() + rank * columns) + s1 * seen * columns
    scores, rope = s1 * kept * heads, arguments[8].shape[1]
    elements = (
        of_latent(t, rank, arguments[2].shape[1], arguments[4].shape, rope)
        + of_index(t, columns, row, rope) + INDEX * s1 * seen * (columns // row)
        + WEIGHT["bf16"] * scores + WIDE * s1 * kept * latent
    )  # fmt: skip
    bf16 = t * bf16 + scores * wide
    yield from limits(setting, nbytes, elements, exp=scores, i8=i8, bf16=bf16)


@case("topk_gate", sizes=[(1,), (128,)], dtypes=["f32"])
def topk_gate(setting: Setting):
    (t,) = setting.size
    arguments = formulas.gate_arguments(t, 256, hidden=5120)
    options = {"groups": 8, "best_groups": 4, "scale": 2.5}

    def ours(*tensors):
        return models.topk_gate(*tensors, **options)

    def theirs(*tensors):
        return formulas.topk_gate(*tensors, **options)

    yield from contenders(ours, theirs, arguments, slice(0, 0))
    nbytes = sum(x.nbytes for x in arguments)
    yield from limits(setting, nbytes, exp=t * 256, f32=t * arguments[1].numel())


def of_expert(hidden: int, inner: int, is_bytes: bool) -> int:
    """The operations on elements of a token's expert; sums become bf16, rows of bytes are made."""
    sums, rows = (SCALED, Q8 * (hidden + inner)) if is_bytes else (1, 0)
    return sums * (2 * inner + hidden) + rows + GATED * inner


@case("moe", sizes=[(1,), (8,), (64,), (512,)], dtypes=["bf16", "i8"])
def moe(setting: Setting):
    (t,), is_bytes = setting.size, setting.dtype == "i8"
    name = "moe_int8" if is_bytes else "moe"
    sizes = {"hidden": 2048, "inner": 768, "experts": 32}
    arguments = getattr(formulas, f"{name}_arguments")(t, **sizes)
    ours, theirs = getattr(models, name), getattr(formulas, name)
    yield "pto", lambda: (ours(*arguments),)
    yield "torch", lambda: (theirs(*arguments),)
    right = theirs(*arguments)
    yield Everything((right,), (WITHIN[right.dtype],))
    x, router, *weights = arguments
    used = len(formulas.routed(x, router, 8)[1].unique())
    expert = sum(w[0].numel() for w in weights if w.ndim == 3)
    nbytes = x.nbytes + router.nbytes + used * sum(w[0].nbytes for w in weights)
    work = {setting.dtype: t * 8 * expert}
    work["bf16"] = work.get("bf16", 0) + t * router.numel()
    pairs = t * 8  # of tokens and experts
    elements = pairs * of_expert(sizes["hidden"], sizes["inner"], is_bytes)
    elements += pairs * sizes["hidden"]  # times their weights, into sums
    exp = pairs * sizes["inner"] + t * sizes["experts"]
    yield from limits(setting, nbytes, elements, exp=exp, **work)


@case("topk_gate_shared", sizes=[(1,), (128,)], dtypes=["i8"])
def topk_gate_shared(setting: Setting):
    (t,) = setting.size
    _, w, bias = formulas.gate_arguments(t, 160, hidden=5120)
    arguments = [formulas.random(t, 5120), w, bias, *formulas.random_expert(5120, 192)]

    def two_operators(x, w, bias, *expert):
        return (*models.topk_gate(x.float(), w, bias), formulas.expert_int8(x, *expert))

    yield from contenders(
        models.topk_gate_shared, formulas.topk_gate_shared, arguments, slice(0, 0),
        gate_alone=two_operators,
    )  # fmt: skip
    nbytes, expert = sum(x.nbytes for x in arguments), 3 * 5120 * 192
    elements, exp = t * of_expert(5120, 192, is_bytes=True), t * (160 + 192)
    yield from limits(setting, nbytes, elements, exp=exp, f32=t * w.numel(), i8=t * expert)


@case("gated_delta_rule", sizes=[(4096, 8), (1, 32)], dtypes=["f32"])
def gated_delta_rule(setting: Setting):
    t, heads = setting.size
    arguments = formulas.delta_arguments([t], heads // 2, heads)
    formula, compiled = formulas.gated_delta_rule, formulas.compiled_delta_rule
    if t == 1:
        formula, compiled = formulas.delta_token, None
    yield from contenders(models.gated_delta_rule, formula, arguments, slice(6, 7), compiled)
    d, states = 128, arguments[6]
    chunk, pairs = 3 * 64 * d * d, 4 * 64 * 64 * d + 64**3 // 6
    each = (chunk + pairs) / 64 if t > 1 else 3 * d * d
    nbytes = 2 * states.nbytes + sum(x.nbytes for x in arguments[:5])
    yield from limits(setting, nbytes, exp=t * heads, f32=int(t * heads * each))


@case(
    "paged_attention_pages",
    sizes=[(32, 32, 8, 128, 16), (1, 12, 1, 64, 128)],
    dtypes=["bf16", "i8"],
)
def paged_attention(setting: Setting):
    """Sizes are sequences of 16 to 4096 keys, or one, heads, heads of the cache, width, page."""
    sequences, *sizes = setting.size
    lengths = torch.linspace(16, 4096, sequences).long().tolist() if sequences > 1 else [4096]
    dtype = {"bf16": torch.bfloat16, "i8": torch.int8}[setting.dtype]
    arguments = formulas.paged_arguments(lengths, 1, *sizes, dtype)
    yield "pto", lambda: (models.paged_attention(*arguments),)
    yield "torch, gathering", lambda: (formulas.paged_attention(*arguments),)
    right = formulas.paged_attention(
        *(x.double() if x.is_floating_point() else x for x in arguments)
    )
    yield Everything((right,), (WITHIN[torch.bfloat16],))
    heads, key_heads, d, _ = sizes
    keys = 2 * sum(lengths) * d
    nbytes, scores = keys * key_heads * arguments[1].element_size(), sum(lengths) * heads
    widened = keys * key_heads if setting.dtype == "i8" else 0
    elements = WEIGHT["bf16"] * scores + widened
    yield from limits(setting, nbytes, elements, exp=scores, bf16=keys * heads)


@case("qwen3_attention", sizes=[(8, 1, 4096), (1, 1024, 1024)], dtypes=["bf16"])
def qwen3_attention(setting: Setting):
    """Sizes are sequences, queries of each and the most keys; one has half of it at least."""
    sequences, queries, longest = setting.size
    lengths = torch.linspace(longest, longest // 2, sequences).long().tolist()
    heads, key_heads, d = 32, 4, 128
    arguments = formulas.qwen3_arguments(lengths, queries, heads, key_heads, d, 128)

    def of(formula):
        given = [x.clone() for x in arguments]
        return lambda: formula(*given)

    yield "pto", of(models.qwen3_attention)
    yield "torch", of(formulas.qwen3_attention)
    right = formulas.qwen3_attention(
        *(x.double() if x.is_floating_point() else x for x in arguments)
    )
    yield Everything(right, (WITHIN[torch.bfloat16],) * 2)
    pairs = sum(queries * n - queries * (queries - 1) // 2 for n in lengths)
    nbytes, scores = 4 * sum(lengths) * key_heads * d, pairs * heads
    yield from limits(setting, nbytes, WEIGHT["bf16"] * scores, exp=scores, bf16=2 * scores * d)
