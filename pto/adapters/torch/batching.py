# SPDX-License-Identifier: Apache-2.0
"""torch.vmap makes one call with the batch in front where that is the same, else one call a row.

adapters/batch.py proves from the traced operator that it is the same, once for each set of ranks,
types and attributes. Thread safety: rules may run on any thread.
"""

from dataclasses import dataclass
from typing import Any

import torch
from pto.adapters.batch import batched_outputs, padded_outputs
from pto.adapters.record import Record
from pto.adapters.torch.record import DTYPE_NAMES, into_outs, out_names, packet, qualified_name
from pto.errors import InvalidValue
from torch._functorch.autograd_function import custom_function_call_vmap_helper
from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter
from torch.utils import _pytree as pytree

_NUMBERS = ("float", "SymInt")  # attributes on which no kernel depends


@dataclass(frozen=True)
class _Proof:
    """How one call does what is asked of each row."""

    ranks: list[int | None]  # of each result without the batch; None: it has none
    attributes: list[Any]  # of that call
    expands: bool = False  # whether also what all rows share gets the batch


class BatchingRule:
    """vmap of one operator; it keeps its proofs.

    Raises InvalidValue for an operator whose result has a size that only the run tells, and for a
    tensor that all rows would replace.
    """

    def __init__(self, record: Record):
        self.record = record
        self.found: dict[tuple, _Proof | None] = {}

    def __call__(self, _keys: Any, *args: Any, **kwargs: Any) -> Any:
        values = self.record.bind(args, kwargs)
        interpreter = retrieve_current_functorch_interpreter()
        return custom_function_call_vmap_helper(interpreter, self._mapped, self._call, *values)

    def _call(self, *values: Any) -> Any:
        """The operator with its arguments in schema order."""
        args, named = self.record.call(values)
        return packet(self.record).default(*args, **named)

    def _mapped(self, info: Any, in_dims: tuple, *values: Any) -> tuple[Any, Any]:
        """Returns what vmap asks for: the results, and where their batch is."""
        self._refuse_bounded()
        self._refuse_shared(in_dims)
        leaves, form = pytree.tree_flatten(values)
        dims = pytree.tree_leaves(in_dims)
        leaves = [
            x if dim is None else x.movedim(dim, 0) for x, dim in zip(leaves, dims, strict=True)
        ]
        batched = [dim is not None for dim in dims]
        proof = None if info.batch_size == 1 else self._proof(values, leaves, batched)
        if proof is None:
            return self._row_by_row(leaves, batched, form, info.batch_size)
        if proof.expands:
            leaves = [
                x.expand(info.batch_size, *x.shape) if isinstance(x, torch.Tensor) and not b else x
                for x, b in zip(leaves, batched, strict=True)
            ]
            batched = [isinstance(x, torch.Tensor) for x in leaves]
        return self._at_once(proof, leaves, batched, form)

    def _at_once(
        self, proof: "_Proof", leaves: list[Any], batched: list[bool], form: Any
    ) -> tuple[Any, Any]:
        """One call; its results without their padding."""
        if not self.record.mutates:  # what is replaced lies as it is
            highest = max(x.ndim - b for x, b in _tensors(leaves, batched))
            leaves = [_padded(x, highest) if b else x for x, b in zip(leaves, batched, strict=True)]
        results = self._call(*self._with(proof.attributes, form.unflatten(leaves)))
        if self.record.mutates:
            return results, pytree.tree_map(lambda _: 0, results)
        leaves, form = pytree.tree_flatten(results)
        leaves = [
            x if rank is None else x.reshape(x.shape[0], *x.shape[x.ndim - rank :])
            for x, rank in zip(leaves, proof.ranks, strict=True)
        ]
        places = [None if rank is None else 0 for rank in proof.ranks]
        return form.unflatten(leaves), form.unflatten(places)

    def _refuse_bounded(self) -> None:
        if self.record.is_bounded:
            raise InvalidValue(
                f"vmap: the size of the result of {self.record.name} is known only after it ran",
                "each row may get a size of its own, but all rows of a tensor have one size",
                "call it for each row in a loop of Python",
            )

    def _refuse_shared(self, in_dims: tuple) -> None:
        """Refuses to replace a tensor that all rows share: it cannot take the elements of each."""
        for a, dim in zip(self.record.arguments, in_dims, strict=True):
            if a.mutable and dim is None:
                raise InvalidValue(
                    f"vmap: {self.record.name} replaces the elements of {a.name}, "
                    "over which vmap does not run",
                    "all rows would write to the same elements",
                    f"let vmap run over {a.name} too, or pass {a.name}.expand(rows, ...).clone()",
                )

    def _with(self, attributes: list[Any], values: Any) -> list[Any]:
        """The arguments with these attributes; numbers of the call stay as they are."""
        by_name = dict(zip([a.name for a in self.record.attributes], attributes, strict=True))
        return [
            value if a.is_tensor or a.kind in _NUMBERS else by_name[a.name]
            for value, a in zip(values, self.record.arguments, strict=True)
        ]

    def _proof(self, values: tuple, leaves: list[Any], batched: list[bool]) -> "_Proof | None":
        """How one call does it; None if a call with the batch computes something else."""
        arguments = self.record.arguments
        counts = [
            len(v) if isinstance(v, list) else int(v is not None)
            for v, a in zip(values, arguments, strict=True)
            if a.is_tensor
        ]
        attributes = [
            0 if a.kind in _NUMBERS and v is not None else v
            for v, a in zip(values, arguments, strict=True)
            if not a.is_tensor
        ]
        tensors = [
            (DTYPE_NAMES.get(x.dtype), tuple(1 if n == 1 else None for n in x.shape[b:]), b)
            for x, b in _tensors(leaves, batched)
        ]
        key = (*counts, *tensors, repr(attributes))
        if key not in self.found:
            self.found[key] = self._proved(counts, tensors, attributes)
        return self.found[key]

    def _proved(
        self, counts: list[int], tensors: list[tuple], attributes: list[Any]
    ) -> "_Proof | None":
        if any(name is None for name, _, _ in tensors):
            return None  # the call says what is wrong
        if self.record.mutates:
            found = batched_outputs(self.record, counts, tensors, attributes)
            return _Proof([], attributes) if found and all(found) else None
        if found := padded_outputs(self.record, counts, tensors, attributes):
            return _Proof(*found)
        # The gradient of what all rows share is one for each row.
        tensors = [(dtype, shape, True) for dtype, shape, _ in tensors]
        found = padded_outputs(self.record, counts, tensors, attributes)
        return _Proof(*found, expands=True) if found else None

    def _row_by_row(
        self, leaves: list[Any], batched: list[bool], form: Any, rows: int
    ) -> tuple[Any, Any]:
        """The results of one call a row, stacked along a new first axis."""
        if rows == 0:  # one row of zeros says what the results look like
            leaves = [x.new_zeros(1, *x.shape[1:]) if b else x
                      for x, b in zip(leaves, batched, strict=True)]  # fmt: skip
        calls = [
            self._call(
                *form.unflatten(x[row] if b else x for x, b in zip(leaves, batched, strict=True))
            )
            for row in range(max(rows, 1))
        ]
        results = pytree.tree_map(lambda *xs: torch.stack(xs)[:rows], calls[0], *calls[1:])
        return results, pytree.tree_map(lambda _: 0, results)


