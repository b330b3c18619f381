# SPDX-License-Identifier: Apache-2.0
"""Operators inside MindSpore: every route gives NumPy's bits; gradients, dynamic shapes, errors."""

import numpy as np
import pytest

ms = pytest.importorskip("mindspore")
import pto.mindspore  # noqa: E402

import pto  # noqa: E402
from pto import ops  # noqa: E402
from pto.adapters.mindspore import eager  # noqa: E402

OPERATORS = {name: getattr(ops, name) for name in ops.__all__}
VECTORS = {"weight", "bias", "ln_bias"}  # arguments of one size, that of the last axis
TEXTS = {"approximate": "tanh"}  # values of str attributes
every_operator = pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)


def function(name):
    return getattr(pto.mindspore, name)


def through_custom(name):
    """The operator as it is called where eager.cpp was not built."""
    target = eager.Eager(pto.mindspore._indices[name])
    target._target = target.primitive

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


def samples(operator, shape=(5, 13), dtype=np.float32):
    random = np.random.default_rng(len(shape))
    return [
        random.standard_normal(shape[-1:] if name in VECTORS else shape).astype(dtype)
        for name in operator.tensor_names
    ]


def attributes(operator):
    return {a.name: TEXTS[a.name] for a in operator.attribute_arguments if a.name in TEXTS}


def same(got, want):
    """Whether a tensor, or a nest of them, has the bits of these arrays."""
    if isinstance(want, list | tuple):
        return len(got) == len(want) and all(map(same, got, want))
    got = got.asnumpy()
    return (got.shape, got.dtype) == (want.shape, want.dtype) and got.tobytes() == want.tobytes()


@every_route
@every_operator
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_every_operator_has_the_bits_of_numpy(operator, route, dtype):
    keywords = attributes(operator)
    called = route(operator.name)
    for shape in [(5, 13), (1,), (2, 3, 4)]:
        arrays = samples(operator, shape, dtype)
        got = called(*map(ms.Tensor, arrays), **keywords)
        assert same(got, operator(*arrays, **keywords)), shape
