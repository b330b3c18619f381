# SPDX-License-Identifier: Apache-2.0
"""Numbers of calls: one kernel serves all of them, or ATen takes the calls with ever new ones."""

import math

import pytest
import torch

import pto
import pto.aten
from pto.aten import new_numbers

pytestmark = pytest.mark.usefixtures("aten_parts", "nothing_known")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
# Calls with one number, which is no constant of a kernel.
ONE_KERNEL = {
    **{name: (lambda x, s, name=name: getattr(torch, name)(x, s)) for name in COMPARISONS},
    "gt_": lambda x, s: x.clone().gt_(s),
    "fill_": lambda x, s: x.clone().fill_(s),
    "mul_": lambda x, s: x.clone().mul_(s),
    "add_": lambda x, s: x.clone().add_(x, alpha=s),
    "addcmul_": lambda x, s: x.clone().addcmul_(x, x, value=s),
    "addcdiv_": lambda x, s: x.clone().addcdiv_(x, x, value=s),
    "threshold": lambda x, s: torch.nn.functional.threshold(x, s, 0.0),
    "softshrink": torch.nn.functional.softshrink,
    "huber_loss": lambda x, s: torch.nn.functional.huber_loss(x, x + 1, delta=s),
}
INF, NAN = math.inf, math.nan
# Numbers between those of a type, whose rounding to it by way of f32 may be another.
HARD = {
    torch.float16: [0.1, 1 + 2**-11, 1 + 2**-11 + 2**-30, 1 + 3 * 2**-11 - 2**-30, 2**-25, 65504.0],
    torch.bfloat16: [0.1, 1 + 2**-8, 1 + 2**-8 + 2**-30, 1 + 3 * 2**-8 - 2**-30, 1e-40, 1e38],
    torch.float32: [0.1, 1 + 2**-24, 1 + 2**-24 + 2**-50, 1 + 3 * 2**-24 - 2**-50, 1e-45, 1e38],
    torch.float64: [0.1, 5e-324, 1e308],
}


@pytest.fixture
def nothing_known(monkeypatch):
    monkeypatch.setattr(new_numbers, "_known", {})
    monkeypatch.setattr(new_numbers, "_steering", set())


def ran_here(seen):
    """How many of the recorded calls ran on kernels of ours."""
    return sum(count for call, count in seen.calls.items() if call.ran == "0 tile")


@pytest.mark.parametrize("call", ONE_KERNEL.values(), ids=ONE_KERNEL)
def test_one_kernel_serves_all_numbers(call):
    x = torch.rand(7, 12) + 0.5
    with pto.aten.enable(slot=0), pto.aten.record() as seen:
        call(x, 0.25)
        before = pto._core.kernel_count()
        for number in (0.375, 0.4375, 0.7, 0.9, 1.1):
            call(x, number)
    assert pto._core.kernel_count() == before and ran_here(seen) >= 6, seen


def test_a_comparison_with_a_number_of_a_function_is_compiled_once():
    @pto.jit
    def chosen(x, low, high):
        return (x > low) & (x <= high) | (x == low)

    x = torch.rand(50)
    for low, high in ((0.1, 0.5), (0.2, 0.7), (0.3, 0.4)):
        assert torch.equal(chosen(x, low, high), (x > low) & (x <= high) | (x == low))
        assert len(chosen.compiled_for) == 1


def same_bits(a, b):
    both_nan = a.isnan() & b.isnan()
    return bool((both_nan | ((a == b) & (a.signbit() == b.signbit()))).all())


