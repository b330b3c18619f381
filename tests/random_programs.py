# SPDX-License-Identifier: Apache-2.0
"""Random programs: text that runs both under @pto.jit and on NumPy, where pto is `on_numpy`.

    text = random_program(7)         # def program7(x, y, rows, lengths, out, scale=-2.0): ...
    arrays = random_arrays(7)

Values are small integers, so that sums in any order are exact; everything follows from the seed.
"""

import random
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np

import pto

F32 = np.float32


def _sort(x, dim, descending=False):
    order = np.argsort(-x if descending else x, dim, kind="stable")
    return SimpleNamespace(values=np.take_along_axis(x, order, dim), indices=order)


def _scatter(x, dim, index, src, reduce=None):
    found = x.copy()
    if reduce == "add":
        np.add.at(found, index, src)  # of rank 1
    else:
        np.put_along_axis(found, index, src, dim)
    return found


def _view(x, shape, offsets, valid_shape=None):
    sizes = shape if valid_shape is None else valid_shape
    return x[tuple(slice(o, o + n) for o, n in zip(offsets, sizes, strict=True))]


def _product(a, b, dtype=None, a_trans=False, b_trans=False):
    a, b = (v.astype(dtype or v.dtype) for v in (a, b))
    return (a.swapaxes(-1, -2) if a_trans else a) @ (b.swapaxes(-1, -2) if b_trans else b)


def _topk(x, k, dim):
    found = _sort(x, dim, descending=True)
    return SimpleNamespace(values=found.values.take(range(k), dim))


def _index_add(x, dim, index, src):
    found = x.copy()
    np.add.at(found, (slice(None),) * dim + (index,), src)
    return found


def _sum_type(x):
    return np.int64 if x.dtype.kind in "iu" else x.dtype


on_numpy = SimpleNamespace(
    loop=lambda *bounds, unroll_list=(): range(*bounds),
    loop_unroll=pto.loop_unroll,  # outside a traced function it counts
    f32=F32,
    f16=np.float16,
    i8=np.int8,
    u8=np.uint8,
    i16=np.int16,
    i32=np.int32,
    i64=np.int64,
    f64=np.float64,
    cast=lambda x, dtype: x.astype(dtype),
    scatter=_scatter,
    view=_view,
    cumprod=lambda x, dim: np.cumprod(x, dim, dtype=x.dtype),
    amax=lambda x, dim: x.max(dim),
    arange=lambda stop, dtype: np.arange(stop, dtype=dtype),
    sort=_sort,
    topk=_topk,
    argmax=np.argmax,
    argsort=lambda x, dim: np.argsort(x, dim, kind="stable"),
    clip=np.clip,
    abs=np.abs,
    floor=np.floor,
    round=np.round,
    sqrt=np.sqrt,
    square=np.square,
    tril=np.tril,
    stack=np.stack,
    unsqueeze=np.expand_dims,
    permute=np.transpose,
    pad=lambda x, pad, value: np.pad(x, [(0, 0), pad], constant_values=value),
    one_hot=lambda x, n, dtype: (x[..., None] == np.arange(n)).astype(dtype),
    index_select=lambda x, dim, index: x.take(index, dim),
    masked_fill=lambda x, mask, value: np.where(mask, x.dtype.type(value), x),
    any=lambda x, dim: x.any(dim),
    count_nonzero=np.count_nonzero,
    gather=lambda x, dim, index: np.take_along_axis(x, index, dim),
    index_add=_index_add,
    cumsum=lambda x, dim: np.cumsum(x, dim, dtype=_sum_type(x)),
    cummax=np.maximum.accumulate,
    flip=np.flip,
    zeros=lambda shape, dtype=F32: np.zeros(shape, dtype),
    full=lambda shape, value: np.full(shape, value, F32),
    matmul=_product,
    concat=np.concatenate,
    where=np.where,
    cond=lambda c, then, otherwise: then() if c else otherwise(),
    maximum=np.maximum,
    minimum=np.minimum,
    min=min,
    max=max,
    sum=lambda x, dim, keepdim=False: x.sum(dim, keepdims=keepdim, dtype=_sum_type(x)),
    transpose=lambda x, a, b: x.swapaxes(a, b),
    reshape=lambda x, *shape: x.reshape(shape),
)

