# SPDX-License-Identifier: Apache-2.0
"""Bound calls (abi/bound_call.h): a call of a jitted function, made again without Python."""

import ctypes

import numpy as np
import pytest

import pto

POINTER = ctypes.c_void_p


class Call(ctypes.Structure):
    """pto_bound_call."""

    RUN = ctypes.CFUNCTYPE(ctypes.c_int32, POINTER, POINTER, POINTER)
    _fields_ = [("n_inputs", ctypes.c_int32), ("n_outputs", ctypes.c_int32), ("tensors", POINTER),
                ("run", RUN), ("error", ctypes.CFUNCTYPE(ctypes.c_char_p)),
                ("allocate", ctypes.CFUNCTYPE(POINTER, ctypes.c_size_t)),
                ("free", ctypes.CFUNCTYPE(None, POINTER)),
                ("retain", ctypes.CFUNCTYPE(POINTER, POINTER)),
                ("release", ctypes.CFUNCTYPE(None, POINTER))]  # fmt: skip


def bound(function, *args, **kwargs):
    """The call, and the capsule that keeps it; the function is called once before."""
    function(*args, **kwargs)
    capsule = function.bound_call(*args, **kwargs)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = [ctypes.py_object, ctypes.c_char_p], POINTER
    return Call.from_address(pointer(capsule, b"pto.bound_call")), capsule


def places(*arrays):
    return (POINTER * len(arrays))(*(one.ctypes.data for one in arrays))


def run(call, inputs, outputs):
    return call.run(ctypes.addressof(call), places(*inputs), places(*outputs))


def drawn(*shape):
    return np.random.default_rng(3).standard_normal(shape).astype("f")


@pto.jit
def scaled(x, y, factor=2.0):
    return x * factor + y, pto.amax(x, -1)


def test_it_runs_on_other_memory_with_the_numbers_of_its_call():
    x, y = drawn(4, 6), drawn(4, 6) + 1
    call, _kept = bound(scaled, x, y, 3.0)
    assert (call.n_inputs, call.n_outputs) == (2, 2)
    a, b, made, most = y - 3, x * 2, np.empty_like(x), np.empty(4, "f")
    assert run(call, (a, b), (made, most)) == 0
    wanted = scaled(a, b, 3.0)
    assert np.array_equal(made, wanted[0]) and np.array_equal(most, wanted[1])


def test_it_outlives_its_function_and_its_capsule():
    call, capsule = bound(pto.jit(lambda x: x + 1), x := drawn(8))
    address = ctypes.addressof(call)
    call.retain(address)
    del capsule
    out = np.empty_like(x)
    assert run(call, (x,), (out,)) == 0 and np.array_equal(out, x + 1)
    call.release(address)


@pto.jit
def grow(x, y):
    x[:] = x * y


def test_a_function_that_writes_an_argument_does_so_in_place():
    x, y = drawn(4, 6), drawn(4, 6) + 1
    call, _kept = bound(grow, x.copy(), y)
    one = x.copy()
    assert run(call, (one, y), (one,)) == 0 and np.array_equal(one, x * y)
    assert run(call, (one, one), (one,)) == 0  # element by element
    assert np.array_equal(one, x * y * (x * y))


def test_a_failure_has_a_text():
    x, at = drawn(5), np.array([0, 1, 9])
    call, _kept = bound(pto.jit(lambda x, at: pto.gather(x, 0, at)), x, at % 5)
    assert run(call, (x, at), (np.empty(3, "f"),)) != 0
    assert b"position 9 along axis 0, which has the size 5" in call.error()


@pto.jit
def turn(x):
    x[:] = pto.flip(x, [0])


@pytest.mark.parametrize(
    "why, function, args",
    [
        ("its result is assembled", pto.jit(lambda x: {"y": x * 2}), [drawn(3)]),
        ("an argument is no row-major one for the code", grow, [drawn(6, 4).T, drawn(4, 6)]),
        ("the function reads what it has written", turn, [drawn(6)]),
    ],
)
def test_other_calls_have_no_such_form(why, function, args):
    function(*args)
    assert function.bound_call(*args) is None


def test_a_call_that_does_not_fit_says_so():
    with pytest.raises(TypeError, match="scaled"):
        scaled.bound_call(drawn(3))
    with pytest.raises(ValueError, match="(?s)5.*4|4.*5"):
        scaled.bound_call(drawn(3, 4), drawn(3, 5))
