# SPDX-License-Identifier: Apache-2.0
"""TensorFlowNode: an operator of the registry as one of TensorFlow, run or put into a graph.

    node = TensorFlowNode(index)                    # after the library has registered it
    node.emit([[x], []], {"alpha": "0.5"}, name=None)

A call goes through here where the fast path cannot: in a graph, with operators that take or give
lists, and to say clearly what was wrong.
"""

from typing import Any

import numpy as np

import tensorflow as tf
from pto.adapters.record import Argument, Record
from pto.adapters.tensorflow.attributes import DTYPE_NAMES, DTYPES, decode, encode
from tensorflow.python.eager import context, execute
from tensorflow.python.framework import op_def_library, op_def_registry, ops
from tensorflow.python.ops import control_flow_util

Tensors = list[tf.Tensor]


def refuse(what: str, why: str, fix: str) -> tf.errors.InvalidArgumentError:
    """The error that TensorFlow's users expect for arguments that do not fit."""
    return tf.errors.InvalidArgumentError(None, None, f"{what}\n  why: {why}\n  fix: {fix}")


class TensorFlowNode:
    """One operator: its record, and the names that its definition in TensorFlow has."""

    compiles_for_xla = False  # whether functions with jit_compile=True may call operators

    def __init__(self, index: int):
        self.record = Record(index)
        self.type = f"Pto_{self.record.name}"
        self.definition = op_def_registry.get(self.type)
        self.kinds = {attribute.name: attribute.type for attribute in self.definition.attr}
        arguments = self.record.arguments
        self.tensors = tuple(a for a in arguments if a.is_tensor)
        self.attributes = tuple(a for a in arguments if not a.is_tensor)
        names = [n for n in self.kinds if n[0] not in "TMNS"]  # those of the schema
        self.given_names: dict[str, str] = {}
        self.names: dict[str, str] = {}  # of an attribute by that of the argument
        for argument in self.attributes:
            self.names[argument.name] = names.pop(0)
            if argument.optional:
                self.given_names[argument.name] = names.pop(0)

    def is_list(self, place: int) -> bool:
        """Says whether a tensor argument is a list for TensorFlow; an optional one is."""
        return bool(self.definition.input_arg[place].number_attr)

    def encoded(self, values: list[Any]) -> dict[str, Any]:
        """The attributes, in schema order, as TensorFlow takes them, by their names there."""
        found = {}
        for argument, value in zip(self.attributes, values, strict=True):
            found[self.names[argument.name]] = encode(self.record.name, argument, value)
            if argument.optional:
                found[self.given_names[argument.name]] = value is not None
        return found

    def decoded(self, attributes: dict[str, Any]) -> list[Any]:
        """The attributes in schema order, as the registry takes them."""
        return [
            decode(a, attributes[self.names[a.name]],
                   attributes.get(self.given_names.get(a.name), True))
            for a in self.attributes
        ]  # fmt: skip

    def groups(self, values: list[Any]) -> list[Tensors]:
        """The tensors of each tensor argument, one element type for each type variable.

        The type is that of the variable's first tensor, else of its first array; TensorFlow
        converts Python's values to it. Raises InvalidArgumentError for other types and for sparse
        tensors.
        """
        groups = []
        for argument, value in zip(self.tensors, values, strict=True):
            if argument.kind == "Tensor[]":
                groups.append(self._members(argument.name, value))
            else:
                groups.append([] if value is None and argument.optional else [value])
        pairs = [(a, x) for a, g in zip(self.tensors, groups, strict=True) for x in g]
        for argument, item in pairs:
            self._check_kind(argument.name, item)
        known: dict[int, tf.DType] = {}
        for kinds in (tf.Tensor | tf.Variable, np.ndarray | np.generic):
            for argument, item in pairs:
                if isinstance(item, kinds):
                    known.setdefault(argument.type, tf.as_dtype(item.dtype))
        return [
            [self._converted(argument, item, known) for item in group]
            for argument, group in zip(self.tensors, groups, strict=True)
        ]

    def _converted(self, argument: Argument, value: Any, known: dict[int, tf.DType]) -> tf.Tensor:
        is_tensor = isinstance(value, tf.Tensor | tf.Variable)
        tensor = tf.convert_to_tensor(value, None if is_tensor else known.get(argument.type))
        self._check_dtype(argument, tensor.dtype, known.setdefault(argument.type, tensor.dtype))
        return tensor

    def _members(self, name: str, value: Any) -> Tensors:
        if isinstance(value, list | tuple):
            return list(value)
        raise refuse(
            f"{self.record.name}: {name} is of type {type(value).__name__}",
            f"it is a list of tensors: {self.record.schema}",
            f"pass a list, [{name}] for one tensor, tf.unstack({name}) for its rows",
        )

    def _check_kind(self, name: str, value: Any) -> None:
        if isinstance(value, tf.RaggedTensor | tf.SparseTensor):
            kind = "ragged" if isinstance(value, tf.RaggedTensor) else "sparse"
            raise refuse(
                f"{self.record.name}: tensor {name} is {kind}",
                "kernels take dense tensors",
                f"convert it first: {name} = " + (
                    f"{name}.to_tensor()" if kind == "ragged" else f"tf.sparse.to_dense({name})"
                ),
            )  # fmt: skip
        if value is None:
            raise refuse(
                f"{self.record.name}: tensor {name} is None",
                f"the signature is {self.record.schema}",
                "pass a tensor",
            )

    def _check_dtype(self, argument: Argument, dtype: tf.DType, first: tf.DType) -> None:
        allowed = self.record.types[argument.type]
        if DTYPE_NAMES.get(dtype) not in allowed:
            kind = self.record.suggested(argument)
            raise refuse(
                f"{self.record.name}: tensor {argument.name} is {dtype.name}",
                f"it takes {', '.join(DTYPES[n].name for n in DTYPES if n in allowed)}",
                f"convert it first: tf.cast({argument.name}, tf.{DTYPES[kind].name})",
            )
        if dtype != first:
            raise refuse(
                f"{self.record.name}: tensor {argument.name} is {dtype.name}, another is "
                f"{first.name}",
                "these tensors have one element type",
                f"convert one: tf.cast({argument.name}, tf.{first.name})",
            )

    def emit(
        self,
        groups: list[Tensors],
        attributes: dict[str, Any],
        name: str | None = None,
        counts: list[int] | None = None,
    ) -> Any:
        """Runs the operator, or adds it to the graph under construction.

        Returns a tensor, a list of them, or a tuple of these; `counts` has the number of tensors of
        each output.
        """
        attributes = {**self._types_and_counts(groups), **attributes}
        inputs = [tensor for group in groups for tensor in group]
        counts = counts or self._count_outputs(groups, attributes)
        attributes |= {f"M{i}": n for i, n in enumerate(counts) if self.record.outputs[i].is_list}
        pairs = tuple(x for item in attributes.items() for x in item)
        if context.executing_eagerly():
            outputs = execute.execute(
                self.type.encode(), sum(counts), inputs, pairs, context.context(), name
            )
        else:
            self._check_compiled()
            protos = {
                key: op_def_library.value_to_attr_value(value, self.kinds[key], key)
                for key, value in attributes.items()
            }
            node = ops.get_default_graph()._create_op_internal(
                self.type, inputs, name=name, attrs=protos, op_def=self.definition
            )
            inputs, outputs = node.inputs, node.outputs
        if execute.must_record_gradient():
            execute.record_gradient(self.type, inputs, pairs, outputs)
        return self.result(outputs, counts)

    def result(self, outputs: Any, counts: list[int]) -> Any:
        """A tensor or a list; of several outputs a tuple."""
        groups, place = [], 0
        for output, count in zip(self.record.outputs, counts, strict=True):
            group = list(outputs[place : place + count])
            groups.append(group if output.is_list else group[0])
            place += count
        return groups[0] if len(groups) == 1 else tuple(groups)

    def _types_and_counts(self, groups: list[Tensors]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for place, (argument, group) in enumerate(zip(self.tensors, groups, strict=True)):
            for tensor in group[:1]:
                found.setdefault(f"T{argument.type}", tensor.dtype)
            if self.is_list(place):
                found[self.definition.input_arg[place].number_attr] = len(group)
        for variable, allowed in enumerate(self.record.types):  # those that no tensor decides
            preferred = "f32" if "f32" in allowed else next(n for n in DTYPES if n in allowed)
            found.setdefault(f"T{variable}", DTYPES[preferred])
        return {key: value.as_datatype_enum if isinstance(value, tf.DType) else value
                for key, value in found.items()}  # fmt: skip

    def _count_outputs(self, groups: list[Tensors], attributes: dict[str, Any]) -> list[int]:
        outputs = self.record.outputs
        if not any(output.is_list for output in outputs):
            return [1] * len(outputs)
        if any(t.shape.rank is None for group in groups for t in group):
            raise refuse(
                f"{self.record.name}: the rank of a tensor is unknown",
                "the number of results depends on the ranks, and a graph has to know it",
                "give it a rank first: tf.ensure_shape(x, [None, None])",
            )
        described = [(DTYPE_NAMES[t.dtype], t.shape.rank) for group in groups for t in group]
        kinds = self.record.by_argument(map(len, groups), described)
        shapes = self.record.shapes(kinds, self.decoded(attributes)).outputs
        return [len(s) if o.is_list else 1 for s, o in zip(shapes, outputs, strict=True)]

    def _check_compiled(self) -> None:
        if TensorFlowNode.compiles_for_xla:
            return
        if control_flow_util.GraphOrParentsInXlaContext(ops.get_default_graph()):
            raise tf.errors.UnimplementedError(
                None, None,
                f"{self.record.name}: a function with jit_compile=True cannot call it yet\n"
                "  why: the part for XLA was not built\n"
                "  fix: run: python -m pto adapters build tensorflow --xla",
            )  # fmt: skip
