# SPDX-License-Identifier: Apache-2.0
"""Gradients in reverse mode, by the operator's gradient operator; see abi/operator.h."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
from jax import numpy as jnp
from jax.custom_derivatives import CustomVJPPrimal, SymbolicZero
from pto.adapters.jax import batching
from pto.adapters.jax.site import OPERAND, Site, alike
from pto.adapters.record import Record
from pto.errors import InvalidValue


def _static() -> Any:
    return field(metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Saved:
    """The inputs of the backward pass; None stands for arrays that it does not need."""

    operands: list[jax.Array | None]
    outputs: list[jax.Array | None]
    needs: int = _static()  # the attribute of the gradient operator
    dtypes: tuple = _static()  # of all operands
    made: tuple = _static()  # (shape, dtype) of all outputs


def call(site: Site, operands: list[jax.Array], record_of: Any) -> tuple[jax.Array, ...]:
    """The outputs in one list; `record_of` gives the record of an index."""

    @jax.custom_vjp
    def run(*operands):
        return batching.call(site, operands)

    def forward(*primals: CustomVJPPrimal):
        needs = _needs(site, [p.perturbed for p in primals])
        operands = [p.value for p in primals]
        outputs = run(*operands)  # not batching.call: this may be differentiated in its turn
        return outputs, _save(site, operands, outputs, needs)

    def backward(saved: Saved, cotangents: tuple):
        if saved.needs == 0:
            return (None,) * len(saved.dtypes)
        gradient = record_of(site.record.gradient)
        values = [
            *_d_outputs(site.record, saved, cotangents),
            *_saved_values(site, saved),
            *(v for a, v in site.by_argument(saved.operands) if not a.is_tensor),
            saved.needs,
        ]
        d_site, d_operands = Site.of(gradient, values)
        results = d_site.nested(call(d_site, d_operands, record_of), d_operands)
        results = results if isinstance(results, tuple) else (results,)
        return tuple(_by_operand(site, saved, results))

    run.defvjp(forward, backward, symbolic_zeros=True)
    return run(*alike(operands))


def _needs(site: Site, perturbed: list[bool]) -> int:
    """Which gradients are needed, as bits; refuses those that do not exist."""
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
    flags = iter(perturbed)
    by_argument = {i: any([next(flags) for _ in range(n)]) for i, n in _tensors(site)}
    return sum(1 << bit for bit, i in enumerate(record.wanted) if by_argument[i])


def _tensors(site: Site) -> Iterator[tuple[int, int]]:
    """(index among the arguments, number of operands) of each tensor argument."""
    counts = iter(site.counts)
    return ((i, next(counts)) for i, a in enumerate(site.record.arguments) if a.is_tensor)


def _save(site: Site, operands: list, outputs: tuple, needs: int) -> Saved:
    record = site.record
    kept = {s for s in record.saved if needs}
    keep = [i in kept for i, n in _tensors(site) for _ in range(n)]
    keep += [bool(needs)] * (len(operands) - site.n_tensors)
    places = _output_places(site, operands)
    return Saved(
        [o if k else None for o, k in zip(operands, keep, strict=True)],
        [o if -1 - p in kept else None for o, p in zip(outputs, places, strict=True)],
        needs,
        tuple(str(o.dtype) for o in operands),
        tuple((tuple(o.shape), str(o.dtype), p) for o, p in zip(outputs, places, strict=True)),
    )


def _output_places(site: Site, operands: list) -> list[int]:
    """For each output in one list: the output of the operator to which it belongs."""
    made = site.outputs(operands)
    return [p for p, m in enumerate(made) for _ in (m if isinstance(m, list) else [m])]


def _grouped(record: Record, flat: Any, saved: Saved) -> list[Any]:
    """Arrays for the outputs in one list, by output: one, or a list."""
    groups: list[Any] = [[] for _ in record.outputs]
    for value, (_, _, place) in zip(flat, saved.made, strict=True):
        groups[place].append(value)
    return [g if o.is_list else g[0] for g, o in zip(groups, record.outputs, strict=True)]


def _d_outputs(record: Record, saved: Saved, cotangents: tuple) -> list[Any]:
    """The gradients of the differentiable outputs, zeros where there is none."""
    flat = []
    for cotangent, (shape, dtype, place) in zip(cotangents, saved.made, strict=True):
        is_zero = isinstance(cotangent, SymbolicZero)
        if not is_zero and place >= record.n_returns:
            raise InvalidValue(
                f"{record.name}: the gradient of {record.outputs[place].name} is asked for",
                "its gradient operator takes the gradients of what the operator returns",
                "use what it returns, or call jax.lax.stop_gradient on the replaced tensor",
            )
        is_zero |= not jnp.issubdtype(dtype, jnp.inexact)
        flat.append(jnp.zeros(shape, dtype) if is_zero else cotangent)
    grouped = zip(_grouped(record, flat, saved), record.outputs, strict=True)
    return [group for group, output in grouped if output.is_differentiable]


def _saved_values(site: Site, saved: Saved) -> Iterator[Any]:
    arguments = list(site.by_argument(saved.operands))
    outputs = _grouped(site.record, saved.outputs, saved)
    for source in site.record.saved:
        if source < 0:
            yield outputs[-1 - source]
        else:
            argument, tensors = arguments[source]
            is_list = argument.kind == "Tensor[]"
            yield tensors if is_list else tensors[0] if tensors else None


def _by_operand(site: Site, saved: Saved, gradients: tuple) -> Iterator[jax.Array | None]:
    places = {argument: bit for bit, argument in enumerate(site.record.wanted)}
    dtypes = iter(saved.dtypes)
    for i, count in _tensors(site):
        bit = places.get(i, -1)
        given = gradients[bit] if bit >= 0 and saved.needs >> bit & 1 else [None] * count
        for gradient in given if isinstance(given, list) else [given][:count]:
            dtype = next(dtypes)
            is_float = jnp.issubdtype(dtype, jnp.inexact)
            yield None if gradient is None or not is_float else gradient.astype(dtype)
    yield from (None for _ in dtypes)
