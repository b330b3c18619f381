# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts (Qwen3): each token takes the best experts by softmax; all are SwiGLU."""

from pto.language.control import loop
from pto.language.dtypes import bf16, f32, i64
from pto.language.fill import zeros
from pto.language.generated import one_hot
from pto.language.jit import jit
from pto.language.matrix import matmul
from pto.language.nn import silu, softmax
from pto.language.op import op
from pto.language.ordering import sort, topk
from pto.language.reduce import sum
from pto.language.scans import cumsum
from pto.language.types import cast
from pto.models.formulas import require_shapes, sizes_of


@jit
def by_experts(x, chosen, w_gate_up, w_down):
    """[t * k, hidden], bf16: for each of the k experts that a token chose, what it makes of x."""
    t, k = chosen.shape
    hidden, inner, experts = x.shape[1], w_down.shape[1], w_down.shape[0]
    flat = chosen.reshape(t * k)
    order = sort(flat).indices
    counts = sum(cast(one_hot(flat, experts), i64), 0)
    ends = cumsum(counts, 0)
    made = zeros([t * k, hidden], bf16)
    for e in loop(experts):
        n = counts[e]
        if n > 0:
            start = ends[e] - n
            places = order[start : start + n]
            both = matmul(x[places // k], w_gate_up[e])
            gate, up = cast(both[:, :inner], f32), cast(both[:, inner:], f32)
            h = cast(cast(silu(gate), bf16) * cast(up, bf16), bf16)
            made[places] = matmul(h, w_down[e])
    return made


@op("moe(Tensor x, Tensor w_router, Tensor w_gate_up, Tensor w_down, *, int k=8) -> Tensor")
class Moe:
    """The sum of the k best experts of each token, by their softmax divided by its sum."""

    types = "(bf16, bf16, bf16, bf16) -> bf16"

    def build(x, w_router, w_gate_up, w_down, k):
        (t, hidden), (_, experts) = sizes_of("x", x, 2), sizes_of("w_router", w_router, 2)
        _, inner, _ = sizes_of("w_down", w_down, 3)
        require_shapes(
            w_router=(w_router, (hidden, experts)), w_down=(w_down, (experts, inner, hidden)),
            w_gate_up=(w_gate_up, (experts, hidden, inner * 2)),
        )  # fmt: skip
        best = topk(softmax(cast(matmul(x, w_router), f32)), k)
        weights = best.values / sum(best.values, -1, True)
        made = by_experts(x, best.indices, w_gate_up, w_down).reshape(t, k, hidden)
        return cast(sum(cast(made, f32) * weights[:, :, None], 1), bf16)
