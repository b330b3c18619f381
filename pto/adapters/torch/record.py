# SPDX-License-Identifier: Apache-2.0
"""Spells records as PyTorch does: its element types, and the schema of its operator.

Thread safety: pure functions.
"""

from collections.abc import Callable
from typing import Any

import torch
from pto import _core
from pto.adapters.record import Record

# PyTorch's element types by our names, and back.
DTYPES = {row.name: getattr(torch, row.numpy) for row in _core.dtypes()}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def qualified_name(record: Record) -> str:
    """The operator's name in PyTorch: "pto::gelu"; one with a namespace keeps its name."""
    return record.name if "::" in record.name else f"pto::{record.name}"


def packet(record: Record) -> Any:
    """The operator in PyTorch: torch.ops.pto.gelu."""
    space, _, name = qualified_name(record).partition("::")
    return getattr(getattr(torch.ops, space), name)


def returns_self(record: Record) -> bool:
    """Says whether it replaces its first argument and nothing else, and returns it: relu_."""
    replaced = [output.replaces for output in record.outputs]
    return replaced == [0] and record.n_returns == 1 and not record.arguments[0].keyword_only


def _local_name(record: Record) -> str:
    return qualified_name(record).partition("::")[2]


def _floats(record: Record) -> dict[int, str]:
    """By place, PyTorch's types of arguments that are real numbers, our Scalars included."""
    floats = ((i, a) for i, a in enumerate(record.arguments) if a.kind == "float")
    return {i: "float?" if a.optional else "float" for i, a in floats}


def torch_schema(record: Record) -> str:
    """The schema for PyTorch, which returns no mutable argument but for one case.

    PyTorch's functionalisation refuses operators that return an argument which they change, except
    one that returns its first (with the tag `inplace`).
    """
    returned = [o for o in record.outputs[: record.n_returns] if o.replaces < 0]
    returns = ["Tensor[]" if o.is_list else "Tensor" for o in returned]
    if returns_self(record):
        returns = [record.arguments[0].text]
    return _core.respelled_schema(record.schema, _local_name(record), _floats(record), [], returns)


def out_names(record: Record) -> list[str]:
    """The names of the arguments of the overload `out` that take the results; [] without it.

    An operator has no such overload if it replaces an argument, returns a list or a result whose
    size only the run tells, takes no single tensor, or is a gradient.
    """
    if not any(a.text == "Tensor" for a in record.arguments):
        return []
    if (
        record.mutates
        or record.gradient_of >= 0
        or any(o.is_list or o.is_bounded for o in record.outputs)
    ):
        return []
    count = len(record.outputs)
    names = ["out"] if count == 1 else [f"out{i}" for i in range(count)]
    return [] if set(names) & set(record.names) else names


def into_outs(
    record: Record, function: Callable, write: Callable[[torch.Tensor, torch.Tensor], Any]
) -> Callable:
    """A function as the overload `out`: write(out, result) for each result."""
    names = out_names(record)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        outs = [kwargs.pop(name) for name in names]
        results = function(*args, **kwargs)
        for out, result in zip(outs, [results] if len(outs) == 1 else results, strict=True):
            write(out, result)
        return outs[0] if len(outs) == 1 else tuple(outs)

    return kernel


def out_schema(record: Record) -> str:
    """The schema of the overload `out`.

    Its first Tensor is a Tensor?, so that it is not the signature of the operator itself: for one
    result Inductor would call it instead, which PyTorch 2.13 cannot do from C++ (AOTInductor).
    """
    first = [a.text for a in record.arguments].index("Tensor")
    types = [f"Tensor({chr(ord('a') + i)}!)" for i in range(len(record.outputs))]
    outs = [f"{t} {n}" for t, n in zip(types, out_names(record), strict=True)]
    name = f"{_local_name(record)}.out"
    return _core.respelled_schema(
        record.schema, name, _floats(record) | {first: "Tensor?"}, outs, types
    )
