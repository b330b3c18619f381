# SPDX-License-Identifier: Apache-2.0
"""Gradients through Python, where node.cpp was not built: the same rules, slower calls."""

from typing import Any, NoReturn

import torch
from pto.adapters.record import Record
from pto.adapters.torch.record import out_names, packet, qualified_name
from pto.errors import InvalidValue
from torch.utils import _pytree as pytree


def _refuse(record: Record) -> NoReturn:
    raise InvalidValue(
        f"{record.name}: a tensor requires grad, but the operator has no gradient",
        "its result would silently cut the graph of gradients",
        "give the operator a grad, call it under torch.no_grad(), or detach the tensor",
    )


def _refuse_writing(record: Record) -> NoReturn:
    raise InvalidValue(
        f"{record.name}: a tensor requires grad, but the call writes into one that it was given",
        "there is no gradient through memory that changes",
        "call the operator that returns a new tensor, or call it under torch.no_grad()",
    )


class _Rules:
    """PyTorch calls `setup` in the forward call and `backward` in the backward call."""

    def __init__(self, record: Record):
        self.record = record
        self.gradient = Record(record.gradient) if record.gradient >= 0 else None

    def setup(self, ctx: Any, inputs: tuple, output: Any, keyword_only_inputs: Any = None) -> None:
        record = self.record
        if self.gradient is None:
            return None if record.gradient_of >= 0 else _refuse(record)
        values = record.bind(inputs, keyword_only_inputs or {})
        outputs = output if record.n_returns > 1 else (output,)
        saved = [values[s] if s >= 0 else outputs[-1 - s] for s in record.saved]
        ctx.shape_of_saved = [len(s) if isinstance(s, list | tuple) else -1 for s in saved]
        ctx.save_for_backward(
            *(t for s in saved for t in (s if isinstance(s, list | tuple) else [s]))
        )
        ctx.attributes = [v for v, t in zip(values, record.is_tensor, strict=True) if not t]

    def backward(self, ctx: Any, *d_outputs: torch.Tensor) -> tuple:
        record, gradient = self.record, self.gradient
        d_outputs = tuple(
            d
            for d, output in zip(d_outputs, record.outputs, strict=True)
            if output.is_differentiable
        )
        if gradient is None:
            _refuse(record)
        place = {argument: i for i, argument in enumerate(record.wanted)}
        positional = range(len(ctx.needs_input_grad))  # defaults that were left out are not there
        asked = [any(n) if isinstance(n, list | tuple) else n for n in ctx.needs_input_grad]
        needs = sum(1 << place[a] for a in positional if a in place and asked[a])
        values = dict(
            zip(
                gradient.names,
                [*map(_contiguous, d_outputs), *_joined(ctx), *ctx.attributes, needs],
                strict=True,
            )
        )
        args = [values.pop(name) for name in gradient.positional]
        results = packet(gradient)(*args, **values)
        if gradient.n_returns == 1:
            results = (results,)
        return tuple(
            results[place[a]] if a in place and asked[a] else _none_like(ctx.needs_input_grad[a])
            for a in positional
        )


def _none_like(asked: Any) -> Any:
    """No gradient, of a list no gradient of each member."""
    return [None] * len(asked) if isinstance(asked, list | tuple) else None


def _contiguous(d: Any) -> Any:
    return [_contiguous(one) for one in d] if isinstance(d, list | tuple) else d.contiguous()


def _joined(ctx: Any) -> list:
    """The saved values, with the members of lists together again."""
    tensors = iter(ctx.saved_tensors)
    return [
        next(tensors) if count < 0 else [next(tensors) for _ in range(count)]
        for count in ctx.shape_of_saved
    ]


class _WritingKernel:
    """The Autograd kernel of what writes into arguments: refuses gradients, marks what changes."""

    def __init__(self, record: Record, overload: Any, changed: list[str]):
        self.record, self.overload, self.changed = record, overload, changed

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        record = self.record
        given = dict(zip(record.positional, args, strict=False)) | kwargs
        if torch.is_grad_enabled():
            for x in pytree.tree_leaves(list(given.values())):
                if isinstance(x, torch.Tensor) and x.requires_grad:
                    _refuse_writing(record)
        with torch._C._AutoDispatchBelowADInplaceOrView():
            result = self.overload(*args, **kwargs)
        for name in self.changed:
            torch.autograd.graph.increment_version(given[name])
        return result


def register(record: Record, library: torch.library.Library) -> None:
    """Gives an operator of PyTorch, and its overload `out`, the gradient, or the refusal of one."""
    if outs := out_names(record):
        kernel = _WritingKernel(record, packet(record).out, outs)
        library.impl(f"{qualified_name(record)}.out", kernel, "Autograd")
    if record.mutates:
        changed = [a.name for a in record.arguments if a.mutable]
        kernel = _WritingKernel(record, packet(record).default, changed)
        library.impl(qualified_name(record), kernel, "Autograd")
        return
    rules = _Rules(record)
    torch.library.register_autograd(
        qualified_name(record), rules.backward, setup_context=rules.setup, lib=library
    )
