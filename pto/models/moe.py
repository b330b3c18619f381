# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts: those of Qwen3, where each token takes the best experts by softmax, and
those of any gate. All are SwiGLU."""

from pto.language.checks import check
from pto.language.control import loop
from pto.language.dtypes import bf16, f32, i32, i64
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
from pto.models.formulas import check_number, q8, require_shapes, sizes_of


def _product(rows: Tensor, row_scale: Tensor | None, w: Tensor, scale: Tensor | None) -> Tensor:
    """rows w, of floats, or of bytes with a scale for each row and each column, bf16."""
    if scale is None:
        return matmul(rows, w)
    return cast(cast(matmul(rows, w, i32), f32) * row_scale * scale, bf16)


def swiglu(rows, row_scale, w_gate_up, gate_up_scale, w_down, down_scale) -> Tensor:
    """(silu(gate) * up) w_down with [gate, up] = rows w_gate_up; of bytes where there are scales,
    and what w_down takes is quantised again."""
    both, inner = _product(rows, row_scale, w_gate_up, gate_up_scale), w_down.shape[0]
    gate, up = (cast(part, f32) for part in (both[:, :inner], both[:, inner:]))
    h = cast(cast(cast(silu(gate), both.dtype), f32) * up, both.dtype)  # two roundings
    quantised = (h, None) if down_scale is None else q8(h)
    return _product(*quantised, w_down, down_scale)


@jit
def by_experts(x, x_scale, chosen, w_gate_up, gate_up_scale, w_down, down_scale):
    """[t * k, hidden]: for each of the k experts that a token chose, what it makes of x."""
    t, k = chosen.shape
    hidden, experts, is_bytes = x.shape[1], w_down.shape[0], x_scale is not None
    flat = chosen.reshape(t * k)
    order = sort(flat).indices
    counts = sum(cast(one_hot(flat, experts), i64), 0)
    ends = cumsum(counts, 0)
    made = zeros([t * k, hidden], bf16 if is_bytes else x.dtype)
    for e in loop(experts):
        n = counts[e]
        if n > 0:
            start = ends[e] - n
            places = order[start : start + n]
            own = places // k
            scales = [x_scale[own], gate_up_scale[e], down_scale[e]] if is_bytes else [None] * 3
            made[places] = swiglu(x[own], scales[0], w_gate_up[e], scales[1], w_down[e], scales[2])
    return made


def _mixed(x, weights, indices, w_gate_up, w_down, gate_up_scale=None, down_scale=None) -> Tensor:
    """The sum, in f32, of what the chosen experts of a token make of it, times their weights."""
    rows = (x, None) if down_scale is None else q8(x)
    made = by_experts(*rows, indices, w_gate_up, gate_up_scale, w_down, down_scale)
    made = made.reshape(*indices.shape, x.shape[1])
    return cast(sum(cast(made, f32) * weights[:, :, None], 1), x.dtype)


def _routed(x: Tensor, w_router: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(weights, indices) of the k best experts of each token, by softmax."""
    check_number("moe", "k", k, 1, "a token takes some experts")
    best = topk(softmax(cast(matmul(x, w_router), f32)), k)
    return best.values / sum(best.values, -1, True), best.indices


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
        return _mixed(x, *_routed(x, w_router, k), w_gate_up, w_down)


@op(
    "moe_int8(Tensor x, Tensor w_router, Tensor w_gate_up, Tensor gate_up_scale, Tensor w_down,"
    " Tensor down_scale, *, int k=8) -> Tensor"
)
class MoeInt8:
    """moe with experts of bytes, a scale for each of their columns; rows become bytes by q8."""

    types = "(bf16, bf16, i8, f32, i8, f32) -> bf16"

    def build(x, w_router, w_gate_up, gate_up_scale, w_down, down_scale, k):
        _check(x, w_gate_up, w_down)
        experts, inner, hidden = w_down.shape
        require_shapes(
            w_router=(w_router, (hidden, experts)), down_scale=(down_scale, (experts, hidden)),
            gate_up_scale=(gate_up_scale, (experts, inner * 2)),
        )  # fmt: skip
        chosen = _routed(x, w_router, k)
        return _mixed(x, *chosen, w_gate_up, w_down, gate_up_scale, down_scale)


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
        is_there = (indices >= 0) & (indices < w_down.shape[0])
        check(is_there, "indices are from 0 to the last of the experts")
        return _mixed(x, weights, indices, w_gate_up, w_down)
