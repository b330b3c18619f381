# SPDX-License-Identifier: Apache-2.0
"""Zeros: functions of one number give those of PyTorch, with its sign, for 0 and for -0."""

import pytest
import torch

import pto
import pto.aten
from pto.formulas import activations

TYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}
ZEROS = (0.0, -0.0)


def of_pytorch(name):
    return getattr(torch.nn.functional, name, None) or getattr(torch, name, None)


def zeros_of(function, x):
    """The result for a zero, where it is one of the same shape; else None."""
    try:
        found = function(x)
    except (TypeError, ValueError, RuntimeError, IndexError, NotImplementedError):
        return None
    is_like = isinstance(found, torch.Tensor) and found.dtype == x.dtype and found.shape == x.shape
    return found if is_like and not found.any() else None


@pytest.fixture(scope="module")
def unary():
    """The functions of one number that the language and PyTorch both have, and that keep zeros."""
    x = torch.zeros(3, 5)
    shared = [name for name in sorted({*dir(pto)} & {*dir(pto.Tensor)})
              if of_pytorch(name)]  # fmt: skip
    ours = {name: (lambda x, name=name: getattr(pto, name)(x)) for name in shared}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pto.config, "interpret", True)  # which compiles nothing
        return [name for name in shared if zeros_of(of_pytorch(name), x) is not None
                and zeros_of(pto.jit(ours[name]), x) is not None]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Implicit dimension")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("is_interpreted", [False, True], ids=["compiled", "interpreted"])
def test_a_function_of_a_zero_has_the_sign_that_pytorch_gives_it(
    unary, dtype, is_interpreted, monkeypatch
):
    """All in one program, which compiles sooner than a program for each."""
    monkeypatch.setattr(pto.config, "interpret", is_interpreted)
    assert {"asin", "asinh", "atan", "atanh", "elu", "relu6", "sign", "sinh", "tanh"} <= {*unary}
    program, wrong = pto.jit(lambda x: [getattr(pto, name)(x) for name in unary]), []
    for zero in (0.0, -0.0):
        x = torch.full((3, 5), zero, dtype=TYPES[dtype])
        for name, got in zip(unary, program(x), strict=True):
            if not torch.equal(torch.signbit(got), torch.signbit(of_pytorch(name)(x))):
                wrong.append((name, zero))
    assert not wrong


@pytest.mark.parametrize("name", ["elu", "celu"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("alpha", [1.0, -0.5])
def test_a_formula_of_a_zero_has_the_sign_that_pytorch_gives_it(name, alpha, dtype):
    for zero in (0.0, -0.0):
        x = torch.full((9,), zero, dtype=TYPES[dtype])
        got = pto.jit(lambda x: getattr(activations, name)(x, alpha))(x)
        assert torch.equal(torch.signbit(got), torch.signbit(of_pytorch(name)(x, alpha)))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("is_interpreted", [False, True], ids=["compiled", "interpreted"])
def test_of_two_zeros_the_second_is_the_larger_and_the_smaller(dtype, is_interpreted, monkeypatch):
    """So that a number which is clipped at a zero keeps its own sign, as in PyTorch."""
    monkeypatch.setattr(pto.config, "interpret", is_interpreted)
    x = torch.tensor(ZEROS, dtype=TYPES[dtype]).repeat(20)
    extremes = pto.jit(lambda x, y: [f(x, y) for f in (pto.maximum, pto.minimum)])
    for got in extremes(-x, x):
        assert torch.equal(torch.signbit(got), torch.signbit(x))
    bounds = [(low, high) for low in (*ZEROS, -1.0, None) for high in (*ZEROS, 1.0, None)
              if (low, high) != (None, None)]  # fmt: skip
    for got, (low, high) in zip(pto.jit(lambda x: [pto.clip(x, *b) for b in bounds])(x), bounds,
                                strict=True):  # fmt: skip
        assert torch.equal(torch.signbit(got), torch.signbit(x.clamp(low, high))), (low, high)


@pytest.mark.parametrize("low", ZEROS)
def test_a_row_of_a_number_that_is_clipped_at_a_zero_keeps_its_sign(low):
    for dtype in TYPES.values():
        x = torch.tensor(ZEROS, dtype=dtype).repeat(20)
        for name, bounds in (("clamp", [low]), ("clamp_min", [low]), ("clamp_max", [low]),
                             ("hardtanh", [low, 1.0])):  # fmt: skip
            got = getattr(pto.aten, name)(x, *bounds, slot=0)
            assert torch.equal(torch.signbit(got), torch.signbit(x)), (dtype, name)


@pytest.mark.parametrize("name", ["asin", "asinh", "atan", "atanh", "sign", "sinh", "tan", "elu"])
def test_a_row_of_a_zero_has_the_sign_that_pytorch_gives_it(name):
    for dtype in (torch.float32, torch.float64):
        x = torch.full((3, 5), -0.0, dtype=dtype)
        got, want = getattr(pto.aten, name)(x, slot=0), of_pytorch(name)(x)
        assert torch.equal(torch.signbit(got), torch.signbit(want)), dtype


@pytest.mark.parametrize("dtype", TYPES)
def test_the_log_of_a_sigmoid_next_to_1_has_the_sign_that_pytorch_gives_it(dtype):
    x = torch.tensor([100, 1000, torch.inf], dtype=TYPES[dtype])
    got, want = pto.logsigmoid(x), torch.nn.functional.logsigmoid(x)
    assert torch.equal(torch.signbit(got), torch.signbit(want))


def test_the_slope_of_odd_functions_at_zero_is_1():
    for zero in (0.0, -0.0):
        for name in ("asin", "asinh", "atan", "atanh", "sinh"):
            x = torch.full((2,), zero, requires_grad=True)
            pto.jit(lambda x, name=name: getattr(pto, name)(x))(x).sum().backward()
            assert x.grad.tolist() == [1, 1], name
