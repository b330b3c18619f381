# SPDX-License-Identifier: Apache-2.0
"""Operators of every kind for the tests of MindSpore, and the ways to call them."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

ms = pytest.importorskip("mindspore")
import kinds_of_operators  # noqa: E402, F401
from shaped_operators import OPERATORS as PLAIN  # noqa: E402
from shaped_operators import shapes  # noqa: E402

import pto  # noqa: E402
import pto.mindspore  # noqa: E402
from pto import ops  # noqa: E402
from pto.adapters.mindspore import eager, primitive  # noqa: E402, F401
from pto.adapters.record import Record  # noqa: E402
from pto.language.op import op  # noqa: E402
from pto.language.samples import samples  # noqa: E402, F401

OPERATORS = {
    name: getattr(ops, name)
    for name in ops.__all__
    if not Record(getattr(ops, name).index).is_bounded  # refused: test_bounded_sizes.py
}
# Values of str attributes.
TEXTS = {"activation": "gelu", "approximate": "tanh", "layout": "HLD"}
every_operator = pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
plain_operators = pytest.mark.parametrize("operator", PLAIN.values(), ids=PLAIN)


def elsewhere(*arguments):
    """Runs Python in another process that finds this pto."""
    root = str(pathlib.Path(pto.__file__).parents[1])
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=200,
        env={**os.environ, "PYTHONPATH": root},
    )  # fmt: skip


def function(name):
    return getattr(pto.mindspore, name)


def through_custom(name):
    """The operator as it is called where eager.cpp was not built."""
    target = eager.Eager(pto.mindspore.index_of(name), in_cpp=False)

    def call(*tensors, **attributes):
        bound = target.record.bind(tensors, attributes)
        pairs = list(zip(target.record.arguments, bound, strict=True))
        return target(
            tuple(v for a, v in pairs if a.is_tensor), tuple(v for a, v in pairs if not a.is_tensor)
        )

    return call


def in_a_graph(name):
    called = function(name)

    def call(*args, **kwargs):
        return called(*args, **kwargs)

    return ms.jit(call)


ROUTES = {"eager": function, "eager through Custom": through_custom, "graph": in_a_graph}
every_route = pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)


def arrays_for(operator, shape=(5, 13), dtype=np.float32):
    """Random arguments of an operator of one shape."""
    random = np.random.default_rng(len(shape))
    return [random.standard_normal(size).astype(dtype) for size in shapes(operator, shape)]


def attributes(operator):
    return {a.name: TEXTS[a.name] for a in operator.attributes if a.name in TEXTS}


def same(got, want):
    """Says whether a tensor, or a nest of them, has the bits of these arrays."""
    if isinstance(want, list | tuple):
        return len(got) == len(want) and all(map(same, got, want))
    got = got.asnumpy()
    return (got.shape, got.dtype) == (want.shape, want.dtype) and got.tobytes() == want.tobytes()


@op("ms_total(Tensor x) -> Tensor")
class Total:
    """The sum of all elements: a result of rank 0."""

    def build(x):
        return pto.sum(x)

    def grad(ctx, d_result):
        return {"x": pto.broadcast_to(d_result, ctx.saved("x").shape)}


@op("ms_both(Tensor x, Tensor? y=None, *, bool swap=False) -> Tensor[]")
class Both:
    def build(x, y, swap):
        pair = [x + 1, x * 2 if y is None else y * 2]
        return pair[::-1] if swap else pair

    def grad(ctx, d_results):
        a, b = d_results[::-1] if ctx.attribute("swap") else d_results
        return {"x": a, "y": b * 2}


@op("ms_named(Tensor x, int[2] by=1, str? how=None, *, Scalar shift=0) -> Tensor")
class Named:
    def build(x, by, how, shift):
        y = x * (by[0] / by[1])
        return (y if how is None else -y) + shift


@op("ms_raised(Tensor x, float? by=None) -> Tensor")
class Raised:
    def build(x, by):
        return x if by is None else x * by


@op("ms_changed(Tensor x, *, float a=2.0, int n=1) -> Tensor")
class Changed:
    def build(x, a, n):
        return x


@op("ms_cubed(Tensor[] xs) -> Tensor")
class Cubed:
    """The product of each tensor's square and the first one, all added."""

    def build(xs):
        total = xs[0] * xs[0] * xs[0]
        for x in xs[1:]:
            total = total + x * x * xs[0]
        return total

    grad = "automatic"


X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5.5
Y = np.array([-1, -0.5, 0.25, 1], np.float32)


def deep_map(convert, value):
    if isinstance(value, list | tuple):
        return type(value)(deep_map(convert, v) for v in value)
    return convert(value) if isinstance(value, np.ndarray | np.generic) else value
