# SPDX-License-Identifier: Apache-2.0
"""Gradients in Python, for where node.cpp is not built: the same rules, slower calls.

Errors: InvalidValue where a gradient is asked for that does not exist, Failure for derivatives in
forward mode. Thread safety: any thread.
"""

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import torch
from pto.adapters.gradient import gathered, gradient_plan, needs_of
from pto.adapters.record import Record, grouped
from pto.adapters.torch.record import out_names, packet, qualified_name
from pto.errors import Failure, InvalidValue
from pto.language.arguments import has_tangent
from torch._library.autograd import Info, make_autograd_impl
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree


def _refuse(record: Record, by_it: str = "") -> NoReturn:
    raise InvalidValue(
        f"{record.name}: a tensor requires grad, but the operator has no gradient{by_it}",
        "its result would silently cut the graph of gradients",
        "give the operator a grad, call it under torch.no_grad(), or detach the tensor",
    )


def _refuse_writing(record: Record) -> NoReturn:
    raise InvalidValue(
        f"{record.name}: a tensor requires grad, but the call writes into one that it was given",
        "there is no gradient through memory that changes",
        "call the operator that returns a new tensor, or call it under torch.no_grad()",
    )


def _refuse_keywords(record: Record) -> NoReturn:
    raise InvalidValue(
        f"{record.name}: a tensor requires grad, but gradients go through Python here",
        "PyTorch has no gradients in Python for operators with keyword-only tensors",
        "run: python -m pto adapters build torch; or call it under torch.no_grad()",
    )


def _refuse_forward_mode(record: Record, given: Any) -> None:
    """Refuses tensors that carry forward-mode derivatives, which would be lost silently."""
    if forward_ad._current_level < 0:
        return
    if any(isinstance(x, torch.Tensor) and has_tangent(x) for x in pytree.tree_leaves(given)):
        raise Failure(
            f"{record.name}: called with a tensor that carries a forward-mode derivative (jvp, "
            "jacfwd, hessian)",
            "operators have gradients for the backward pass only",
            "take torch.autograd.functional.jacobian, which goes backward; or torch.func.jacrev "
            "after: python -m pto adapters build torch",
        )


class _Rules:
    """The two functions of an operator that PyTorch calls: `setup` forward, `backward` backward."""

    def __init__(self, record: Record):
        self.record = record
        self.gradient = Record(record.gradient) if record.gradient >= 0 else None

    def setup(self, ctx: Any, inputs: tuple, output: Any, keyword_only_inputs: Any = None) -> None:
        record = self.record
        if self.gradient is None:
            return None if record.gradient_of >= 0 else _refuse(record)
        values = record.bind(inputs, keyword_only_inputs or {})
        for place, (value, is_tensor) in enumerate(zip(values, record.is_tensor, strict=True)):
            lacks = is_tensor and place not in record.wanted and record.gradient_of < 0
            if lacks and any(t.requires_grad for t in _members(value) if t is not None):
                _refuse(record, " by it")
        tensors = [_members(v) for v, t in zip(values, record.is_tensor, strict=True) if t]
        outputs = [_members(o) for o in (output if record.n_returns > 1 else (output,))]
        ctx.counts = tuple(map(len, tensors))
        ctx.plan = gradient_plan(record.index, ctx.counts, tuple(map(len, outputs)))
        results = _flat(outputs)
        pool = [*results, *_flat(tensors), *results]  # the first stand for their gradients
        ctx.save_for_backward(*(pool[i] for i in ctx.plan.inputs if i >= len(results)))
        ctx.attributes = [v for v, t in zip(values, record.is_tensor, strict=True) if not t]

    def backward(self, ctx: Any, *d_outputs: torch.Tensor) -> tuple:
        record, gradient = self.record, self.gradient
        if gradient is None:
            _refuse(record)
        plan = ctx.plan
        places = [i for i, is_tensor in enumerate(record.is_tensor) if is_tensor]
        asked = ctx.needs_input_grad  # by position; defaults that were left out are not there
        flags: list[bool] = []
        for i, count in zip(places, ctx.counts, strict=True):
            flag = asked[i] if i < len(asked) else False
            flags += flag if isinstance(flag, list | tuple) else [flag] * count
        needs = needs_of(plan, flags)
        d_flat = _flat(map(_members, d_outputs))
        taken = [d_flat[i].contiguous() for i in plan.inputs if i < len(d_flat)]
        tensors = gradient.by_argument(plan.counts, [*taken, *ctx.saved_tensors])
        args, named = gradient.call([*tensors, *ctx.attributes, needs])
        results = packet(gradient)(*args, **named)
        gradients = gathered(plan, (results,) if gradient.n_returns == 1 else results, needs)
        found = dict(zip(places, grouped(ctx.counts, gradients), strict=True))
        return tuple(_like(flag, found.get(i, [])) for i, flag in enumerate(asked))


def _members(value: Any) -> list:
    """The tensors of an argument or an output."""
    if isinstance(value, list | tuple):
        return list(value)
    return [] if value is None else [value]


def _flat(groups: Iterable[list]) -> list:
    return [t for members in groups for t in members]


def _like(flag: Any, gradients: list) -> Any:
    """The gradients of an argument as PyTorch takes them: the list for a list, else one or None."""
    if isinstance(flag, list | tuple):
        return gradients
    return gradients[0] if gradients else None


class _NoGradient:
    """The Autograd kernel of operators without gradient: refuses one, marks changed tensors."""

    def __init__(
        self, record: Record, overload: Any, changed: list[str], refuse: Callable[[Record], Any]
    ):
        self.record, self.overload, self.changed = record, overload, changed
        self.refuse = refuse

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        record = self.record
        given = dict(zip(record.positional, args, strict=False)) | kwargs
        _refuse_forward_mode(record, given)
        if torch.is_grad_enabled():
            for x in pytree.tree_leaves(list(given.values())):
                if isinstance(x, torch.Tensor) and x.requires_grad:
                    self.refuse(record)
        with torch._C._AutoDispatchBelowADInplaceOrView():
            result = self.overload(*args, **kwargs)
        for name in self.changed:
            torch.autograd.graph.increment_version(given[name])
        return result


def register(record: Record, library: torch.library.Library) -> None:
    """Gives an operator of PyTorch, and its overload `out`, the gradient, or the refusal of one."""
    name, of = qualified_name(record), packet(record)
    if outs := out_names(record):
        kernel = _NoGradient(record, of.out, outs, _refuse_writing)
        library.impl(f"{name}.out", kernel, "Autograd")
    if record.mutates:
        changed = [a.name for a in record.arguments if a.mutable]
        kernel = _NoGradient(record, of.default, changed, _refuse_writing)
        library.impl(name, kernel, "Autograd")
        return
    if any(a.is_tensor and a.keyword_only for a in record.arguments):
        kernel = _NoGradient(record, of.default, [], _refuse_keywords)
        library.impl(name, kernel, "Autograd")
        return
    rules = _Rules(record)
    made = make_autograd_impl(of.default, Info(rules.backward, rules.setup))

    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        _refuse_forward_mode(record, (args, kwargs))
        return made(keys, *args, **kwargs)

    library.impl(name, kernel, "Autograd", with_keyset=True)
