# SPDX-License-Identifier: Apache-2.0
"""Finds the row that computes a node: that of the table, or one made from an operator.

Nodes of our own domain, ai.pto, have the names of operators, and their attributes those of
arguments. Thread safety: any thread may ask.
"""

import functools

from pto.adapters.onnxruntime.calls import LibraryOperator
from pto.adapters.onnxruntime.graph import OnnxNode
from pto.adapters.onnxruntime.table import TABLE, Row
from pto.adapters.record import Record
from pto.errors import InvalidType, nearest
from pto.language.dtypes import dtype
from pto.language.op import Operator
from pto.language.redefinition import newest, times_replaced
from pto.language.tensor import Tensor
from pto.language.types import cast

DOMAIN = "ai.pto"


def row_of(node: OnnxNode) -> Row | None:
    """The row of a node's type, or None."""
    if node.domain == DOMAIN:
        found = operator(node.type)
        return found and _own_row(found)
    return TABLE.get(node.type) if node.domain == "" else None


def operator(name: str) -> Operator | None:
    """The operator of this name that Python defined last, or None."""
    return newest.get(name)


def lacking(node: OnnxNode) -> InvalidType | None:
    """The error for a node of our domain with an attribute that its operator lacks; else None."""
    found = operator(node.type) if node.domain == DOMAIN else None
    known = [a.name for a in Record(found.index).attributes] if found else node.attributes
    name = next((name for name in node.attributes if name not in known), None)
    return name and InvalidType(
        f"{node.type}: the node {node.name!r} has the attribute {name}, which the operator lacks",
        nearest(name, known),
        f"write the attributes of {found.schema} into the model",
    )


def version_of(node: OnnxNode) -> tuple[int, int] | None:
    """A node's operator and how often it was replaced; None for a standard node."""
    found = operator(node.type) if node.domain == DOMAIN else None
    return found and (found.index, times_replaced[found.index])


@functools.cache
def _own_row(found: Operator) -> Row:
    name = found.name
    if found.member("build") is None or any(a.kind == "Tensor[]" for a in found.arguments):
        return Row(1, 1, call=lambda node: LibraryOperator(name, len(node.inputs), node.attributes))

    def build(node: OnnxNode, *tensors: Tensor | None) -> object:
        own = [  # an operator rounds as it does elsewhere
            None if one is None else cast(one, dtype(value.dtype))
            for one, value in zip(tensors, node.inputs, strict=True)
        ]
        return found.member("build")(*bound(Record(found.index), own, node.attributes))

    return Row(1, 1, build)


def bound(record: Record, tensors: list, attributes: dict) -> list:
    """All arguments of a call in schema order; a list takes the tensors that are left.

    Raises InvalidType for attributes that do not fit.
    """
    given = iter(tensors)
    values = dict(attributes)
    for argument in record.tensors:
        values[argument.name] = list(given) if argument.kind == "Tensor[]" else next(given, None)
    for argument in record.attributes:
        if argument.kind == "bool" and values.get(argument.name) in (0, 1):
            values[argument.name] = bool(values[argument.name])
    return record.bind((), values)
