# SPDX-License-Identifier: Apache-2.0
"""Fronts of every kind of signature: lists, several results, other types, types as arguments."""

import threading
from collections import Counter

import pytest
import torch

import pto.aten
from pto.adapters.torch import direct
from pto.adapters.torch.aten.generate import fronts
from pto.aten import enabling
from pto.aten.rows import forms, row_of
from pto.aten.table import ROWS

pytestmark = pytest.mark.usefixtures("aten_parts")

aten = torch.ops.aten
draws = torch.Generator().manual_seed(1)


def drawn(*shape):
    return torch.rand(shape, generator=draws) * 4 - 2


def indices(*shape, high):
    return torch.randint(0, high, shape, generator=draws)


X, Y, ROW, BIAS = drawn(6, 8), drawn(6, 8), drawn(8), drawn(8)
PLACES = indices(6, 8, high=8)
NORMED = aten.native_layer_norm(X, [8], ROW, BIAS, 1e-5)
# A call for each kind of argument and result; each is made with the tensors of `given`, which may
# be others of the same sizes.
CALLS = {
    "native_layer_norm": lambda x, y: aten.native_layer_norm(x, [8], ROW, BIAS, 1e-5),
    "native_layer_norm.out": lambda x, y: aten.native_layer_norm.out(
        x, [8], None, ROW, 1e-5, out0=torch.empty_like(x), out1=torch.empty(6, 1),
        out2=torch.empty(6, 1)),
    "native_layer_norm_backward": lambda x, y: aten.native_layer_norm_backward(
        x, y, [8], *NORMED[1:], ROW, BIAS, [True] * 3),
    "native_group_norm": lambda x, y: aten.native_group_norm(
        x.view(3, 4, 4), None, None, 3, 4, 4, 2, 1e-5),
    "mul.Tensor": lambda x, y: torch.mul(x, x),
    "mul_.Tensor": lambda x, y: (z := x.clone()).mul_(z),
    "max.dim": lambda x, y: torch.max(x, -1),
    "max.dim_max": lambda x, y: torch.max(
        x, 1, out=(torch.empty(6), torch.empty(6, dtype=torch.int64))),
    "aminmax": lambda x, y: torch.aminmax(x, dim=1),
    "var_mean.correction": lambda x, y: torch.var_mean(x, dim=-1, correction=0),
    "topk": lambda x, y: torch.topk(x, 3),
    "topk.values": lambda x, y: torch.topk(
        x, 3, out=(torch.empty(6, 3), torch.empty(6, 3, dtype=torch.int64))),
    "cat": lambda x, y: torch.cat([x, y, x], 1),
    "cat.out": lambda x, y: torch.cat([x, y], out=torch.empty(12, 8)),
    "where.self": lambda x, y: torch.where(PLACES > 3, x, y),
    "gather": lambda x, y: torch.gather(x, 1, PLACES),
    "index_select": lambda x, y: torch.index_select(x, 0, PLACES[0] % 6),
    "embedding": lambda x, y: aten.embedding(x, PLACES[0] % 6),
    "masked_fill.Scalar": lambda x, y: x.masked_fill(PLACES > 3, -1.5),
    "lt.Tensor": lambda x, y: torch.lt(x, y),
    "lt.Tensor_out": lambda x, y: torch.lt(x, y, out=torch.empty(6, 8, dtype=torch.bool)),
    "_softmax_backward_data": lambda x, y: aten._softmax_backward_data(x, y, 1, torch.float32),
    "tril": lambda x, y: torch.tril(x, -1),
    "clone": lambda x, y: torch.clone(x, memory_format=torch.preserve_format),
    "constant_pad_nd": lambda x, y: aten.constant_pad_nd(x, [1, 2], 0.5),
    "reflection_pad1d": lambda x, y: aten.reflection_pad1d(x, [2, 1]),
}  # fmt: skip


@pytest.fixture
def asked():
    """How often Python was asked for each overload, what it left to the kernel, and the plans."""
    counts, refused, plans, run = Counter(), [], {}, enabling._run

    def record(index, slot, values):
        name = enabling._records[index].full_name
        made, plan = run(index, slot, values)
        counts[name] += 1
        plans[name] = plan
        if made is NotImplemented:
            refused.append(name)
        return made, plan

    enabling._loaded()
    part = enabling._fronts._part
    part.pto_aten_front_runner(direct.aten_runner(record))
    yield counts, refused, plans
    part.pto_aten_front_runner(direct.aten_runner(enabling._run))


