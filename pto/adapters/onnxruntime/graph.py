# SPDX-License-Identifier: Apache-2.0
"""A graph of ONNX Runtime as the planner sees it: the JSON of describe.hpp as objects."""

import json
from dataclasses import dataclass, field, replace

import numpy as np

from pto.language.dtypes import numpy_type


@dataclass(frozen=True)
class OnnxValue:
    """A tensor between nodes.

    `dtype` is None for an element type that we lack, `shape` for an unknown rank; a size is an int,
    the name of a symbol, or None. `data` holds the elements of a small constant.
    """

    name: str
    dtype: str | None
    shape: tuple | None
    is_constant: bool
    is_output: bool
    data: np.ndarray | None

    @property
    def is_typed(self) -> bool:
        return self.dtype is not None and self.shape is not None


@dataclass(frozen=True)
class OnnxNode:
    """One operation; `place` is its place in the graph, `since` the version of its operator.

    Absent optional inputs and outputs are None; `outer` are the values that its subgraphs read.
    """

    place: int
    name: str
    type: str
    domain: str
    since: int
    provider: str
    inputs: tuple[OnnxValue | None, ...]
    outer: tuple[OnnxValue, ...]
    outputs: tuple[OnnxValue | None, ...]
    attributes: dict

    def input(self, place: int) -> OnnxValue | None:
        return self.inputs[place] if place < len(self.inputs) else None

    def data(self, place: int) -> np.ndarray | None:
        """The elements of an input that is a small constant, or None."""
        value = self.input(place)
        return None if value is None else value.data

    def get(self, name: str, default: object) -> object:
        """An attribute, or the default where the model leaves it out."""
        return self.attributes.get(name, default)


@dataclass(frozen=True)
class OnnxGraph:
    """Nodes in topological order; `inputs` and `outputs` name the values of a fused group.

    `parent` is the type of the node whose body the graph is, or "".
    """

    nodes: tuple[OnnxNode, ...]
    parent: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    values: dict[str, OnnxValue] = field(default_factory=dict)


def _value(name: str, fields: dict) -> OnnxValue:
    dtype = fields.get("dtype")
    shape = fields.get("shape")
    data = None
    if "data" in fields and dtype != "bf16":  # NumPy has no bf16
        data = np.frombuffer(bytes.fromhex(fields["data"]), numpy_type(dtype)).reshape(shape)
    shape = None if shape is None else tuple(shape)
    return OnnxValue(name, dtype, shape, fields["constant"], fields["output"], data)


def _note_matrices(node: dict, values: dict[str, OnnxValue]) -> None:
    """Gives the operands and the result of a Gemm their rank, where nothing else says it."""
    if node["type"] == "Gemm" and not node["domain"]:
        a, b, result = (values[name] for name in (*node["inputs"][:2], node["outputs"][0]))
        columns = b.shape and b.shape[0 if node["attributes"].get("transB", 0) else 1]
        for value, last in ((a, None), (b, None), (result, columns)):
            if value.shape is None:
                values[value.name] = replace(value, shape=(None, last))


def parse(text: str) -> OnnxGraph:
    """The graph of a description."""
    fields = json.loads(text)
    values = {name: _value(name, value) for name, value in fields["values"].items()}
    for node in fields["nodes"]:
        _note_matrices(node, values)
    nodes = tuple(
        OnnxNode(
            place, node["name"], node["type"], node["domain"], node["since"], node["provider"],
            tuple(map(values.get, node["inputs"])), tuple(map(values.get, node["outer"])),
            tuple(map(values.get, node["outputs"])), node["attributes"],
        )
        for place, node in enumerate(fields["nodes"])
    )  # fmt: skip
    return OnnxGraph(
        nodes, fields["parent"], tuple(fields.get("inputs", ())),
        tuple(fields.get("outputs", ())), values,
    )  # fmt: skip
