# SPDX-License-Identifier: Apache-2.0
"""Memory that pto holds beside the caller's tensors, and the packed copies of weights in it.

pto.memory()["packed_weights"]   # bytes
pto.repack(weight)               # after a write that nothing tells of
"""

import sys
from typing import Any

from pto import _core
from pto.errors import InvalidType
from pto.language.location import describe


def memory() -> dict[str, int]:
    """Bytes that pto holds: copies of weights, and those of its recycling allocator."""
    return {"packed_weights": _core.packed_weight_bytes(), **_core.memory_stats()}


def repack(weight: Any) -> None:
    """Forgets the packed copies of a torch tensor or NumPy array, so that it is packed from its
    present elements.

    Writes through PyTorch are noticed, and those of a whole tensor; this is for those of a few
    elements of an array, or through an alias: `.data`, NumPy, DLPack.
    """
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(weight, numpy.ndarray):
        while isinstance(weight.base, numpy.ndarray):
            weight = weight.base
        spans = [(n - 1) * stride for n, stride in zip(weight.shape, weight.strides, strict=True)]
        first = weight.ctypes.data + sum(min(span, 0) for span in spans)
        _core.forget_weights(first, sum(map(abs, spans)) + weight.itemsize)
        return
    if not hasattr(weight, "untyped_storage"):
        raise InvalidType(
            f"repack: weight is {describe(weight)}",
            "weights of torch.ops.pto.linear, and constants of jitted functions, are packed",
            "pass the tensor or array whose elements were written",
        )
    storage = weight.untyped_storage()
    _core.forget_weights(storage.data_ptr(), storage.nbytes())
