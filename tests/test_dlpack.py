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


def live_bytes():
    gc.collect()  # what this test and others left
    return _core.memory_stats()["live_bytes"]


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
    assert CAPSULE_NAME(buffer.__dlpack__(copy=False, dl_device=(1, 0), stream=None)) == b"dltensor"


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_copy_has_memory_of_its_own_and_says_so(version):
    before = live_bytes()
    buffer = result()
    capsule = buffer.__dlpack__(max_version=version, copy=True)
    assert live_bytes() >= before + 2 * np.asarray(buffer).nbytes
    if version:
        managed = ctypes.pythonapi.PyCapsule_GetPointer
        managed.restype, managed.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        flags_at, is_copied = 24, 2  # of DLManagedTensorVersioned in dlpack.h
        found = ctypes.c_uint64.from_address(managed(capsule, CAPSULE_NAME(capsule)) + flags_at)
        assert found.value == is_copied
    array, shared = np.from_dlpack(Capsule(capsule)), np.asarray(buffer)
    shared += 1
    np.testing.assert_array_equal(array, 2 * np.arange(6).reshape(2, 3))
    del buffer, capsule, array, shared
    assert live_bytes() == before


class Capsule:
    """A capsule that was made before."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return 1, 0


@pytest.mark.parametrize(
    ("asked", "error", "text"),
    [
        ({"dl_device": (2, 0)}, BufferError, r"\(2, 0\)\), but a result lies on device \(1, 0\)"),
        ({"dl_device": (1, 1)}, BufferError, r"\(1, 1\)\), but"),
        ({"dl_device": (2**70, 0)}, BufferError, "other device"),
        ({"dl_device": (2, 0), "copy": True}, BufferError, "copies results to no other device"),
        ({"dl_device": (2, 0), "copy": False}, BufferError, "leave dl_device away"),
        ({"dl_device": "cpu"}, TypeError, "dl_device='cpu'.*two integers"),
        ({"dl_device": (1,)}, TypeError, "two integers"),
        ({"dl_device": (1, None)}, TypeError, "two integers"),
        ({"max_version": 1}, TypeError, "max_version=1.*two integers"),
        ({"max_version": (1.5, 0)}, TypeError, "two integers"),
        ({"max_version": (1, 0, 0)}, TypeError, "two integers"),
        ({"stream": 3}, BufferError, "the CPU has no streams"),
    ],
)
def test_what_a_result_cannot_give_is_refused_by_name(asked, error, text):
    with pytest.raises(error, match=f"(?s)^pto: .*{text}"):
        result().__dlpack__(**asked)


def test_any_later_version_is_served():
    for version in [(2, 0), (2**70, 0)]:
        assert CAPSULE_NAME(result().__dlpack__(max_version=version)) == b"dltensor_versioned"


def test_what_takes_a_result_over_shares_its_memory_and_keeps_it():
    before = live_bytes()
    buffer = result()
    first, second = np.from_dlpack(buffer), np.asarray(buffer)
    assert first.ctypes.data == second.ctypes.data
    del buffer, second
    np.testing.assert_array_equal(first, 2 * np.arange(6).reshape(2, 3))
    del first
    assert live_bytes() == before


def test_a_capsule_that_nobody_takes_gives_its_memory_back():
    before = live_bytes()
    for version in (None, (1, 0)):
        result().__dlpack__(max_version=version)
    assert live_bytes() == before


def test_results_may_die_on_any_thread():
    before = live_bytes()
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
    assert live_bytes() == before


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
