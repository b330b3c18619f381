# SPDX-License-Identifier: Apache-2.0
"""Records as PyTorch spells them: its element types, and the schema of its operator."""

import torch
from pto.adapters.record import Record

# Both ways between PyTorch's element types and the names of ours.
DTYPE_NAMES = {
    torch.bool: "bool",
    **{getattr(torch, f"int{bits}"): f"i{bits}" for bits in (8, 16, 32, 64)},
    **{getattr(torch, f"uint{bits}"): f"u{bits}" for bits in (8, 16, 32, 64)},
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
}
DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}


def torch_schema(record: Record) -> str:
    """The schema for PyTorch: a Scalar is a float there, and a mutable argument is not returned.

    Functionalisation refuses operators that return an argument which they change.
    """
    arguments, keyword_only = [], False
    for a in record.arguments:
        if a.keyword_only and not keyword_only:
            arguments.append("*")
            keyword_only = True
        text = a.text.replace("Scalar", "float")
        default = f"={a.default!r}" if a.has_default else ""
        arguments.append(f"{text} {a.name}{default}")
    returns = [
        "Tensor[]" if output.is_list else "Tensor"
        for output in record.outputs[: record.n_returns]
        if output.replaces < 0
    ]
    result = returns[0] if len(returns) == 1 else f"({', '.join(returns)})"
    return f"{record.name}({', '.join(arguments)}) -> {result}"
