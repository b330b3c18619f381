# SPDX-License-Identifier: Apache-2.0
"""Operators of PyTorch's test database that differ between the npu device and the CPU, and why."""

_SPARSE = "tensors of npu devices are dense: the operator is refused with that sentence"

DIFFERENT = {
    "sparse.mm.reduce": _SPARSE,
    "sparse.sampled_addmm": _SPARSE,
    "to_sparse": _SPARSE,
    "tensor_split": "PyTorch wants the indices on the cpu, as for every other device",
}

# Their values are whatever the memory held; only shapes, strides and dtypes are compared.
UNINITIALISED = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
}  # fmt: skip
