# SPDX-License-Identifier: Apache-2.0
"""The buffer protocol of results: each request is answered as Python's documentation says."""

import ctypes
import itertools

import numpy as np
import pytest

import pto

# Requests, as object.h has them; a combined one asks for its parts too.
WRITABLE, FORMAT, ND = 0x1, 0x4, 0x8
STRIDES = 0x10 | ND
LAYOUTS = {
    "C": 0x20 | STRIDES,
    "F": 0x40 | STRIDES,
    "ANY": 0x80 | STRIDES,
    "INDIRECT": 0x100 | STRIDES,
}
SHAPES = [(), (1,), (6,), (2, 3), (1, 6), (6, 1), (2, 1, 3), (0,), (0, 4), (4, 0)]


class View(ctypes.Structure):
    """Py_buffer."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
        ("internal", ctypes.c_void_p),
    ]


def asked(exporter, flags):
    """The members of the answer to a request, released again; raises BufferError."""
    view = View()
    api = ctypes.pythonapi
    api.PyObject_GetBuffer.argtypes = ctypes.py_object, ctypes.POINTER(View), ctypes.c_int
    api.PyBuffer_Release.argtypes = (ctypes.POINTER(View),)
    api.PyBuffer_Release.restype = None
    try:
        api.PyObject_GetBuffer(exporter, ctypes.byref(view), flags)
    except BufferError:
        assert not view.obj, "a refusal leaves obj null"
        raise
    tuples = [p and tuple(p[: view.ndim]) for p in (view.shape, view.strides, view.suboffsets)]
    found = (view.len, view.itemsize, view.readonly, view.ndim, view.format, *map(or_none, tuples))
    api.PyBuffer_Release(ctypes.byref(view))
    return found


def or_none(pointer):
    return pointer if isinstance(pointer, tuple) else None


class Foreign:
    """An array with DLPack whose library takes the owner of a result as it is."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, *, max_version=None, **_):
        return self.array.__dlpack__(max_version=max_version)

    def __dlpack_device__(self):
        return 1, 0

    @staticmethod
    def __array_namespace__():
        class Namespace:
            from_dlpack = staticmethod(lambda buffer: buffer)

        return Namespace


@pto.jit
def negated(x):
    return 0 - x


def result(shape):
    return negated(Foreign(np.ones(shape, np.float32)))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layout", [0, ND, STRIDES, *LAYOUTS.values()])
def test_every_request_gets_what_memoryview_answers(shape, layout):
    """Python's own exporter over the same memory is the standard."""
    buffer = result(shape)
    standard = memoryview(np.ones(shape, np.float32))
    for writable, kind in itertools.product((0, WRITABLE), (0, FORMAT)):
        flags = layout | writable | kind
        try:
            expected = asked(standard, flags)
        except BufferError:
            with pytest.raises(BufferError, match=r"^pto: .*\n  why: .*\n  fix: "):
                asked(buffer, flags)
        else:
            assert asked(buffer, flags) == expected, hex(flags)


def test_what_cannot_be_given_is_an_error_with_the_way_out():
    with pytest.raises(BufferError, match="2 axes .* column-major .*is row-major\n.*\n.*PyBUF_STR"):
        asked(result((2, 3)), LAYOUTS["F"])
    with pytest.raises(BufferError, match="plain bytes, with the format.*\n.*\n.*PyBUF_ND"):
        asked(result((2, 3)), FORMAT)


def test_consumers_of_plain_bytes_get_them():
    buffer = result((2, 3))
    assert bytes(buffer) == (-np.ones((2, 3), np.float32)).tobytes()
    into = bytearray(24)
    into[:] = buffer
    assert into == bytes(buffer)
