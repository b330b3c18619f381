# SPDX-License-Identifier: Apache-2.0
"""vmap makes one call with the batch in front where that is the same, else one call after another.

Thread safety: any thread may trace.
"""

from typing import Any

import jax
from pto.adapters.batch import batched_outputs
from pto.adapters.jax.site import DTYPE_NAMES, OPERAND, Site


def call(site: Site, operands: Any) -> tuple[jax.Array, ...]:
    """site.call(operands), which can be mapped over a batch."""

    @jax.custom_batching.custom_vmap
    def run(*operands):
        return site.call(operands)

    @run.def_vmap
    def rule(size: int, batched: list[bool], *operands):
        if size == 1:
            rows = [o[0] if b else o for o, b in zip(operands, batched, strict=True)]
            outputs = tuple(o[None] for o in call(site, rows))
            return outputs, (True,) * len(outputs)
        mapped = _mapped(site, operands, batched)
        if mapped is not None:
            return call(site, operands), tuple(mapped)
        return _one_by_one(site, operands, batched)

    return run(*operands)


def _mapped(site: Site, operands: Any, batched: list[bool]) -> list[bool] | None:
    """Says which outputs of one call with the batch have it in front; None: not the same call."""
    if any(batched[site.n_tensors :]):
        return None
    tensors = [
        (DTYPE_NAMES[str(o.dtype)], tuple(o.shape)[b:], b)
        for o, b in zip(operands[: site.n_tensors], batched, strict=False)
    ]
    attributes = [0.0 if a is OPERAND else a for a in site.attributes]
    return batched_outputs(site.record, site.counts, tensors, attributes)


def _one_by_one(site: Site, operands: Any, batched: list[bool]) -> tuple[Any, Any]:
    def one(rows: tuple) -> tuple:
        rest = iter(rows)
        return call(site, [next(rest) if b else o for o, b in zip(operands, batched, strict=True)])

    rows = tuple(o for o, b in zip(operands, batched, strict=True) if b)
    outputs = jax.lax.map(one, rows)
    return outputs, (True,) * len(outputs)
