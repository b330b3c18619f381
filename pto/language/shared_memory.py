# SPDX-License-Identifier: Apache-2.0
"""Whether arrays of NumPy and CPU tensors of PyTorch share memory.

    share_memory(x[::2], x[1::2])    # False: no byte belongs to both
    as_bytes(x).shape                # (*x.shape, bytes of an element)

Thread safety: pure functions.
"""

from typing import Any

_WORK = 100_000  # steps of NumPy's search for a shared byte; beyond them there might be one


class _Bytes:
    """Stands for the bytes of an array, and reads none of them."""

    def __init__(self, place: int, shape: tuple, strides: tuple):
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "data": (place, False),
                                    "shape": shape, "strides": strides}  # fmt: skip


def as_bytes(array: Any) -> Any:
    """The bytes of a NumPy array or a CPU tensor of PyTorch, as an array; None for others."""
    import numpy

    about = getattr(array, "__array_interface__", None) if hasattr(array, "strides") else None
    if about is not None:
        item = array.itemsize
        strides, place = array.strides, about["data"][0]
    elif hasattr(array, "data_ptr") and array.device.type == "cpu":
        item = array.element_size()
        strides, place = tuple(step * item for step in array.stride()), array.data_ptr()
    else:
        return None
    return numpy.asarray(_Bytes(place, (*array.shape, item), (*strides, 1)))


def share_memory(a: Any, b: Any) -> bool:
    """Whether a byte may belong to both; False for arrays of which as_bytes() knows no memory."""
    if a is b:
        return True
    first, second = as_bytes(a), as_bytes(b)
    return first is not None and second is not None and bytes_meet(first, second)


def bytes_meet(first: Any, second: Any) -> bool:
    """Whether a byte may belong to both results of as_bytes()."""
    import numpy

    if not numpy.may_share_memory(first, second):
        return False
    try:
        return numpy.shares_memory(first, second, max_work=_WORK)
    except RuntimeError:  # it is too hard to find out
        return True
