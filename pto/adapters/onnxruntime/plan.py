# SPDX-License-Identifier: Apache-2.0
"""The planner: which nodes of a model become which kernels.

A node that the table serves joins the groups that compute its inputs, as long as that makes no
cycle: a group runs as a whole, so nothing may lie on a path from one of its nodes to another. What
is left of a group is one kernel (group.py).
"""

from collections.abc import Iterator, Sequence

from pto.adapters.onnxruntime import group as groups
from pto.adapters.onnxruntime import library
from pto.adapters.onnxruntime.graph import OnnxGraph, OnnxNode, OnnxValue, parse
from pto.adapters.onnxruntime.rows import row_of
from pto.adapters.onnxruntime.table import CONTROL_FLOW

# An operator takes 32 tensors, and a kernel 64 with results and temporaries: these leave room.
INPUTS_MAX, OUTPUTS_MAX, NODES_MAX = 12, 8, 48


class Partition:
    """Nodes in groups. `above` are, as bits, all groups on which a group depends."""

    def __init__(self) -> None:
        self.members: dict[int, list[OnnxNode]] = {}
        self.above: dict[int, int] = {}
        self.fuses: dict[int, bool] = {}
        self.home: dict[str, int] = {}  # the group that makes a value

    def add(self, node: OnnxNode, fuses: bool) -> None:
        """Puts a node, whose producers were added before, into a group."""
        own = len(self.above)
        needed = [self.home[v.name] for v in (*node.inputs, *node.outer)
                  if v is not None and v.name in self.home]  # fmt: skip
        self.members[own], self.fuses[own] = [node], fuses
        self.above[own] = 0
        for group in needed:
            self.above[own] |= self.above[group] | 1 << group
        for value in node.outputs:
            if value is not None:
                self.home[value.name] = own
        if fuses:
            for group in sorted(set(needed), reverse=True):
                if self._may_join(group, own):
                    own = self._join(group, own)

    def _may_join(self, group: int, other: int) -> bool:
        """Says whether `other`, which reads of `group`, may become part of it."""
        if group not in self.members or not self.fuses[group] or group == other:
            return False
        between = self.above[other] & ~self.above[group] & ~(1 << group)
        for middle in _bits(between):
            if middle in self.members and self.above[middle] >> group & 1:
                return False
        nodes = self.members[group] + self.members[other]
        return len(nodes) <= NODES_MAX and fits(nodes)

    def _join(self, group: int, other: int) -> int:
        """Makes `other` part of `group`, the older one, and returns that."""
        self.members[group] += self.members.pop(other)
        joined = (self.above[group] | self.above[other]) & ~(1 << group | 1 << other)
        self.above[group] = joined
        for name, home in self.home.items():
            if home == other:
                self.home[name] = group
        for name, above in self.above.items():
            if above >> group & 1 or above >> other & 1:
                self.above[name] = above | joined | 1 << group
        return group


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


def fits(nodes: Sequence[OnnxNode]) -> bool:
    """Says whether these nodes, as one group, have few enough inputs and outputs."""
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
    parts, ours = Partition(), set()
    for node in graph.nodes:
        served = not node.provider and groups.is_served(node)
        parts.add(node, served and groups.fuses(node))
        if served:
            ours.add(node.place)
    return [nodes for nodes in parts.members.values() if nodes[0].place in ours]


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
