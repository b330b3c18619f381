# SPDX-License-Identifier: Apache-2.0
"""Operators inside MindSpore: every way to call one gives NumPy's bits, or an error that helps."""

import contextlib
import pickle
import threading

import numpy as np
import pytest
from mindspore_cases import (
    X,
    Y,
    arrays_for,
    attributes,
    deep_map,
    eager,
    elsewhere,
    every_operator,
    every_route,
    function,
    in_a_graph,
    ms,
    ops,
    plain_operators,
    pto,
    same,
    samples,
)

from pto.language.dtypes import numpy_type


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """MindSpore writes files of failed graphs into the current folder."""
    monkeypatch.chdir(tmp_path)


def forget_errors():
    """MindSpore may say an error again, in the next calls."""
    for _ in range(20):
        with contextlib.suppress(Exception):
            pto.mindspore.silu(ms.Tensor(X)).asnumpy()
            return


@every_route
@every_operator
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
def test_every_operator_has_the_bits_of_numpy(operator, route, dtype):
    """Or an error where the operator has not this type, as attention has no f64."""
    called = route(operator.name)
    has_type = dtype in operator.types[operator.arguments[0].type]
    for arguments, keywords in samples(operator, dtype):
        given = deep_map(ms.Tensor, arguments)
        if not has_type and arguments[0].dtype == numpy_type(dtype):
            with pytest.raises(
                Exception, match=f"{operator.name}: .* is {dtype}\n  why: .* may be"
            ):
                got = called(*given, **keywords)
                for result in got if isinstance(got, tuple) else (got,):
                    result.asnumpy()
            forget_errors()
            return
        assert same(called(*given, **keywords), operator(*arguments, **keywords))


@every_route
@plain_operators
def test_ranks_may_change(operator, route):
    called = route(operator.name)
    for shape in [(5, 13), (1,), (2, 3, 4)]:
        arrays = arrays_for(operator, shape)
        assert same(called(*map(ms.Tensor, arrays)), operator(*arrays)), shape


@every_route
@plain_operators
def test_bf16_is_that_of_f32_rounded_once(operator, route):
    tensors = [ms.Tensor(a).astype(ms.bfloat16) for a in arrays_for(operator)]
    keywords = attributes(operator)
    wide = operator(*(t.astype(ms.float32).asnumpy() for t in tensors), **keywords)
    got = route(operator.name)(*tensors, **keywords)
    assert got.dtype == ms.bfloat16
    assert same(
        got.astype(ms.float32), ms.Tensor(wide).astype(ms.bfloat16).astype(ms.float32).asnumpy()
    )


@every_route
@pytest.mark.parametrize("shape", [(), (0, 3), (3, 0), (1, 1, 1, 1)])
def test_scalars_and_empty_tensors_keep_their_shape(route, shape):
    x = np.full(shape, -0.75, np.float32)
    assert same(route("silu")(ms.Tensor(x)), ops.silu(x))
    assert same(route("add")(ms.Tensor(x), ms.Tensor(x)), ops.add(x, x))


@every_route
def test_nan_infinities_and_minus_zero_pass_through(route):
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40], np.float32)
    assert same(route("add")(ms.Tensor(x), ms.Tensor(x)), ops.add(x, x))


@every_route
def test_views_are_read_as_they_look(route):
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    base = ms.Tensor(x)
    for view, array in [(base.T, x.T), (base[1:, ::2], x[1:, ::2]), (base[2], x[2])]:
        assert same(route("add")(view, view), ops.add(array, array))


