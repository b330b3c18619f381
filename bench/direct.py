# SPDX-License-Identifier: Apache-2.0
"""Calls a registered operator through its C ABI, with its output in a buffer that we choose.

    run = contender("softmax", [x], out=out)      # fills `out` and returns it

This is the call that an adapter makes, without the framework's dispatcher and allocator: it shows
the kernel. What a user sees, with a fresh output, is torch.ops.pto.softmax.
"""

import ctypes
from collections.abc import Callable

import pto.ops  # noqa: F401 registers the operators
from bench.reference import libpto, libpto_torch
from pto import _core

DTYPES = {row.name: code for code, row in enumerate(_core.dtypes())}
TORCH_NAMES = {"torch.float32": "f32", "torch.float16": "f16", "torch.bfloat16": "bf16"}


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
    ]


class _Content(ctypes.Union):
    _fields_ = [
        ("integer", ctypes.c_int64),
        ("real", ctypes.c_double),
        ("text", ctypes.c_char_p),
    ]


class _Value(ctypes.Structure):
    _fields_ = [("content", _Content), ("count", ctypes.c_int64)]


class _Call(ctypes.Structure):
    _fields_ = [
        ("op", ctypes.c_void_p),
        ("tensors", ctypes.POINTER(_Tensor)),
        ("counts", ctypes.POINTER(ctypes.c_int32)),
        ("attributes", ctypes.POINTER(_Value)),
        ("allocate", ctypes.c_void_p),
        ("user", ctypes.c_void_p),
        ("narrow", ctypes.c_void_p),
        ("in_place", ctypes.c_void_p),
    ]


def _tensor(t) -> _Tensor:
    sizes = (ctypes.c_int64 * t.ndim)(*t.shape)
    strides = (ctypes.c_int64 * t.ndim)(*t.stride())
    return _Tensor(t.data_ptr(), sizes, strides, t.ndim, DTYPES[TORCH_NAMES[str(t.dtype)]])


def _value(value) -> _Value:
    if isinstance(value, str):
        text = value.encode()
        return _Value(_Content(text=text), len(text))
    if isinstance(value, float):
        return _Value(_Content(real=value), 0)
    return _Value(_Content(integer=int(value)), 0)


def contender(name: str, tensors: list, attributes: tuple, out, allocate: int) -> Callable:
    """A function that runs operator `name` into `out`, dense and of the result's size.

    `allocate` is the address of a function that returns its first argument.
    """
    library = ctypes.CDLL(str(libpto()))
    library.pto_operator_find.restype = ctypes.c_void_p
    library.pto_operator_error.restype = ctypes.c_char_p
    op = library.pto_operator_find(name.encode())
    if not op:
        raise LookupError(f"no operator {name!r} is registered; see pto/ops")
    adapter = ctypes.CDLL(str(libpto_torch()))
    inputs = (_Tensor * len(tensors))(*[_tensor(t) for t in tensors])
    values = (_Value * max(1, len(attributes)))(*[_value(v) for v in attributes])
    call = _Call(op, inputs, None, values, allocate, out.data_ptr())
    address, run = ctypes.addressof(call), adapter.pto_torch_operator_run
    run.argtypes = [ctypes.c_void_p]

    def into():
        if run(address):
            raise RuntimeError(library.pto_operator_error().decode())
        return out

    into.keeps = (call, inputs, values, tensors, out)
    return into
