# SPDX-License-Identifier: Apache-2.0
"""Lets torch.onnx.export write our operators as nodes of the domain ai.pto.

    torch.onnx.export(model, args, dynamo=True, custom_translation_table=translation_table())

Thread safety: pure functions of the registry.
"""

import functools
from collections.abc import Callable
from typing import Any

from pto import _core
from pto.adapters.onnxruntime.rows import DOMAIN
from pto.adapters.record import Argument, Record

VERSION = 1
_RENAMED = {"float32": "float", "float64": "double"}  # by ONNX
_TYPES = {row.name: _RENAMED.get(row.numpy, row.numpy) for row in _core.dtypes()}
_ATTRIBUTES = {"int": "INT", "SymInt": "INT", "bool": "INT", "float": "FLOAT", "str": "STRING",
               "int[]": "INTS"}  # fmt: skip


def schema(record: Record) -> object:
    """The ONNX schema of an operator."""
    from onnx.defs import OpSchema

    def option(is_list: bool, optional: bool) -> object:
        options = OpSchema.FormalParameterOption
        return options.Variadic if is_list else options.Optional if optional else options.Single

    def type_name(variable: int) -> str:
        return f"T{variable}" if variable >= 0 else f"tensor({_TYPES[_name(-1 - variable)]})"

    inputs = [
        OpSchema.FormalParameter(
            a.name, type_name(a.type), "", param_option=option(a.kind == "Tensor[]", a.optional)
        )
        for a in record.tensors
    ]
    outputs = [
        OpSchema.FormalParameter(
            o.name, type_name(o.type), "", param_option=option(o.is_list, False)
        )
        for o in record.outputs
    ]
    types = [
        (f"T{i}", sorted(f"tensor({_TYPES[name]})" for name in names), "")
        for i, names in enumerate(record.types)
    ]
    return OpSchema(
        record.name, DOMAIN, VERSION, record.document, inputs=inputs, outputs=outputs,
        type_constraints=types, attributes=[_attribute(a) for a in record.attributes],
    )  # fmt: skip


def _name(dtype: int) -> str:
    return _core.dtypes()[dtype].name


def _attribute(a: Argument) -> object:
    from onnx import helper
    from onnx.defs import OpSchema

    kind = getattr(OpSchema.AttrType, _ATTRIBUTES[a.kind])
    if not a.has_default or a.default is None:
        return OpSchema.Attribute(a.name, kind, "", required=not (a.optional or a.has_default))
    default = int(a.default) if a.kind == "bool" else a.default
    return OpSchema.Attribute(a.name, helper.make_attribute(a.name, default), "")


def translation(record: Record) -> Callable:
    """The function that writes one call of the operator as a node."""
    from onnxscript.values import Op, Opset

    node = Op(Opset(DOMAIN, VERSION), record.name, schema(record))

    def translate(*args: object, **kwargs: object) -> object:
        given = dict(zip(record.positional, args, strict=False)) | kwargs
        tensors: list[object] = []
        for a in record.tensors:
            value = given.get(a.name)
            tensors += value if isinstance(value, list | tuple) else [value]
        while tensors and tensors[-1] is None:
            tensors.pop()
        attributes = {
            a.name: int(given[a.name]) if a.kind == "bool" else given[a.name]
            for a in record.attributes
            if given.get(a.name) is not None
        }
        return node(*tensors, **attributes)

    functools.update_wrapper(translate, translation)
    translate.__name__ = record.name
    del translate.__wrapped__
    return translate


def _has_form(record: Record) -> bool:
    """True if ONNX can express the operator: only its last input and last output may be lists."""
    lists = [a.kind == "Tensor[]" for a in record.tensors], [o.is_list for o in record.outputs]
    is_ours = not record.name.startswith("_") and "::" not in record.name
    return is_ours and not any(any(one[:-1]) for one in lists)


def translation_table() -> dict[Callable[..., Any], Callable[..., Any]]:
    """The table for torch.onnx.export(dynamo=True, custom_translation_table=...).

    It has the operators that ONNX can express, by PyTorch's overloads; it imports pto.torch. Needs
    onnx and onnxscript.
    """
    import importlib

    import torch

    importlib.import_module("pto.torch")
    records = [Record(index) for index in range(_core.operator_count())]
    return {
        getattr(torch.ops.pto, record.name).default: translation(record)
        for record in records
        if _has_form(record) and hasattr(torch.ops.pto, record.name)
    }
