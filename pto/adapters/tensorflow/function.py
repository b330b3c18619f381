# SPDX-License-Identifier: Apache-2.0
"""Functions: pto.tensorflow.NAME, with the signature of the schema.

Each is a few lines of Python made for its signature, as TensorFlow's own operators are: a general
function would spend more time on its arguments than TensorFlow does on the call. Errors are
TensorFlow's, with our texts. Thread safety: any thread may call.
"""

import keyword
from collections.abc import Callable
from typing import Any

from pto.adapters.tensorflow.attributes import encoder
from pto.adapters.tensorflow.node import TensorFlowNode
from tensorflow.python import pywrap_tfe
from tensorflow.python.autograph.impl import api
from tensorflow.python.eager import context, core
from tensorflow.python.framework import ops

_FAST = """
def {name}({parameters}):
    ctx = context._context or context.context()
    if ctx._thread_local_data.is_eager:
        try:
            {short}
            return {wrap}(execute(ctx, {type!r}, {call_name}, {inputs}{attributes}))
        except Exception as error:
            return recover(error, {values}, {call_name})
    return general({values}, {call_name})
"""
_GENERAL = """
def {name}({parameters}):
    return general({values}, {call_name})
"""


class _Source:
    """The source of one function, and the objects that it names."""

    def __init__(self, node: TensorFlowNode):
        self.node = node
        self.objects: dict[str, Any] = {"context": context, "general": self.general}
        self.objects |= {"recover": self.recover, "execute": pywrap_tfe.TFE_Py_FastPathExecute}
        self.objects |= {"tuple": tuple}
        used = {a.name for a in node.record.arguments}
        self.call_name = "None" if "name" in used else "name"
        self.names = {
            a.name: a.name + "_" * keyword.iskeyword(a.name) for a in node.record.arguments
        }

    def general(self, values: tuple, name: str | None) -> Any:
        """The call through TensorFlowNode, which checks more."""
        return self.node.emit(*self.checked(values), name)

    def recover(self, error: Exception, values: tuple, name: str | None) -> Any:
        """After an error of the fast path makes the call by general(), or names what is wrong."""
        if isinstance(error, core._NotOkStatusException):
            self.checked(values)
            ops.raise_from_not_ok_status(error, name)
        return self.general(values, name)

    def checked(self, values: tuple) -> tuple[list, dict[str, Any]]:
        """The tensors of each argument, and the attributes as TensorFlow has them."""
        node = self.node
        by_argument = dict(zip((a.name for a in node.record.arguments), values, strict=True))
        groups = node.groups([by_argument[a.name] for a in node.tensors])
        return groups, node.encoded([by_argument[a.name] for a in node.attributes])

    def parameters(self) -> str:
        found = []
        for place, a in enumerate(self.node.record.arguments):
            if a.keyword_only and "*" not in found:
                found.append("*")
            default = ""
            if a.has_default:
                self.objects[f"default_{place}"] = a.default
                default = f"=default_{place}"
            found.append(self.names[a.name] + default)
        return ", ".join([*found, *([] if self.call_name == "None" else ["name=None"])])

    def is_fast(self) -> bool:
        """Says whether TensorFlow can find all types and counts itself."""
        node = self.node
        decided = {a.type for place, a in enumerate(node.tensors) if not node.is_list(place)}
        lists = any(output.is_list for output in node.record.outputs)
        return decided == set(range(len(node.record.types))) and not lists

    def input(self, place: int) -> str:
        argument = self.node.tensors[place]
        name = self.names[argument.name]
        if argument.kind == "Tensor" and argument.optional:
            return f"() if {name} is None else ({name},)"
        return name

    def attribute(self, place: int) -> str:
        """The name and the value of an attribute as arguments of the fast path."""
        argument = self.node.attributes[place]
        name = self.names[argument.name]
        if argument.optional:
            self.objects[f"optional_{place}"] = lambda value: tuple(
                x for pair in self.one(argument, value) for x in pair
            )
            return f", *optional_{place}({name})"
        self.objects[f"encode_{place}"] = encoder(argument)
        return f", {self.node.names[argument.name]!r}, encode_{place}({name})"

    def one(self, argument: Any, value: Any) -> Any:
        node = self.node
        encoded = node.encoded([value if a is argument else a.default for a in node.attributes])
        names = (node.names[argument.name], node.given_names[argument.name])
        return [(name, encoded[name]) for name in names]

    def short(self, inputs: str) -> str:
        """The statement that calls without attributes where all have their defaults."""
        node = self.node
        if not node.attributes or not all(a.has_default for a in node.attributes):
            return "pass"
        places = {a.name: place for place, a in enumerate(node.record.arguments)}
        tests = [f"{self.names[a.name]} is default_{places[a.name]}" for a in node.attributes]
        wrap = "tuple" if len(node.record.outputs) > 1 else ""
        call = f"execute(ctx, {node.type!r}, {self.call_name}, {inputs})"
        return f"if {' and '.join(tests)}: return {wrap}({call})"

    def text(self) -> str:
        node = self.node
        inputs = ", ".join(self.input(place) for place in range(len(node.tensors)))
        values = "".join(self.names[a.name] + ", " for a in node.record.arguments)
        return (_FAST if self.is_fast() else _GENERAL).format(
            name=node.record.name,
            parameters=self.parameters(),
            short=self.short(inputs),
            wrap="tuple" if len(node.record.outputs) > 1 else "",
            type=node.type,
            inputs=inputs,
            attributes="".join(self.attribute(place) for place in range(len(node.attributes))),
            values=f"({values})",
            call_name=self.call_name,
        )


def function(node: TensorFlowNode) -> Callable[..., Any]:
    """The operator as a function of tensors; AutoGraph leaves it as it is."""
    source = _Source(node)
    exec(compile(source.text(), f"<pto.tensorflow.{node.record.name}>", "exec"), source.objects)
    made = source.objects[node.record.name]
    made.__doc__ = f"{node.record.document}\n\n{node.record.schema}".strip()
    made.__module__ = "pto.tensorflow"
    return api.autograph_artifact(made)
