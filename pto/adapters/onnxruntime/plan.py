# SPDX-License-Identifier: Apache-2.0
"""The planner decides which nodes of a model become which kernels.

A node that the table serves joins the groups that compute its inputs (graphs/partition.py). Each
group becomes one kernel (group.py). Thread safety: any thread may plan.
"""

from collections.abc import Sequence

from pto.adapters.onnxruntime import group as groups
from pto.adapters.onnxruntime import library
from pto.adapters.onnxruntime.graph import OnnxGraph, OnnxNode, OnnxValue, parse
from pto.adapters.onnxruntime.rows import row_of
from pto.adapters.onnxruntime.table import CONTROL_FLOW
from pto.graphs.partition import Partition

# An operator takes 32 tensors, and a kernel 64 with results and temporaries: these leave room.
INPUTS_MAX, OUTPUTS_MAX, NODES_MAX = 12, 8, 48


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


def partition(graph: OnnxGraph) -> list[list[OnnxNode]]:
    """The groups of nodes that the provider takes."""
    parts, ours = Partition[OnnxNode](fits), set()
    for node in graph.nodes:
        served = not node.provider and groups.is_served(node)
        reads = [v.name for v in (*node.inputs, *node.outer) if v is not None]
        makes = [v.name for v in node.outputs if v is not None]
        parts.add(node, reads, makes, served and groups.fuses(node))
        if served:
            ours.add(node.place)
    return [nodes for nodes in parts.groups() if nodes[0].place in ours]


def plan(text: str, answer: int) -> None:
    """Tells ONNX Runtime which groups of a graph we take."""
    graph = parse(text)
    if graph.parent and graph.parent not in CONTROL_FLOW:
        return
    for nodes in partition(graph):
        parts = [nodes]
        if len(nodes) > 1:
            whole = groups.group_of(nodes, leaving(nodes, graph))
            parts = parts if groups.graph_of(whole) is not None else [[node] for node in nodes]
        for part in parts:
            if len(part) == 1 and row_of(part[0]).view is not None:
                library.take_view(answer, part[0].place)
            else:
                library.take(answer, [node.place for node in part])


def build(text: str, answer: int) -> None:
    """Makes the kernel of a group that ONNX Runtime has fused."""
    graph = parse(text)
    if not groups.fuses(graph.nodes[0]):
        build_call(graph, answer)
        return
    outputs = [graph.values[name] for name in graph.outputs]
    group = groups.group_of(graph.nodes, outputs)
    made = groups.operator_of(group)
    groups.compile_ahead(made, group)
    inputs = [[graph.inputs.index(value.name)] for value in group.inputs]
    library.use(answer, made.index, inputs, [], range(len(outputs)))


def build_call(graph: OnnxGraph, answer: int) -> None:
    """The kernel of one node that an operator of the library computes."""
    (node,) = graph.nodes
    call = groups.call_of(node)
    if call is None:
        raise RuntimeError(f"the node {node.name} ({node.type}) has changed since it was taken")
    inputs = [[graph.inputs.index(v.name) for v in members] for members in call.tensors]
    attributes = [library.attribute_value(kind, value) for kind, value in call.attributes]
    outputs = [graph.outputs.index(value.name) for value in node.outputs]
    library.use(answer, call.record.index, inputs, attributes, outputs)
    for argument, record in call.prepared.items():
        defaults = [library.attribute_value(a.kind, a.default) for a in record.attributes]
        library.prepare(answer, argument, record.index, defaults)
