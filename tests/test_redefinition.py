# SPDX-License-Identifier: Apache-2.0
"""Cells of a notebook that run twice: a class under @op replaces the operator that it defined."""

import io

import numpy as np
import pytest

import pto
from pto import op
from pto.language import progress

X = np.linspace(-2, 2, 12).reshape(3, 4)
SCHEMA = "cell_{}(Tensor x, *, float scale=1.0) -> Tensor"


def cell(name, factor, schema=SCHEMA, **members):
    """Runs the cell that defines the operator, with this factor in its text."""

    class Cell:
        def build(x, scale):
            return x * factor * scale

        def oracle(x, scale=1.0):
            return x * factor * scale

        grad = "automatic"

    for key, value in members.items():
        setattr(Cell, key, value)
    return op(schema.format(name))(Cell)


def test_a_cell_that_runs_again_replaces_its_operator():
    first = cell("numpy", 2.0)
    assert np.array_equal(first(X), 2 * X)
    for factor in (3.0, 4.0, 5.0, 6.0, 7.0):  # a call site keeps four of them
        again = cell("numpy", factor)
        assert again.index == first.index
        assert np.array_equal(again(X), factor * X) and np.array_equal(first(X), factor * X)
        assert np.array_equal(again(X[:, :2]), factor * X[:, :2])


def test_a_graph_and_a_compiled_function_keep_what_they_had():
    first = cell("graph", 2.0)
    graph = pto.jit(lambda x: first(x)).trace(X)
    doubled = pto.jit(lambda x: first(x) + 1)
    assert np.array_equal(doubled(X), 2 * X + 1)
    cell("graph", 3.0)
    assert np.array_equal(pto.interpret(graph, X), 2 * X)
    assert np.array_equal(doubled(X), 2 * X + 1)  # it captures the first object


def test_pytorch_calls_the_new_one_and_its_gradient():
    torch = pytest.importorskip("torch")
    import pto.torch  # noqa: F401

    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    for factor in (2.0, 5.0):
        cell("torch", factor)
        y = torch.ops.pto.cell_torch(x, scale=3.0)
        assert y.tolist() == [3 * factor] * 3
        [d] = torch.autograd.grad(y.sum(), x)
        assert d.tolist() == [3 * factor] * 3


def test_shapes_are_those_of_the_new_one():
    torch = pytest.importorskip("torch")
    import pto.torch  # noqa: F401

    x = torch.ones(2, 3)
    for axis in (0, 1):
        cell("shape", 1.0, "cell_{}(Tensor x) -> Tensor", grad=None, oracle=None,
             build=lambda x, axis=axis: pto.sum(x, axis))  # fmt: skip
        assert torch.ops.pto.cell_shape(x).shape == (3 - axis,)
        with torch.device("meta"):
            found = torch.ops.pto.cell_shape(torch.ones(2, 3))
        assert found.shape == (3 - axis,)


def test_another_interface_and_another_class_are_refused():
    cell("refused", 2.0)
    text = "cell_refused is defined again with another interface: .*\n  why: it was .*scale"
    for schema, members in (("cell_{}(Tensor x) -> Tensor", {"build": lambda x: x, "oracle": None}),
                            (SCHEMA, {"grad": None})):  # fmt: skip
        with pytest.raises(ValueError, match=text):
            cell("refused", 2.0, schema, **members)

    class Other:
        def build(x, scale):
            return x

    with pytest.raises(ValueError, match="cell_refused: is defined already"):
        op(SCHEMA.format("refused"))(Other)


# --- progress ------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_where_somebody_looks(monkeypatch):
    for stream, shows in ((Terminal(), True), (io.StringIO(), False), (None, False)):
        monkeypatch.setattr(progress.sys, "stderr", stream)
        progress.tell(1.5)
        progress.tell(-1)
        if stream:
            assert ("\rpto: compiling ... 1.5 s" in stream.getvalue()) == shows
            assert stream.getvalue().endswith(" \r") == shows
    closed = Terminal()
    closed.close()
    monkeypatch.setattr(progress.sys, "stderr", closed)
    progress.tell(1.5)
