# SPDX-License-Identifier: Apache-2.0
"""Weights that pack themselves: every way to change one is noticed, and copies die with it."""

import gc
import threading

import numpy as np
import pytest
import torch
from torch import nn

import pto
import pto.torch
from pto import _core
from pto.errors import Error
from pto.language.op import op

pytestmark = [
    pytest.mark.skipif(
        not pto.torch.has_cpp_gradients(), reason="python -m pto adapters build torch"
    ),
    pytest.mark.usefixtures("few_objects"),
]
ROWS, INPUTS, OUTPUTS = 5, 40, 50


def linear(x, w):
    return torch.ops.pto.linear(x, w)


@pytest.fixture
def x():
    gc.collect()
    torch.manual_seed(0)
    return torch.randn(ROWS, INPUTS)


def weight():
    return nn.Parameter(torch.randn(OUTPUTS, INPUTS), requires_grad=False)


def packed_bytes():
    return pto.memory()["packed_weights"]


def packed(x, w):
    """The weight, used until it is packed."""
    before = packed_bytes()
    for _ in range(2):
        linear(x, w)
    assert packed_bytes() > before
    return w


def assert_right(x, w):
    for _ in range(5):  # unpacked, packed again, from the copy
        assert torch.equal(linear(x, w), torch.ops.pto.matmul(x, w.detach(), transpose_b=True))


def optimiser_step(w):
    w.requires_grad_()
    w.grad = torch.ones_like(w)
    torch.optim.Adam([w], lr=0.1).step()
    w.requires_grad_(False)


def load_state(w):
    module = nn.Linear(INPUTS, OUTPUTS, bias=False)
    module.weight = w
    module.load_state_dict({"weight": torch.randn_like(w)})


def resized(w):
    other = torch.randn(OUTPUTS * 3, INPUTS)
    w.data.resize_(OUTPUTS * 3, INPUTS).copy_(other)


def through_dlpack(w):
    torch.from_dlpack(w.detach()).copy_(torch.randn_like(w))


def through_numpy(w):
    w.detach().numpy()[:] = np.random.default_rng(0).standard_normal(w.shape)


