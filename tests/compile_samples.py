# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own samples of operators, captured by make_fx and run by torch.compile's backend.

    python tests/compile_samples.py SEED FIRST LAST float32,int64 3     # entries, types, samples

A line for each sample of an entry in a type: `NAME TYPE PLACE: right`, "not captured", where
PyTorch cannot run or trace it, or what differs. In float32 gradients of all inputs belong to it.
The first sample of an entry is always taken, the others are chosen by the seed.
"""

import itertools
import logging
import os
import random
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from aten_samples import copied, entries
from compile_cases import assert_same, captured, run
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree

from pto.adapters.torch.compile.compiled import CompiledGraph
from pto.adapters.torch.compile.options import Options

RIGHT, NOT_CAPTURED = "right", "not captured"
SECONDS = 60  # of the samples of an entry
SEED = 42  # which the entries of random operators set themselves
SLACK = {torch.float32: 1e-7, torch.bfloat16: 8e-3}  # of an error, by the largest element
UNTIL = 60  # samples of an entry that the seed chooses from


def samples(entry: Any, kind: torch.dtype, seed: int, most: int) -> Iterator[tuple[int, Any]]:
    """The first sample and others by the seed, each with its place."""
    try:
        made = entry.sample_inputs("cpu", kind, requires_grad=False)
        found = list(itertools.islice(made, UNTIL if most > 1 else 1))
    except Exception:  # an entry for another machine, or one that asks for a package
        return
    rest = range(1, len(found))
    places = [0, *random.Random(f"{seed} {entry.name}").sample(rest, min(most - 1, len(rest)))]
    yield from ((place, found[place]) for place in places if place < len(found))


def function_of(entry: Any, sample: Any, with_gradients: bool) -> tuple[Any, list[torch.Tensor]]:
    """The sample as a function of its tensors alone, and these."""
    leaves, spec = _pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
    tensors = [one for one in leaves if isinstance(one, torch.Tensor)]
    wanted = [with_gradients and one.is_floating_point() for one in tensors]

    def function(*given: torch.Tensor) -> Any:
        given = [x.detach().requires_grad_() if w else x
                 for x, w in zip(given, wanted, strict=True)]  # fmt: skip
        torch.manual_seed(SEED)
        rest = iter([one.clone() for one in given])
        values = [next(rest) if isinstance(one, torch.Tensor) else one for one in leaves]
        args, kwargs = _pytree.tree_unflatten(values, spec)
        made = _pytree.tree_leaves(entry.op(*args, **kwargs))
        made = [one for one in made if isinstance(one, torch.Tensor)]
        parts = [one for one in made if one.requires_grad]
        asked = [x for x, w in zip(given, wanted, strict=True) if w]
        if not parts or not asked:
            return made
        weights = [torch.ones_like(one) for one in parts]
        slopes = torch.autograd.grad(parts, asked, weights, allow_unused=True)
        return [*(one.detach() for one in made), *(one for one in slopes if one is not None)]

    return function, tensors


def strides_of(x: torch.Tensor) -> list[int]:
    """The strides of the axes that have more than one position."""
    return [s for n, s in zip(x.shape, x.stride(), strict=True) if n != 1 and x.numel()]


def outcome(entry: Any, sample: Any, with_gradients: bool) -> str:
    """RIGHT, NOT_CAPTURED or what differs from eager: types, strides, values."""
    function, tensors = function_of(entry, sample, with_gradients)
    try:
        with torch.enable_grad():
            wanted = function(*copied(tensors))
        calls = traced_of(function, *copied(tensors))
        traced = captured(calls, *tensors)
    except Exception:  # what PyTorch itself refuses is no matter of the backend
        return NOT_CAPTURED
    try:
        graph = CompiledGraph("inference", Options(), traced, set())
        torch.manual_seed(SEED)
        found = run(graph, *copied(tensors))
        if not is_as_exact(function, tensors, found, wanted):
            assert_near_one(found, wanted, lambda: calls(*copied(tensors)))
        assert_promised(found, traced)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]!r}"
    return RIGHT


def assert_near_one(found: list, wanted: list, traced: Callable[[], list]) -> None:
    """Eager may choose its calls by values, as the gradient of a product does by its zeros; then
    results are near those of the calls that PyTorch traces."""
    try:
        assert_near(found, wanted)
    except AssertionError:
        with torch.no_grad():
            assert_near(found, traced())


def assert_near(found: list, wanted: list) -> None:
    found, wanted = ([x.to_dense() if x.is_sparse else x for x in all_] for all_ in (found, wanted))
    largest = [float(x.abs().max()) for x in wanted
               if x.is_floating_point() and x.numel() and x.isfinite().all()]  # fmt: skip
    atol = 1e-5 * max(1.0, *largest, 0.0)
    assert_same(found, wanted, rtol=1e-4, atol=atol, strides=False)


def assert_promised(found: list, traced: torch.fx.GraphModule) -> None:
    """Results have the strides that the graph promises, but for those whose sizes data tell."""
    (output,) = (node for node in traced.graph.nodes if node.op == "output")
    promised = [node.meta["val"] for node in output.args[0]]
    for a, b in zip(found, promised, strict=True):
        if not any(isinstance(size, torch.SymInt) for size in b.shape):
            assert strides_of(a) == strides_of(b), f"strides {a.stride()}, promised {b.stride()}"


def is_as_exact(function: Any, tensors: list, found: list, wanted: list) -> bool:
    """Says whether results in f32 or bf16 are nearer to f64's than eager's, or nearly as near."""
    if not any(x.dtype in SLACK for x in wanted):
        return False
    wide = [x.double() if x.is_floating_point() else x for x in copied(tensors)]
    try:
        with torch.enable_grad():
            exact = function(*wide)
        return all(_is_as_exact(*three) for three in zip(found, wanted, exact, strict=True))
    except Exception:  # an operator that f64 has not, or results of other shapes
        return False


def _is_as_exact(ours: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> bool:
    if ours.dtype is not eager.dtype or ours.shape != exact.shape:
        return False
    if not ours.is_floating_point() or not ours.numel():
        return torch.equal(ours, eager)
    error, bound = (float((x.double() - exact).abs().max()) for x in (ours, eager))
    return error <= 2 * bound + SLACK.get(ours.dtype, 0.0) * float(exact.abs().max())


def traced_of(function: Any, *tensors: torch.Tensor) -> Any:
    """The calls of ATen that a function makes, gradients included, writes as they are."""
    with torch.enable_grad():
        return make_fx(function, tracing_mode="fake")(*tensors)


def outcomes(entry: Any, kinds: list[torch.dtype], seed: int, most: int) -> Iterator[str]:
    for kind in kinds:
        if kind not in entry.supported_dtypes("cpu"):
            continue
        has_gradients = kind is torch.float32 and entry.supports_autograd
        for place, sample in samples(entry, kind, seed, most):
            about = f"{entry.formatted_name} {str(kind).removeprefix('torch.')} {place}"
            yield f"{about}: {outcome(entry, sample, has_gradients)}"


def in_child(name: str, outcomes: Iterator[str]) -> None:
    """Prints the outcomes of an entry from a process of its own, which has a deadline."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        torch.set_num_threads(1)  # renews PyTorch's pool, which threads of gradients would race for
        for line in outcomes:
            print(line, flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status != 0:
        number = os.waitstatus_to_exitcode(status)
        print(f"{name} - -: ended with {number}, -14 for its deadline", flush=True)


def main(seed: str, first: str, last: str, kinds: str, most: str) -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    types = [getattr(torch, name) for name in kinds.split(",")]
    for entry in entries(int(seed), 1)[int(first) : int(last)]:
        in_child(entry.formatted_name, outcomes(entry, types, int(seed), int(most)))


if __name__ == "__main__":
    main(*sys.argv[1:])
