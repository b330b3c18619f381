# SPDX-License-Identifier: Apache-2.0
"""The planner decides which nodes of a model become which kernels.

A node that the table serves joins the groups that compute its inputs (graphs/partition.py). Each
group becomes one kernel (group.py), unless stock runs it faster (costs.py, stock.py) and
config.onnxruntime_takes is "faster". Thread safety: any thread may plan.
"""

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial

from pto.adapters.onnxruntime import costs, library
from pto.adapters.onnxruntime import group as groups
from pto.adapters.onnxruntime.graph import OnnxGraph, OnnxNode, OnnxValue, parse
from pto.adapters.onnxruntime.rows import DOMAIN, lacking, row_of
from pto.adapters.onnxruntime.stock import Stock
from pto.adapters.onnxruntime.table import CONTROL_FLOW
from pto.config import config
from pto.graphs.partition import Partition
from pto.side_by_side import side_by_side

# An operator takes 32 tensors, and a kernel 64 with results and temporaries: these leave room.
INPUTS_MAX, OUTPUTS_MAX, NODES_MAX = 12, 8, 48
AHEAD_MAX = 8  # kernels that a session compiles for other shapes too: a second or two


@dataclass(frozen=True)
class Decision:
    """Nodes that have a kernel of ours; `reason` says why stock runs them, "" where we do."""

    nodes: tuple[OnnxNode, ...]
    reason: str

    def __str__(self) -> str:
        names = " + ".join(node.type for node in self.nodes)
        return f"stock: {names}: {self.reason}" if self.reason else f"kernel: {names}"


heard: ContextVar[list[Decision] | None] = ContextVar("heard", default=None)


def tell(decision: Decision) -> None:
    """Adds a decision to what explain() of this thread hears."""
    decisions = heard.get()
    if decisions is not None:
        decisions.append(decision)


def fits(nodes: Sequence[OnnxNode]) -> bool:
    """Says whether a group of these nodes has few enough nodes, inputs and outputs."""
    if len(nodes) > NODES_MAX:
        return False
    group = groups.group_of(nodes, ())
    made = [v for node in nodes for v in node.outputs if v is not None]
    read = {v.name for node in nodes for v in node.inputs if v is not None}
    leave = [v for v in made if v.is_output or v.name not in read]
    return len(group.inputs) <= INPUTS_MAX and len(leave) <= OUTPUTS_MAX


def leaving(nodes: Sequence[OnnxNode], graph: OnnxGraph) -> list[OnnxValue]:
    """The values of a group that others read, or that are outputs of the model."""
    inside = {node.place for node in nodes}
    read = {v.name for node in graph.nodes if node.place not in inside
            for v in (*node.inputs, *node.outer) if v is not None}  # fmt: skip
    made = [v for node in nodes for v in node.outputs if v is not None]
    return [v for v in made if v.is_output or v.name in read]


def partition(graph: OnnxGraph, stock: Stock | None) -> list[list[OnnxNode]]:
    """The groups of nodes that the provider may take, but for what stock would lose a fusion by."""
    parts, ours = Partition[OnnxNode](fits), set()
    for node in graph.nodes:
        kept = stock.keeps(node) if stock is not None else ""
        if kept and row_of(node) is not None:
            tell(Decision((node,), kept))
        served = not node.provider and not kept and groups.is_served(node)
        reads = [v.name for v in (*node.inputs, *node.outer) if v is not None]
        makes = [v.name for v in node.outputs if v is not None]
        parts.add(node, reads, makes, served and groups.fuses(node))
        if served:
            ours.add(node.place)
    return [nodes for nodes in parts.groups() if nodes[0].place in ours]


def refused(group: groups.Group, stock: Stock | None) -> str:
    """Why stock runs a group; "" where we do."""
    if stock is None or any(node.domain == DOMAIN for node in group.nodes):
        return ""
    if len(group.nodes) == 1 and row_of(group.nodes[0]).view is not None:
        return "stock changes a shape as fast"
    return costs.estimate(group.nodes, group.inputs, group.outputs, stock).reason