# {i}, {n}: the index of the innermost loop and a number below the number of rows. `a` is f32[m],
# `t` is f32[1, n], `v` is i32[n], `c` and `k` are numbers; `k` is at most m.
_STATEMENTS = (
    "a = a + x[{n}]",
    "a = pto.maximum(a - 1, y[rows[{n}]])",
    "a = pto.where(a > x[{n}], a - x[{n}], a)",
    "a = small(a * 2 + c)",
    "a = a + pto.sum(pto.matmul(x[{n} : {n} + 1], y, b_trans=True), -1)",
    "a = pto.cond(lengths[{n}] > 1, lambda: a + x[{n}], lambda: -a)",
    "a = a + pto.sum(pto.transpose(pto.concat([x, out], 1), 0, 1), 0)[0]",
    "a = a + pto.reshape(out[{n}], 1, x.shape[1])[0]",
    "t = small(t + pto.matmul(out[{n} : {n} + 1], y, b_trans=True))",
    "t = small(t + pto.matmul(out[{n} : {n} + 1], y, b_trans=True) * scale)",
    "a = small(x[{n}] * scale - pto.sum(pto.matmul(x, out, b_trans=True) * scale, 1)[{n}])",
    "t[0, {n}] = t[0, rows[{n}]] - 1",
    "c = c + lengths[{n}]",
    "c = pto.min(c, {n} * 2 + 1)",
    "k = pto.max(lengths[{n}] - 1, 0)",
    "out[{n}] = small(a)",
    "out[{n}, :k] = x[rows[{n}], :k] + y[{n}, :k]",
    "out[rows[{n}], k:] = small(a[k:])",
    "out[{n}, lengths[{n}] :] += c % 7",
    "out[:] = small(out - t[0, {n}])",
    "out[-1] = x[0] - out[{n}]",
    "a = small(a + pto.sum(x[rows, :k], 1)[{n}])",
    "a = small(pto.cumsum(a, 0) - pto.flip(pto.cummax(a, 0), 0))",
    "a = pto.sort(out, 1, descending=True).values[{n}]",
    "a = pto.gather(y, 1, pto.sort(out, 1).indices)[rows[{n}]]",
    "a = small(pto.index_add(out, 0, rows, x)[{n}])",
    "t = small(t - pto.arange(x.shape[0], dtype=pto.f32))",
    "out[rows] = small(x - a)",
    "out[rows, :k] -= y[{n}, :k]",
    "a = small(a + pto.view(out, [1, x.shape[1]], [{n}, 0])[0])",
    "a = a + pto.sum(pto.view(out, [1, x.shape[1]], [{n}, 0], valid_shape=[1, k]), 1)",
    "a = small(pto.sum(x[:{n}] * out[:{n}], 0) - a)",
    "a = small(a - pto.cumprod(pto.maximum(pto.minimum(x[{n}], 1), -1), 0))",
    "a = a - pto.amax(out, 0)",
    "a = pto.cast(pto.cast(small(a), pto.f16), pto.f32)",
    "out[{n} :] = small(x[{n} :] - out[{n} :])",
    "out[:, :k] = pto.flip(out[:, :k], 0)",
    "t[:, :{n}] = small(pto.matmul(y[{n} : {n} + 1], out[:{n}], b_trans=True))",
    "v = v * 3 + pto.cast(rows, pto.i32)",
    "v = pto.cast(pto.cast(v, pto.i8), pto.i32) - pto.cast(v, pto.i16)[{n}]",
    "v = v[rows] - pto.cast(pto.flip(pto.cumsum(v, 0), 0), pto.i32)",
    "v = pto.sort(v, 0, descending=True).values + pto.cast(pto.sort(v, 0).indices, pto.i32)",
    "v = pto.scatter(v, 0, rows, v + 1)",
    "v = pto.scatter(v, 0, rows, v, reduce='add')",
    "v = v + pto.matmul(eighths(x), eighths(out), pto.i32, b_trans=True)[{n}]",
    "v[{n}] = v[rows[{n}]] + 1",
    "v[:{n}] = v[:{n}] * 5",
    "t = small(t + pto.cast(v, pto.f32))",
    # steps
    "out[::2] = small(x[::2] - y[::2])",
    "out[{n} :: 2, :k] = small(y[{n} :: 2, :k] * 2 - out[{n} :: 2, :k])",
    "out[:, ::3] = small(out[:, ::3] + a[::3])",
    "out[{n}, 1::2] -= out[{n}, 1::2] // 2",
    "a[::2] = small(a[::2] * 2 - x[{n}, ::2])",
    "a = small(a + pto.sum(out[1::2] * x[1::2], 0))",
    "a = a - pto.sum(x[:, ::2], 1)[{n}]",
    "v[::2] = pto.flip(v[::2], 0)",
    "v[1::3] = v[{n}] - pto.cast(rows[1::3], pto.i32)",
    "t = small(pto.matmul(out[{n} : {n} + 1, ::2], y[:, ::2], b_trans=True) - t)",
    "out[rows, ::2] = small(x[:, ::2] + 1)",
    # short axes, and reductions along several
    "a = small(pto.sum(pto.stack([a, x[{n}]], -1), -1))",
    "a = pto.amax(pto.stack([a, -a, y[{n}]], 1), 1) - 2",
    "a = small(pto.reshape(pto.stack([a, x[{n}]], -1), 2 * x.shape[1])[::2] + a)",
    "a = small(a - pto.sum(pto.reshape(x, *x.shape, 1), (0, 2)))",
    "a = small(a + pto.sum(x * out, (0, 1)))",
    "t = small(t - pto.sum(pto.reshape(out, 1, *x.shape), 2))",
    "a = pto.amax(pto.stack([x, out]), (0, 1)) - a",
    "a = small(pto.sum(pto.permute(pto.stack([x, y, out]), (1, 2, 0)), (0, 2)) - a)",
    "a = small(pto.sum(pto.sum(x, 0, keepdim=True) * out, 0) - pto.sum(out, (0, 1)))",
    # element-wise, and moves
    "a = pto.where((a > 0) & (x[{n}] < 2), -a, a + 1)",
    "a = pto.masked_fill(a, (a > c) | (x[{n}] == 0), k)",
    "a = pto.floor(small(a) / 2) + pto.round(x[{n}] / 2)",
    "a = pto.sqrt(pto.square(small(a))) - pto.abs(x[{n}]) % 3",
    "a = pto.clip(a, -3, c % 9) - small(a) // 4",
    "a = small(a) ** 2 - pto.cast(out[{n}] > a, pto.f32)",
    "out[{n}] = pto.clip(out[{n}], x[{n}], 5)",
    "a = small(a - pto.sum(pto.tril(out), 0))",
    "a = small(pto.sum(pto.unsqueeze(a, 0) * x, 0))",
    "out[:] = pto.pad(out, (1, 1), value=k)[:, 1:-1]",
    "out[:] = pto.pad(out, (0, 2), value=-1)[:, 2:]",
    "a = small(pto.sum(pto.index_select(out, 0, rows), 0) + a)",
    "t = t - pto.topk(pto.concat([out, t[0, {n}] + pto.zeros([x.shape[0], 1])], 1), 1, 1)"
    ".values[{n}]",
    "a = small(a + pto.sum(pto.matmul(x, out, a_trans=True), 0))",
    "t = small(pto.sum(pto.matmul(pto.stack([x, y]), pto.stack([out, x]), b_trans=True), 1)[:1])",
    # whole numbers
    "v = v + pto.cast(pto.argmax(pto.concat([x, out, pto.zeros([x.shape[0], 1])], 1), 1), pto.i32)",
    "v = v - pto.cast(pto.argsort(v, 0), pto.i32)[rows]",
    "v = (v & 255) ^ pto.cast(rows, pto.i32)",
    "v = (v << 3) | (v >> 2)",
    "v = v // 3 - v % 5",
    "v = pto.cast(pto.cast(v, pto.u8) * pto.cast(rows, pto.u8), pto.i32) - v",
    "v = pto.cast(pto.cast(v, pto.i16) - pto.cast(rows, pto.i16), pto.i32)",
    "v = pto.cast(pto.cast(v, pto.i64) * 70000 + {n}, pto.i32)",
    "v = v + pto.cast(pto.sum(pto.one_hot(rows, x.shape[0], dtype=pto.i8), 0), pto.i32)",
    "v = v - pto.cast(pto.any(out > x, 1), pto.i32)",
    "v = v + pto.cast(pto.count_nonzero(out[{n} :], 1), pto.i32)[0]",
    "v = pto.cast(pto.sum(pto.cast(eighths(out), pto.u8), 1), pto.i32) + v",
    "a = pto.cast(pto.cast(small(a), pto.f16) * pto.cast(x[{n}], pto.f16), pto.f32)",
    "a = small(pto.cast(pto.cast(a, pto.f64) * 3 - c, pto.f32))",
)

