# SPDX-License-Identifier: Apache-2.0
"""What a kernel computes once ahead of its loops has the bits that every element would have, and
what it writes over its own input is what it would write elsewhere."""

import numpy as np
import pytest
import torch

import pto

UNARY = ["exp", "log", "tanh", "sigmoid", "sin", "sqrt", "rsqrt", "erf", "reciprocal", "neg", "abs"]
TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
SHAPES = [(1, 1), (3, 7), (5, 64), (2, 3, 130), (4, 4097)]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", UNARY)
def test_a_value_of_all_or_of_a_row_has_the_bits_of_an_element(name, dtype, deep):
    if not deep and (UNARY.index(name) + TYPES.index(dtype)) % 4:
        pytest.skip("each function in one type, by turns: ./dev test --deep")
    function = getattr(pto, name)

    @pto.jit
    def scaled(x, one, row):
        return pto.maximum(function(one) * x, function(row))

    torch.manual_seed(0)
    for shape in SHAPES:
        x, one = torch.randn(shape).to(dtype), (torch.rand(()) + 0.25).to(dtype)
        row = (torch.rand(*shape[:-1], 1) + 0.25).to(dtype)
        got = scaled(x, one, row)
        spread = scaled(x, one.expand(shape).clone(), row.expand(shape).clone())
        assert torch.equal(got, spread), (shape, dtype)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.int8, torch.bool])
def test_whole_numbers_and_conditions_are_computed_ahead_too(dtype):
    @pto.jit
    def chosen(x, one, row):
        return pto.where((one > row) | (one == row), x + (one | row), x - (row - one))

    torch.manual_seed(0)
    numbers = dtype if dtype != torch.bool else torch.int32
    for shape in SHAPES:
        x = torch.randint(-9, 9, shape).to(numbers)
        one = torch.randint(0, 2, ()).to(dtype).to(numbers)
        row = torch.randint(0, 2, (*shape[:-1], 1)).to(dtype).to(numbers)
        got = chosen(x, one, row)
        assert torch.equal(got, chosen(x, one.expand(shape).clone(), row.expand(shape).clone()))
        assert torch.equal(got, torch.where(one >= row, x + (one | row), x - (row - one)))


def pairs(y):  # reads all elements for each one
    return pto.sum(pto.exp(y - y.reshape(1, y.shape[0])) * 0.01, 1, True)


def softmax(y):
    return pto.softmax(y, -1)


def centred(y):  # down the columns
    return y - pto.mean(y, 0, True)


def ahead(y):  # the first sweep could store what the second one reads
    return pto.where(y > 0, pto.exp(y * 0.1), y - pto.amax(y, -1, True))


STEPS = {pairs: (17, 1), softmax: (5, 70), centred: (33, 9), ahead: (4, 130)}


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
@pytest.mark.parametrize("part", [False, True], ids=["whole", "part"])
def test_a_loop_that_writes_over_what_it_reads_gives_the_values_of_one_that_does_not(step, part):
    @pto.jit
    def over(x, count):
        y = pto.clone(x)
        for _ in pto.loop(count):
            if part:
                y[1] = step(y[1])
            else:
                y[:] = step(y)
        return y

    @pto.jit
    def once(x):
        return step(x)

    shape = STEPS[step]
    x = np.random.default_rng(0).standard_normal((3, *shape) if part else shape, dtype=np.float32)
    want = x.copy()
    for _ in range(3):
        want[(1,) if part else ...] = once(want[1] if part else want)
    assert np.array_equal(over(x, 3), want)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_a_kernel_writes_over_its_input_what_it_reads_at_its_own_place(step, monkeypatch):
    @pto.jit
    def over(x):
        x[:] = step(x)

    @pto.jit
    def over_part(x, y):
        x[:] = step(y)

    shape = STEPS[step]
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    y, want = x.copy(), np.zeros_like(x)
    over_part(want, x)
    if step is not pairs:
        monkeypatch.setattr("pto.language.program.finish", None)  # which would copy
    over(y)
    assert np.array_equal(y, want)
    monkeypatch.undo()
    memory = np.append(x.ravel(), np.float32([1, 2, 3]))
    want = np.zeros_like(x)
    over_part(want, memory[:-3].reshape(shape).copy())
    over_part(memory[3:].reshape(shape), memory[:-3].reshape(shape))  # they overlap
    assert np.array_equal(memory[3:].reshape(shape), want)
