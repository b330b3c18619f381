# SPDX-License-Identifier: Apache-2.0
"""Cells of a notebook that run twice: a class under @op replaces the operator that it defined."""

import io
import sys
import types

import children
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


CHANGED = """
import numpy as np, pto, sys
from pto import op

X = np.linspace(-2, 2, 12).reshape(3, 4)

def cell(schema, factor, **members):
    class Cell:
        inplace = True
        def build(x, more=1.0, most=0):
            return x * factor * more
    for key, value in members.items():
        setattr(Cell, key, value)
    return op("cell_changed" + schema)(Cell)

first = cell("(Tensor x) -> Tensor", 2.0)
graph = pto.jit(lambda x: first(x) + 1).trace(X)
more = cell("(Tensor x, *, float more=1.0) -> Tensor", 3.0)
again = cell("(Tensor x, *, float more=1.0) -> Tensor", 5.0, grad="automatic")
last = cell("(Tensor x, *, float more=1.0, int most=0) -> Tensor", 7.0, grad="automatic")
for one, factor in ((first, 2), (more, 3), (again, 5), (last, 7)):
    assert np.array_equal(one(X), factor * X), factor
    assert one is more or np.array_equal(one.in_place(X.copy()), factor * X)
    assert one is first or np.array_equal(one(X, more=2.0), 2 * factor * X)
assert np.array_equal(pto.interpret(graph, X), 2 * X + 1)

for framework in sys.argv[1:]:
    if framework == "torch":
        import torch, pto.torch
        x = torch.ones(3, dtype=torch.float64, requires_grad=True)
        y = torch.ops.pto.cell_changed(x, more=2.0, most=1)
        [d] = torch.autograd.grad(y.sum(), x)
        assert y.tolist() == d.tolist() == [14.0] * 3
        assert not [name for name in dir(torch.ops.pto) if "replaced" in name]
    try:
        cell("(Tensor x) -> Tensor", 9.0)
    except ValueError as error:
        print(error)
    assert np.array_equal(cell("(Tensor x, *, float more=1.0, int most=0) -> Tensor", 8.0,
                               grad="automatic")(X), 8 * X)
"""


@pytest.mark.parametrize("frameworks", [[], ["torch"]])
def test_a_cell_may_change_its_interface_until_a_framework_is_loaded(frameworks):
    if frameworks:
        pytest.importorskip("torch")
    run = children.run("-c", CHANGED, *frameworks)
    assert run.returncode == 0, run.stderr
    told = "@op: cell_changed is defined again with another schema: it was cell_changed(Tensor x, *"
    assert run.stdout.startswith(told if frameworks else "")
    assert ("why: PyTorch was told of the first one" in run.stdout) == bool(frameworks)


def test_a_session_that_is_made_later_has_the_new_one():
    pytest.importorskip("onnxruntime")
    helper = pytest.importorskip("onnx").helper
    from onnx_cases import assigned, model_of, session

    node = helper.make_node("cell_session", ["x"], ["y"], domain="ai.pto")
    ends = [[(name, 1, ["n"])] for name in "xy"]
    for factor in (2.0, 3.0):
        cell("session", factor)
        made = session(model_of([node], *ends, domains=["ai.pto"]))
        assert assigned(made) == [["cell_session"]]
        assert made.run(None, {"x": np.ones(2, np.float32)})[0].tolist() == [factor] * 2


LATER = """
from pto import op

def cell(factor, **members):
    class Cell:
        def build(x):
            return x * factor
    for key, value in members.items():
        setattr(Cell, key, value)
    op("cell_later(Tensor x) -> Tensor")(Cell)

cell(2.0)
cell(3.0, grad="automatic")  # another interface: a new operator of the same name
import torch, pto.torch
for factor in (3.0, 5.0):
    cell(factor, grad="automatic")
    compiled = torch.compile(lambda x: torch.ops.pto.cell_later(x) + factor, backend="pto")
    assert compiled(torch.ones(3)).tolist() == [2 * factor] * 3, factor
"""


def test_a_function_that_is_compiled_later_has_the_last_of_a_name():
    pytest.importorskip("torch")
    run = children.run("-c", LATER)
    assert run.returncode == 0, run.stderr


def test_another_interface_is_refused_by_frameworks_and_another_class_by_all():
    pytest.importorskip("torch")
    import pto.torch  # noqa: F401

    cell("refused", 2.0)
    text = "cell_refused is defined again with another "
    for schema, members, fact in (
        ("cell_{}(Tensor x) -> Tensor", {"build": lambda x: x, "oracle": None},
         "schema: it was .*scale.* and is cell_refused.Tensor x. -> "),
        (SCHEMA, {"grad": None}, "gradient: it was cell_refused_backward.*, and is none"),
        (SCHEMA, {"types": "T -> T where T: f32"}, "rule of types: it was none, and is T -> T"),
        (SCHEMA, {"autocast": "low"}, "autocast: it was none, and is low"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"{text}{fact}.*\n  why: .*PyTorch.* was told of"):
            cell("refused", 2.0, schema, **members)

    class Other:
        def build(x, scale):
            return x

    with pytest.raises(ValueError, match="cell_refused: is defined already by .*cell.<locals>.Cell "
                       "of test_redefinition, as cell_refused.* and again by .*Other of test_red"
                       ) as raised:  # fmt: skip
        op(SCHEMA.format("refused"))(Other)
    assert str(raised.value).count("scale=1.0") == 1  # one schema, told once


def test_a_cell_may_rename_its_class(monkeypatch):
    notebook = types.ModuleType("notebook_of_cells")  # a module without a file
    monkeypatch.setitem(sys.modules, notebook.__name__, notebook)
    text = """
@op("cell_renamed(Tensor x) -> Tensor")
class {}:
    inplace = True
    def build(x):
        return x * {}
"""
    for name, factor in (("First", 2), ("Second", 3), ("First", 4)):
        exec(text.format(name, factor), {"op": op, "__name__": notebook.__name__}, vars(notebook))
        assert np.array_equal(vars(notebook)[name](X), factor * X)
        assert np.array_equal(vars(notebook)[name].in_place(X.copy()), factor * X)
    assert np.array_equal(notebook.Second(X), 4 * X)
    notebook.__file__ = __file__
    with pytest.raises(ValueError, match="is defined already by the class First of notebook"):
        exec(text.format("Third", 5), {"op": op, "__name__": notebook.__name__})


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
