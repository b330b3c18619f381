# SPDX-License-Identifier: Apache-2.0
"""pto.aten.enable: PyTorch's own calls take rows of ours, and nothing else changes."""

import re
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest
import torch

import pto
import pto.aten
from pto.adapters.torch import direct
from pto.aten import enabling
from pto.aten.implementations import Implementation, implement, ours, withdraw

pytestmark = pytest.mark.usefixtures("aten_parts")


@pytest.fixture
def calls(monkeypatch):
    """The full names of calls that rows were asked for, and whether one took them."""
    seen, run = [], enabling._run

    def record(index, slot, values):
        made, _ = run(index, slot, values)
        seen.append((enabling._records[index].full_name, made is not NotImplemented))
        return made, None

    enabling._loaded()
    runner = direct.aten_runner(record)
    enabling._fronts._part.pto_aten_front_runner(runner)
    yield seen
    enabling._fronts._part.pto_aten_front_runner(direct.aten_runner(enabling._run))


def values(*shape, dtype=torch.float32):
    return (torch.rand(shape, generator=torch.Generator().manual_seed(1)) * 4 - 2).to(dtype)


def test_calls_of_pytorch_have_the_bits_of_the_row_in_every_form(calls):
    x, y = values(9, 33), values(9, 33).flip(0).contiguous()
    want = pto.aten.exp(x, slot=0), pto.aten.add(x, y, alpha=2, slot=0)
    with pto.aten.enable(slot=0):
        out, place = torch.empty_like(x), x.clone()
        assert torch.equal(torch.exp(x), want[0])
        assert torch.exp(x, out=out) is out and torch.equal(out, want[0])
        assert place.exp_() is place and torch.equal(place, want[0])
        assert torch.equal(torch.add(x, y, alpha=2), want[1])
    own = [name for name, taken in calls if taken and name.startswith(("exp", "add"))]
    assert own == ["exp", "exp.out", "exp_", "add.Tensor"]
    del calls[:]
    torch.exp(x)
    assert not calls


def test_what_a_row_refuses_runs_pytorchs_kernel(calls):
    x = values(6, 8)
    cases = [
        lambda: torch.add(x, x.double()),
        lambda: torch.exp(x.T),
        lambda: torch.exp(x.to(torch.complex64)),
        lambda: torch.add(x, x.to(torch.float16)),
        lambda: torch.mul(x, 2),
        lambda: torch.exp(x.view([1] * 7 + [6, 8])),
        lambda: torch.mul(x.half(), x.bfloat16()),
        lambda: torch.exp(torch.randn(4, generator=torch.Generator().manual_seed(0))[::2]),
    ]
    for call in cases:
        want = call()
        with pto.aten.enable(slot=0):
            got = call()
        assert got.dtype == want.dtype and got.stride() == want.stride()
        torch.testing.assert_close(got, want)
    assert not any(taken for _, taken in calls)
    with pto.aten.enable(slot=0), pytest.raises(RuntimeError, match="must match the size"):
        torch.add(x, x[:, :3].contiguous())
    with pto.aten.enable(slot=0), pytest.raises(RuntimeError, match="doesn't match the broadcast"):
        torch.rand(6, 1).add_(x)
    grown = torch.empty(0)
    with pto.aten.enable(slot=0):
        assert torch.exp(x, out=grown).shape == x.shape
    assert torch.equal(grown, torch.exp(x))


def test_a_call_in_place_that_is_refused_is_asked_once():
    seen, run = Counter(), enabling._run

    def record(index, slot, given):
        seen[enabling._records[index].full_name] += 1
        return run(index, slot, given)

    x, y = (values(4, 6, dtype=torch.float64) for _ in range(2))  # which nobody has measured
    want = torch.atan2(y, torch.full_like(x, 2))
    enabling._loaded()
    enabling._fronts._part.pto_aten_front_runner(direct.aten_runner(record))
    try:
        with pto.aten.enable():
            for _ in range(3):
                x.fill_(2.0)
                assert torch.equal(y.clone().atan2_(x), want)
    finally:
        enabling._fronts._part.pto_aten_front_runner(direct.aten_runner(enabling._run))
    assert seen["fill_.Scalar"] == seen["atan2_"] == 1, seen


