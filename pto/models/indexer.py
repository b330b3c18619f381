# SPDX-License-Identifier: Apache-2.0
"""The indexer of DeepSeek V3.2: what selects the keys that its attention reads."""

from typing import Any

from pto.language.dtypes import bf16, f16, f32, i32
from pto.language.local import tensor
from pto.language.matrix import matmul
from pto.language.op import op
from pto.language.selection import scatter_update
from pto.language.tensor import Tensor
from pto.language.types import cast
from pto.models.formulas import (
    layer_norm,
    q8,
    require_shapes,
    rsqrt_of,
    sizes_of,
    turn,
)


def _rotated(v: Any, shape: tuple, cos: Tensor, sin: Tensor, hadamard: Tensor) -> Tensor:
    """bf16 of this shape: v, whose parts `v(slice)` gives as bf16, with its first elements turned,
    times hadamard."""
    turned, rope = tensor(shape, bf16), cos.shape[-1]
    first, second = (cast(v(part), f32) for part in (slice(0, rope // 2), slice(rope // 2, rope)))
    turn(first, second, cos, sin, turned)
    turned[..., rope:] = v(slice(rope, None))
    return matmul(turned.reshape(-1, shape[-1]), hadamard).reshape(shape)


@op(
    "indexer_prolog(Tensor x, Tensor q_norm, Tensor q_norm_scale, Tensor w_qb, Tensor w_qb_scale,"
    " Tensor wk, Tensor w_proj, Tensor gamma, Tensor beta, Tensor cos, Tensor sin,"
    " Tensor hadamard_q, Tensor hadamard_k, Tensor(a!) k_cache, Tensor(b!) k_scale, Tensor slots)"
    " -> (Tensor q, Tensor q_scale, Tensor weights)"
)
class IndexerProlog:
    """Queries as bytes with a scale each, the weights of their heads, and new keys in the cache."""

    types = (
        "(bf16, i8, f32, i8, f32, bf16, bf16, bf16, bf16, bf16, bf16, bf16, bf16, i8, f16, I)"
        " -> (i8, f16, f16) where I: i64 i32"
    )

    def build(
        x, q_norm, q_norm_scale, w_qb, w_qb_scale, wk, w_proj, gamma, beta, cos, sin,
        hadamard_q, hadamard_k, k_cache, k_scale, slots,
    ):  # fmt: skip
        (t, hidden), (_, rank) = sizes_of("x", x, 2), sizes_of("q_norm", q_norm, 2)
        (_, width), (_, heads) = sizes_of("wk", wk, 2), sizes_of("w_proj", w_proj, 2)
        (_, rope), (pages, page, *_) = sizes_of("cos", cos, 2), sizes_of("k_cache", k_cache, 4)
        require_shapes(
            q_norm=(q_norm, (t, rank)), q_norm_scale=(q_norm_scale, (t, 1)),
            w_qb=(w_qb, (rank, heads * width)), w_qb_scale=(w_qb_scale, (heads * width,)),
            wk=(wk, (hidden, width)), w_proj=(w_proj, (hidden, heads)), gamma=(gamma, (width,)),
            beta=(beta, (width,)), cos=(cos, (t, rope)), sin=(sin, (t, rope)),
            hadamard_q=(hadamard_q, (width, width)), hadamard_k=(hadamard_k, (width, width)),
            k_cache=(k_cache, (pages, page, 1, width)), k_scale=(k_scale, (pages, page, 1, 1)),
            slots=(slots, (t,)),
        )  # fmt: skip
        cos, sin = cast(cos, f32), cast(sin, f32)

        sums = matmul(q_norm, w_qb, i32).reshape(t, heads, width)
        row_scale, scales = q_norm_scale.reshape(t, 1, 1), w_qb_scale.reshape(heads, width)

        def q_part(part):
            return cast(cast(sums[..., part], f32) * row_scale * scales[:, part], bf16)

        q = _rotated(q_part, (t, heads, width), cos[:, None], sin[:, None], hadamard_q)
        q, q_scale = q8(q)

        normed = cast(layer_norm(matmul(x, wk, f32), gamma, beta), bf16)
        k = _rotated(lambda part: normed[:, part], (t, width), cos, sin, hadamard_k)
        k, new_scale = q8(k)
        row = tuple(k_cache.shape[2:])
        k_cache = scatter_update(k_cache, slots, k.reshape(t, *row))
        new_scale = cast(new_scale, f16).reshape(t, *k_scale.shape[2:])
        k_scale = scatter_update(k_scale, slots, new_scale)

        factor = rsqrt_of(x, heads, width)
        weights = cast(cast(matmul(x, w_proj), f32) * factor, f16)
        return q, cast(q_scale.squeeze(-1), f16), weights, k_cache, k_scale
