# SPDX-License-Identifier: Apache-2.0
"""The operator library against its oracles, and what @op accepts and refuses."""

import numpy as np
import pytest
import torch
from operator_cases import (
    OPERATORS,
    TOLERANCE,
    assert_agrees,
    attributes,
    tensors,
    torch_operator,
)

import pto
from pto import ops
from pto.errors import InvalidType, InvalidValue
from pto.language.dtypes import f32
from pto.language.op import op

every_operator = pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)


@every_operator
@pytest.mark.parametrize("dtype", TOLERANCE, ids=TOLERANCE.values())
def test_an_operator_agrees_with_its_oracle_for_every_type(operator, dtype):
    for shape in [(5, 13), (3, 1000)]:
        arguments = tensors(operator, shape, dtype)
        for keywords in attributes(operator):
            got = torch_operator(operator)(*arguments, **keywords)
            assert_agrees(operator, got, arguments, keywords)


@every_operator
def test_an_operator_takes_any_shape(operator):
    for shape in [(7,), (1, 9), (4, 1), (1, 1), (2, 2, 2, 5)]:
        arguments = tensors(operator, shape)
        assert_agrees(operator, torch_operator(operator)(*arguments), arguments, {})


@every_operator
def test_an_operator_takes_empty_tensors(operator):
    for shape in [(0, 4), (2, 0, 4)]:
        assert torch_operator(operator)(*tensors(operator, shape)).shape == shape


@pytest.mark.parametrize("name", ["softmax", "gelu", "silu", "add", "silu_mul"])
def test_an_operator_takes_a_tensor_without_axes(name):
    arguments = [x.requires_grad_() for x in tensors(OPERATORS[name], ())]
    got = torch_operator(OPERATORS[name])(*arguments)
    assert got.shape == ()
    assert_agrees(OPERATORS[name], got, arguments, {})
    got.backward()
    assert arguments[0].grad.shape == ()


def strided(x):
    """The same values, in memory with gaps."""
    wide = torch.empty([2 * n for n in x.shape], dtype=x.dtype)
    view = wide[tuple(slice(None, None, 2) for _ in x.shape)]
    view.copy_(x)
    return view


@every_operator
@pytest.mark.parametrize(
    "layout",
    [strided, lambda x: x.mT.contiguous().mT if x.ndim > 1 else x, lambda x: x.expand(x.shape)],
    ids=["gaps", "columns first", "expanded"],
)
def test_an_operator_takes_any_strides(operator, layout):
    arguments = [layout(x) for x in tensors(operator, (6, 70))]
    assert_agrees(operator, torch_operator(operator)(*arguments), arguments, {})


@every_operator
def test_an_operator_propagates_what_is_not_finite_as_its_oracle(operator):
    arguments = tensors(operator, (4, 8))
    arguments[0][1, 3] = float("nan")
    arguments[0][2, 2] = float("inf")
    got = torch_operator(operator)(*arguments)
    with np.errstate(invalid="ignore"):
        want = operator.member("oracle")(*(a.double().numpy() for a in arguments))
    assert np.array_equal(np.isnan(want), got.isnan().numpy())


@every_operator
def test_an_operator_runs_on_numpy_too(operator):
    arguments = tensors(operator, (3, 20))
    got = operator(*(a.numpy() for a in arguments))
    assert isinstance(got, np.ndarray)
    assert_agrees(operator, torch.as_tensor(got), arguments, {})


def test_an_operator_is_inlined_in_a_traced_function():
    @pto.jit
    def twice(x):
        return ops.silu(x) * 2

    x = torch.randn(3, 5)
    torch.testing.assert_close(twice(x), torch.nn.functional.silu(x) * 2)


def test_an_operator_of_torch_tensors_is_that_of_torch():
    x = torch.randn(3, 5, requires_grad=True)
    ops.gelu(x, approximate="tanh").sum().backward()
    assert x.grad is not None


def refused(kind, message, schema, **members):
    with pytest.raises(kind, match=message) as raised:
        op(schema)(type("Refused", (), members))
    assert raised.value.why and raised.value.fix


def test_mistakes_of_a_definition_are_found_at_the_definition():
    def build(x):
        return x

    refused(InvalidType, "Refused has no build", "no_build(Tensor x) -> Tensor")
    refused(InvalidValue, "column 10: expected a type", "unparsed(2 x) -> Tensor", build=build)
    refused(InvalidValue, "gelu: is defined already", "gelu(Tensor x) -> Tensor", build=build)
    refused(
        InvalidValue,
        "grad asks for 'z', which was not saved",
        "bad_saved(Tensor x) -> Tensor",
        build=build,
        grad=lambda ctx, d: d * ctx.saved("z"),
    )
    refused(
        InvalidValue,
        "grad returned gradients for z",
        "bad_gradient(Tensor x) -> Tensor",
        build=build,
        grad=lambda ctx, d: {"z": d},
    )
    refused(
        InvalidValue,
        "grad returned gradients for 1 values",
        "few_gradients(Tensor x, Tensor y) -> Tensor",
        build=lambda x, y: x + y,
        grad=lambda ctx, d: d,
    )


