# SPDX-License-Identifier: Apache-2.0
"""Knows what stock ONNX Runtime does with nodes that we leave to it, besides running them in turn.

It optimises after it has asked us: activations become part of convolutions and products, images
between convolutions get a blocked layout, and nodes between DequantizeLinear and QuantizeLinear run
on integers. A node that we take is out of its reach. Thread safety: immutable.
"""

from collections.abc import Collection, Sequence

from pto.adapters.onnxruntime.graph import OnnxGraph, OnnxNode, OnnxValue

_OF_CONV = {"Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Clip"}
_OF_GEMM = {"Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Elu", "Selu", "Softplus",
            "Softsign", "ThresholdedRelu"}  # fmt: skip
_POOLS = {"MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"}
_SLOW_ON_INTEGERS = {"Softmax", "LogSoftmax"}
# Nodes that have a form for the blocked layout, or run on any layout.
LAYOUTS = {"Add", "Mul", "Sum", "Relu", "Sigmoid", "Tanh", "Concat"}


class Stock:
    """Stock's view of a graph of which we take the convolutions at the places `ours`."""

    def __init__(self, graph: OnnxGraph, ours: Collection[int] = ()) -> None:
        self._ours = ours
        self._maker: dict[str, OnnxNode] = {}
        self._readers: dict[str, list[OnnxNode]] = {}
        for node in graph.nodes:
            self._maker |= {v.name: node for v in node.outputs if v is not None}
            for value in {v.name: v for v in (*node.inputs, *node.outer) if v is not None}:
                self._readers.setdefault(value, []).append(node)
        self._blocked: set[str] = set()
        self._sums: set[int] = set()  # places of Adds that are part of a convolution
        for node in graph.nodes:
            self._follow(node)

    def _follow(self, node: OnnxNode) -> None:
        """Notes which outputs of a node are blocked; the nodes before it were noted."""
        read = [v for v in node.inputs if v is not None and not v.is_constant]
        blocked = [v for v in read if v.name in self._blocked]
        if node.type == "Conv" and node.place not in self._ours:
            is_blocked = bool(read) and read[0].dtype == "f32" and len(read[0].shape or ()) == 4
        elif node.type in _POOLS:
            is_blocked = bool(blocked)
        else:
            is_blocked = node.type in LAYOUTS and bool(read) and len(blocked) == len(node.inputs)
        if is_blocked:
            self._blocked |= {v.name for v in node.outputs if v is not None}
        is_sum = is_blocked and node.type == "Add"
        if is_sum and any(self._is_private(v, ("Conv",)) for v in blocked):
            self._sums.add(node.place)

    def _is_private(self, value: OnnxValue, types: Sequence[str]) -> bool:
        """Says whether a node of these types makes a value that only one node reads."""
        maker = self._maker.get(value.name)
        is_theirs = maker is not None and maker.place not in self._ours
        if not is_theirs or value.is_output or len(self._readers[value.name]) != 1:
            return False
        return maker.type in types or ("Conv" in types and maker.place in self._sums)

    def keeps(self, node: OnnxNode) -> str:
        """Why taking a node would cost stock a fusion; "" if it would not."""
        first = node.input(0)
        if first is None or node.domain != "":
            return ""
        if node.type == "Conv":
            return "" if node.place in self._ours else "stock convolves many filters faster"
        if node.place in self._sums or (
            node.type in _OF_CONV and self._is_private(first, ("Conv",))
        ):
            return "stock makes it part of the Conv before it"
        if node.type in _OF_GEMM and self._is_private(first, ("Gemm",)):
            return "stock makes it part of the Gemm before it"
        if node.type == "DequantizeLinear":
            readers = self._readers.get(node.outputs[0].name, ())
            is_integer = first.is_constant or any(map(self._is_quantised, readers))
        elif node.type == "QuantizeLinear":
            maker = self._maker.get(first.name)
            is_integer = maker is None or self._is_quantised(maker)
        else:
            is_integer = self._is_quantised(node)
        return "stock runs it on integers" if is_integer else ""

    def _is_quantised(self, node: OnnxNode) -> bool:
        """Says whether a node between integers gets a kernel of stock on integers."""
        if node.type in _SLOW_ON_INTEGERS:
            return False
        read = [v for v in node.inputs if v is not None and v.data is None]
        if not read or any(self._type_of_maker(v) != "DequantizeLinear" for v in read[:2]):
            return False
        made = [r for v in node.outputs if v is not None for r in self._readers.get(v.name, ())]
        whole = bool(made) and all(reader.type == "QuantizeLinear" for reader in made)
        return whole or node.type in ("MatMul", "Gemm")

    def _type_of_maker(self, value: OnnxValue) -> str:
        maker = self._maker.get(value.name)
        return "" if maker is None else maker.type

    def borders(self, nodes: Sequence[OnnxNode]) -> list[OnnxValue]:
        """The blocked values that stock would have to reorder if a group became one of our kernels,
        though it need not where it runs the nodes itself."""
        if not all(node.type in LAYOUTS for node in nodes):
            return []
        inside = {node.place for node in nodes}
        values = {v.name: v for n in nodes for v in (*n.inputs, *n.outputs) if v is not None}
        return [
            v for name, v in values.items() if name in self._blocked and self._leaves(v, inside)
        ]

    def _leaves(self, value: OnnxValue, inside: set[int]) -> bool:
        """Says whether a value comes from outside, or a node outside may read it in blocks."""
        maker = self._maker.get(value.name)
        if maker is not None and maker.place not in inside:
            return True
        others = [n for n in self._readers.get(value.name, ()) if n.place not in inside]
        return any(n.type in ("Conv", *_POOLS, *LAYOUTS) for n in others)

    def is_part_of_gelu(self, node: OnnxNode, nodes: Sequence[OnnxNode]) -> bool:
        """Says whether stock has one kernel for this node and an Erf, or Sigmoid, of the group."""
        types = {other.type for other in nodes}
        if "Erf" in types:  # readers have a DequantizeLinear each, so no two read one value
            read = {self._type_of_maker(v) for n in nodes for v in n.inputs if v is not None}
            return "DequantizeLinear" not in read and node.type in ("Add", "Div", "Mul")
        if node.type != "Mul":
            return False
        names = {v.name for v in node.inputs if v is not None}
        makers = [self._maker.get(name) for name in names]
        return any(
            m is not None and m.type == "Sigmoid" and m in nodes and m.inputs[0].name in names
            for m in makers
        )