CALLS = {  # name, arguments, attributes, what NumPy makes of them
    "an optional tensor that is given": (
        *("kinds_scaled", (X, Y), {"alpha": 0.5, "negate": True}),
        lambda x, y: (-x * np.float32(0.5) + y, (-x * np.float32(0.5) + y).sum(-1)),
    ),
    "one that is not": ("kinds_scaled", (X,), {}, lambda x: (2 * x, (2 * x).sum(-1))),
    "one that is None": ("kinds_scaled", (X, None), {"alpha": 1.0}, lambda x, _: (x, x.sum(-1))),
    "minus zero": (
        *("kinds_scaled", (X,), {"alpha": -0.0}),
        lambda x: (x * np.float32(-0.0), (x * np.float32(-0.0)).sum(-1)),
    ),
    "zero": (
        *("kinds_scaled", (X,), {"alpha": 0.0}),
        lambda x: (x * np.float32(0.0), (x * np.float32(0.0)).sum(-1)),
    ),
    "an integer for a float": (
        *("kinds_scaled", (X,), {"alpha": 3}),
        lambda x: (3 * x, (3 * x).sum(-1)),
    ),
    "a result of rank 0": ("ms_total", (X,), {}, lambda x: x.sum()),
    "of rank 0 from rank 0": ("ms_total", (X[0, 0],), {}, lambda x: x),
    "a list": (
        *("kinds_weighted_sum", ([X, Y, X], [1, 2, 3], 0.5), {}),
        lambda xs, *_: xs[0] + xs[1] * 2 + xs[2] * 3 + np.float32(0.5),
    ),
    "a list of one": ("kinds_weighted_sum", ([X], [4]), {}, lambda xs, _: xs[0] * 4),
    "a list that comes back": ("ms_both", (X, Y), {"swap": True}, lambda x, y: (y * 2, x + 1)),
    "a size of the call": ("kinds_repeat_row", (Y, 3), {}, lambda y, n: np.stack([y] * n)),
    "no rows": ("kinds_repeat_row", (Y, 0), {}, lambda y, n: np.zeros((0, 4), np.float32)),
    "one number for two": ("ms_named", (X, 3), {}, lambda x, _: x),
    "a text and a list": (
        "ms_named", (X, [1, 4], "a:b;\u00e9"), {"shift": 2}, lambda x, *_: 2 - x / 4,
    ),
    "a mutable argument": ("kinds_scale_", (X, Y), {}, lambda x, y: x * 2 + y),
    "other element types": (
        "kinds_select", (X.astype(np.int32), X > 0), {}, lambda x, m: (np.where(m, x, 0), ~m),
    ),
    "a hand-written kernel": (
        *("kinds_split_rows", (X.astype(np.uint8), [1, 0, 2]), {}),
        lambda x, _: (x[:1], x[1:1], x[1:]),
    ),
}  # fmt: skip


@every_route
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_arguments_of_every_kind_give_the_bits_of_numpy(route, call):
    name, arrays, keywords, formula = call
    arguments = deep_map(ms.Tensor, arrays)
    want = deep_map(np.asarray, formula(*arrays))
    for _ in range(2):
        assert same(route(name)(*arguments, **keywords), want)


def test_shapes_are_inferred_in_python_outside_of_graphs_only():
    operator = eager.Eager(pto.mindspore.index_of("silu"), in_cpp=False)
    assert "cpp_infer_shape" not in operator.target((1,), ()).get_attr_dict()
    assert "cpp_infer_shape" in operator.primitive((1,), ()).get_attr_dict()


INTEGERS, HALF = X.astype(np.int32), X.astype(np.float16)
BAD = {  # name, arguments, attributes, the error
    "shapes that do not fit": ("add", (X, X[:, :3]), {}, "add: .*sizes 4 and 3 differ"),
    "a type without kernels": ("silu", (X.astype(np.complex64),), {}, "silu: .*[Cc]omplex64"),
    "one that is not taken": ("silu", (INTEGERS,), {}, "silu: .*i32"),
    "two types": ("add", (X, HALF), {}, "add: .*f(16|32)"),
    "a negative size": ("kinds_repeat_row", (Y, -1), {}, "kinds_repeat_row: rows is -1"),
    "a wrong sum": (
        "kinds_split_rows",
        (X, [1, 1]),
        {},
        "kinds_split_rows: sizes 2 and 3 differ in spl",
    ),
    "a text for a number": ("rms_norm", (X, Y), {"eps": "a"}, "rms_norm: eps is 'a', of type str"),
    "no list": (
        "kinds_weighted_sum",
        ([X], 3.5),
        {},
        "kinds_weighted_sum: weights is 3.5, of type float",
    ),
    "an array for a number": (
        "rms_norm", (X, Y), {"eps": np.ones(2)}, "rms_norm: eps is array.*, of type ndarray",
    ),
    "a number in a list": (
        "kinds_weighted_sum", ([X, 1.5], [1, 1]), {},
        "kinds_weighted_sum: a tensor argument is of type float",
    ),
}  # fmt: skip


@every_route
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_bad_arguments_are_errors_with_what_why_and_fix(bad, route):
    name, arrays, keywords, text = bad
    arguments = deep_map(ms.Tensor, arrays)
    errors = (RuntimeError, TypeError, ValueError)
    with pytest.raises(errors, match=text + r".*\n  why: .*\n  fix: "):
        same(route(name)(*arguments, **keywords), X)
    forget_errors()
    assert same(pto.mindspore.silu(ms.Tensor(X)), ops.silu(X))  # and the next call is right


both_modes = pytest.mark.parametrize("route", [function, in_a_graph])


@both_modes
@pytest.mark.parametrize("value", [X, 1.5, True, None, "x", [X], {"a": 1}])
def test_what_is_no_tensor_is_refused(value, route):
    with pytest.raises(TypeError, match=r"add: a tensor argument is .*\n  why: .*\n  fix: "):
        route("add")(ms.Tensor(X), value)


@both_modes
def test_one_tensor_for_a_list_of_them_is_refused(route):
    """A graph would take its rows."""
    with pytest.raises(TypeError, match="kinds_weighted_sum: a list of tensors is of type Tensor"):
        route("kinds_weighted_sum")(ms.Tensor(X), [1, 1, 1])


