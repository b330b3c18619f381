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
from pto.language.dtypes import dtype
from pto.language.op import Operator, operators
from pto.language.tensor import Tensor
from pto.language.types import cast

DOMAIN = "ai.pto"


def row_of(node: OnnxNode) -> Row | None:
    """The row of a node's type, or None."""
    if node.domain == DOMAIN:
        return _own_row(node.type)
    return TABLE.get(node.type) if node.domain == "" else None


@functools.cache
def operator(name: str) -> Operator | None:
    """The operator of this name that Python defined, or None."""
    return next((one for one in operators() if one.name == name), None)


@functools.cache
def _own_row(name: str) -> Row | None:
    found = operator(name)
    if found is None:
        return None
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
