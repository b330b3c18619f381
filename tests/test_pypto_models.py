# SPDX-License-Identifier: Apache-2.0
"""compat/pypto: shapes that a program changes, and first writes of tensors without elements."""

import pytest
import torch
from pypto_package import loaded

import pto

HALVES = """
import pypto


def rotated(x):
    shape = x.shape
    last = len(shape) - 1
    shape[last] //= 2
    offset = [0] * len(shape)
    offset[last] = shape[last]
    return pypto.concat([pypto.view(x, shape, offset) * -1.0, pypto.view(x, shape, [0] * 3)], -1)


@pypto.frontend.jit
def rows(x: pypto.Tensor([pypto.DYNAMIC, ...], pypto.DT_FP32),
         out: pypto.Tensor([pypto.DYNAMIC, ...], pypto.DT_FP32)):
    for i in pypto.loop(x.shape[0]):
        part = pypto.view(x, [1, *x.shape[1:]], [i, 0, 0])
        pypto.assemble(rotated(part), [i, 0, 0], out)


@pypto.frontend.jit
def told(x: pypto.Tensor([2, 3], pypto.DT_FP32), out: pypto.Tensor()):
    shape, t = x.shape, pypto.tensor()
    t[:] = x
    shape.append(4)
    assert shape == [2, 3, 4] and x.shape == (2, 3) == t.shape and x.shape != shape
    assert x.shape + (4,) == shape == x.shape[:1] + [3, 4] and (1,) + x.shape == [1, 2, 3]
    out[:] = pypto.zeros(x.shape, dtype=pypto.DT_FP32) + t
"""
RUNNING = """
import pypto


@pypto.frontend.jit
def running(x: pypto.Tensor([pypto.DYNAMIC, ...], pypto.DT_FP32),
            out: pypto.Tensor([pypto.DYNAMIC, ...], pypto.DT_FP32)):
    for i in pypto.loop(x.shape[0]):
        total = pypto.tensor([1, 4], pypto.DT_FP32, "total")
        for j in pypto.loop(x.shape[1] // 4, unroll_list=[2, 1]):
            part = pypto.view(x, [1, 4], [i, j * 4])
            if pypto.is_loop_begin(j):
                total[:] = pypto.tensor(part.shape, pypto.DT_FP32, "first")
                if pypto.is_loop_end(j):
                    total[:] = part * 10
                    pypto.assemble(total, [i, 0], out)
                else:
                    total[:] = part
            else:
                total[:] = total + part
                if pypto.is_loop_end(j):
                    pypto.assemble(total, [i, 0], out)
"""
NOTHING = """
import pypto


@pypto.frontend.jit
def emptied(x: pypto.Tensor([2, 4], pypto.DT_FP32), out: pypto.Tensor()):
    t = pypto.tensor([2, 4], pypto.DT_FP32)
    t[:] = x
    t[:] = pypto.tensor([2, 4], pypto.DT_FP32)
    out[:] = t


@pypto.frontend.jit
def never(x: pypto.Tensor([2, 4], pypto.DT_FP32), out: pypto.Tensor()):
    t = pypto.tensor([2, 4], pypto.DT_FP32)
    t[:] = pypto.tensor([2, 4], pypto.DT_FP32)
    out[:] = t + x


@pypto.frontend.jit
def another_type(x: pypto.Tensor([2, 4], pypto.DT_FP32), out: pypto.Tensor()):
    t = pypto.tensor([2, 4], pypto.DT_FP32)
    t[:] = pypto.tensor([2, 4], pypto.DT_INT32)
    out[:] = x


@pypto.frontend.jit
def into_an_output(x: pypto.Tensor([2, 4], pypto.DT_FP32), out: pypto.Tensor()):
    out[:] = pypto.tensor([2, 4], pypto.DT_FP32)


@pypto.frontend.jit
def on_one_path(x: pypto.Tensor([2, 4], pypto.DT_FP32), out: pypto.Tensor()):
    t = pypto.tensor([2, 4], pypto.DT_FP32)
    t[:] = x
    for i in pypto.loop(2):
        if i == 5:
            t[:] = pypto.tensor([2, 4], pypto.DT_FP32)
        else:
            out[i, :] = t[i]
"""


pytestmark = pytest.mark.usefixtures("pypto")


def test_a_program_may_change_the_shape_that_it_got(tmp_path):
    program = loaded(tmp_path, HALVES)
    for heads, size in ((3, 8), (2, 6)):
        x = torch.randn(5, heads, size)
        program.rows(x, out := torch.empty_like(x))
        first, second = x.chunk(2, -1)
        assert torch.equal(out, torch.cat([-second, first], -1))
    x = torch.randn(2, 3)
    program.told(x, out := torch.empty_like(x))
    assert torch.equal(out, x)


def test_the_shape_of_a_jitted_function_of_the_language_stays_a_tuple():
    def changed(x):
        x.shape[0] = 1
        return x

    with pytest.raises(TypeError, match="does not support item assignment"):
        pto.jit(changed)(torch.ones(2))


@pytest.mark.parametrize("in_steps", [False, True])
def test_the_first_iteration_may_take_a_tensor_without_elements(tmp_path, in_steps):
    program = loaded(tmp_path, RUNNING)
    pto.config.interpret = in_steps
    try:
        for parts in (1, 2, 5):
            x = torch.randn(3, parts * 4)
            program.running(x, out := torch.empty(3, 4))
            want = x * 10 if parts == 1 else x.view(3, parts, 4).sum(1)
            torch.testing.assert_close(out, want)
    finally:
        pto.config.interpret = False


def test_a_read_of_what_is_without_elements_stays_an_error(tmp_path):
    program = loaded(tmp_path, NOTHING)
    x, out = torch.randn(2, 4), torch.zeros(2, 4)
    for name, line in (("emptied", 10), ("never", 17), ("into_an_output", 29)):
        with pytest.raises(pto.Error, match=f":{line}: a tensor is read that nothing has written"):
            getattr(program, name)(x, out)
    with pytest.raises(pto.Error, match=":23: a "):
        program.another_type(x, out)
    program.on_one_path(x, out)
    assert torch.equal(out, x)