@pytest.mark.parametrize("name, key", [("kinds_scaled", "alpha"), ("ms_raised", "by")])
@pytest.mark.parametrize("unknown", [lambda: ms.mutable(2.0), lambda: ms.Tensor(2.0)])
def test_an_attribute_that_a_graph_does_not_know_is_refused(name, key, unknown):
    """An optional one too, which is not None."""
    called = function(name)

    @ms.jit
    def scaled(x, value):
        return called(x, **{key: value})

    with pytest.raises(TypeError, match=f"{name}: {key} is not known while the graph is compiled"):
        scaled(ms.Tensor(X), unknown())
    got = scaled(ms.Tensor(X), 2.0)
    assert same(got[0] if isinstance(got, tuple) else got, X * 2)


def test_a_function_is_pickled_by_its_name():
    assert pickle.loads(pickle.dumps(pto.mindspore.silu)) is pto.mindspore.silu


def test_an_attribute_may_be_a_tensor_of_one_element_outside_graphs():
    alpha = ms.Tensor(0.5)
    for factor in (0.5, 4.0):
        alpha.assign_value(ms.Tensor(factor))
        got = pto.mindspore.kinds_scaled(ms.Tensor(X), alpha=alpha)[0]
        assert same(got, X * np.float32(factor))


def test_a_number_of_the_call_needs_no_new_kernel():
    x = ms.Tensor(X)
    pto.mindspore.kinds_scaled(x, alpha=1.0)[0].asnumpy()
    before = pto._core.kernel_count()
    for alpha in np.linspace(-3, 3, 7):
        got = pto.mindspore.kinds_scaled(x, alpha=float(alpha))[0]
        assert same(got, X * np.float32(alpha))
    assert pto._core.kernel_count() == before


def test_many_threads_may_call_first():
    x = np.random.default_rng(0).standard_normal((50, 77)).astype(np.float32)
    results, barrier = [], threading.Barrier(4)

    def call():
        barrier.wait()
        results.append(pto.mindspore.rms_norm(ms.Tensor(x), ms.Tensor(x[0]), 0.5).asnumpy())

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    want = ops.rms_norm(x, x[0], 0.5)
    assert len(results) == 4 and all(r.tobytes() == want.tobytes() for r in results)


def test_calls_are_ordered_with_those_of_mindspore():
    x = np.random.default_rng(0).standard_normal((200, 300)).astype(np.float32)
    for _ in range(20):
        y = ms.Tensor(x)
        for _ in range(5):
            y = pto.mindspore.add(y, y) * 0.5
        assert same(y.astype(ms.float16), x.astype(np.float16))


def test_neither_pto_nor_its_adapter_needs_torch_or_imports_mindspore_early():
    code = (
        "import sys, pto; assert 'mindspore' not in sys.modules\n"
        "sys.modules['torch'] = None\n"
        "import mindspore, pto.mindspore\n"
        "print(pto.mindspore.gelu(mindspore.Tensor([0.0])).asnumpy()[0], pto.mindspore.describe())"
    )
    done = elsewhere("-c", code)
    assert done.stdout.startswith(f"0.0 MindSpore {ms.__version__}, "), done.stderr


def test_functions_have_the_signature_and_the_text_of_their_operator():
    assert pto.mindspore.gelu.__doc__.startswith("gelu(Tensor x, *, str approximate='none')")
    assert "gelu" in dir(pto.mindspore)
    with pytest.raises(AttributeError, match="pto.mindspore has no nonsense"):
        _ = pto.mindspore.nonsense


CHANGED = """
import sys, mindspore as ms, numpy as np, pto, pto.mindspore
@pto.op(sys.argv[2])
class Changed:
    def build(x, *attributes):
        return x
net = ms.nn.GraphCell(ms.load(sys.argv[1]))
print(net(ms.Tensor(np.ones(4, np.float32))))
"""


def test_an_exported_graph_refuses_an_operator_of_another_signature(tmp_path):
    """It would read attributes as others: the bits of an integer as a real number."""

    class Net(ms.nn.Cell):
        def construct(self, x):
            return pto.mindspore.ms_changed(x, n=2)

    path = str(tmp_path / "net.mindir")
    ms.export(Net(), ms.Tensor(X[0]), file_name=path, file_format="MINDIR")
    schema = "ms_changed(Tensor x, *, float a=2.0, {}) -> Tensor"
    done = elsewhere("-c", CHANGED, path, schema.format("int n=1"))
    assert done.returncode == 0, done.stderr
    for other in ("float n=1.0", "int n=1, int m=0"):
        done = elsewhere("-c", CHANGED, path, schema.format(other))
        assert done.returncode == 1
        assert f"the graph calls {schema.format('int n=1')}, but the operator is" in done.stderr
        assert "fix: export the graph again" in done.stderr
