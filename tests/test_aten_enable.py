# SPDX-License-Identifier: Apache-2.0
"""pto.aten.enable: PyTorch's own calls take rows of ours, and nothing else changes."""

import re
import threading
import time

import children
import pytest
import torch

import pto
import pto.aten
from pto.adapters.torch import direct
from pto.aten import enabling
from pto.aten.implementations import ours

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


def test_only_and_exclude_choose_and_refuse(calls):
    x = values(4, 4)
    with pto.aten.enable(only=["exp"], slot=0) as on:
        torch.exp(x), torch.sin(x)
    assert set(on.names) == {"exp", "exp.out", "exp_"} and {name for name, _ in calls} == {"exp"}
    with pto.aten.enable(exclude=["exp"], slot=0) as on:
        assert "exp" not in on.names and "sin" in on.names
    with pytest.raises(ValueError, match="nothing of expp can be enabled(.|\n)*did you mean exp"):
        pto.aten.enable(only=["expp"], slot=0)
    may_win = {
        full: any(one.may_win(None) for one in ours(full)) for full in enabling._loaded().names
    }
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


@pytest.mark.parametrize("slot", [-1, 1, 8])
def test_a_slot_without_implementations_is_refused(slot):
    with pytest.raises(ValueError, match=f"nothing in slot {slot} can be(.|\n)*slot=0"):
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
    made = children.run("-c", LAW)
    found = re.fullmatch(r"(\d+) (\w+)\n", made.stdout)
    assert found and int(found[1]) > 100 and found[2] == "True", made.stdout + made.stderr
    assert "Warning" not in made.stderr


def test_choices_of_a_thread_end_in_any_order_and_each_ends_its_own():
    def taken():
        with pto.aten.record() as seen:
            torch.exp(torch.ones(4)), torch.tanh(torch.ones(4))
        return [name for name in ("exp", "tanh") if re.search(rf"\b{name} ", str(seen))]

    first, last = (pto.aten.enable(only=[name], slot=0) for name in ("exp", "tanh"))
    with first:
        with last:
            assert taken() == ["tanh"]
            first.__exit__(None, None, None)
            assert taken() == ["tanh"]
            first.__enter__()
            assert taken() == ["exp"]
        assert taken() == ["exp"]
    assert taken() == []
    with pytest.raises(pto.Error, match="in another thread"):
        first.__exit__(None, None, None)
