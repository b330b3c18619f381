# SPDX-License-Identifier: Apache-2.0
"""The formulas that operators of models share, in traced functions.

    values, scale = q8(h)                      # i8 [..., d] and f32 [..., 1]
    turn(h[..., :32], h[..., 32:64], cos, sin, out)      # rounds to the type of out

Numbers of bf16 are computed in f32 and rounded to nearest even where a formula says bf16.
Thread safety: as a trace.
"""

import math
from typing import Any

from pto.errors import InvalidValue
from pto.language.casting import CastMode, cast
from pto.language.checks import check
from pto.language.dtypes import bf16, f32, f64, i8, i32, i64
from pto.language.elementwise import abs, pow, rsqrt, square, where
from pto.language.generated import arange
from pto.language.infer import Size
from pto.language.reduce import amax, mean
from pto.language.tensor import Tensor
from pto.language.types import cast as plain_cast
from pto.language.whole import max, min, whole

EPS = 1e-6


def q8(v: Tensor) -> tuple[Tensor, Tensor]:
    """(i8, f32 scale) of each row: v times 127 / max|row|, rounded half to even; the scale is the
    reciprocal of that factor, with an axis of 1. A row of zeros gives zeros and the scale 0."""
    v = plain_cast(v, f32)
    most = amax(abs(v), -1, True)
    factor = where(most == 0, 0.0, 127.0 / most)
    values = cast(v * factor, i8, CastMode.RINT, True)
    return values, where(most == 0, 0.0, 1.0 / factor)


def _value(high: Tensor, fraction: Tensor) -> Tensor:
    """f32 whose upper 16 bits are those of `high`, i32, and whose mantissa is `fraction`, f32."""
    exponent = high // 128 & 255
    powers = plain_cast(pow(2.0, plain_cast(arange(256) - 127, f64)), f32)
    is_small = exponent == 0
    finite = where(is_small, fraction, 1 + fraction) * powers[where(is_small, 1, exponent)]
    value = where(exponent == 255, where(fraction == 0, math.inf, math.nan), finite)
    return where(high >= 1 << 15, -value, value)


def _pair(low: Tensor, high: Tensor) -> Tensor:
    """The i32 that two bytes are."""
    return (plain_cast(low, i32) & 255) + (plain_cast(high, i32) & 255) * 256


def bf16_of(pairs: Tensor) -> Tensor:
    """bf16 [...] of i8 [..., 2], the bytes of each number, lower ones first."""
    high = _pair(pairs[..., 0], pairs[..., 1])
    return plain_cast(_value(high, plain_cast(high & 127, f32) * 2.0**-7), bf16)


def f32_of(fours: Tensor) -> Tensor:
    """f32 [...] of i8 [..., 4], the bytes of each number, lower ones first."""
    low, high = _pair(fours[..., 0], fours[..., 1]), _pair(fours[..., 2], fours[..., 3])
    return _value(high, plain_cast((high & 127) * 65536 + low, f32) * 2.0**-23)


def turn(first: Tensor, second: Tensor, cos: Tensor, sin: Tensor, out: Tensor) -> None:
    """Writes [first, second] * cos + [-second, first] * sin into the first elements of out, as its
    type, all else f32. cos and sin broadcast to the whole, and have two halves."""
    require_pairs(cos)
    half = cos.shape[-1] // 2
    low = first * cos[..., :half] - second * sin[..., :half]
    high = second * cos[..., half : 2 * half] + first * sin[..., half : 2 * half]
    out[..., :half] = plain_cast(low, out.dtype)
    out[..., half : 2 * half] = plain_cast(high, out.dtype)


def rms_norm(v: Tensor, gamma: Tensor) -> Tensor:
    """v * rsqrt(mean(v^2)) * gamma along rows, in f32, as the type of v."""
    wide = plain_cast(v, f32)
    scale = rsqrt(mean(square(wide), -1, True) + EPS)
    return plain_cast(wide * scale * plain_cast(gamma, f32), v.dtype)


def layer_norm(v: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    """Rows of v, f32, with mean 0 and variance 1, times gamma, plus beta."""
    centred = v - mean(v, -1, True)
    scale = rsqrt(mean(square(centred), -1, True) + EPS)
    return centred * scale * plain_cast(gamma, f32) + plain_cast(beta, f32)


def rsqrt_of(like: Tensor, *sizes: Any) -> Tensor:
    """1 / sqrt(the product of sizes), f32, of a call."""
    count = whole(like.trace, math.prod(sizes), "models")
    return plain_cast(rsqrt(plain_cast(count, f64)), f32)


def sizes_of(name: str, x: Tensor, rank: int) -> tuple[Size, ...]:
    """The shape of the argument `name`; raises InvalidValue where it has another number of axes."""
    if x.ndim == rank:
        return x.shape
    raise InvalidValue(
        f"{name} has {x.ndim} axes",
        f"the operator takes it with {rank}; docs/models.md lists the shape of each argument",
        f"reshape it to {rank} axes",
    )


def at_once(tokens: Size, heads: Size) -> tuple[Any, Any]:
    """How many tokens, and heads of each, a prolog computes at a time, at least one: what it makes
    of 512 of them stays in the second cache."""
    some = max(1, min(tokens, 128))
    return some, max(1, min(heads, 512 // some))


def per_sequence(rows: Tensor, lengths: Tensor) -> Any:
    """How many rows each sequence has, all the same; states that this is so in every call."""
    count, sequences = rows.shape[0], lengths.shape[0]
    per = count // max(sequences, 1)
    rows.trace.here().guard_equal(
        count, per * sequences, "rows of queries, and as many for each of the sequences"
    )
    return per


def require_shapes(**shapes: tuple[Tensor, tuple[Size, ...]]) -> None:
    """States that each argument has its shape in every call."""
    for name, (x, shape) in shapes.items():
        for size, wanted in zip(sizes_of(name, x, len(shape)), shape, strict=True):
            x.trace.here().guard_equal(size, wanted, f"the shape of {name}")


def require_parts(x: Tensor, axis: int, parts: Size, what: str) -> None:
    """States that an axis of x, `what` in errors, falls into equal parts in every call."""
    size = x.shape[axis]
    x.trace.here().guard_equal(size // max(parts, 1) * parts, size, what)


def require_pairs(cos: Tensor) -> None:
    """States that angles have an even number of columns in every call."""
    require_parts(cos, -1, 2, "the columns of cos, which are turned in pairs")


def check_lengths(lengths: Tensor, table: Tensor, page: Size) -> None:
    """States that a sequence has no more keys than the pages of its row of the table."""
    room = table.shape[1] * page
    check((lengths >= 0) & (lengths <= room), "lengths are from 0 to the keys of a row of table")


def check_pages(lengths: Tensor, table: Tensor, cache: Tensor) -> None:
    """States that the pages of a sequence exist; a step that writes the cache fails before it."""
    pages, page, *_ = cache.shape
    is_read = (arange(table.shape[1]) * page)[None, :] < plain_cast(lengths, i64)[:, None]
    is_there = (table >= 0) & (table < pages)
    check(where(is_read, is_there, True), "pages of table are from 0 to the last of the cache")


def check_number(
    operator: str, name: str, value: int, least: int, why: str, most: float = math.inf
) -> None:
    """Raises InvalidValue for an attribute outside of its range."""
    if not least <= value <= most:
        most_text = "on" if most == math.inf else f"to {most}"
        raise InvalidValue(
            f"{operator}: {name} is {value}", why, f"pass {name} from {least} {most_text}"
        )