# Without an index; `x.shape[0]` is known at the call only, `2 > 1` while tracing.
_CONDITIONS = (
    "c > 3",
    "not c % 2 == 0",
    "0 < c < 9",
    "x.shape[0] > 2",
    "pto.sum(a, 0) > 0",
    "c > 1 and x.shape[1] > c",
    "c < 0 or out.shape[0] % 2 == 1",
    "pto.sum(v, 0) > 9",
    "k",
    "2 > 1",
    "pto.sum(pto.abs(out), (0, 1)) > 40",
    "x.shape[0] // 2 > c % 4",
)
# `and` reads no row that Python would not.
_CONDITIONS_OF_ROWS = (
    "lengths[{n}] > 1",
    "rows[{n}] < {n} or c > lengths[{n}]",
    "{n} > 0 and lengths[{n} - 1] > 1",
    "pto.sum(x[{n}] * scale, 0) < 0",
)


def random_program(seed: int) -> str:
    """The text of the function program<seed>."""
    chosen = random.Random(seed)
    lines = [
        f"def program{seed}(x, y, rows, lengths, out, scale: float = -2.0):",
        "    small = lambda v: pto.minimum(pto.maximum(v, -9.0), 9.0)",
        "    eighths = lambda v: pto.cast(small(v), pto.i8)",
        "    a, t = pto.zeros([x.shape[1]]), pto.zeros([1, x.shape[0]])",
        "    v = pto.zeros([x.shape[0]], pto.i32)",
        "    c, k = 0, 0",
        *_block(chosen, 1, []),
        "    return small(a), t, a * 0 + c, v",
    ]
    return "\n".join(lines) + "\n"


