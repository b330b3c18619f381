# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own samples with `pto.aten.enable()` on, beside the same calls without it.

    python tests/aten_enabled.py '{"seed": 7, "share": 10, "part": 0, "parts": 1, "slot": 0}'

Runs a part of PyTorch's table of operators in f32, f16, bf16 and int64: each sample forward, its
gradients, in place and with `out`. Prints a line of JSON for each entry: samples, those that pass,
calls that rows took, what differs. Results have the types, sizes, strides and aliases of PyTorch's,
values within a tolerance of the type, or at most twice as far from those in f64 as PyTorch's; an
error has the same class. With "check": true it runs
gradcheck and gradgradcheck of entries with a row in f64, two samples each, and asks that a row of
the entry is reached; what PyTorch's own kernels fail likewise is not counted as wrong.
"""

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
from aten_samples import entries
from torch.utils import _pytree

import pto.aten
from pto.adapters.torch import direct
from pto.aten import enabling

TYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64)
# Relative, and absolute in units of the largest element where that is above 1: f16 and bf16 are
# summed in another order, and rounded between operators.
TOLERANCE = {torch.float32: (1e-4, 1e-5), torch.float16: (1e-2, 2e-3), torch.bfloat16: (5e-2, 2e-2),
             torch.float64: (1e-7, 1e-7), torch.complex64: (1e-4, 1e-5)}  # fmt: skip
SAMPLES, GRADIENTS = 10, 3  # of an entry in a type
# Entries whose elements are what memory held.
UNINITIALISED = ("empty", "empty_like", "new_empty", "new_empty_strided", "empty_strided",
                 "empty_permuted")  # fmt: skip

ANY_OF_EQUAL = ("topk",)  # entries that may take any of equal elements: theirs differ


def distinct(t: torch.Tensor) -> torch.Tensor:
    """The numbers below its count in random order; bf16 holds those to 256."""
    numbers = torch.randperm(t.numel(), generator=torch.Generator().manual_seed(7))
    return numbers.reshape(t.shape).to(t.dtype).requires_grad_(t.requires_grad)


def copied(value: Any) -> Any:
    """The same arguments with tensors of their own, in the same strides, leaves of autograd."""

    def one(t: torch.Tensor) -> torch.Tensor:
        if t.is_meta:
            return t
        if t.layout is not torch.strided or t.is_conj() or t.is_neg() or 0 in t.stride():
            return t.detach().clone().requires_grad_(t.requires_grad)
        made = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype).copy_(t.detach())
        return made.requires_grad_(t.requires_grad)

    return _pytree.tree_map_only(torch.Tensor, one, value)


def tensors(value: Any) -> list[torch.Tensor]:
    return [t for t in _pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]


def forward(entry: Any, args: tuple, kwargs: dict) -> Any:
    return entry.op(*args, **kwargs)


def with_gradients(entry: Any, args: tuple, kwargs: dict) -> Any:
    made = entry.op(*args, **kwargs)
    roots = [t for t in tensors(made) if t.requires_grad]
    leaves = [t for t in tensors((args, kwargs)) if t.requires_grad]
    if not roots or not leaves:
        return made
    seeds = [torch.ones_like(t) for t in roots]
    return made, torch.autograd.grad(roots, leaves, seeds, allow_unused=True)


def in_place(entry: Any, args: tuple, kwargs: dict) -> Any:
    return entry.inplace_variant(*args, **kwargs), args


def with_out(entry: Any, args: tuple, kwargs: dict) -> Any:
    made = entry.op(*args, **kwargs)
    several = made if isinstance(made, tuple) else (made,)
    # Of numbers: some of PyTorch's calls read what an output held.
    out = tuple(torch.empty_strided(t.shape, t.stride(), dtype=t.dtype).fill_(1) for t in several)
    written = entry.op(*args, **kwargs, out=out if isinstance(made, tuple) else out[0])
    places = [t.data_ptr() for t in tensors(written)]
    return written, [place == t.data_ptr() for place, t in zip(places, out, strict=True)]


def outcome(function: Callable, entry: Any, sample: Any, has_gradient: bool, on: Any) -> Any:
    args, kwargs = copied(((sample.input, *sample.args), sample.kwargs))
    torch.manual_seed(7)
    try:
        with on, nullcontext() if has_gradient else torch.no_grad():
            return function(entry, args, kwargs)
    except Exception as error:  # noqa: BLE001  PyTorch's errors are the reference
        return error


def difference(want: Any, got: Any, has_values: bool) -> str | None:
    """What is wrong with an outcome beside PyTorch's own; None: nothing."""
    if isinstance(want, Exception) or isinstance(got, Exception):
        return None if type(want) is type(got) else f"{got!r:.300} instead of {want!r:.300}"
    ours, theirs = _pytree.tree_leaves(got), _pytree.tree_leaves(want)
    if len(ours) != len(theirs):
        return f"{len(ours)} results instead of {len(theirs)}"
    for a, b in zip(ours, theirs, strict=True):
        found = _apart(a, b, has_values) if isinstance(b, torch.Tensor) else None
        if found or (isinstance(b, bool) and a is not b):
            return found or f"{a} instead of {b}"
    return None


