# SPDX-License-Identifier: Apache-2.0
"""The plan of an FX graph: its steps in order, each a program, an operator of the library, or ATen.

    of, steps = planned(graph, constants={weight_node})
    steps[0].kind, steps[0].nodes, steps[0].reason

`of` is the Translation of the graph's nodes. Thread safety: any thread may plan; programs are
compiled on threads of their own.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from pto.adapters.torch.compile.groups import Group, group_of, inputs_of, leaving, made_by
from pto.adapters.torch.compile.rows import Kind, is_operator
from pto.adapters.torch.compile.sizes import expression, is_from_data, symbols_of
from pto.adapters.torch.compile.translate import (
    Translation,
    given_of,
    is_part,
    is_symbolic,
    overload_of,
)
from pto.adapters.torch.compile.values import ANY
from pto.errors import Error
from pto.formulas import NotExpressible
from pto.graphs.partition import Partition
from pto.graphs.program import RESULTS_MAX, TENSORS_MAX, GroupProgram, program_of
from pto.side_by_side import side_by_side
from torch import fx

INPUTS_MAX = TENSORS_MAX - 4  # sizes may come as tensors, too
NODES_MAX = 160
PROGRAM, ATTENTION, OPERATOR, WRITE, ATEN = "program", "attention", "operator", "write", "ATen"
_WRITES = (torch.ops.aten.copy_.default, torch.ops.aten.index_put_.default)  # into inputs


@dataclass(eq=False)
class Step:
    """One statement of the plan; `reason` says why it is a step of its own, "" for others."""

    kind: str
    nodes: tuple[fx.Node, ...]
    reason: str = ""
    group: Group | None = None
    program: GroupProgram | None = None

    @property
    def node(self) -> fx.Node:
        return self.nodes[-1]


def called(node: fx.Node) -> str:
    """The kind of a step that calls the overload of a node."""
    return OPERATOR if is_operator(overload_of(node) or "") else ATEN


def is_effect(node: fx.Node) -> bool:
    """Says whether a node writes into its arguments, or nobody knows whether."""
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.is_mutable
    return isinstance(node.target, torch._ops.HigherOrderOperator)


def is_random(node: fx.Node) -> bool:
    tags = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded in tags


def is_computed(node: fx.Node) -> bool:
    """Says whether a symbolic number has to be computed, being no expression of known sizes."""
    value = node.meta["val"]
    if not isinstance(value, torch.SymInt):
        return isinstance(value, torch.SymFloat | torch.SymBool)
    return any(map(is_from_data, symbols_of([expression(value)])))


class Planner:
    """Plans one graph."""

    def __init__(self, graph: fx.Graph, constants: set[fx.Node], precision: str | None):
        self.graph, self.constants = graph, constants
        self.of = Translation(precision)
        self.parts: Partition[fx.Node] = Partition(self.fits)
        self.copies_alone = False  # whether the graph does nothing else

    def fits(self, nodes: list[fx.Node]) -> bool:
        if len(nodes) > NODES_MAX or len(inputs_of(nodes, self.of)) > INPUTS_MAX:
            return False
        return len(leaving(nodes, self.of)) <= RESULTS_MAX

    def steps(self) -> list[Step]:
        for node in self.graph.nodes:
            if self._is_step(node):
                self._add(node)
        groups = self.parts.groups()
        self.copies_alone = all(self._copies(node) for nodes in groups for node in nodes)
        return [step for nodes in groups for step in self._steps_of(nodes)]

    def _is_step(self, node: fx.Node) -> bool:
        if node.op in ("placeholder", "output", "get_attr") or is_part(node):
            return False
        if is_symbolic(node):
            return is_computed(node)
        return not self.of.is_lazy(node)

    def _add(self, node: fx.Node) -> None:
        reads: list[Any] = [*self.of.reads(node)]
        reads += [one for one in node.all_input_nodes if is_symbolic(one)]
        makes: list[Any] = [node, *made_by(node)]
        if is_effect(node):  # what was read before stays in front, what reads later behind
            self.parts.close()
            reads += list(self.parts.home)
        if is_random(node) or is_effect(node):
            reads.append("order")
            makes.append("order")
        reads.append("effects")
        makes += ["effects"] if is_effect(node) else []
        self.parts.add(node, reads, makes, self.of.fuses(node))

    def _steps_of(self, nodes: Sequence[fx.Node]) -> Iterator[Step]:
        if not self.of.fuses(nodes[0]):
            (node,) = nodes
            kind, reason = self._apart(node)
            return iter([Step(kind, (node,), reason)])
        if all(map(self._copies, nodes)) and self._copies_as_fast(nodes):
            return iter([Step(ATEN, (node,), "a copy alone") for node in nodes])
        return self._programs(nodes)

    def _copies(self, node: fx.Node) -> bool:
        return self.of.fuses(node) and self.of.row(node).kind is Kind.COPY

    def _copies_as_fast(self, nodes: Sequence[fx.Node]) -> bool:
        """Says whether ATen copies these as fast, without a program that has to be compiled."""
        read = [self.of.promise(value) for value in inputs_of(nodes, self.of)]
        if any(one.stride_class_of(one.reading) == ANY for one in read):
            return True
        return not self.copies_alone and not any(map(self._turns, nodes))

    def _turns(self, node: fx.Node) -> bool:
        """Says whether the innermost axis of a copy is another one than that of what it copies."""
        tensors = [one for one in (node.args[0], node) if isinstance(one, fx.Node)]
        tensors = [one for one in tensors if isinstance(one.meta["val"], torch.Tensor)]
        both = [self.of.promise(one).reading for one in tensors]
        return len(both) == 2 and both[0][-1:] != both[1][-1:]

    def _apart(self, node: fx.Node) -> tuple[str, str]:
        if node.target in _WRITES:
            return WRITE, ""
        row = self.of.row(node)
        if row is not None and row.kind is Kind.ATTENTION:
            reason = refused_attention(node, self.of)
            return (ATEN, reason) if reason else (ATTENTION, "")
        return called(node), self.of.refusal(node) or ""

    def _programs(self, nodes: Sequence[fx.Node]) -> Iterator[Step]:
        """The program of a group, or, where the group does not trace, those of its halves."""
        try:
            group = group_of(nodes, self.of, self.constants)
            program = program_of(group.recipe)
            yield Step(PROGRAM, tuple(nodes), "", group, program)
        except Exception as error:  # for whatever reason: no graph is refused
            yield from self.halves(nodes, error)

    def halves(self, nodes: Sequence[fx.Node], error: Exception) -> Iterator[Step]:
        if len(nodes) == 1:
            yield Step(called(nodes[0]), tuple(nodes), _reason(error))
            return
        middle = len(nodes) // 2
        for half in (nodes[:middle], nodes[middle:]):
            yield from self._steps_of(half)


def _reason(error: Exception) -> str:
    if isinstance(error, Error):
        return error.what
    return str(error) if isinstance(error, NotExpressible) else f"{type(error).__name__}: {error}"


def refused_attention(node: fx.Node, of: Translation) -> str | None:
    """Why a node of attention is ATen's; None: the library's operator computes it."""
    given = given_of(node)
    if given.get("dropout_p", 0.0) != 0.0:
        return "dropout has PyTorch's numbers"
    if any(user.args[1] != 0 and user.users for user in node.users):
        return "its sums of exponentials are read by the backward pass"
    read = [given[name] for name in ("query", "key", "value")]
    mask = given.get("attn_mask")
    kinds = {of.promise(one).dtype for one in read}
    if len(kinds) != 1 or not kinds <= {"f32", "f16", "bf16"}:
        return f"attention of {', '.join(map(str, kinds))}"
    if mask is not None and of.promise(mask).dtype not in (*kinds, "bool"):
        return f"the mask is {of.promise(mask).dtype}"
    if not isinstance(given.get("scale"), float | int | None):
        return "the scale is known only at the call"
    return None


def planned(
    graph: fx.Graph, constants: set[fx.Node], precision: str | None = None
) -> tuple[Translation, list[Step]]:
    """The translation and the steps of a graph, their programs compiled side by side.

    `precision` is that of products of f32, see tile.matmul(). Warns where a program does not
    compile: its halves, or ATen, then run those nodes.
    """
    planner = Planner(graph, constants, precision)
    steps = planner.steps()
    programs = {id(step.program): step for step in steps if step.program is not None}
    failures: dict[int, Exception] = {}

    def compile_one(step: Step) -> None:
        try:
            step.program.compile_ahead()
        except Exception as error:  # for whatever reason: its halves, or ATen, take its place
            failures[id(step.program)] = error

    jobs = [partial(compile_one, step) for step in programs.values()]
    side_by_side(jobs, max(1, min(4, torch.get_num_threads())))
    if not failures:
        return planner.of, steps
    first = next(iter(failures.values()))
    warnings.warn(
        f"torch.compile: {len(failures)} programs did not compile, so ATen runs what stays of them"
        f" in halves; pto.torch.explain shows where. The first error: {_reason(first)}",
        RuntimeWarning, stacklevel=2,
    )  # fmt: skip
    kept: list[Step] = []
    for step in steps:
        error = failures.get(id(step.program)) if step.program is not None else None
        kept += [step] if error is None else _compiled_parts(planner, step, error)
    return planner.of, kept


def _compiled_parts(planner: Planner, step: Step, error: Exception) -> list[Step]:
    """Steps in the place of one whose program did not compile."""
    kept: list[Step] = []
    for part in planner.halves(step.nodes, error):
        try:
            if part.program is not None:
                part.program.compile_ahead()
            kept.append(part)
        except Exception as again:  # as above
            kept += _compiled_parts(planner, part, again)
    return kept


def name_of(node: fx.Node) -> str:
    """The operator of a node, for people."""
    return overload_of(node) or str(getattr(node.target, "__name__", node.target))