@pytest.mark.parametrize("dtype", HARD, ids=str)
def test_numbers_are_rounded_as_aten_rounds_them(dtype):
    numbers = [*HARD[dtype], NAN, INF, -INF, -0.0, 1.0]
    x = torch.tensor([*numbers, 2.0, -1.0], dtype=dtype)
    step = torch.finfo(dtype).eps
    x = torch.cat([x, x * (1 + step), x * (1 - step)])
    for s in numbers:
        for name in COMPARISONS:
            want = getattr(torch, name)(x, s)
            assert torch.equal(getattr(pto.aten, name)(x, s, slot=0), want), (name, s)
            place = getattr(pto.aten, f"{name}_")(x.clone(), s, slot=0)
            assert torch.equal(place, want.to(dtype)), (name, s)
        for found, want in (
            (pto.aten.fill_(x.clone(), s, slot=0), x.clone().fill_(s)),
            (pto.aten.mul(x, s, slot=0), x * s),
            (pto.aten.div(x, s, slot=0), x / s),
            (pto.aten.mul(x, x[0], slot=0), x * x[0]),
            (pto.aten.threshold(x, s, 7.0, slot=0), torch.nn.functional.threshold(x, s, 7.0)),
            (pto.aten.threshold_backward(x.flip(0).contiguous(), x, s, slot=0),
             torch.ops.aten.threshold_backward(x.flip(0).contiguous(), x, s)),
        ):  # fmt: skip
            assert same_bits(found, want), s


@pytest.mark.parametrize("name", ["add", "sub", "addcmul", "addcdiv", "mul", "div"])
def test_a_form_in_place_has_the_bits_of_the_other_for_every_number(name):
    x = torch.randn(9, 33)
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        y, z = x.to(dtype), x.flip(0).to(dtype).contiguous()
        for s in (0.1, 1.0, -0.0, 3.7, 1e-30):
            args, named = (s,), {}
            if name in ("add", "sub"):
                args, named = (z,), {"alpha": s}
            elif name.startswith("addc"):
                args, named = (z, y), {"value": s}
            found = getattr(pto.aten, f"{name}_")(y.clone(), *args, **named, slot=0)
            assert same_bits(found, getattr(pto.aten, name)(y, *args, **named, slot=0)), (dtype, s)


def test_numbers_that_are_constants_of_kernels_are_left_to_aten_after_a_few():
    x, y = torch.rand(7, 12), torch.rand(7, 12)
    with pto.aten.enable(slot=0), pto.aten.record() as seen:
        for i in range(new_numbers.MOST_KERNELS):
            torch.lerp(x, y, 0.1 + 0.1 * i)
        before = pto._core.kernel_count()
        found = [torch.lerp(x, y, 0.01 * i) for i in range(1, 9)]
        assert pto._core.kernel_count() == before
        torch.lerp(x, y, 0.2)  # a known one
        assert ran_here(seen) == new_numbers.MOST_KERNELS + 1
        torch.lerp(x.double(), y.double(), 0.05)  # other types
    assert ran_here(seen) == new_numbers.MOST_KERNELS + 2
    for i, one in enumerate(found, 1):
        assert torch.equal(one, torch.lerp(x, y, 0.01 * i))
    assert "weight=0.01 is new after 4 others, and each costs a plan or a kernel" in str(seen)
    assert "weight=0.05 is new" in str(pto.aten.explain("lerp.Scalar", x, y, 0.05))
    assert pto.aten.lerp(x, y, 0.05, slot=0).shape == x.shape  # as asked


def test_other_numbers_are_left_to_aten_after_more_and_defaults_never():
    x = torch.rand(7, 12)
    with pto.aten.enable(slot=0), pto.aten.record() as seen:
        for i in range(40):
            assert torch.equal((0.01 * i) - x, torch.rsub(x, 0.01 * i))
        assert ran_here(seen) == 2 * new_numbers.MOST_PLANS
        for i in range(40):
            torch.add(x, x, alpha=0.01 + i)
        before = ran_here(seen)
        x + x
        assert ran_here(seen) == before + 1, seen


def test_calls_of_pto_aten_follow_the_same_rule(monkeypatch):
    x = torch.rand(7, 12)
    monkeypatch.setattr(new_numbers, "MOST_PLANS", 2)
    with pto.aten.record() as seen:
        for number in (0.1, 0.2, 0.3, 0.1, 0.4):
            assert torch.equal(pto.aten.gt(x, number), x > number)
    ours = ran_here(seen)
    assert ours in (0, 3), seen  # 0: the table has no cell here by which it takes over