def _apart(a: torch.Tensor, b: torch.Tensor, has_values: bool) -> str | None:
    kind = (b.dtype, b.shape, b.layout, b.requires_grad)
    if (a.dtype, a.shape, a.layout, a.requires_grad) != kind:
        return f"{a.dtype} {list(a.shape)} instead of {b.dtype} {list(b.shape)}"
    if b.layout is not torch.strided:
        return None
    if b.numel() > 1 and a.stride() != b.stride():
        return f"strides {a.stride()} instead of {b.stride()} of {list(b.shape)}"
    if not has_values:
        return None
    rtol, atol = TOLERANCE.get(b.dtype, (0.0, 0.0))
    if atol and b.numel():
        atol *= max(1.0, b.detach().abs().nan_to_num(0.0, 0.0, 0.0).max().item())
    try:
        torch.testing.assert_close(a.detach(), b.detach(), rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        return " ".join(str(error).split())[:300]
    return None


def in_double(sample: Any) -> Any:
    def one(t: torch.Tensor) -> torch.Tensor:
        return t.detach().double().requires_grad_(t.requires_grad) if t.is_floating_point() else t

    parts = (sample.input, sample.args, sample.kwargs)
    given, args, kwargs = _pytree.tree_map_only(torch.Tensor, one, parts)
    return type(sample)(given, args=args, kwargs=kwargs)


def are_as_near(got: Any, want: Any, exact: Any) -> bool:
    """Whether results are at most twice as far from exact ones as PyTorch's are."""
    if isinstance(exact, Exception) or difference(want, got, has_values=False):
        return False
    for ours, theirs, true in zip(tensors(got), tensors(want), tensors(exact), strict=True):
        if not ours.is_floating_point():
            if not torch.equal(ours, theirs):
                return False
            continue
        far, apart = ((t.detach().double() - true.detach()).abs().max() for t in (ours, theirs))
        if not far <= 2 * apart:  # NaN is not
            return False
    return True


def calls(entry: Any, kind: torch.dtype) -> Iterator[tuple[Callable, Any, bool]]:
    """What is called for each sample of an entry in a type, and whether it has a gradient."""
    kinds = entry.supported_backward_dtypes("cpu") if entry.supports_autograd else ()
    has_gradient = kind.is_floating_point and kind in kinds
    try:
        made = entry.sample_inputs("cpu", kind, requires_grad=has_gradient)
        samples = [one for one, _ in zip(made, range(SAMPLES), strict=False)]
    except (RuntimeError, ValueError, NotImplementedError, ModuleNotFoundError, AttributeError):
        return  # an entry for another machine, or one that asks for a package
    for i, one in enumerate(samples):
        if entry.name in ANY_OF_EQUAL:
            one.input = distinct(one.input)
        yield (with_gradients if has_gradient and i < GRADIENTS else forward), one, has_gradient
        if entry.inplace_variant is not None and isinstance(one.input, torch.Tensor):
            yield in_place, one, False
        if entry.supports_out:
            yield with_out, one, False
    try:
        wrong = list(entry.error_inputs("cpu")) if kind is torch.float32 else []
    except (NotImplementedError, TypeError):
        wrong = []
    for one in wrong:
        yield forward, one.sample_input, False


class Counted:
    """The calls that rows take, by overload, while it is installed as the runner of fronts."""

    def __init__(self) -> None:
        self.taken: dict[str, int] = {}
        run = enabling._run

        def counts(index: int, slot: int | None, values: tuple) -> Any:
            made, _ = run(index, slot, values)
            if made is not NotImplemented:
                name = enabling._records[index].full_name
                self.taken[name] = self.taken.get(name, 0) + 1
            return made, None

        self.part = enabling._loaded()._part
        self.part.pto_aten_front_runner(direct.aten_runner(counts))


def check(entry: Any, on: Any, counted: Counted) -> dict[str, Any]:
    """Runs all samples of an entry."""
    name = f"{entry.name}.{entry.variant_test_name}".rstrip(".")
    found: dict[str, Any] = {"entry": name, "samples": 0, "passed": 0, "wrong": [], "taken": {}}
    counted.taken = found["taken"]
    for kind in (k for k in TYPES if k in entry.supported_dtypes("cpu")):
        for function, sample, needs_gradient in calls(entry, kind):
            want = outcome(function, entry, sample, needs_gradient, nullcontext())
            got = outcome(function, entry, sample, needs_gradient, on)
            differs = difference(want, got, entry.name not in UNINITIALISED)
            if differs:  # PyTorch's own is another one each time, as where it reads new memory
                again = outcome(function, entry, sample, needs_gradient, nullcontext())
                differs = difference(want, got, difference(want, again, True) is None)
            if differs and kind.is_floating_point and not isinstance(want, Exception):
                with_f64 = in_double(sample)
                exact = outcome(function, entry, with_f64, needs_gradient, nullcontext())
                differs = None if are_as_near(got, want, exact) else differs
            found["samples"] += 1
            found["passed"] += differs is None
            if differs:
                shapes = [(list(t.shape), t.stride()) for t in tensors((sample.input, sample.args))]
                found["wrong"].append(f"{kind} {function.__name__} {shapes}: {differs}")
    return found


def has_row(entry: Any) -> bool:
    return any(full.partition(".")[0] == entry.aten_name for full in enabling._loaded().names)


def _failure(check: Callable, entry: Any, run: Callable, leaves: list, rows: Any) -> str:
    """The text of a failed check of gradients; "": it passes."""
    try:
        with rows:
            check(run, leaves, fast_mode=entry.gradcheck_fast_mode is not False,
                  nondet_tol=entry.gradcheck_nondet_tol)  # fmt: skip
    except Exception as error:  # noqa: BLE001  an error is what the report tells
        return f"{type(error).__name__}: {error}"
    return ""


def check_gradients(entry: Any, on: Any, counted: Counted) -> dict[str, Any]:
    """Runs gradcheck and gradgradcheck of an entry on two samples, with rows in f64."""
    found: dict[str, Any] = {"entry": entry.name, "samples": 0, "passed": 0, "wrong": []}
    counted.taken = found["taken"] = {}
    checks = [torch.autograd.gradcheck]
    checks += [torch.autograd.gradgradcheck] * entry.supports_gradgrad
    made = entry.sample_inputs("cpu", torch.float64, requires_grad=True)
    for sample in [one for one, _ in zip(made, range(2), strict=False)]:
        leaves = [t for t in tensors((sample.input, sample.args, sample.kwargs)) if t.requires_grad]

        def run(*_: torch.Tensor, sample: Any = sample) -> Any:
            made = entry.gradcheck_wrapper(entry.op, sample.input, *sample.args, **sample.kwargs)
            made = sample.output_process_fn_grad(made)
            kept = tuple(t for t in tensors(made) if t.requires_grad)
            return kept[0] if len(kept) == 1 else kept

        for check in checks if leaves else ():
            found["samples"] += 1
            wrong = _failure(check, entry, run, leaves, on)
            theirs = wrong and _failure(check, entry, run, leaves, nullcontext())
            is_same = wrong.splitlines()[:1] == theirs.splitlines()[:1]
            found["passed"] += is_same
            found["wrong"] += [] if is_same else [f"{check.__name__}: {wrong:.300}"]
    if found["samples"] and not found["taken"]:
        found["wrong"].append("no row was reached")
    return found


def main(task: dict[str, Any]) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    counted, on = Counted(), pto.aten.enable(slot=task["slot"])
    on.off()
    chosen = entries(task["seed"], task["share"])[task["part"] :: task["parts"]]
    run = check_gradients if task.get("check") else check
    if task.get("check"):
        kinds = torch.float64
        chosen = [one for one in chosen if has_row(one) and one.supports_autograd
                  and kinds in one.supported_backward_dtypes("cpu")]  # fmt: skip
    for entry in chosen:
        print(json.dumps({"begins": entry.name}), flush=True)
        print(json.dumps(run(entry, on, counted)), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