def _block(chosen: random.Random, depth: int, indices: list[str]) -> list[str]:
    lines = []
    for _ in range(chosen.randint(1, 4)):
        indent = "    " * depth
        if depth < 4 and chosen.random() < 0.5:
            index = f"i{depth}"
            inner = [*indices, index]
            unroll = ", unroll_list=[3]" if chosen.random() < 0.15 else ""
            bounds = _bounds(chosen, indices) + unroll
            if unroll and chosen.random() < 0.5:
                lines.append(f"{indent}for {index}, k{depth} in pto.loop_unroll({bounds}):")
                lines.append(f"{indent}    c = c + k{depth}")
            else:
                lines.append(f"{indent}for {index} in pto.loop({bounds}):")
            lines += _block(chosen, depth + 1, inner)
            continue
        if chosen.random() < 0.35:
            lines += _steered(chosen, depth, indices)
        elif indices:
            row = chosen.choice([*indices, f"rows[{indices[-1]}]"])
            lines.append(indent + chosen.choice(_STATEMENTS).replace("{n}", row))
    return lines or ["    " * depth + "c = c + 1"]


def _steered(chosen: random.Random, depth: int, indices: list[str]) -> list[str]:
    """An `if` or a `while`, whose blocks assign and write what is read behind them."""
    indent = "    " * depth
    if depth >= 4:
        return [f"{indent}k = k if {_condition(chosen, indices)} else 0"]
    if chosen.random() < 0.3:
        count = f"lengths[{indices[-1]}]" if indices else "x.shape[chosen % 2]"
        count = count.replace("chosen", str(chosen.randint(0, 9)))
        also = f" and ({_condition(chosen, indices)})" if chosen.random() < 0.3 else ""
        return [f"{indent}w{depth} = {count}", f"{indent}while w{depth} > 0{also}:",
                f"{indent}    w{depth} = w{depth} - {chosen.randint(1, 2)}",
                *_block(chosen, depth + 1, indices)]  # fmt: skip
    new = "a + 1", "-a", "small(a) * c"
    lines = []
    for word in ["if", *["elif"] * chosen.randint(0, 1)]:
        lines.append(f"{indent}{word} {_condition(chosen, indices)}:")
        lines += [*_block(chosen, depth + 1, indices), f"{indent}    b = {chosen.choice(new)}"]
    if chosen.random() < 0.5:
        return [f"{indent}b = a * 0", *lines, f"{indent}a = small(b)"]
    other = [f"{indent}else:", *_block(chosen, depth + 1, indices), f"{indent}    b = a"]
    return [*lines, *other, f"{indent}a = small(a + b)"]


