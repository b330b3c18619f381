# SPDX-License-Identifier: Apache-2.0
"""The function of an operator: pto.mindspore.NAME, with the parameters of its schema.

It is generated text, since MindSpore compiles a graph from the source of what it calls: in a graph
it is graph.call, elsewhere an Eager object.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

from pto.adapters.mindspore import graph
from pto.adapters.mindspore.eager import eager
from pto.adapters.mindspore.primitive import record, returns_many
from pto.adapters.mindspore.source import function_from


def _literal(value: Any) -> str:
    """A default as text: MindSpore reads it again, and knows no name there."""
    if isinstance(value, float) and not math.isfinite(value):
        return "1e999 - 1e999" if math.isnan(value) else f"{math.copysign(1, value)} * 1e999"
    return repr(value)


def _tuple(items: list[str]) -> str:
    return "(" + "".join(f"{item}, " for item in items) + ")"


@functools.cache
def function(index: int) -> Callable:
    """The function of an operator, for graphs and eager calls."""
    of = record(index)
    tensors = _tuple([a.name for a in of.tensors])
    attributes = _tuple([a.name for a in of.attributes])
    parameters = []
    for a in of.arguments:
        if a.keyword_only and "*" not in parameters:
            parameters.append("*")
        parameters.append(a.name + (f"={_literal(a.default)}" if a.has_default else ""))
    members = []
    for a in of.tensors:
        one = f"given({a.name})" if a.optional else f"({a.name},)"
        members.append(f"listed({index}, {a.name})" if a.kind == "Tensor[]" else one)
    counts = _tuple([f"len({text})" for text in members])
    text = (
        "def make(in_graph, call, given, listed, eager):\n"
        f"    def {of.name}({', '.join(parameters)}):\n"
        "        if in_graph():\n"
        f"            flat = {' + '.join(members)}\n"
        f"            return call({index}, {counts}, {attributes}, flat, {returns_many(index)})\n"
        f"        return eager({tensors}, {attributes})\n"
        f"    return {of.name}\n"
    )
    make = function_from(text, "make")
    made = make(graph.in_graph, graph.call, graph.given, graph.listed, eager(index))
    made.__module__, made.__qualname__ = "pto.mindspore", of.name
    made.__doc__ = f"{of.schema}\n\n{of.document}"
    return made