def test_only_and_exclude_choose_and_refuse(calls):
    x = values(4, 4)
    with pto.aten.enable(only=["exp"], slot=0) as on:
        torch.exp(x), torch.sin(x)
    assert set(on.names) == {"exp", "exp.out", "exp_"} and {name for name, _ in calls} == {"exp"}
    with pto.aten.enable(exclude=["exp"], slot=0) as on:
        assert "exp" not in on.names and "sin" in on.names
    with pytest.raises(ValueError, match="nothing of expp can be enabled(.|\n)*did you mean exp"):
        pto.aten.enable(only=["expp"], slot=0)
    may_win = {full: any(one.may_win() for one in ours(full)) for full in enabling._loaded().names}
    loser = next(full for full, may in may_win.items() if not may and "." not in full)
    with pytest.raises(ValueError, match=f"(?s)nothing of {loser} can be enabled.*what wins"):
        pto.aten.enable(only=[loser])
    on = pto.aten.enable()
    assert set(on.names) <= {full for full, may in may_win.items() if may}
    assert on.names and enabling._process == [on]
    on.off()


def test_a_slot_is_a_number():
    for slot in ("tile", True, 0.0):
        with pytest.raises(TypeError, match="pto.aten.enable: slot is"):
            pto.aten.enable(slot=slot)


def test_names_are_texts():
    for names in ([["exp"]], [3], 3, ["exp", None]):
        for argument in ("only", "exclude"):
            with pytest.raises(TypeError, match=f"pto.aten.enable: {argument} has"):
                pto.aten.enable(**{argument: names})


def test_a_slot_ends_with_the_choice_that_asked_for_it(calls):
    x = values(4, dtype=torch.float64)  # which nobody has measured
    with pto.aten.enable(only=["exp"], slot=0):
        torch.exp(x)
    with pto.aten.enable(only=["exp"]):
        torch.exp(x)
    assert calls == [("exp", True), ("exp", False)]


def test_each_thread_asks_for_the_slot_of_its_own_choice(calls):
    x = values(4, dtype=torch.float64)
    plain = pto.aten.enable(only=["exp"])

    def without_a_slot():
        with plain:
            torch.exp(x)

    with pto.aten.enable(only=["exp"], slot=0):
        one = threading.Thread(target=without_a_slot)
        one.start(), one.join()
        torch.exp(x)
    assert calls == [("exp", False), ("exp", True)]