def _condition(chosen: random.Random, indices: list[str]) -> str:
    if indices and chosen.random() < 0.5:
        return chosen.choice(_CONDITIONS_OF_ROWS).replace("{n}", chosen.choice(indices))
    return chosen.choice(_CONDITIONS)


def _bounds(chosen: random.Random, indices: list[str]) -> str:
    """Bounds of a loop over numbers of rows, so that each index is one of a row."""
    whole = ["x.shape[0]", "1, x.shape[0]", "x.shape[0] - 1, -1, -1", "0, x.shape[0], 2",
             "x.shape[0] // 2", "x.shape[0] % 3, x.shape[0], 3"]  # fmt: skip
    if indices:
        whole += [f"{indices[-1]}", f"pto.min(lengths[{indices[-1]}], x.shape[0])"]
    return chosen.choice(whole)


def random_arrays(seed: int) -> list[np.ndarray]:
    """Arrays for the parameters; rows are positions of rows, lengths at most the row's size."""
    chosen = np.random.default_rng(seed)
    n, m = (int(chosen.choice([1, 2, 3, 5, 7, 13, 17])) for _ in range(2))
    n, m = (0 if chosen.random() < 0.05 else size for size in (n, m))
    floats = [chosen.integers(-4, 5, (n, m)).astype(F32) for _ in range(3)]
    rows = chosen.integers(0, max(n, 1), n)
    lengths = chosen.integers(0, m + 1, n)
    kinds = [np.int32, np.int64]
    return [*floats[:2], rows.astype(kinds[seed % 2]), lengths.astype(kinds[seed // 2 % 2]),
            floats[2]]  # fmt: skip


def shrunk(text: str, fails: Callable[[str], bool]) -> str:
    """A shorter text for which `fails` still holds: without lines, blocks, or heads of blocks."""
    lines, at = text.splitlines(), 1
    while at < len(lines):
        depth = _depth(lines[at])
        end = next((i for i in range(at + 1, len(lines)) if _depth(lines[i]) <= depth), len(lines))
        inner = [line[4:] for line in lines[at + 1 : end]]
        for shorter in ([*lines[:at], *lines[end:]], [*lines[:at], *inner, *lines[end:]]):
            if len(shorter) < len(lines) and fails("\n".join(shorter) + "\n"):
                lines, at = shorter, 1
                break
        else:
            at += 1
    return "\n".join(lines) + "\n"


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


_HINTS = (
    "with pto.leaf('part{k}'):",
    "with pto.options(merge={n}):",
    "with pto.options(workers={n}, prefetch_bytes={n}00):",
    "with pto.options(tiles_per_task={n}, order='depth'):",
    "with pto.options(order='longest', merge=1):",
    "with pto.options(order='submitted', semantic_label='some'):",
)


def with_hints(text: str, seed: int) -> str:
    """The program with legal hints around and between its statements, at about every second."""
    chosen = random.Random(seed)
    lines, at = text.splitlines(), 6  # behind what defines the variables
    while at < len(lines) - 1:
        depth = _depth(lines[at])
        indent, head = " " * depth, lines[at].split()[0]
        end = next(i for i in range(at + 1, len(lines)) if _depth(lines[i]) <= depth)
        if head not in ("elif", "else:") and chosen.random() < 0.5:
            while lines[end].split()[0] in ("elif", "else:") and _depth(lines[end]) == depth:
                end = next(i for i in range(end + 1, len(lines)) if _depth(lines[i]) <= depth)
            if chosen.random() < 0.3:
                lines.insert(at, f"{indent}pto.cut()")
            else:
                hint = chosen.choice(_HINTS).format(k=at, n=chosen.randint(1, 4))
                inner = ["    " + line for line in lines[at:end]]
                lines[at:end] = [indent + hint, *inner]
            at += 1
        at += 1
    return "\n".join(lines) + "\n"
