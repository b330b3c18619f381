# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own checks of every operator of the library, on the samples of its definition: opcheck,
and first and second derivatives against finite differences.

An operator without a gradient gives nothing that could have one; which have no second derivative is
read from the registry and reported with the results (junit: without_second_derivative).
"""

import pathlib

import children
import pytest
import torch
from conformance.operators import OPERATORS
from operator_cases import attributes, torch_operator

from pto.adapters.record import Record
from pto.adapters.torch import activation, has_cpp_gradients
from pto.language.samples import samples
from pto.ops import __all__ as NAMES
from pto.testing.cases import adapter_record, types_of

# Quantised numbers are no function of anything that could have a gradient.
QUANTISED = {"quantize_int4", "quantize_rows", "scaled_matmul"}
CONSTANTS = {"scale", "zero"}  # of quantised weights
FUNCTIONS = {name: OPERATORS[name] for name in NAMES}  # the rest works in place
OPCHECKS = ["test_schema", "test_faketensor", "test_aot_dispatch_dynamic"]
OWN_DEVICES = "test_autograd_registration"  # PyTorch has it for its own devices only
every_function = pytest.mark.parametrize("operator", FUNCTIONS.values(), ids=FUNCTIONS)
WITH_GRADIENT = {name: one for name, one in FUNCTIONS.items() if adapter_record(one).gradient >= 0}
every_function_with_gradient = pytest.mark.parametrize(
    "operator", WITH_GRADIENT.values(), ids=WITH_GRADIENT
)
every_operator = pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)


IN_F32 = {"eps": 1e-2, "atol": 2e-2, "rtol": 1e-2}  # finite differences without f64


def calls(operator, deep, device="cpu"):
    """(positional, keyword) arguments of each sample in the widest type; floats require grad."""
    of = next((one for one in FUNCTIONS.values() if one.in_place is operator), operator)

    def made(x, name):
        if isinstance(x, list) and x and hasattr(x[0], "dtype"):
            return [made(t, name) for t in x]
        if not hasattr(x, "dtype"):
            return x
        given = torch.from_numpy(x)
        tensor = torch.empty(x.shape, dtype=given.dtype, device=device).copy_(given)
        may = of is operator and of.name not in QUANTISED and name not in CONSTANTS
        return tensor.requires_grad_(tensor.is_floating_point() and may)

    found = [
        ([made(x, a.name) for x, a in zip(args, of.arguments, strict=False)], {**texts, **keywords})
        for args, keywords in samples(of, types_of(of)[0])
        for texts in attributes(of)
    ]
    return found if deep else found[:2]


def typical(operator, deep, count):
    """All calls in the deep run, and of an operator that has samples of its own; of another, whose
    samples are only shapes, the first ones."""
    found = calls(operator, deep=True)
    return found if deep or operator.member("samples") is not None else found[:count]


def derivative(record):
    """The record of the gradient operator, or None."""
    return Record(record.gradient) if record.gradient >= 0 else None


def of_tensors(operator, args, keywords):
    """(function of the differentiable tensors, those tensors)."""
    flat = [t for a in args for t in (a if isinstance(a, list) else [a])]
    inputs = [t for t in flat if isinstance(t, torch.Tensor) and t.requires_grad]

    def function(*given):
        rest = iter(given)

        def filled(x):
            if isinstance(x, list):
                return [filled(t) for t in x]
            return next(rest) if isinstance(x, torch.Tensor) and x.requires_grad else x

        results = torch_operator(operator)(*map(filled, args), **keywords)
        results = results if isinstance(results, tuple | list) else [results]
        return tuple(r for r in results if r.is_floating_point())

    return function, inputs


@every_operator
def test_opcheck_finds_nothing(operator, deep):
    for args, keywords in calls(operator, deep):
        found = torch.library.opcheck(
            torch_operator(operator), args, keywords, test_utils=[*OPCHECKS, OWN_DEVICES]
        )
        assert set(found.values()) == {"SUCCESS"}, found


@pytest.mark.skipif(not activation.is_active(), reason="the npu device is not built")
@every_operator
def test_opcheck_finds_nothing_on_the_npu(operator, deep):
    for args, keywords in calls(operator, deep, "npu"):
        found = torch.library.opcheck(torch_operator(operator), args, keywords, test_utils=OPCHECKS)
        assert set(found.values()) == {"SUCCESS"}, found


@every_function
def test_the_gradient_is_that_of_finite_differences(operator, deep):
    if derivative(adapter_record(operator)) is None:
        has_floats = any(o.is_differentiable for o in adapter_record(operator).outputs)
        assert has_floats is (operator.name in QUANTISED)
        return
    for call in typical(operator, deep, 2):
        function, inputs = of_tensors(operator, *call)
        precision = {} if inputs[0].dtype == torch.float64 else IN_F32
        assert torch.autograd.gradcheck(function, inputs, fast_mode=not deep, **precision)


@every_function
def test_the_second_derivative_is_that_of_finite_differences_or_refused(
    operator, deep, record_property
):
    first = derivative(adapter_record(operator))
    if first is None:
        return
    has_second = derivative(first) is not None
    if not has_second:
        record_property("without_second_derivative", operator.name)
    for call in typical(operator, deep, 1)[: None if deep else 2]:  # the slowest of all kernels
        function, inputs = of_tensors(operator, *call)
        if has_second:
            assert torch.autograd.gradgradcheck(function, inputs, fast_mode=not deep)
            continue
        d = torch.autograd.grad([r.sum() for r in function(*inputs)], inputs, create_graph=True)
        with pytest.raises(Exception, match=f"{first.name}: (a )?tensor .*requires grad"):
            sum(t.sum() for t in d).backward()


LAYOUTS = {  # of the gradient that comes in, with the same elements
    "one element for all": lambda d: d.new_ones(()).expand(d.shape),
    "columns first": lambda d: torch.randn_like(d).mT.contiguous().mT if d.ndim > 1 else d,
    "every second": lambda d: torch.stack([torch.randn_like(d), d], -1)[..., 0],
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@every_function_with_gradient
def test_the_gradient_that_comes_in_may_lie_in_any_way(operator, layout, deep):
    for call in typical(operator, deep, 1):
        function, inputs = of_tensors(operator, *call)
        results = function(*inputs)
        given = [layout(r.detach()) for r in results]
        dense = [d.clone(memory_format=torch.contiguous_format) for d in given]
        got = torch.autograd.grad(results, inputs, given, retain_graph=True)
        for a, b in zip(got, torch.autograd.grad(results, inputs, dense), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_every_operator_that_gives_floating_point_results_has_a_gradient():
    without = {
        name
        for name in NAMES
        if adapter_record(OPERATORS[name]).gradient < 0
        and any(o.is_differentiable for o in adapter_record(OPERATORS[name]).outputs)
    }
    assert without == QUANTISED
    x = torch.randn(2, 32, requires_grad=True)
    refused = "quantize_rows: .*tensor.* requires grad, but the operator has no gradient"
    with pytest.raises((RuntimeError, ValueError), match=refused):  # from C++, or from Python
        torch.ops.pto.quantize_rows(x)


def test_derivatives_in_forward_mode_are_refused():
    x, forward = torch.randn(2, 32), torch.autograd.forward_ad
    calls = [torch.ops.pto.relu, torch.ops.pto.relu_, torch.ops.pto.quantize_rows,
             lambda x: torch.ops.pto.relu(x, out=torch.empty_like(x))]  # fmt: skip
    with forward.dual_level():
        for call in calls:
            with pytest.raises(RuntimeError, match="forward-mode derivative"):
                call(forward.make_dual(x.clone(), x))


WITHOUT_CPP = """
import sys
import pytest
from pto.adapters import build
build.built = lambda part: None  # as where nothing was built for this PyTorch
import pto.torch
assert not pto.torch.has_cpp_gradients()
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


@pytest.mark.skipif(not has_cpp_gradients(), reason="gradients go through Python here anyway")
def test_gradients_through_python_pass_the_same_checks(deep):
    chosen = "not through_python" if deep else "finite_differences or forward_mode"
    folder = pathlib.Path(__file__).parents[1]
    ran = children.run("-c", WITHOUT_CPP, __file__, "-k", chosen, cwd=folder)
    assert ran.returncode == 0, ran.stdout[-4000:]
