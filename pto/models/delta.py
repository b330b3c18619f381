# SPDX-License-Identifier: Apache-2.0
"""The gated delta rule of Qwen3-next: linear attention whose state forgets, and corrects what it
remembers of a key. A chunk of tokens at a time; a few tokens one by one.

For each token, with q and k of length 1, and the state of a head, [depth, width]:

    state = exp(g) state;  d = beta (v - k state);  state = state + k^T d
    out = q state / sqrt(depth)
"""

import math
from typing import Any

from pto.language.checks import check
from pto.language.control import loop
from pto.language.dtypes import f32, f64
from pto.language.elementwise import exp, maximum, rsqrt, square, where
from pto.language.fill import zeros
from pto.language.generated import arange, eye
from pto.language.jit import jit
from pto.language.local import tensor
from pto.language.matrix import matmul
from pto.language.op import op
from pto.language.reduce import sum
from pto.language.scans import cumsum
from pto.language.shape import clone
from pto.language.tensor import Tensor
from pto.language.types import cast
from pto.language.whole import min
from pto.models.formulas import EPS, require_parts, require_shapes, rsqrt_of, sizes_of

CHUNK = 64  # tokens
FEW = 8  # tokens that go one by one; more are a chunk, filled up with zeros
ALL_GONE = -200.0  # of g and less nothing is left: exp() of it is 0 in f32
LEAF = 8  # rows of a triangle whose inverse is a sum of powers: larger ones lose digits


def _unit(v: Tensor) -> Tensor:
    """Rows of v with length 1, f32."""
    v = cast(v, f32)
    return v * rsqrt(sum(square(v), -1, True) + EPS)


def _blocks(low: Tensor, size: int, apart: int, below: int) -> Tensor:
    """[n, size, size]: blocks that begin `apart` rows and columns from each other, the first one
    `below` rows under the corner."""
    rows = range(below, low.shape[0], apart)
    made = tensor([len(rows), size, size], f32)
    for i, row in enumerate(rows):
        made[i] = low[row : row + size, row - below : row - below + size]
    return made


def _inverse(low: Tensor, n: int) -> Tensor:
    """(1 + low)^-1 of a matrix [n, n] with nothing on and above its diagonal; n is a power of 2.

    (1 + low)^-1 = (1 - low) (1 + low^2) (1 + low^4) ... for few rows, then by halves:
    [a, 0; c, b]^-1 = [a', 0; -b' c a', b'] of the inverses a' and b'. All blocks of a size are one
    batch.
    """
    power = _blocks(low, LEAF, LEAF, 0)
    found = cast(eye(LEAF), f32) - power
    for _ in range(2, LEAF.bit_length()):
        power = matmul(power, power)
        found = found + matmul(found, power)
    h = LEAF
    while h < n:
        pairs = n // (2 * h)
        halves, whole = found.reshape(pairs, 2, h, h), zeros([pairs, 2 * h, 2 * h])
        a, b = halves[:, 0], halves[:, 1]
        whole[:, :h, :h], whole[:, h:, h:] = a, b
        whole[:, h:, :h] = -matmul(b, matmul(_blocks(low, h, 2 * h, h), a))
        found, h = whole, 2 * h
    return found[0]


def _filled(rows: int, *parts: tuple[int, Tensor]) -> Tensor:
    """f32 [rows, width]: each part from its row on, and zeros."""
    made = zeros([rows, parts[0][1].shape[1]])
    for start, part in parts:
        made[start : start + part.shape[0]] = cast(part, f32)
    return made


