# SPDX-License-Identifier: Apache-2.0
"""Gradients through Python, where node.cpp was not built: the same rules, slower calls."""

from typing import Any, NoReturn

import torch
from pto.adapters.torch.record import Record
from pto.errors import InvalidValue


def _refuse(record: Record) -> NoReturn:
    raise InvalidValue(
        f"{record.name}: a tensor requires grad, but the operator has no gradient",
        "its result would silently cut the graph of gradients",
        "give the operator a grad, call it under torch.no_grad(), or detach the tensor",
    )


class _Rules:
    """What PyTorch asks for: `setup` in the forward call, `backward` in the backward call."""

    def __init__(self, record: Record):
        self.record = record
        self.gradient = Record(record.gradient) if record.gradient >= 0 else None

    def setup(self, ctx: Any, inputs: tuple, output: Any, keyword_only_inputs: Any = None) -> None:
        record = self.record
        if self.gradient is None:
            return None if record.is_gradient else _refuse(record)
        values = record.bind(inputs, keyword_only_inputs or {})
        outputs = output if isinstance(output, tuple) else (output,)
        ctx.save_for_backward(*(values[s] if s >= 0 else outputs[-1 - s] for s in record.saved))
        ctx.attributes = [v for v, t in zip(values, record.is_tensor, strict=True) if not t]

    def backward(self, ctx: Any, *d_outputs: torch.Tensor) -> tuple:
        record, gradient = self.record, self.gradient
        if gradient is None:
            _refuse(record)
        place = {argument: i for i, argument in enumerate(record.wanted)}
        positional = range(len(record.positional))
        needs = sum(1 << place[a] for a in positional if a in place and ctx.needs_input_grad[a])
        values = dict(
            zip(
                gradient.names,
                [*(d.contiguous() for d in d_outputs), *ctx.saved_tensors, *ctx.attributes, needs],
                strict=True,
            )
        )
        args = [values.pop(name) for name in gradient.positional]
        results = getattr(torch.ops.pto, gradient.name)(*args, **values)
        results = results if isinstance(results, tuple | list) else (results,)
        return tuple(
            results[place[a]] if a in place and ctx.needs_input_grad[a] else None
            for a in positional
        )


def register(record: Record, library: torch.library.Library) -> None:
    """Gives an operator of PyTorch its gradient, or the error where it has none."""
    rules = _Rules(record)
    torch.library.register_autograd(
        f"pto::{record.name}", rules.backward, setup_context=rules.setup, lib=library
    )