def same(found, wanted):
    for a, b in zip(*([t] if isinstance(t, torch.Tensor) else t for t in (found, wanted)),
                    strict=True):  # fmt: skip
        assert a.dtype == b.dtype and a.stride() == b.stride()
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CALLS)
def test_a_row_takes_the_call_and_keeps_its_plan(name, asked):
    counts, refused, _ = asked
    for x, y in ((X, Y), (Y, X), (X * 2, Y)):
        wanted = CALLS[name](x, y)
        with pto.aten.enable(slot=0):
            found = CALLS[name](x, y)
        same(found, wanted)
    assert name not in refused and counts[name] == 1, (counts, refused)


@pytest.mark.parametrize("name", CALLS)
def test_a_later_call_needs_no_python_where_the_row_is_compiled(name, asked):
    _, _, plans = asked
    with pto.aten.enable(slot=0, only=[name]):
        CALLS[name](X, Y)
    assert (type(plans[name][0]).__name__ == "PyCapsule") == row_of(name).is_compiled


@pytest.mark.parametrize("name", CALLS)
def test_a_row_takes_boxed_calls_too(name, asked):
    """PyTorch boxes a call of torch.ops where no gradient is recorded."""
    counts, refused, _ = asked
    wanted = CALLS[name](X, Y)
    with torch.inference_mode():
        x, y = X.clone(), Y.clone()
        for _ in range(2):
            with pto.aten.enable(slot=0):
                found = CALLS[name](x, y)
            same(found, wanted)
    assert name not in refused and counts[name] == 1, (counts, refused)


def test_a_boxed_failure_is_pytorchs():
    fails = pytest.raises(IndexError, match="index out of range in self")
    with torch.inference_mode(), pto.aten.enable(slot=0), fails:
        aten.embedding(X.clone(), PLACES[0] + 4)