CHANGES = {
    "in place": lambda w: w.mul_(-1),
    "one element in place": lambda w: w[17].select(0, 11).fill_(9.0),
    "an optimiser": optimiser_step,
    "load_state_dict": load_state,
    ".data = another": lambda w: setattr(w, "data", torch.randn_like(w)),
    ".to another type and back": lambda w: setattr(w, "data", w.data.to(torch.float64).float() + 1),
    "set_": lambda w: w.data.set_(torch.randn_like(w).untyped_storage(), 0, w.shape),
    "set_ of itself": lambda w: w.set_(torch.randn_like(w)),
    "resize_": resized,
    "the whole through .data": lambda w: w.data.copy_(torch.randn_like(w)),
    "the whole through .data, scaled": lambda w: w.data.mul_(3),
    "the whole through NumPy": through_numpy,
    "the whole through DLPack": through_dlpack,
    "a view in place": lambda w: w.t()[3:5].zero_(),
    "init": lambda w: nn.init.xavier_uniform_(w),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize(
    "mode", [torch.no_grad, torch.inference_mode], ids=["no_grad", "inference"]
)
def test_a_weight_that_changed_is_read_anew(x, change, mode):
    w = packed(x, weight())
    assert_right(x, w)
    with torch.no_grad():
        change(w)
    with mode():
        assert_right(x, w)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_weight_of_two_bytes_is_packed_too_and_keeps_its_bits(dtype):
    w = nn.Parameter(torch.randn(900, 300).to(dtype), requires_grad=False)
    before = packed_bytes()
    for change in (lambda: None, lambda: w.mul_(-1), lambda: w.data.copy_(torch.randn_like(w))):
        change()
        for rows in (1, 2, 5, 64, 200):  # a row alone, some strips of columns at once
            x = torch.randn(rows, 300).to(dtype)
            expected = torch.ops.pto.matmul(x, w, transpose_b=True)
            for _ in range(4):
                assert torch.equal(linear(x, w), expected)
    assert packed_bytes() - before >= w.nbytes


def test_a_new_tensor_at_an_old_address_is_another_weight(x):
    memory = np.empty((OUTPUTS, INPUTS), "f4")
    for seed in range(4):
        memory[:] = 1.0  # so that samples of both agree
        memory[7, 5] = seed
        w = torch.from_numpy(memory)
        for _ in range(4):
            assert torch.equal(linear(x, w), torch.ops.pto.matmul(x, w, transpose_b=True))
        del w


def test_a_few_elements_through_an_alias_are_told_of_or_compared(x):
    w = packed(x, weight())
    w.data[17, 11] = 5.0
    pto.repack(w)
    assert_right(x, w)
    try:
        pto.config.weights = "compared"
        assert_right(x, w)
        for place in ((3, 4), (49, 39), (20, 0)):
            w.data[place] += 1.0
            assert_right(x, w)
    finally:
        pto.config.weights = "sampled"


def test_training_steps_see_every_change(x):
    w = torch.randn(OUTPUTS, INPUTS, requires_grad=True)
    v = w.detach().clone().requires_grad_()
    for _ in range(6):
        for one, product in ((w, linear), (v, nn.functional.linear)):
            for _ in range(2):  # accumulates, so that the weight is seen unchanged
                product(x, one).square().sum().backward()
            with torch.no_grad():
                one -= 0.01 * one.grad
            one.grad = None
    torch.testing.assert_close(w, v, rtol=1e-4, atol=1e-4)


def test_layers_of_one_storage_do_not_meet(x):
    all_ = torch.randn(3 * OUTPUTS, INPUTS)
    for _ in range(4):
        for part in (*all_.split(OUTPUTS), all_, all_[::2], all_[:OUTPUTS]):
            assert torch.equal(linear(x, part), torch.ops.pto.matmul(x, part, transpose_b=True))


def test_few_rows_read_the_copy_that_many_rows_made():
    """Alone they may pack a weight or not: where floats are multiplied in parts, no large one."""
    x, w, before = torch.randn(40, 1024), torch.randn(1100, 1024), packed_bytes()
    want = torch.ops.pto.matmul(x, w, transpose_b=True)
    for _ in range(4):
        assert torch.equal(linear(x[:3], w), want[:3])
    by_few = packed_bytes() - before
    for rows in (40, 40, 40, 3, 1, 40):
        assert torch.equal(linear(x[:rows], w), want[:rows])
    by_many = packed_bytes() - before
    assert by_many >= w.numel() * 4 and by_few in (0, by_many)
    w[7] += 1
    assert torch.equal(linear(x[:3], w), torch.ops.pto.matmul(x[:3], w, transpose_b=True))


def test_a_copy_dies_with_its_weight(x):
    before = packed_bytes()
    w = packed(x, weight())
    assert packed_bytes() - before >= w.numel() * 4
    del w
    assert packed_bytes() == before
    for _ in range(300):  # nobody asks
        linear(x, torch.randn(OUTPUTS, INPUTS))
    assert packed_bytes() == before


def test_copies_of_dead_weights_are_freed_before_another_is_packed(x):
    packed(x, weight())  # the first call takes memory that later ones share
    packed_bytes()  # frees all copies of dead weights
    before = _core.memory_stats()["live_bytes"]  # pto.memory() would free them
    for more in range(20):
        w = nn.Parameter(torch.randn(OUTPUTS + more, INPUTS), requires_grad=False)
        for _ in range(2):
            linear(x, w)
    assert 0 < _core.memory_stats()["live_bytes"] - before < 3 * w.nbytes


def test_what_cannot_be_watched_is_not_packed(x):
    before = packed_bytes()
    with torch.inference_mode():
        w = torch.randn(OUTPUTS, INPUTS)  # counts no writes
        for i in range(4):
            w[17, 11] = i
            assert torch.equal(linear(x, w), torch.ops.pto.matmul(x, w, transpose_b=True))
    try:
        pto.config.weights = "never"
        for _ in range(3):
            linear(x, v := weight())
    finally:
        pto.config.weights = "sampled"
    for other in (weight().double(), torch.randn(2, INPUTS)):
        for _ in range(3):
            linear(x.to(other.dtype), other)
    assert packed_bytes() == before
    del v


def test_threads_share_a_copy_while_another_changes_it(x):
    w = weight()
    known = [torch.randn(OUTPUTS, INPUTS) for _ in range(3)]
    products = [torch.ops.pto.matmul(x, k, transpose_b=True) for k in known]
    w.copy_(known[0])
    wrong, done = [], threading.Event()
    turn = threading.Lock()

    def call():
        while not done.is_set():
            with turn:
                seen = [w.clone(), linear(x, w)]
            if not any(torch.equal(seen[0], k) and torch.equal(seen[1], p)
                       for k, p in zip(known, products, strict=True)):  # fmt: skip
                wrong.append(seen)
            if not torch.equal(linear(x, known[1]), products[1]):  # of nobody's turn
                wrong.append(known)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(60):
        with turn:
            w.copy_(known[i % 3])
        for _ in range(4):
            linear(x, known[2])
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("wrong", ["all", 3, None])
def test_a_setting_that_is_none_is_refused(wrong):
    with pytest.raises(Error, match="config.weights is"):
        pto.config.weights = wrong
    with pytest.raises(Error, match="repack: weight is"):
        pto.repack(wrong)


@pytest.mark.parametrize(
    "weight, packed, packer, message",
    [
        ("weight", "extra", "_pack_weight", "weight cannot be packed as extra"),
        ("weight", "bias", "_pack_weight", "weight cannot be packed as bias"),
        ("other", "packed", "_pack_weight", "other cannot be packed as packed"),
        ("weight", "packed", "matmul", "weight cannot be packed as packed"),
        ("weight", "packed", "_pack_nothing", "its packer operator _pack_nothing is not defined"),
    ],
)
def test_a_packing_that_does_not_fit_is_refused_at_the_definition(weight, packed, packer, message):
    members = {
        "infer": lambda x, weight, bias, packed, n: x.like(),
        "kernel": pto.ops.linear.member("kernel"),
        "packing": (weight, packed, packer),
    }
    schema = "refused_packing(Tensor x, Tensor weight, Tensor? bias, Tensor? packed, int n=1)"
    with pytest.raises(Error, match=message) as raised:
        op(schema + " -> Tensor")(type("Refused", (), members))
    assert raised.value.why and raised.value.fix


def test_there_is_no_gradient_of_a_gradient(x):
    w = torch.randn(OUTPUTS, INPUTS, requires_grad=True)
    (d_w,) = torch.autograd.grad(linear(x, w).square().sum(), w, create_graph=True)
    with pytest.raises(RuntimeError, match="has no gradient"):
        d_w.sum().backward()
