# SPDX-License-Identifier: Apache-2.0
"""Memory that pto holds beside the caller's tensors, and the packed copies of weights in it.

pto.memory()["packed_weights"]   # bytes
pto.repack(weight)               # after a write that nothing tells of
"""

from typing import Any

from pto import _core
from pto.errors import InvalidType
from pto.language.location import describe


def memory() -> dict[str, int]:
    """Bytes that pto holds: copies of weights, and those of its recycling allocator."""
    return {"packed_weights": _core.packed_weight_bytes(), **_core.memory_stats()}


def repack(weight: Any) -> None:
    """Forgets the packed copy of a torch tensor, so that it is packed from its present elements.

    Writes through PyTorch are noticed; this is for those of a few elements through an alias:
    `.data`, NumPy, DLPack.
    """
    if not hasattr(weight, "untyped_storage"):
        raise InvalidType(
            f"repack: weight is {describe(weight)}",
            "weights of PyTorch's tensors are packed, by torch.ops.pto.linear",
            "pass the tensor whose elements were written",
        )
    storage = weight.untyped_storage()
    _core.forget_weights(storage.data_ptr(), storage.nbytes())
