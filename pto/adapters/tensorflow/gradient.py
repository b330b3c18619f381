# SPDX-License-Identifier: Apache-2.0
"""Gradients: the rule of each operator for TensorFlow, from what the registry says of it."""

from typing import Any

import tensorflow as tf
from pto.adapters.record import Record
from pto.adapters.tensorflow.node import Node, Tensors
from tensorflow.python.framework import ops


def _attribute(op: Any, node: Node, name: str) -> Any:
    """An attribute of a node; the fast path does not note those that have their defaults."""
    try:
        return op.get_attr(name)
    except KeyError:
        [found] = [a for a in node.definition.attr if a.name == name]
        value = found.default_value
        kind = value.WhichOneof("value")
        return list(value.list.i) if kind == "list" else getattr(value, kind)


def _split(flat: Any, counts: list[int]) -> list[Tensors]:
    groups, place = [], 0
    for count in counts:
        groups.append(list(flat[place : place + count]))
        place += count
    return groups


class Rule:
    """The gradient of one operator: from a node and the gradients of its outputs to those of its
    inputs."""

    def __init__(self, node: Node):
        self.node = node
        self._gradient: Node | None = None

    def gradient(self) -> Node:
        """The gradient operator, which may have been defined after this one."""
        if self._gradient is None:
            index = Record(self.node.record.index).gradient
            if index < 0:
                raise LookupError(  # what TensorFlow raises for an operator without gradient
                    f"{self.node.record.name}: the operator has no gradient\n"
                    "  why: a gradient through its result was asked for\n"
                    "  fix: give the operator a grad, or stop there: tf.stop_gradient(result)"
                )
            self._gradient = Node(index)
        return self._gradient

    def __call__(self, op: Any, *d_flat: Any) -> list[tf.Tensor | None]:
        node, gradient = self.node, self.gradient()
        record = Record(node.record.index)
        definition = node.definition
        inputs = _split(op.inputs, [
            op.get_attr(a.number_attr) if a.number_attr else 1 for a in definition.input_arg
        ])  # fmt: skip
        counts = [op.get_attr(a.number_attr) if a.number_attr else 1 for a in definition.output_arg]
        outputs = _split(op.outputs, counts)
        d_outputs = _split(
            [tf.zeros_like(y) if d is None else d for y, d in zip(op.outputs, d_flat, strict=True)],
            counts,
        )
        by_argument = dict(zip((a.name for a in node.tensors), inputs, strict=True))
        groups = [
            d
            for d, output in zip(d_outputs, record.outputs, strict=True)
            if output.is_differentiable
        ]
        for source in record.saved:
            name = node.record.arguments[source].name if source >= 0 else ""
            groups.append(by_argument[name] if source >= 0 else outputs[-1 - source])
        wanted = [node.record.arguments[place].name for place in record.wanted]
        needed = self._needed(op, by_argument, wanted)
        attributes = self._attributes(op, gradient)
        needs = gradient.attributes[-1].name
        attributes[gradient.names[needs]] = sum(1 << i for i, n in enumerate(wanted) if n in needed)
        groups = [[tf.convert_to_tensor(t) for t in group] for group in groups]
        results: Any = ()
        if needed:
            lists = [output.is_list for output in gradient.record.outputs]
            counts = [
                len(by_argument[name]) * (name in needed) if is_list else 1
                for name, is_list in zip(wanted, lists, strict=True)
            ]
            results = gradient.emit(groups, attributes, None, counts)
        results = results if isinstance(results, tuple) else (results,)
        by_name = dict(zip(wanted, results, strict=bool(needed)))
        flat: list[tf.Tensor | None] = []
        for name, group in by_argument.items():
            found = by_name[name] if name in needed else [None] * len(group)
            flat += found if isinstance(found, list) else [found]
        return flat

    def _needed(self, op: Any, inputs: dict[str, Tensors], wanted: list[str]) -> set[str]:
        """The names of the arguments whose gradient is asked for."""
        skipped = set(getattr(op, "skip_input_indices", None) or ())
        needed, place = set(), 0
        for name, group in inputs.items():
            places = range(place, place + len(group))
            place += len(group)
            if name in wanted and any(p not in skipped for p in places):
                needed.add(name)
        return needed

    def _attributes(self, op: Any, gradient: Node) -> dict[str, Any]:
        """The attributes of the node, as its gradient has them under its own names."""
        node, found = self.node, {}
        for a in node.attributes:
            found[gradient.names[a.name]] = _attribute(op, node, node.names[a.name])
            if a.optional:
                found[gradient.given_names[a.name]] = _attribute(op, node, node.given_names[a.name])
        return found


def register(node: Node) -> None:
    """Gives an operator of TensorFlow its gradient, or the error where it has none."""
    ops.RegisterGradient(node.type)(Rule(node).__call__)