def _chunk(q, k, v, beta, g, state) -> tuple[Tensor, Tensor]:
    """(out [CHUNK, width], new state) of at most CHUNK tokens of a head, as sums over pairs.

    Tokens that are not there have k = v = g = 0. The decay of a pair is exp(sum of g between), the
    difference of two sums, which may be large: so f64, and no g below ALL_GONE, whose sum would
    have no digits for the tokens behind it, or be infinite. Above the diagonal it is -infinity, as
    the exponential would overflow.
    """
    place = arange(CHUNK)
    row, column = place[:, None], place[None, :]
    keys = _filled(2 * CHUNK, (0, k), (CHUNK, q))  # and queries
    total = cumsum(cast(maximum(_filled(CHUNK, (0, g[:, None])), ALL_GONE), f64), 0)
    beta = _filled(CHUNK, (0, beta[:, None]))
    between = cast(total - total.reshape(1, CHUNK), f32)
    decay = exp(where(row >= column, between, -math.inf))
    scores = matmul(keys, keys[:CHUNK], b_trans=True)
    known, rise = matmul(keys, state), exp(cast(total, f32))
    inverse = _inverse(where(row > column, scores[:CHUNK] * decay * beta, 0.0), CHUNK)
    d = matmul(inverse, beta * (_filled(CHUNK, (0, v)) - rise * known[:CHUNK]))
    out = rise * known[CHUNK:] + matmul(scores[CHUNK:] * decay, d)
    last = total[CHUNK - 1, 0]
    left = keys[:CHUNK] * exp(cast(last - total, f32))
    return out, state * exp(cast(last, f32)) + matmul(left, d, a_trans=True)


def _token(q, k, v, beta, g, state) -> tuple[Tensor, Tensor]:
    """(out [width], new state) of one token of a head, which reads the state once."""
    keep, column = exp(g), k[:, None]
    known, found = keep * sum(column * state, 0), keep * sum(q[:, None] * state, 0)
    d = cast(beta, f32) * (cast(v, f32) - known)
    return found + sum(q * k) * d, keep * state + column * d


@jit
def delta_rule(query, key, value, beta, g, cu_lengths, states):
    """(out, new states): heads side by side, chunks of a sequence one after another."""
    out, group = zeros(value.shape, value.dtype), value.shape[1] // key.shape[1]
    scale, states = rsqrt_of(key, key.shape[2]), clone(states)
    for h in loop(value.shape[1]):
        for b in loop(states.shape[0]):
            start, end = cu_lengths[b], cu_lengths[b + 1]
            for c in loop((end - start + CHUNK - 1) // CHUNK):
                first = start + c * CHUNK
                n = min(end - first, CHUNK)
                if n <= FEW:
                    for i in loop(first, first + n):
                        q, k = _unit(query[i, h // group]) * scale, _unit(key[i, h // group])
                        one = q, k, value[i, h], beta[i, h], g[i, h]
                        made, states[b, h] = _token(*one, states[b, h])
                        out[i, h] = cast(made, out.dtype)
                else:
                    at = slice(first, first + n)
                    q, k = _unit(query[at, h // group]) * scale, _unit(key[at, h // group])
                    some = q, k, value[at, h], beta[at, h], g[at, h]
                    made, states[b, h] = _chunk(*some, states[b, h])
                    out[at, h] = cast(made[:n], out.dtype)
    return out, states


@op(
    "gated_delta_rule(Tensor query, Tensor key, Tensor value, Tensor beta, Tensor g,"
    " Tensor cu_lengths, Tensor(a!) states) -> Tensor"
)
class GatedDeltaRule:
    """The part of the state that a token's query finds, once the token has changed that state."""

    types = "(T, T, T, T, f32, I, f32) -> T where T: f32 bf16 f16, I: i64 i32"

    def build(query, key, value, beta, g, cu_lengths, states):
        (t, heads, width), (_, of_keys, depth) = (
            sizes_of("value", value, 3),
            sizes_of("key", key, 3),
        )
        sequences: Any = sizes_of("states", states, 4)[0]
        require_shapes(
            query=(query, (t, of_keys, depth)), key=(key, (t, of_keys, depth)),
            beta=(beta, (t, heads)), g=(g, (t, heads)), cu_lengths=(cu_lengths, (sequences + 1,)),
            states=(states, (sequences, heads, depth, width)),
        )  # fmt: skip
        require_parts(value, 1, of_keys, "heads of value and key")
        starts, ends = cu_lengths[:-1], cu_lengths[1:]
        rise = (starts >= 0) & (starts <= ends) & (ends <= t)
        check(rise, "cu_lengths rise from 0 to the number of tokens")
        return delta_rule(query, key, value, beta, g, cu_lengths, states)