def test_functions_of_a_definition_take_what_they_are_called_with():
    def build(x, a):
        return x * a

    one = "called(Tensor x, *, float a=1.0) -> Tensor"
    refused(InvalidType, r"build does not take 2 values\n.*\(x, a\)", one, build=lambda x: x)
    refused(InvalidType, "build is the int 3, which is no function", one, build=3)
    order = r"build takes these values in another order: \(a, x\)\n.*\(x, a\)"
    refused(InvalidType, order, one, build=lambda a, x: x)
    refused(InvalidType, "infer does not take 2", one, build=build, infer=lambda x, a, b: x)
    refused(
        InvalidType, "grad is the str 'auto'(.*\n)*.*'automatic'", one, build=build, grad="auto"
    )
    refused(
        InvalidType, r"grad does not(.*\n)*.*grad\(ctx, d_r", one, build=build, grad=lambda c: c
    )
    for asks in (lambda ctx: ctx.attribute("x"), lambda ctx: ctx.needs("a")):
        rule = lambda ctx, d, asks=asks: asks(ctx) and {"x": d}  # noqa: E731
        refused(InvalidValue, "grad asks for '[ax]', which is no", one, build=build, grad=rule)


RAISED = {
    "IndexError: list index": (IndexError, lambda x: [x][1]),
    "ValueError: invalid literal": (ValueError, lambda x: int("text")),
    "KeyError: 'a'": (RuntimeError, lambda x: {}["a"]),
    "pto.sqrt(x) instead": (TypeError, lambda x: np.sqrt(x)),
}


@pytest.mark.parametrize("place", ["build", "infer"])
@pytest.mark.parametrize("text", RAISED)
def test_what_python_raises_in_a_definition_names_the_line_and_the_kind(text, place):
    kind, raises = RAISED[text]
    name = f"raises_{list(RAISED).index(text)}_{place}"
    members = {"build": lambda x: x, place: raises}
    operator = op(f"{name}(Tensor x) -> Tensor")(type("Raises", (), members))
    for caught, call in (
        (kind, lambda: operator(np.ones(2, "f4"))),
        (RuntimeError, lambda: getattr(torch.ops.pto, name)(torch.ones(2))),
    ):
        with pytest.raises(caught, match=r"test_ops\.py:\d+: (.*\n)*  why: .*\n  fix: ") as error:
            call()
        assert text in str(error.value) or (place, kind) == ("infer", TypeError)


GRADIENTS = {
    "1 gradients": lambda d, xs: [d],
    "3 gradients": lambda d, xs: [d, d, d],
    "a value of type pto.language.tensor.Tensor": lambda d, xs: d,
}


@pytest.mark.parametrize("is_saved", [True, False])
@pytest.mark.parametrize("given", GRADIENTS)
def test_a_list_of_tensors_has_as_many_gradients(given, is_saved):
    name = f"list_of_{given[0]}{'_saved' if is_saved else ''}"

    @op(f"{name}(Tensor[] xs) -> Tensor")
    class Sum:
        def build(xs):
            return xs[0] + xs[1]

        def grad(ctx, d):
            return {"xs": GRADIENTS[given](d, ctx.saved("xs") if is_saved else None)}

    xs = [torch.ones(3, requires_grad=True) for _ in range(2)]
    result = getattr(torch.ops.pto, name)(xs).sum()
    with pytest.raises(RuntimeError, match=f"grad returned {given} for "):
        result.backward()


def test_calls_that_do_not_fit_the_signature_are_refused():
    x = np.ones((2, 3), np.float32)
    for args, kwargs in [((), {}), ((x, x), {}), ((x,), {"y": 1}), ((x,), {"x": x})]:
        with pytest.raises(InvalidType, match="gelu: called with"):
            ops.gelu(*args, **kwargs)


@op("wrongly_inferred(Tensor x) -> Tensor")
class WronglyInferred:
    def infer(x):
        return x.like(dtype=pto.f64)

    def build(x):
        return x + 1


@op("wrong_count(Tensor x) -> (Tensor, Tensor)")
class WrongCount:
    def build(x):
        return x + 1


@op("forks(Tensor x, *, float slope) -> Tensor")
class Forks:
    def build(x, slope):
        return x if slope > 0 else -x


@op("hidden_save(Tensor x, Tensor w, *, bool late=False) -> Tensor")
class HiddenSave:
    def build(x, w, late):
        return x * w

    def grad(ctx, d_result):
        if ctx.attribute("late"):
            return {"x": d_result * ctx.saved("w")}
        return {"x": d_result}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: torch.ops.pto.wrongly_inferred(x), r"infer says f64\[.*\] for output 0, build"),
        (lambda x: torch.ops.pto.wrong_count(x), "build returned 1 tensors"),
        (lambda x: torch.ops.pto.forks(x, slope=1.0), "a condition .* on a traced tensor"),
        (
            lambda x: (
                torch.ops.pto.hidden_save(x.clone().requires_grad_(), x, late=True).sum().backward()
            ),
            "grad asks for 'w' only for some attributes",
        ),
    ],
)
def test_mistakes_of_a_definition_that_need_a_call_are_found_there(call, message):
    with pytest.raises(RuntimeError, match=message) as raised:
        call(torch.randn(2, 3))
    assert "why:" in str(raised.value) and "fix:" in str(raised.value)


def test_the_gradient_says_what_it_needs():
    gradient = ops.bias_gelu.gradient
    assert gradient.saved == gradient.wanted == ("x", "bias")
    assert ops.softmax.gradient.saved == ("result",)
    assert ops.add.gradient.saved == ()
    assert ops.bias_gelu.gradient.operator.schema == (
        "bias_gelu_backward(Tensor d_result, Tensor x, Tensor bias, *, str approximate='none',"
        " int needs=-1) -> (Tensor, Tensor)"
    )


def test_a_tolerance_is_given_for_every_type():
    for operator in OPERATORS.values():
        assert {str(kind) for kind in operator.member("tolerance")} == set(TOLERANCE.values())
        assert operator.member("tolerance")[f32] < 1e-5
