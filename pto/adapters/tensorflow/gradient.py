# SPDX-License-Identifier: Apache-2.0
"""Gradients: each operator's rule for TensorFlow, made from its record in the registry.

Errors: LookupError for an operator without gradient, as TensorFlow's own; InvalidValue for a tensor
by which it has none. Thread safety: any thread.
"""

from typing import Any

import tensorflow as tf
from pto.adapters.gradient import (
    gathered,
    gradient_plan,
    needs_of,
    picked,
    refuse_lacking,
)
from pto.adapters.record import grouped
from pto.adapters.tensorflow.node import TensorFlowNode
from tensorflow.python.framework import ops


def _attribute(op: Any, node: TensorFlowNode, name: str) -> Any:
    """An attribute of a node; the fast path does not note those that have their defaults."""
    try:
        return op.get_attr(name)
    except KeyError:
        [found] = [a for a in node.definition.attr if a.name == name]
        value = found.default_value
        kind = value.WhichOneof("value")
        return list(value.list.i) if kind == "list" else getattr(value, kind)


def _counts(op: Any, arguments: Any) -> tuple[int, ...]:
    """How many tensors each argument or output of a node has, by its definition."""
    return tuple(op.get_attr(a.number_attr) if a.number_attr else 1 for a in arguments)


def _summed(d: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """The sum of a gradient over the axes along which broadcasting repeated the input x.

    A gradient operator that does not take x does not know its shape.
    """
    if d.shape.is_fully_defined() and d.shape == x.shape:
        return d
    _, axes = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(d), s1=tf.shape(x))
    return tf.reshape(tf.reduce_sum(d, axes), tf.shape(x))


class Rule:
    """The gradient of one operator; a call takes a node and the gradients of its outputs, and
    returns those of its inputs, None where they are not asked for."""

    def __init__(self, node: TensorFlowNode):
        self.node = node
        self._gradient: TensorFlowNode | None = None

    def gradient(self) -> TensorFlowNode:
        """The gradient operator, which may have been defined after this one."""
        if self._gradient is None:
            index = self.node.record.gradient
            if index < 0:
                raise LookupError(  # what TensorFlow raises for an operator without gradient
                    f"{self.node.record.name}: the operator has no gradient\n"
                    "  why: a gradient through its result was asked for\n"
                    "  fix: give the operator a grad, or stop there: tf.stop_gradient(result)"
                )
            self._gradient = TensorFlowNode(index)
        return self._gradient

    def __call__(self, op: Any, *d_flat: Any) -> list[tf.Tensor | None]:
        gradient, definition = self.gradient(), self.node.definition
        record, counts = self.node.record, _counts(op, definition.input_arg)
        plan = gradient_plan(record.index, counts, _counts(op, definition.output_arg))
        skipped = set(getattr(op, "skip_input_indices", None) or ())
        skipped |= {i for i, x in enumerate(op.inputs) if not x.dtype.is_floating}
        is_asked = [place not in skipped for place in range(len(plan.outputs))]
        if hasattr(op, "skip_input_indices") and record.gradient_of < 0:  # a graph asks for all
            refuse_lacking(record, counts, plan, is_asked, "tf.stop_gradient")
        needs = needs_of(plan, is_asked)
        if not needs:
            return [None] * len(plan.outputs)
        d_outputs = [
            tf.zeros_like(y) if d is None else d for y, d in zip(op.outputs, d_flat, strict=True)
        ]
        taken = picked(plan, [*d_outputs, *op.inputs, *op.outputs])
        groups = grouped(plan.counts, map(tf.convert_to_tensor, taken))
        attributes = self._attributes(op, gradient)
        attributes[gradient.names[gradient.attributes[-1].name]] = needs
        given = [output for output in plan.outputs if output >= 0 and needs >> output & 1]
        counts = [
            given.count(place) if output.is_list else 1
            for place, output in enumerate(gradient.record.outputs)
        ]
        results = gradient.emit(groups, attributes, None, counts)
        found = gathered(plan, results if len(counts) > 1 else (results,), needs)
        known = {place - len(d_outputs) for place in plan.inputs}  # the operator sums by itself
        return [
            d if d is None or place in known else _summed(d, op.inputs[place])
            for place, d in enumerate(found)
        ]

    def _attributes(self, op: Any, gradient: TensorFlowNode) -> dict[str, Any]:
        """The attributes of the node, as its gradient has them under its own names."""
        node, found = self.node, {}
        for a in node.attributes:
            found[gradient.names[a.name]] = _attribute(op, node, node.names[a.name])
            if a.optional:
                found[gradient.given_names[a.name]] = _attribute(op, node, node.given_names[a.name])
        return found


def register(node: TensorFlowNode) -> None:
    """Gives an operator of TensorFlow its gradient, or the error where it has none."""
    ops.RegisterGradient(node.type)(Rule(node).__call__)