def plan(text: str, answer: int) -> None:
    """Tells ONNX Runtime which groups of a graph we take, and compiles their kernels."""
    graph = parse(text)
    for node in graph.nodes:
        if lacking(node) is not None:  # build() raises it: an error of this function is only logged
            library.take(answer, [node.place])
    if graph.parent and graph.parent not in CONTROL_FLOW:
        return
    stock = None
    if config.onnxruntime_takes == "faster":
        ours = {n.place for n in graph.nodes if costs.is_ours(n) and groups.is_served(n)}
        stock = Stock(graph, ours)
    taken = [part for nodes in partition(graph, stock) for part in _decided(nodes, graph, stock)]
    fused = [part for part in taken if groups.fuses(part.nodes[0])]
    compile_ahead(groups.share(fused, lambda group: len(group.inputs) <= INPUTS_MAX))
    for part in taken:
        (first, *others) = part.nodes
        if not others and row_of(first).view is not None:
            library.take_view(answer, first.place)
        else:
            library.take(answer, [node.place for node in part.nodes])


def _decided(
    nodes: list[OnnxNode], graph: OnnxGraph, stock: Stock | None
) -> Iterator[groups.Group]:
    """The parts of a group that we take: all, none, or single nodes where it does not trace."""
    whole = groups.group_of(nodes, leaving(nodes, graph))
    parts = [whole]
    if len(nodes) > 1 and not groups.traces(whole):
        parts = [groups.group_of([node], leaving([node], graph)) for node in nodes]
    for part in parts:
        reason = refused(part, stock)
        tell(Decision(part.nodes, reason))
        if not reason:
            yield part


def compile_ahead(taken: Sequence[groups.Group]) -> None:
    """Compiles the kernels of groups side by side, those of equal groups once.

    The first call with other shapes than the first ones of ahead() waits where there are many.
    """
    first: dict[tuple[int, str], Callable[[], None]] = {}
    others: dict[tuple[int, str], Callable[[], None]] = {}
    for group in taken:
        made = groups.operator_of(group)
        for place, shapes in enumerate(groups.ahead(group)):
            job = partial(groups.compile_ahead, made, group, shapes)
            (others if place else first)[made.index, str(shapes)] = job
    jobs = first | others if len(first) + len(others) <= AHEAD_MAX else first
    side_by_side(list(jobs.values()))


def build(text: str, answer: int) -> None:
    """Makes the kernel of a group that ONNX Runtime has fused."""
    graph = parse(text)
    if (error := lacking(graph.nodes[0])) is not None:
        raise error
    if not groups.fuses(graph.nodes[0]):
        build_call(graph, answer)
        return
    outputs = [v for node in graph.nodes for v in node.outputs if v and v.name in graph.outputs]
    group = groups.shared(groups.group_of(graph.nodes, outputs))
    made = groups.operator_of(group)
    inputs = [[graph.inputs.index(value.name)] for value in group.inputs]
    places = [graph.outputs.index(value.name) for value in outputs]
    library.use(answer, made.index, inputs, [], places)


def build_call(graph: OnnxGraph, answer: int) -> None:
    """The kernel of one node that an operator of the library computes."""
    (node,) = graph.nodes
    call = groups.call_of(node)
    if call is None:
        raise RuntimeError(f"the node {node.name} ({node.type}) has changed since it was taken")
    inputs = [[graph.inputs.index(v.name) for v in members] for members in call.tensors]
    attributes = [library.attribute_value(kind, value) for kind, value in call.attributes]
    places = {name: place for place, name in enumerate(graph.outputs)}
    outputs = [places.get(value.name, -1) for value in node.outputs]  # -1: nobody reads it
    library.use(answer, call.record.index, inputs, attributes, outputs)
    for argument, record in call.prepared.items():
        defaults = [library.attribute_value(a.kind, a.default) for a in record.attributes]
        library.prepare(answer, argument, record.index, defaults)
