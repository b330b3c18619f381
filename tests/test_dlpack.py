# SPDX-License-Identifier: Apache-2.0
"""Arrays of any library through DLPack: taken where they lie, given back as the library's own."""

import ctypes
import gc
import threading

import numpy as np
import pytest

import pto
from pto import _core

CAPSULE_NAME = ctypes.pythonapi.PyCapsule_GetName
CAPSULE_NAME.restype, CAPSULE_NAME.argtypes = ctypes.c_char_p, [ctypes.py_object]


class Foreign:
    """An array of a library that has DLPack and nothing else."""

    def __init__(self, array, versioned=True, device=(1, 0)):
        self.array, self.versioned, self.device = array, versioned, device

    def __dlpack__(self, *, max_version=None, **more):
        if not self.versioned and max_version is not None:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(max_version=max_version if self.versioned else None)

    def __dlpack_device__(self):
        return self.device


class Namespaced(Foreign):
    """The same with a way to make arrays, which keeps what it was given."""

    @staticmethod
    def __array_namespace__():
        class Namespace:
            @staticmethod
            def from_dlpack(buffer):
                return buffer

        return Namespace


@pto.jit
def twice(x):
    return x * 2


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.arange(6, dtype=np.int32).reshape(2, 3).T,
        np.arange(9, dtype=np.float64)[::-2],
        np.array(3.0, np.float32),
        np.zeros((0, 4), np.float32),
        np.arange(5, dtype=np.float16)[2:],
    ],
    ids=["dense", "transposed", "backwards", "scalar", "empty", "offset"],
)
def test_layouts_of_any_kind_are_read_where_they_lie(array, versioned):
    np.testing.assert_array_equal(twice(Foreign(array, versioned)), array * 2)


def test_a_read_only_array_is_an_input():
    array = np.arange(4, dtype=np.float32)
    array.flags.writeable = False
    np.testing.assert_array_equal(twice(Foreign(array)), array * 2)


def test_a_read_only_array_is_no_output():
    x, out = np.ones(4, np.float32), np.zeros(4, np.float32)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only\n.*why: results are written into it"):
        twice(Foreign(x), out=Foreign(out))
    assert not out.any()


def test_an_output_is_written_where_it_lies():
    x, out = np.ones(4, np.float32), np.zeros(4, np.float32)
    twice(Foreign(x), out=Foreign(out))
    np.testing.assert_array_equal(out, 2 * x)


def result():
    return twice(Namespaced(np.arange(6, dtype=np.float32).reshape(2, 3)))


def test_a_result_speaks_both_versions_of_dlpack():
    buffer = result()
    assert buffer.__dlpack_device__() == (1, 0)
    for version, name in [
        (None, b"dltensor"),
        ((0, 8), b"dltensor"),
        ((1, 1), b"dltensor_versioned"),
    ]:
        assert CAPSULE_NAME(buffer.__dlpack__(max_version=version)) == name
    with pytest.raises(BufferError, match="not copied"):
        buffer.__dlpack__(copy=True)


def test_what_takes_a_result_over_shares_its_memory_and_keeps_it():
    before = _core.memory_stats()["live_bytes"]
    buffer = result()
    first, second = np.from_dlpack(buffer), np.asarray(buffer)
    assert first.ctypes.data == second.ctypes.data
    del buffer, second
    np.testing.assert_array_equal(first, 2 * np.arange(6).reshape(2, 3))
    del first
    gc.collect()
    assert _core.memory_stats()["live_bytes"] == before


def test_a_capsule_that_nobody_takes_gives_its_memory_back():
    before = _core.memory_stats()["live_bytes"]
    for version in (None, (1, 0)):
        result().__dlpack__(max_version=version)
    gc.collect()
    assert _core.memory_stats()["live_bytes"] == before


def test_results_may_die_on_any_thread():
    before = _core.memory_stats()["live_bytes"]
    arrays = [np.from_dlpack(result()) for _ in range(40)]
    pop = threading.Barrier(4)

    def drop():
        pop.wait()
        for _ in range(10):
            arrays.pop()

    threads = [threading.Thread(target=drop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert _core.memory_stats()["live_bytes"] == before


def test_bf16_comes_and_goes():
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(6, dtype=jax.numpy.bfloat16)
    y = twice(x)
    assert isinstance(y, jax.Array) and y.dtype == jax.numpy.bfloat16
    np.testing.assert_array_equal(y, x * 2)


def test_an_element_type_that_kernels_lack_is_refused_by_name():
    jax = pytest.importorskip("jax")
    x = jax.numpy.zeros(3, jax.numpy.float8_e4m3fn)
    with pytest.raises(TypeError, match="float8_e4m3fn\n  why: the element types are bool, i8"):
        twice(x)


def test_arrays_of_two_libraries_are_refused():
    with pytest.raises(TypeError, match="y is .*another array is of type Foreign\n.*one library"):
        pto.jit(lambda x, y: x + y)(Foreign(np.ones(2)), np.ones(2))
