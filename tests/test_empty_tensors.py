# SPDX-License-Identifier: Apache-2.0
"""Tensors without elements: every operator gives what PyTorch's counterpart gives.

A row names its tensors by letters, one an axis; each letter stands for a size. Every subset of the
letters becomes 0 in turn: shapes, values and gradients are PyTorch's, or both refuse.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch.nn import functional as F

import pto
from pto import ops

SIZES = {"a": 3, "b": 2, "c": 4, "h": 4, "i": 6, "k": 2, "m": 3, "n": 4, "p": 2, "q": 3, "w": 5}
SIZES |= {"o": 2, "1": 1, "2": 2, "d": 5}
QUICK = 4  # cases of a row in the quick run


@dataclass(frozen=True)
class Row:
    name: str
    shapes: str  # of the tensors: "mk kn"; "-" has no axes, "i:" holds indices
    ours: Callable
    theirs: Callable
    options: dict = field(default_factory=dict)  # of both

    def __str__(self) -> str:
        options = "".join(f",{name}={value}" for name, value in self.options.items())
        return f"{self.name}({self.shapes.replace(' ', ',')}{options})".replace(" ", "")

    def cases(self) -> list[tuple[str, ...]]:
        """Every subset of the letters, but for none."""
        letters = sorted(set(self.shapes) - set(" -:12"))
        counts = range(1, len(letters) + 1)
        return [case for count in counts for case in itertools.combinations(letters, count)]

    def tensors(self, empty: tuple[str, ...]) -> list[torch.Tensor]:
        """Random; each index is 0."""
        generator = torch.Generator().manual_seed(7)
        found = []
        for text in self.shapes.split(" "):
            size = [0 if n in empty else SIZES[n] for n in text.strip("-:")]
            if text.endswith(":"):
                found.append(torch.zeros(size, dtype=torch.int64))
            else:
                found.append(torch.randn(size, dtype=torch.float32, generator=generator))
        return found


def layer_norm(x, weight, bias):
    return F.layer_norm(x, weight.shape, weight, bias)


def gemm(a, b, c=None, alpha=1.0, beta=1.0, transpose_a=False, transpose_b=False):
    product = alpha * matmul(a, b, transpose_a, transpose_b)
    if c is None:
        return product
    if torch.broadcast_shapes(product.shape, c.shape) != product.shape:
        raise ValueError("c does not broadcast to the product")
    return product + beta * c


def matmul(a, b, transpose_a=False, transpose_b=False):
    return (a.mT if transpose_a else a) @ (b.mT if transpose_b else b)


def sliced(x, starts, ends, axes, steps):
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        index[axis] = slice(start, end, step)
    return x[tuple(index)]


def gather(x, indices, dim=0):
    shape = (*x.shape[:dim], *indices.shape, *x.shape[dim + 1 :])
    return x.index_select(dim, indices.flatten()).reshape(shape)


def elementwise_rows():
    for name, theirs in (("add", torch.add), ("mul", torch.mul)):
        for shapes in ("abc abc", "abc c", "abc bc", "a1c bc", "abc -", "- abc", "abc a11"):
            yield name, shapes, theirs, {}
    for shapes in ("abc", "ab", "a"):
        yield "relu", shapes, torch.relu, {}
        yield "silu", shapes, F.silu, {}
        yield "mul_scalar", shapes, lambda x, factor: x * factor, {"factor": 2.5}
        for approximate in ("none", "tanh"):
            yield "gelu", shapes, F.gelu, {"approximate": approximate}
    for shapes in ("abc abc", "abc c", "a1c abc"):
        yield "silu_mul", shapes, lambda x, y: F.silu(x) * y, {}
        yield (
            "fused_add_relu",
            shapes,
            lambda x, y, alpha: torch.relu(x + alpha * y),
            {"alpha": 2.0},
        )
    for approximate in ("none", "tanh"):
        chosen = {"approximate": approximate}
        yield (
            "bias_gelu",
            "abc c",
            lambda x, b, approximate: F.gelu(x + b, approximate=approximate),
            chosen,
        )


def row_kernels():
    for shape in ("abc", "ab", "a"):
        for dim in range(len(shape)):
            yield "softmax", shape, torch.softmax, {"dim": dim}
    for x in ("abc", "ac", "c"):
        yield "layer_norm", f"{x} c c", layer_norm, {}
        yield "rms_norm", f"{x} c", lambda x, w: F.rms_norm(x, w.shape, w, 1e-6), {}
        yield "add_layer_norm", f"{x} {x} c c", lambda x, r, w, b: layer_norm(x + r, w, b), {}
        yield (
            "bias_add_layer_norm", f"{x} c {x} c c",
            lambda x, bias, r, w, b: layer_norm(x + bias + r, w, b), {},
        )  # fmt: skip


def products():
    for a, b in itertools.product(("k", "mk", "amk", "1mk", "bamk"), ("k", "kn", "akn", "1kn")):
        yield "matmul", f"{a} {b}", matmul, {}
    for a, b in (("mk", "nk"), ("amk", "nk"), ("amk", "ank")):
        yield "matmul", f"{a} {b}", matmul, {"transpose_b": True}
        yield "matmul", f"{a[:-2]}km {b[:-2]}kn", matmul, {"transpose_a": True}
    for c in (" mn", " 1n", " m1", " 11", " n", " 1", " -", ""):
        yield "gemm", f"mk kn{c}", gemm, {"alpha": 0.5, "beta": -2.0}
        yield "gemm", f"km nk{c}", gemm, {"transpose_a": True, "transpose_b": True}


def conv2d(x, weight, bias=None, **options):
    # PyTorch's own libraries fail without a word of theirs, or crash, where a filter is empty.
    if x.shape[1] and not weight.shape[2:].numel():
        raise ValueError("a filter without pixels")
    return F.conv2d(x, weight, bias, **options)


def convolutions():
    for bias, padding in itertools.product(("", " o"), (0, 1)):
        options = {"padding": padding}
        yield "conv2d", f"nchw ockq{bias}", conv2d, options
        yield "conv2d", f"nchw ock1{bias}", conv2d, {**options, "stride": 2}
        yield "conv2d", f"nchw oc22{bias}", conv2d, {**options, "dilation": 2}


def movements():
    for dim in range(3):
        yield "gather", "abc i:", gather, {"dim": dim}
        yield "gather", "abc im:", gather, {"dim": dim}
        yield "split", "abc", lambda x, sizes, dim: x.split(sizes, dim), {"sizes": [1, 1], "dim": 1}
        yield "concat", ["abc abc", "abc 1bc", "abc a2c"][dim], torch.cat, {"dim": [0, 0, 1][dim]}
        for k in (0, 2):
            yield "top_k", "abc", torch.topk, {"k": k, "dim": dim}
    for shape in ("abc", "ab", "a"):
        perm = [*range(1, len(shape)), 0]
        yield "transpose", shape, torch.permute, {"perm": perm}
        yield "nonzero", shape, torch.nonzero, {}
        for start, end, step in ((0, 1, 1), (1, 9, 2), (-1, 9, 1), (2, 0, 1)):
            options = {"starts": [start], "ends": [end], "axes": [0], "steps": [step]}
            yield "slice", shape, sliced, options
    yield "embedding", "ic k:", lambda w, i: F.embedding(i, w), {}
    yield "embedding", "ic kb:", lambda w, i: F.embedding(i, w), {}


TAKES_LIST = ("concat",)
RENAMED = {"perm": "dims"}  # of torch.permute


def rows() -> list[Row]:
    found = []
    for rule in (elementwise_rows, row_kernels, products, convolutions, movements):
        for name, shapes, theirs, options in rule():
            found.append(Row(name, shapes, getattr(ops, name), theirs, options))
    return found


ROWS = rows()


def outcome(function: Callable, row: Row, tensors: list, options: dict):
    """Results and gradients of one side, or None where it refuses."""
    inputs = [t.clone().requires_grad_(t.is_floating_point()) for t in tensors]
    try:
        results = (
            function(inputs, **options) if row.name in TAKES_LIST else function(*inputs, **options)
        )
    except (RuntimeError, IndexError, ValueError, pto.Error):
        return None
    results = list(results) if isinstance(results, tuple | list) else [results]
    given = [r for r in results if r.requires_grad]
    wanted = [t for t in inputs if t.requires_grad]
    generator = torch.Generator().manual_seed(1)
    upstream = [torch.randn(r.shape, generator=generator) for r in given]
    gradients = torch.autograd.grad(given, wanted, upstream) if given else []
    return [r.detach() for r in results], list(gradients)


def difference(row: Row, empty: tuple[str, ...]) -> str:
    tensors = row.tensors(empty)
    theirs = {RENAMED.get(name, name): value for name, value in row.options.items()}
    want = outcome(row.theirs, row, tensors, theirs)
    got = outcome(row.ours, row, tensors, row.options)
    where = f"{row} without {','.join(empty)}: "
    if want is None or got is None:
        return "" if want is got else where + ("refused" if got is None else "not refused")
    for kind, a, b in (("result", got[0], want[0]), ("gradient", got[1], want[1])):
        if [t.shape for t in a] != [t.shape for t in b]:
            return f"{where}{kind}s {[list(t.shape) for t in a]}, not {[list(t.shape) for t in b]}"
        for x, y in zip(a, b, strict=True):
            if not torch.allclose(x, y, rtol=1e-5, atol=1e-5, equal_nan=True):
                return f"{where}{kind} {x}, not {y}"
    return ""


def test_empty_tensors_give_what_they_give_in_pytorch(deep):
    wrong = []
    for number, row in enumerate(ROWS):
        cases = row.cases()
        step = 1 if deep else max(1, len(cases) // QUICK)
        wrong += filter(None, (difference(row, empty) for empty in cases[number % step :: step]))
    assert not wrong, f"{len(wrong)} cases\n" + "\n".join(wrong[:40])
