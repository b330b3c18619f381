# SPDX-License-Identifier: Apache-2.0
"""Gates: which experts a token takes, and with what weights (GLM, DeepSeek)."""

import math
from typing import Any

from pto.language.dtypes import f32
from pto.language.elementwise import sigmoid, where
from pto.language.generated import one_hot
from pto.language.infer import Size
from pto.language.matrix import matmul
from pto.language.op import op
from pto.language.ordering import topk
from pto.language.reduce import amax, sum
from pto.language.selection import gather
from pto.language.tensor import Tensor
from pto.language.types import cast
from pto.language.whole import max
from pto.models.formulas import check_number, q8, require_shapes, sizes_of
from pto.models.moe import swiglu


def _of_best_groups(choice: Tensor, groups: int, best: int, by_two: bool) -> Tensor:
    """The scores of the best groups, by their two largest or their largest; -inf for others."""
    t, experts = choice.shape
    grouped = choice.reshape(t, groups, experts // groups)
    of_group = sum(topk(grouped, 2).values, -1) if by_two else amax(grouped, -1)
    chosen = sum(cast(one_hot(topk(of_group, best).indices, groups), f32), 1)
    return where(chosen[:, :, None] > 0, grouped, -math.inf).reshape(t, experts)


def _check(calls: Any, experts: Size, k: int, groups: int, best: int, by_two: bool) -> None:
    """States that the best groups have k experts in every call; `calls` is the trace."""
    check_number("topk_gate", "groups", groups, 1, "the experts lie in groups of equal size")
    why = "a token takes experts of some groups"
    check_number("topk_gate", "best_groups", best, 1, why, groups)
    check_number("topk_gate", "k", k, 1, "a token takes some experts")
    size = experts // groups
    calls.guard_equal(size * groups, experts, f"the experts, which lie in {groups} equal groups")
    if best < groups and by_two:
        calls.guard_equal(max(size, 2), size, "a group's experts, of which by_two=True takes two")
    room = size * best
    calls.guard_equal(max(room, k), room, f"the experts of {best} groups, which must be k or more")


@op(
    "topk_gate(Tensor x, Tensor w, Tensor bias, *, int k=8, int groups=1, int best_groups=1,"
    " bool by_two=True, float scale=1.0) -> (Tensor weights, Tensor indices)"
)
class TopkGate:
    """The k experts of each token with the largest sigmoid(x w) + bias, of its best groups, and
    their sigmoid(x w), divided by its sum, times scale."""

    types = "(T, T, f32) -> (f32, i64) where T: bf16 f16 f32"

    def build(x, w, bias, k, groups, best_groups, by_two, scale):
        (_, hidden), (_, experts) = sizes_of("x", x, 2), sizes_of("w", w, 2)
        require_shapes(w=(w, (hidden, experts)), bias=(bias, (experts,)))
        _check(w.trace.here(), experts, k, groups, best_groups, by_two)
        scores = sigmoid(matmul(x, w, f32))
        choice = scores + bias
        if best_groups < groups:
            choice = _of_best_groups(choice, groups, best_groups, by_two)
        indices = topk(choice, k).indices
        chosen = gather(scores, -1, indices)
        return chosen / sum(chosen, -1, True) * scale, indices


@op(
    "topk_gate_shared(Tensor x, Tensor w, Tensor bias, Tensor w_gate_up, Tensor gate_up_scale,"
    " Tensor w_down, Tensor down_scale, *, int k=8, int groups=1, int best_groups=1,"
    " bool by_two=True, float scale=1.0) -> (Tensor weights, Tensor indices, Tensor shared)"
)
class TopkGateShared:
    """topk_gate, and the expert of bytes that every token takes (GLM)."""

    types = "(bf16, T, f32, i8, f32, i8, f32) -> (f32, i64, bf16) where T: bf16 f32"

    def build(x, w, bias, w_gate_up, gate_up_scale, w_down, down_scale, k, groups, best_groups,
              by_two, scale):  # fmt: skip
        (_, hidden), (inner, _) = sizes_of("x", x, 2), sizes_of("w_down", w_down, 2)
        require_shapes(
            w_gate_up=(w_gate_up, (hidden, inner * 2)), w_down=(w_down, (inner, hidden)),
            gate_up_scale=(gate_up_scale, (inner * 2,)), down_scale=(down_scale, (hidden,)),
        )  # fmt: skip
        chosen = TopkGate(
            cast(x, w.dtype), w, bias, k=k, groups=groups, best_groups=best_groups, by_two=by_two,
            scale=scale,
        )  # fmt: skip
        shared = swiglu(*q8(x), w_gate_up, gate_up_scale, w_down, down_scale)
        return *chosen, shared
