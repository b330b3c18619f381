# SPDX-License-Identifier: Apache-2.0
"""Puts direct calls (direct_call.cpp) in the place of PyTorch's callables of our operators.

PyTorch keeps the callable of an operator, and of each overload, in their attribute `_op`. Where the
library is not built they stay as they are.
"""

import ctypes
from typing import Any

import torch
from pto.adapters import build as adapter_libraries
from pto.adapters.record import Record
from pto.adapters.torch import build
from pto.adapters.torch.record import packet, qualified_name
from pto.adapters.torch_threads import library

_library = adapter_libraries.load(build.DIRECT)


def _direct_call(original: Any, index: int) -> Any:
    function = ctypes.PyDLL("", handle=_library._handle).pto_torch_direct_call
    function.argtypes = [ctypes.py_object, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p]
    function.restype = ctypes.py_object
    addresses = [library().pto_torch_run_address, library().pto_torch_plain_address]
    for address in addresses:
        address.restype = ctypes.c_void_p
    return function(original, index, *(address() for address in addresses))


def install(record: Record) -> None:
    """Lets Python call an operator directly if it takes and returns tensors one by one."""
    has_lists = any(a.kind == "Tensor[]" for a in record.arguments) or any(
        output.is_list for output in record.outputs
    )
    if _library is None or record.mutates or has_lists:
        return
    operator = packet(record)
    for holder in (operator, operator.default):
        holder._op = _direct_call(holder._op, record.index)
    # TorchScript knows an operator by its callable.
    torch.jit._builtins._register_builtin(operator._op, qualified_name(record))