def test_threads_run_one_plan_at_once():
    given = [drawn(64, 64) for _ in range(4)]
    wanted = [(torch.exp(x), *torch.max(x, -1)) for x in given]
    wrong = []

    def run(x, exact):
        with pto.aten.enable(slot=0):
            for _ in range(200):
                found = (torch.exp(x), *torch.max(x, -1))
                for a, b in zip(found, exact, strict=True):
                    if not torch.allclose(a, b, rtol=1e-6):
                        wrong.append(a)

    threads = [threading.Thread(target=run, args=pair) for pair in zip(given, wanted, strict=True)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


# Calls that differ in one thing each, and one too long to be recognised.
ALIKE = [
    *(lambda x, y, n=n: torch.add(x, y, alpha=n) for n in (1, 2, 1.5, -1.5)),
    *(lambda x, y, n=n: torch.add(x, n) for n in (1, 1.0, 2.5)),
    *(lambda x, y, d=d: torch.sum(x, d) for d in (0, 1, -1, [0, 1], [1, 0])),
    *(lambda x, y, k=k: torch.sum(x, 1, keepdim=k) for k in (False, True)),
    *(lambda x, y, t=t: torch.sum(x, 1, dtype=t) for t in (torch.float32, torch.float64)),
    *(lambda x, y, k=k: torch.nn.functional.gelu(x, approximate=k) for k in ("none", "tanh")),
    *(lambda x, y, n=n: torch.exp(x[:n]) for n in range(1, 7)),
    *(lambda x, y, n=n: torch.exp(x.view(-1)[n : n + 9]) for n in (0, 1, 5)),
    *(lambda x, y, a=a: torch.clamp(x, *a) for a in ((-1, None), (None, 1), (-1, 1))),
    lambda x, y: torch.clamp(x, min=None, max=y),
    lambda x, y: torch.clamp(x, min=y, max=None),
    lambda x, y: torch.add(x, y[0]),
    lambda x, y: torch.add(x.T.contiguous(), y.T.contiguous()),
    lambda x, y: torch.cat([x, y] * 40),
]


def test_calls_that_differ_in_anything_are_told_apart():
    for _ in range(3):  # known calls of the second round follow others
        x, y = drawn(6, 8), drawn(6, 8)
        wanted = [call(x, y) for call in ALIKE]
        with pto.aten.enable(slot=0):
            for call, want in zip(ALIKE, wanted, strict=True):
                torch.testing.assert_close(call(x, y), want)


def test_more_calls_than_a_thread_remembers_keep_their_results():
    x = drawn(300, 3)
    with pto.aten.enable(slot=0):
        for _ in range(2):
            for n in range(1, 300):
                torch.testing.assert_close(
                    torch.exp(x[:n]).sum(), x[:n].double().exp().sum().float()
                )


@pytest.mark.parametrize("setting", [("target", "portable"), ("interpret", True)])
def test_a_thread_forgets_plans_where_a_setting_changes(setting, asked, monkeypatch):
    counts, _, _ = asked
    with pto.aten.enable(slot=0):
        for _ in range(3):
            torch.exp(X)
        before = counts["exp"]
        monkeypatch.setattr(pto.config, *setting)
        torch.exp(X)
    assert counts["exp"] > before


def test_a_result_is_a_tensor_like_any_other():
    with pto.aten.enable(slot=0):
        for _ in range(2):  # the second call has a plan
            made = torch.exp(X)
            with torch.inference_mode():
                assert torch.exp(X).is_inference()
    pto.config.measured = pto.config.measured  # which drops the plans
    assert not made.is_inference() and not made.requires_grad and made.is_contiguous()
    assert made.untyped_storage().nbytes() == made.nbytes
    kept = made.clone()
    grown = made.resize_(40, 8)
    assert torch.equal(grown[:6], kept)
    made = made[:2].requires_grad_()
    (gradient,) = torch.autograd.grad((made * 2).sum(), made)
    assert torch.equal(gradient, torch.full((2, 8), 2.0))
    for empty in (X[:0], X[:, :0]):
        with pto.aten.enable(slot=0):
            for _ in range(2):
                assert torch.exp(empty).shape == empty.shape


def test_memory_of_results_is_used_again():
    x = drawn(256, 1024)
    with pto.aten.enable(slot=0):
        places = {torch.exp(x).data_ptr() for _ in range(50)}
        held = [torch.exp(x) for _ in range(3)]
    assert len(places) <= 3 and len({one.data_ptr() for one in held}) == 3


def test_what_no_row_takes_is_pytorchs(asked):
    _, refused, _ = asked
    broken = [
        lambda: aten.native_layer_norm_backward(X, Y, [8], *NORMED[1:], ROW, BIAS, [True] * 2),
        lambda: torch.cat([X, Y.double()[:, :3]], 0),
        lambda: torch.cat([], 0),
        lambda: torch.gather(X, 1, PLACES.to(torch.int16)),
        lambda: torch.topk(X, 9),
    ]
    outside = PLACES + 4  # which the rows find too
    broken += [
        lambda: torch.gather(X, 1, outside),
        lambda: torch.index_select(X, 0, outside[0]),
        lambda: aten.embedding(X, outside[0]),
        lambda: X.clone().scatter_(1, outside, Y),
    ]
    for call in broken:
        with pytest.raises((RuntimeError, ValueError, IndexError)) as wanted:
            call()
        with pto.aten.enable(slot=0), pytest.raises(wanted.type) as found:
            call()
        assert type(found.value) is wanted.type and str(found.value) == str(wanted.value)
    left = [
        lambda: torch.cat([X, Y.double()], 1),
        lambda: torch.cat([X, Y.T.contiguous().T]),
        lambda: aten._softmax_backward_data(X.bfloat16(), Y.bfloat16(), 1, torch.bfloat16).float(),
        lambda: aten.native_layer_norm_backward(
            X, Y, [8], *NORMED[1:], ROW, BIAS, [True, False, True]
        ),
        lambda: torch.clone(drawn(2, 3, 4, 5), memory_format=torch.channels_last).stride(),
    ]
    for call in left:
        wanted = call()
        with pto.aten.enable(slot=0):
            found = call()
        for a, b in zip(found, wanted, strict=True):
            assert (a is None) == (b is None)
            if isinstance(a, torch.Tensor):
                assert a.dtype == b.dtype and a.stride() == b.stride()
                torch.testing.assert_close(a, b, rtol=2e-2, atol=2e-2)
    assert "native_layer_norm_backward" in refused


def test_a_clone_keeps_the_stride_of_an_axis_of_one():
    odd = X.as_strided((1, 3), (6, 1))
    with pto.aten.enable(slot=0):
        assert odd.clone().stride() == (6, 1) and X[:1].clone().stride() == X[:1].stride()


def test_gradients_of_a_layer_norm_over_all_axes_have_the_shape_of_its_weight():
    mean, rstd = aten.native_layer_norm(X, [6, 8], Y, Y, 1e-5)[1:]
    given = (Y, X, [6, 8], mean, rstd, Y, X, [True] * 3)
    wanted = aten.native_layer_norm_backward(*given)
    with pto.aten.enable(slot=0):
        same(aten.native_layer_norm_backward(*given), wanted)


def test_outputs_that_meet_what_is_read_are_pytorchs():
    buffer = drawn(24, 8)
    with pto.aten.enable(slot=0):
        for _ in range(2):  # the second call has a plan
            torch.cat([X, Y], out=torch.empty(12, 8))
            wanted = torch.cat([buffer[:6].clone(), buffer[6:12].clone()])
            with pytest.raises(RuntimeError, match="unsupported operation|overlap"):
                torch.cat([buffer[:6], buffer[6:12]], out=buffer[3:15])
            assert torch.equal(torch.cat([buffer[:6], buffer[6:12]]), wanted)


def test_every_form_of_a_row_has_a_front():
    """But for those with an argument that no front passes on."""
    lacking = {full for one in ROWS.values() for full in forms(one)}
    lacking -= {one.full_name for one in fronts()}
    assert lacking == set()
