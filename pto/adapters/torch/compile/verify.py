# SPDX-License-Identifier: Apache-2.0
"""pto.torch.verify(): each step of a compiled model against float64 and eager.

    report = pto.torch.verify(model, **batch)
    assert report.is_right, report              # its text names the first step that deviates

Each step of ours gets the values that it had in the run. Its nodes run once more in ATen, as they
are and with floats of 64 bits; the step deviates where its error exceeds twice ATen's plus a part
of the largest element: 1e-6 in f32, 4e-3 in f16, 4e-2 in bf16, 1e-12 in f64. Steps with products
that the option precision lets round to bf16 have its part, and each product adds the error that
docs/products.md grants it. Thread safety: one thread verifies or explains at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from pto.adapters.torch.compile.compiled import CompiledGraph, line_of
from pto.adapters.torch.compile.explain import as_compiled, observed
from pto.adapters.torch.compile.groups import made_by
from pto.adapters.torch.compile.in_aten import Values
from pto.adapters.torch.compile.plan import ATTENTION, PROGRAM, Step, name_of
from pto.adapters.torch.compile.rows import Kind
from pto.adapters.torch.compile.translate import is_part
from torch import fx

_SLACK = {torch.float16: 4e-3, torch.bfloat16: 4e-2, torch.float32: 1e-6, torch.float64: 1e-12}
_ROUNDING = {torch.float32: 2.0**-24, torch.float64: 2.0**-53}
_ROUNDING_OF_16_BITS = 2.0**-23  # of their sums, on AMX and AVX512_BF16
_FEWEST_ROUNDINGS = 32  # AMX: depth / 4 + 24, which is less at larger depths


@dataclass(frozen=True)
class StepReport:
    """One result of a step: largest errors against float64, relative to the largest element."""

    line: str  # of the model; "" where a module of PyTorch has it
    operations: tuple[str, ...]
    error: float
    eager_error: float
    is_right: bool
    program: str  # the graph of the step, as text

    def __str__(self) -> str:
        what = " ".join(dict.fromkeys(self.operations))
        sign = "agrees" if self.is_right else "DEVIATES"
        where = f" at {self.line}" if self.line else ""
        return f"{sign}: {what}{where}: error {self.error:.1e}, eager {self.eager_error:.1e}"


@dataclass(frozen=True)
class VerifyReport:
    """The compared results in the order of their steps; str() shows the first wrong one."""

    steps: tuple[StepReport, ...]

    @property
    def is_right(self) -> bool:
        return all(one.is_right for one in self.steps)

    @property
    def first(self) -> StepReport | None:
        """The first step that deviates."""
        return next((one for one in self.steps if not one.is_right), None)

    def __str__(self) -> str:
        if self.first is not None:
            return f"{self.first}\nThis program shows it:\n{self.first.program}"
        if not self.steps:
            return "nothing was compared: no step of this call, if pto compiled it, is a program"
        return "\n".join([f"{len(self.steps)} results agree", *map(str, self.steps)])


def verify(model: Callable[..., Any], *args: Any, **kwargs: Any) -> VerifyReport:
    """Runs model(*args, **kwargs) twice and compares each step that is ours in the second run."""
    run = as_compiled(model)
    found: list[StepReport] = []

    def see(graph: CompiledGraph, given: list) -> list:
        def note(place: int, names: dict) -> None:
            step = graph.steps[place]
            if step.kind in (PROGRAM, ATTENTION):
                found.extend(_compared(graph, step, names))

        return graph.replay.observed()(given, note)

    run(*args, **kwargs)
    with observed(see):
        run(*args, **kwargs)
    return VerifyReport(tuple(found))


def _compared(graph: CompiledGraph, step: Step, names: dict) -> list[StepReport]:
    exact, eager = Values(graph, names, True), Values(graph, names, False)
    for values in (exact, eager):
        for node in step.nodes:
            values.compute(node)
    results = step.group.results if step.kind == PROGRAM else [
        user for user in made_by(step.node) if is_part(user) and user.args[1] == 0
    ]  # fmt: skip
    text = str(step.program.graph) if step.program is not None else name_of(step.node)
    products = _products(graph, step)
    rounds = graph.options.precision == "bf16" and products
    of_products = sum(_granted(node, exact) for node in products)
    found = []
    for result in results:
        got, wanted = exact.of_run(result), exact.value(result)
        error, bound = _error(got, wanted), _error(eager.value(result), wanted)
        slack = _SLACK.get(torch.bfloat16 if rounds else got.dtype, 0.0)
        is_right = error <= 2 * bound + slack + of_products
        line = line_of(result.args[0] if is_part(result) else result)
        operations = tuple(name_of(node) for node in step.nodes)
        found.append(StepReport(line, operations, error, bound, is_right, text))
    return found


def _products(graph: CompiledGraph, step: Step) -> list[fx.Node]:
    rows = ((node, graph.of.row(node)) for node in step.nodes)
    return [node for node, row in rows if row is not None and row.kind is Kind.PRODUCT]


def _granted(node: fx.Node, exact: Values) -> float:
    """The error of a product that is summed in one chain, relative to its largest element: each of
    its terms rounds a sum once, which is at most that of all magnitudes."""
    value, dtype = exact.value(node), node.meta["val"].dtype
    if not dtype.is_floating_point:
        return 0.0
    args, kwargs = exact.arguments(node)
    ones = [torch.ones_like(one) if isinstance(one, torch.Tensor) else one for one in args]
    sizes = [one.abs() if isinstance(one, torch.Tensor) else one for one in args]
    roundings = node.target(*ones).clamp(min=_FEWEST_ROUNDINGS)
    rounding = _ROUNDING.get(dtype, _ROUNDING_OF_16_BITS)
    scales = {name: abs(scale) for name, scale in kwargs.items()}
    bound = roundings * rounding * node.target(*sizes, **scales)
    return _error(value + torch.where(bound.isfinite(), bound, 0.0), value)


def _error(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference, relative to the largest element; infinite where NaN stand apart."""
    if got.shape != wanted.shape:
        return float("inf")
    if not got.numel():
        return 0.0
    got, wanted = got.double(), wanted.double()
    same = (got == wanted) | (got.isnan() & wanted.isnan())
    difference = torch.where(same, 0.0, (got - wanted).abs())
    if difference.isnan().any():
        return float("inf")
    finite = wanted[wanted.isfinite()].abs()
    scale = float(finite.max()) if finite.numel() else 1.0
    return float(difference.max()) / (scale or 1.0)
