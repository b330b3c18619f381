# SPDX-License-Identifier: Apache-2.0
"""Compiled functions and their comparison, for the tests of torch.compile(backend="pto")."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import pto.torch  # noqa: F401 torch.ops.pto
from pto.adapters.torch.compile.capture import decompositions
from pto.adapters.torch.compile.compiled import CompiledGraph
from pto.adapters.torch.compile.options import Options


class ModuleOf(torch.nn.Module):
    """A model that calls a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def leaves(value):
    """The tensors and numbers of a result, in order."""
    if isinstance(value, dict):
        return [leaf for one in value.values() for leaf in leaves(one)]
    if isinstance(value, list | tuple):
        return [leaf for one in value for leaf in leaves(one)]
    return [value]


def captured(function, *args, symbolic=False):
    """The graph of a function without mutations, as AOTAutograd would hand it over."""
    mode = "symbolic" if symbolic else "fake"
    with torch.no_grad():
        return make_fx(
            torch.func.functionalize(function), decompositions(), tracing_mode=mode,
            _error_on_data_dependent_ops=False,
        )(*args)  # fmt: skip


def below_dynamo(function, *args, symbolic=False):
    """The compiled form of that graph."""
    return CompiledGraph(
        "inference", Options(), captured(function, *args, symbolic=symbolic), set()
    )


def run(graph, *args):
    with torch.no_grad():
        return graph.run([x for x in args if isinstance(x, torch.Tensor)])


def assert_same(found, wanted, rtol=1e-5, atol=1e-5, strides=True):
    """Equal types, shapes, strides and values, NaN included."""
    found, wanted = leaves(found), leaves(wanted)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        if not isinstance(b, torch.Tensor):
            assert a == b
            continue
        assert a.dtype == b.dtype and a.shape == b.shape
        assert not strides or a.numel() == 0 or a.stride() == b.stride(), (a.stride(), b.stride())
        if b.dtype in (torch.float16, torch.bfloat16):
            a, b, wide = a.float(), b.float(), 1e-2 if b.dtype == torch.float16 else 4e-2
            torch.testing.assert_close(a, b, rtol=wide, atol=wide, equal_nan=True)
        else:
            torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True)


def by_turns(cases, case, form, deep):
    """Leaves out, in the quick run, one of the two forms of each case, False or True, by turns."""
    if not deep and form != bool(list(cases).index(case) % 2):
        pytest.skip("in ./dev test --deep")


def kinds(graph):
    return [step.kind for step in graph.steps]


__all__ = ["assert_same", "below_dynamo", "by_turns", "captured", "kinds", "leaves", "run"]
