# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own samples of modules and of optimizers under torch.compile(backend="pto").

    python tests/compile_modules.py modules SEED FIRST LAST 2     # entries, samples of each mode
    python tests/compile_modules.py optimizers SEED FIRST LAST 2

A line for each sample: `NAME train 0: right`, "not captured", where PyTorch cannot run or capture
it, or what differs from eager: results, gradients of inputs and parameters, buffers; of an
optimizer the parameters behind one step. The first sample is always taken, others by the seed.
"""

import copy
import logging
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from compile_cases import assert_same
from compile_samples import NOT_CAPTURED, RIGHT, SEED, in_child
from torch.utils import _pytree

import pto.torch  # noqa: F401 the backend, imported once for all children

WITHIN = 1e-4
WIDER = {"Muon": 1e-2}  # its products are of bf16


def chosen(found: list, seed: str, most: int) -> list[tuple[int, Any]]:
    """The first one and others by the seed, each with its place."""
    rest = range(1, len(found))
    places = [0, *random.Random(seed).sample(rest, min(most - 1, len(rest)))] if found else []
    return [(place, found[place]) for place in places]


def outcome(
    make: Callable[[], Any], act: Callable[[Any, Any], list], within: float = WITHIN
) -> str:
    """Compares act(made, backend) for the backends None and "pto"; `make` makes the same twice."""
    try:
        wanted = act(make(), None)
        act(make(), "aot_eager")
    except Exception:  # what PyTorch itself refuses is no matter of the backend
        return NOT_CAPTURED
    try:
        torch._dynamo.reset()
        found = act(make(), "pto")
        largest = [float(x.abs().max()) for x in wanted
                   if x.is_floating_point() and x.numel() and x.isfinite().all()]  # fmt: skip
        atol = within / 10 * max(1.0, *largest, 0.0)
        assert_same(found, wanted, rtol=within, atol=atol, strides=False)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]!r}"
    return RIGHT


# --- modules --------------------------------------------------------------------------------------


def run_module(made: tuple[torch.nn.Module, tuple, dict], backend: str | None) -> list:
    """Results, gradients and buffers of a call."""
    module, args, kwargs = made
    run = torch.compile(module, backend=backend, dynamic=False) if backend else module
    torch.manual_seed(SEED)
    results = _pytree.tree_leaves(run(*args, **kwargs))
    results = [one for one in results if isinstance(one, torch.Tensor)]
    parts = [one for one in results if one.requires_grad]
    if parts:
        torch.autograd.backward(parts, [torch.ones_like(one) for one in parts])
    given = [x for x in _pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    read = [*given, *module.parameters()]
    slopes = [x.grad for x in read if x.is_leaf and x.grad is not None]
    return [*(one.detach() for one in results), *slopes, *module.buffers()]


def module_outcomes(entry: Any, seed: int, most: int) -> Iterator[str]:
    for training in (True, False):
        mode = "train" if training else "eval"
        torch.manual_seed(SEED)
        found = list(entry.module_inputs_func(entry, device="cpu", dtype=torch.float32,
                                              requires_grad=True, training=training))  # fmt: skip
        for place, sample in chosen(found, f"{seed} {entry.name}", most):

            def make(sample: Any = sample, training: bool = training) -> tuple:
                torch.manual_seed(SEED)
                about = sample.constructor_input
                module = entry.module_cls(*about.args, **about.kwargs).train(training)
                given = sample.forward_input
                args, kwargs = _pytree.tree_map_only(
                    torch.Tensor, lambda x: x.detach().clone().requires_grad_(x.requires_grad),
                    (given.args, given.kwargs),
                )  # fmt: skip
                return module, args, kwargs

            yield f"{entry.name} {mode} {place}: {outcome(make, run_module)}"


# --- optimizers -----------------------------------------------------------------------------------


def run_optimizer(made: tuple[list[torch.Tensor], Any], backend: str | None) -> list:
    """The parameters behind one step."""
    parameters, optimizer = made
    step = torch.compile(optimizer.step, backend=backend) if backend else optimizer.step
    step()
    return [one.detach() for one in parameters]


def optimizer_outcomes(entry: Any, seed: int, most: int) -> Iterator[str]:
    found = entry.optim_inputs_func(device="cpu")
    for place, sample in chosen(found, f"{seed} {entry.optim_cls.__name__}", most):

        def make(sample: Any = sample) -> tuple:
            torch.manual_seed(SEED)
            parameters = [torch.nn.Parameter(torch.randn(size)) for size in ((5, 4), (4, 3), (7,))]
            for one in parameters:
                one.grad = torch.randn_like(one)
            used = parameters[:2] if entry.optim_cls is torch.optim.Muon else parameters
            return parameters, entry.optim_cls(used, **copy.deepcopy(sample.kwargs))

        name = entry.optim_cls.__name__
        said = outcome(make, run_optimizer, WIDER.get(name, WITHIN))
        yield f"{name} {sample.desc.replace(' ', '_')} {place}: {said}"


def main(kind: str, seed: str, first: str, last: str, most: str) -> None:
    from torch.testing._internal.common_modules import module_db
    from torch.testing._internal.common_optimizers import optim_db

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    table, outcomes = {
        "modules": (module_db, module_outcomes),
        "optimizers": (optim_db, optimizer_outcomes),
    }[kind]
    for entry in table[int(first) : int(last)]:
        name = entry.name if kind == "modules" else entry.optim_cls.__name__
        in_child(name, outcomes(entry, int(seed), int(most)))


if __name__ == "__main__":
    main(*sys.argv[1:])