def _tensors(leaves: list[Any], batched: list[bool]) -> list[tuple[torch.Tensor, bool]]:
    pairs = zip(leaves, batched, strict=True)
    return [(x, b) for x, b in pairs if isinstance(x, torch.Tensor)]


def _padded(x: torch.Tensor, rank: int) -> torch.Tensor:
    """x with axes of 1 behind the batch, so that it has `rank` axes without it."""
    return x.reshape(x.shape[0], *[1] * (rank + 1 - x.ndim), *x.shape[1:])


class OlderRule:
    """The rule for the older vmap of PyTorch, by which torch.autograd vectorizes calls of gradients
    (is_grads_batched, vectorize=True, check_batched_grad): each of its levels becomes torch.vmap.
    """

    def __init__(self, record: Record):
        self.operator = packet(record).default

    def __call__(self, _keys: Any, *args: Any, **kwargs: Any) -> Any:
        leaves, form = pytree.tree_flatten((args, kwargs))
        places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
        level = torch._C._vmapmode_decrement_nesting() + 1
        try:  # what has no batch of this level gets one of size 1
            tensors = [torch._remove_batch_dim(leaves[i], level, 1, 0) for i in places]
            rows = max(x.shape[0] for x in tensors)
            dims = [0 if x.shape[0] == rows else None for x in tensors]
            tensors = [x if d == 0 else x[0] for x, d in zip(tensors, dims, strict=True)]

            def call(*rows_of: torch.Tensor) -> Any:
                given = leaves.copy()
                for place, x in zip(places, rows_of, strict=True):
                    given[place] = x
                args, kwargs = form.unflatten(given)
                return self.operator(*args, **kwargs)

            results = torch.vmap(call, in_dims=tuple(dims))(*tensors)
        finally:
            torch._C._vmapmode_increment_nesting()
        return pytree.tree_map(lambda x: torch._add_batch_dim(x, 0, level), results)


def register(record: Record, library: torch.library.Library) -> None:
    """Gives an operator of PyTorch, and its overload `out`, the rule for vmap."""
    name = qualified_name(record)
    library.impl(name, BatchingRule(record), "FuncTorchBatched", with_keyset=True)
    if not record.mutates:
        library.impl(name, OlderRule(record), "Batched", with_keyset=True)
    if out_names(record):
        kernel = into_outs(record, packet(record).default, torch.Tensor.copy_)
        library.impl(f"{name}.out", kernel, "FuncTorchBatched")
