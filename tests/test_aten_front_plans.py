# SPDX-License-Identifier: Apache-2.0
"""Calls of PyTorch under pto.aten.enable that are like an earlier one run as that one did."""

import pytest
import torch

import pto
import pto.aten
from pto.adapters.torch import direct
from pto.aten import enabling
from pto.aten.implementations import Implementation, implement, withdraw

pytestmark = pytest.mark.usefixtures("aten_parts")


def values(*shape, dtype=torch.float32):
    return (torch.rand(shape, generator=torch.Generator().manual_seed(1)) * 4 - 2).to(dtype)


@pytest.fixture
def asked():
    """The full names of calls for which Python was asked, while plans are kept."""
    seen, run = [], enabling._run

    def record(index, slot, values):
        seen.append(enabling._records[index].full_name)
        return run(index, slot, values)

    enabling._loaded()
    enabling._fronts._part.pto_aten_front_runner(direct.aten_runner(record))
    yield seen
    enabling._fronts._part.pto_aten_front_runner(direct.aten_runner(enabling._run))


def test_a_call_like_an_earlier_one_asks_nobody(asked):
    """Like it: the same types, sizes, strides and numbers, wherever the tensors lie."""
    x, y = values(9, 33), values(9, 33).flip(0).contiguous()
    with pto.aten.enable(slot=0):
        for _ in range(3):
            for alpha in (2, 3):
                want = pto.aten.add(x, y, alpha=alpha, slot=0)
                del asked[:]
                assert torch.equal(torch.add(x, y, alpha=alpha), want)
            x, y = y.clone(), x
        assert "add.Tensor" not in asked
        for other in (values(33, 9), values(9, 33, dtype=torch.bfloat16), values(1, 9, 33)):
            want, copy = pto.aten.add(other, other, alpha=2, slot=0), other.clone()
            del asked[:]
            assert torch.equal(torch.add(other, copy, alpha=2), want)
            assert asked == ["add.Tensor"]
        assert torch.equal(torch.add(x, x, alpha=2), pto.aten.add(x, x.clone(), alpha=2, slot=0))
        assert torch.equal(torch.add(x, y, alpha=2), pto.aten.add(x, y, alpha=2, slot=0))


def test_a_call_like_one_that_was_refused_asks_nobody(asked):
    whole = torch.arange(6)
    with pto.aten.enable(slot=0):
        want = torch.clamp(whole, 0.5)  # its result is no integer
        assert asked == ["clamp"] and want.dtype is torch.float32
        assert torch.equal(torch.clamp(whole, 0.5), want) and asked == ["clamp"]
        assert torch.equal(torch.clamp(whole, 1), whole.float().clamp(1).long())
        assert asked[:2] == ["clamp", "clamp"]


def test_what_writes_its_arguments_asks_once_too(asked):
    x, buffer, both = values(8), values(12), values(2, 8)
    with pto.aten.enable(slot=0):
        for seed in range(3):
            place, other, out = x.clone(), values(8) * seed, torch.empty(8)
            assert place.add_(other) is place and torch.equal(place, x + other)
            assert torch.add(x, other, out=out) is out and torch.equal(out, x + other)
            out = x.clone()
            assert torch.add(out, other, out=out) is out and torch.equal(out, x + other)
            assert place.copy_(x).add_(place) is place and torch.equal(place, 2 * x)
            buffer.uniform_(), both.uniform_()
            with pytest.raises(RuntimeError, match="single memory location"):  # PyTorch's kernel
                buffer[:8].add_(buffer[4:])
            with pytest.raises(RuntimeError, match="single memory location"):
                torch.add(buffer[:8], x, out=buffer[4:])
            want = torch.exp(both)
            torch.testing.assert_close(torch.exp(both, out=both), want)
    # Once where nothing is shared, and once for each pair that shares all or a part of its memory.
    assert asked.count("add_.Tensor") == 3 and asked.count("add.out") == 3


def test_a_call_in_place_that_is_refused_is_asked_once(asked):
    x, y = (values(4, 6, dtype=torch.float64) for _ in range(2))  # which nobody has measured
    want = torch.atan2(y, torch.full_like(x, 2))
    del asked[:]
    with pto.aten.enable():
        for _ in range(3):
            x.fill_(2.0)
            assert torch.equal(y.clone().atan2_(x), want)
    assert asked.count("fill_.Scalar") == asked.count("atan2_") == 1, asked


def test_calls_of_a_type_that_no_row_takes_ask_once(asked):
    x, y = values(8, dtype=torch.float64), torch.arange(1.0, 9.0).double()  # not measured
    wanted = torch.atan2(x, y)
    with pto.aten.enable():
        for size in (8, 5, 3):
            a, b = x[:size].clone(), y[:size].clone()
            assert torch.equal(torch.atan2(a, b), wanted[:size])
            assert torch.equal(torch.atan2(a, b, out=a.clone()), wanted[:size])
            assert torch.equal(torch.atan2(a, b, out=a), wanted[:size])
            assert torch.equal(x[:size].clone().atan2_(b), wanted[:size])
        assert {asked.count(name) for name in ("atan2", "atan2.out", "atan2_")} == {1}, asked
        with pto.aten.enable(slot=0):  # which takes them
            assert torch.allclose(torch.atan2(x, y), wanted) and asked.count("atan2") == 2
        assert torch.equal(torch.atan2(x, y), wanted) and asked.count("atan2") == 2
        pto.config.measured = pto.config.measured  # a setting may change what takes a call
        torch.atan2(x, y)
        assert asked.count("atan2") == 3


@pytest.mark.parametrize("change", ["an implementation", "a setting"])
def test_plans_end_with_what_they_were_made_for(asked, change):
    x = values(5)
    with pto.aten.enable(slot=0):
        for _ in range(2):
            torch.exp(x)
        del asked[:]
        if change == "an implementation":
            marked = Implementation(
                3, "marked", "cpu", lambda bound: "no", lambda bound, like: None
            )
            implement("exp", marked)
            withdraw("exp", 3)
        else:
            pto.config.measured = pto.config.measured
        torch.exp(x)
        assert asked == ["exp"]


def test_a_layer_runs_on_rows_with_its_parameters(asked):
    x, layer = values(4, 8), torch.nn.LayerNorm(8)
    with torch.no_grad(), pto.aten.enable(slot=0):
        made = torch.mul(x, layer.weight)
        assert type(made) is torch.Tensor and torch.equal(made, x) and not made.requires_grad
        del asked[:]
        assert torch.equal(torch.mul(x, layer.weight), x) and not asked