def test_two_threads_install_a_front_once(monkeypatch):
    seen = []

    class Slow:
        names = enabling._loaded().names

        def install(self, full):
            seen.append(full)
            time.sleep(0.05)

        def process(self, names, slot):
            pass

    monkeypatch.setattr(enabling, "_fronts", Slow())
    monkeypatch.setattr(enabling, "_installed", set())
    monkeypatch.setattr(enabling, "_process", [])
    both = [threading.Thread(target=pto.aten.enable, args=(["exp.out"],)) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert seen == ["exp.out"]


def test_a_with_is_a_choice_of_its_thread_and_a_call_one_of_the_process(calls):
    x = values(4, 4)

    def elsewhere():
        one = threading.Thread(target=lambda: torch.exp(x))
        one.start()
        one.join()
        taken = len(calls)
        del calls[:]
        return taken

    with pto.aten.enable(slot=0):
        assert elsewhere() == 0
        with pto.aten.enable(only=["sin"], slot=0):
            torch.exp(x), torch.sin(x)
            assert [name for name, _ in calls] == ["sin"]
        torch.exp(x)
        assert len(calls) == 2
        del calls[:]
    on = pto.aten.enable(slot=0)
    assert elsewhere() == 1
    on.off()
    assert elsewhere() == 0


def test_threads_of_pytorch_take_the_choice_of_the_thread_that_asks_them():
    seen = []

    def refuses(index, slot, values):
        seen.append((enabling._records[index].full_name, threading.get_ident()))
        return NotImplemented, None

    @torch.jit.script
    def elsewhere(x):
        return torch.jit.wait(torch.jit.fork(torch.exp, x))

    enabling._loaded()
    enabling._fronts._part.pto_aten_front_runner(direct.aten_runner(refuses))
    try:
        with pto.aten.enable(slot=0):
            elsewhere(values(4))
        elsewhere(values(4))
    finally:
        enabling._fronts._part.pto_aten_front_runner(direct.aten_runner(enabling._run))
    assert [name for name, _ in seen] == ["exp"] and seen[0][1] != threading.get_ident()


def test_gradients_are_pytorchs_with_our_kernels(calls):
    x = values(5, 7, dtype=torch.float64).requires_grad_()
    want = torch.autograd.grad((torch.exp(x) * torch.sin(x)).sum(), x)[0]
    with pto.aten.enable(slot=0):
        got = torch.autograd.grad((torch.exp(x) * torch.sin(x)).sum(), x)[0]
    assert {"exp", "sin", "mul.Tensor", "cos"} <= {name for name, taken in calls if taken}
    torch.testing.assert_close(got, want)
    small = values(3, dtype=torch.float64).requires_grad_()
    with pto.aten.enable(slot=0):
        assert torch.autograd.gradcheck(lambda one: torch.tanh(one) * one, small)
        assert torch.autograd.gradgradcheck(lambda one: torch.sigmoid(one), small)
        assert torch.equal(torch.func.vmap(torch.exp)(values(3, 4)), torch.exp(values(3, 4)))
        with torch.inference_mode():
            torch.exp(values(3))


def test_a_row_runs_below_autograd_too():
    x = values(5)
    with torch._C._AutoDispatchBelowADInplaceOrView():
        got = pto.aten.exp(x, slot=0)
    assert torch.equal(got, pto.aten.exp(x, slot=0))


def test_leaving_in_another_thread_is_refused():
    on, errors = pto.aten.enable(only=["exp"], slot=0), []

    def leave():
        try:
            on.__exit__(None, None, None)
        except pto.Error as error:
            errors.append(str(error))

    with on:
        one = threading.Thread(target=leave)
        one.start()
        one.join()
    assert len(errors) == 1 and "on the thread that began it" in errors[0]


def test_an_error_of_a_row_is_the_callers(monkeypatch):
    def fails(index, slot, values):
        raise pto.errors.InvalidValue("a row failed", "it was told to", "tell it nothing")

    enabling._loaded()
    enabling._fronts._part.pto_aten_front_runner(direct.aten_runner(fails))
    try:
        with pto.aten.enable(slot=0), pytest.raises(ValueError, match="a row failed"):
            torch.exp(values(3))
    finally:
        enabling._fronts._part.pto_aten_front_runner(direct.aten_runner(enabling._run))
    assert torch.exp(values(3)).shape == (3,)


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
    assert asked.count("add_.Tensor") == 1 and asked.count("add.out") == 1


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


LAW = """
import torch, pto.aten
pto.aten.enabling._loaded()
def above():
    names = [n for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::")]
    tables = [torch._C._dispatch_dump_table(name) for name in names]
    return [[line for line in t.splitlines() if not line.startswith("CPU:")] for t in tables]
before = above()
on = pto.aten.enable(slot=0)
print(len(on.names), before == above())
"""


def test_the_dispatchers_table_above_the_cpu_key_is_unchanged():
    made = subprocess.run([sys.executable, "-c", LAW], capture_output=True, text=True)
    found = re.fullmatch(r"(\d+) (\w+)\n", made.stdout)
    assert found and int(found[1]) > 100 and found[2] == "True", made.stdout + made.stderr
    assert "Warning" not in made.stderr
