# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts: those of Qwen3, where each token takes the best experts by softmax, and
those of any gate. All are SwiGLU."""

from pto.language.control import loop
from pto.language.dtypes import f32, i64
from pto.language.fill import zeros
from pto.language.generated import one_hot
from pto.language.jit import jit
from pto.language.matrix import matmul
from pto.language.nn import silu, softmax
from pto.language.op import op
from pto.language.ordering import sort, topk
from pto.language.reduce import sum
from pto.language.scans import cumsum
from pto.language.tensor import Tensor
from pto.language.types import cast
from pto.models.formulas import require_shapes, sizes_of


@jit
def by_experts(x, chosen, w_gate_up, w_down):
    """[t * k, hidden], as x: for each of the k experts that a token chose, what it makes of x."""
    t, k = chosen.shape
    hidden, inner, experts = x.shape[1], w_down.shape[1], w_down.shape[0]
    flat = chosen.reshape(t * k)
    order = sort(flat).indices
    counts = sum(cast(one_hot(flat, experts), i64), 0)
    ends = cumsum(counts, 0)
    made = zeros([t * k, hidden], x.dtype)
    for e in loop(experts):
        n = counts[e]
        if n > 0:
            start = ends[e] - n
            places = order[start : start + n]
            both = matmul(x[places // k], w_gate_up[e])
            gate, up = cast(both[:, :inner], f32), both[:, inner:]
            h = cast(silu(gate), x.dtype) * up
            made[places] = matmul(h, w_down[e])
    return made


def _mixed(x: Tensor, weights: Tensor, indices: Tensor, w_gate_up: Tensor, w_down: Tensor):
    """The sum, in f32, of what the chosen experts of a token make of it, times their weights."""
    made = by_experts(x, indices, w_gate_up, w_down).reshape(*indices.shape, x.shape[1])
    return cast(sum(cast(made, f32) * weights[:, :, None], 1), x.dtype)


def _check(x: Tensor, w_gate_up: Tensor, w_down: Tensor) -> None:
    (_, hidden), (experts, inner, _) = sizes_of("x", x, 2), sizes_of("w_down", w_down, 3)
    require_shapes(
        w_down=(w_down, (experts, inner, hidden)),
        w_gate_up=(w_gate_up, (experts, hidden, inner * 2)),
    )  # fmt: skip


@op("moe(Tensor x, Tensor w_router, Tensor w_gate_up, Tensor w_down, *, int k=8) -> Tensor")
class Moe:
    """The sum of the k best experts of each token, by their softmax divided by its sum."""

    types = "(T, T, T, T) -> T where T: bf16 f32"

    def build(x, w_router, w_gate_up, w_down, k):
        _check(x, w_gate_up, w_down)
        require_shapes(w_router=(w_router, (x.shape[1], w_down.shape[0])))
        best = topk(softmax(cast(matmul(x, w_router), f32)), k)
        weights = best.values / sum(best.values, -1, True)
        return _mixed(x, weights, best.indices, w_gate_up, w_down)


@op(
    "moe_experts(Tensor x, Tensor weights, Tensor indices, Tensor w_gate_up, Tensor w_down)"
    " -> Tensor"
)
class MoeExperts:
    """The sum of the experts that a gate chose for each token, with its weights."""

    types = "(T, f32, I, T, T) -> T where T: bf16 f32, I: i64 i32"

    def build(x, weights, indices, w_gate_up, w_down):
        _check(x, w_gate_up, w_down)
        _, k = sizes_of("indices", indices, 2)
        require_shapes(indices=(indices, (x.shape[0], k)), weights=(weights, (x.shape[0], k)))
        return _mixed(x, weights, indices, w_gate_up, w_down)
