# SPDX-License-Identifier: Apache-2.0
"""Gradients in reverse mode, by the operator's gradient operator; see abi/operator.h.

Errors: InvalidValue where a gradient is asked for that does not exist. Thread safety: any thread.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
from jax import numpy as jnp
from jax.custom_derivatives import CustomVJPPrimal, SymbolicZero
from pto.adapters.gradient import (
    GradientPlan,
    gathered,
    gradient_plan,
    needs_of,
    picked,
    refuse_lacking,
)
from pto.adapters.jax import batching
from pto.adapters.jax.site import OPERAND, Site, alike
from pto.adapters.record import Record
from pto.errors import InvalidValue


def _static() -> Any:
    return field(metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Saved:
    """The inputs of the backward pass, with None for arrays that it does not need."""

    tensors: list[jax.Array | None]  # of the call, then its outputs, in one list
    numbers: list[jax.Array]
    needs: int = _static()  # the attribute of the gradient operator
    counts: tuple = _static()  # tensors of each output
    taken: tuple = _static()  # (shape, dtype) of all operands
    made: tuple = _static()  # (shape, dtype) of all outputs


def call(site: Site, operands: list[jax.Array], record_of: Any) -> tuple[jax.Array, ...]:
    """The outputs of a call in one list, with gradients; `record_of` gives an index's record."""

    @jax.custom_vjp
    def run(*operands):
        return batching.call(site, operands)

    def forward(*primals: CustomVJPPrimal):
        operands = [p.value for p in primals]
        counts = tuple(len(m) if isinstance(m, list) else 1 for m in site.outputs(operands))
        needs = _needs(site, counts, [p.perturbed for p in primals])
        outputs = run(*operands)  # not batching.call: this may be differentiated in its turn
        return outputs, _save(site, operands, outputs, counts, needs)

    def backward(saved: Saved, cotangents: tuple):
        if saved.needs == 0:
            return (None,) * len(saved.taken)
        plan = _plan(site, saved.counts)
        attributes = (*site.attributes, saved.needs)
        d_site = Site(record_of(plan.op), plan.counts, attributes)
        d_outputs = _d_outputs(site.record, saved, cotangents)
        d_operands = [*picked(plan, [*d_outputs, *saved.tensors]), *saved.numbers]
        results = d_site.nested(call(d_site, d_operands, record_of), d_operands)
        results = results if isinstance(results, tuple) else (results,)
        return tuple(_by_operand(saved, gathered(plan, results, saved.needs)))

    run.defvjp(forward, backward, symbolic_zeros=True)
    return run(*alike(operands))


def _plan(site: Site, counts: tuple[int, ...]) -> GradientPlan:
    return gradient_plan(site.record.index, site.counts, counts)


def _needs(site: Site, counts: tuple[int, ...], perturbed: list[bool]) -> int:
    """The needed gradients as bits. Raises InvalidValue for one that does not exist."""
    record = site.record
    if not any(perturbed):
        return 0
    if record.gradient < 0:
        raise InvalidValue(
            f"{record.name}: its gradient is asked for, but the operator has none",
            "its result would silently cut the graph of gradients",
            "give the operator a grad, or call it on jax.lax.stop_gradient(x)",
        )
    if any(perturbed[site.n_tensors :]):
        names = [a.name for a, v in zip(record.attributes, site.attributes, strict=True)
                 if v is OPERAND]  # fmt: skip
        raise InvalidValue(
            f"{record.name}: the gradient by an attribute is asked for: {', '.join(names)}",
            "operators have gradients by their tensors only",
            "wrap the number: jax.lax.stop_gradient(value)",
        )
    plan = _plan(site, counts)
    asked = perturbed[: site.n_tensors]
    refuse_lacking(record, site.counts, plan, asked, "jax.lax.stop_gradient")
    return needs_of(plan, asked)


def _save(site: Site, operands: list, outputs: tuple, counts: tuple, needs: int) -> Saved:
    kept = {i - len(outputs) for i in _plan(site, counts).inputs} if needs else set()
    tensors = [*operands[: site.n_tensors], *outputs]
    return Saved(
        [t if i in kept else None for i, t in enumerate(tensors)],
        list(operands[site.n_tensors :]) if needs else [],
        needs,
        counts,
        tuple((tuple(o.shape), str(o.dtype)) for o in operands),
        tuple((tuple(o.shape), str(o.dtype)) for o in outputs),
    )


def _d_outputs(record: Record, saved: Saved, cotangents: tuple) -> Iterator[jax.Array]:
    """The gradients of all outputs, zeros where there is none."""
    places = [p for p, count in enumerate(saved.counts) for _ in range(count)]
    for cotangent, (shape, dtype), place in zip(cotangents, saved.made, places, strict=True):
        is_zero = isinstance(cotangent, SymbolicZero)
        if not is_zero and place >= record.n_returns:
            raise InvalidValue(
                f"{record.name}: the gradient of {record.outputs[place].name} is asked for",
                "its gradient operator takes the gradients of what the operator returns",
                "use what it returns, or call jax.lax.stop_gradient on the replaced tensor",
            )
        is_zero |= not jnp.issubdtype(dtype, jnp.inexact)
        yield jnp.zeros(shape, dtype) if is_zero else cotangent


def _by_operand(saved: Saved, gradients: list) -> Iterator[jax.Array | None]:
    missing = [None] * (len(saved.taken) - len(gradients))  # of numbers
    for gradient, (shape, dtype) in zip([*gradients, *missing], saved.taken, strict=True):
        is_float = jnp.issubdtype(dtype, jnp.inexact)
        is_given = gradient is not None and is_float
        yield _summed(gradient, shape).astype(dtype) if is_given else None


def _summed(gradient: jax.Array, shape: tuple) -> jax.Array:
    """The sum over the axes along which broadcasting repeated an operand of this shape.

    A gradient operator that does not take the operand does not know its shape.
    """
    if gradient.shape == shape:
        return gradient
    more = gradient.ndim - len(shape)
    axes = [a for a, n in enumerate(gradient.shape) if a < more or (n != 1 == shape[a - more])]
    return gradient.sum(tuple(axes), keepdims=True).squeeze(tuple(range(more)))
