# SPDX-License-Identifier: Apache-2.0
"""Calls operators inside a graph: MindSpore parses `call`, `given` and `backward` here.

The primitives below give the graph constants that it cannot compute itself, while it is compiled. A
result of rank 0 leaves a primitive with the shape (1,), since a graph would make it a Python
number, and is reshaped here.
"""

import functools
from collections.abc import Callable
from typing import Any

from mindspore import ops
from mindspore._c_expression.typing import TensorType
from pto.adapters.gradient import gradient_plan
from pto.adapters.mindspore import gradient
from pto.adapters.mindspore.primitive import (
    OperatorPrimitive,
    bound_attributes,
    call_text,
    dtype_name,
    record,
    refuse_bounded,
    refuse_gradient,
    refuse_type,
    returns_many,
)
from pto.errors import InvalidType


class _Constant(ops.PrimitiveWithInfer):
    """A function that a graph evaluates while it is compiled; `eager` is its value elsewhere."""

    def __init__(self, name: str, function: Callable, eager: Any = None) -> None:
        super().__init__(name)
        self.set_const_prim(True)
        self.add_prim_attr("constexpr_prim", True)
        self._function, self._eager = function, eager

    def __infer__(self, *arguments: dict) -> dict:
        return {"dtype": None, "shape": None, "value": self._function(*arguments)}

    def __call__(self, *_: Any) -> Any:
        return self._eager


in_graph = _Constant("pto_in_graph", lambda: True, eager=False)


def _values(arguments: tuple) -> list:
    return [a["value"] for a in arguments]


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value


def _is_known(dtype: Any, value: Any) -> bool:
    """Says whether a value is a constant of the graph; the value of a tensor has no data here."""
    if isinstance(dtype, list | tuple) and isinstance(value, list | tuple):
        return all(map(_is_known, dtype, value))
    return dtype is None or (value is not None and not isinstance(dtype, TensorType))


def _require_tensors(index: int, tensors: dict) -> None:
    """Raises InvalidType for what is no tensor: MindSpore itself would read it as one."""
    for dtype, value in zip(tensors["dtype"], tensors["value"], strict=True):
        if not isinstance(dtype, TensorType):
            refuse_type(index, type(value).__name__ if _is_known(dtype, value) else dtype)


def _primitive_of(*arguments: dict) -> OperatorPrimitive:
    index, counts, attributes = map(_hashable, _values(arguments[:3]))
    refuse_bounded(index)
    _require_tensors(index, arguments[3])
    dtypes = arguments[2]["dtype"]
    for a, dtype, value in zip(record(index).attributes, dtypes, attributes, strict=True):
        if not _is_known(dtype, value):
            raise InvalidType(
                f"{record(index).name}: {a.name} is not known while the graph is compiled",
                "attributes of an operator are constants of a graph",
                f"pass a Python {a.kind}, not a tensor or a mutable value",
            )
    bound = bound_attributes(index, counts, attributes)
    return _primitive(index, counts, bound, call_text(counts, bound))


@functools.lru_cache(4096)
def _primitive(index: int, counts: tuple, attributes: tuple, text: str) -> OperatorPrimitive:
    backward = _backward(index, counts, attributes)
    bprop = gradient.rule(sum(counts), backward)
    return OperatorPrimitive(index, text, bprop, lifts_scalars=True)


def _layout_of(*arguments: dict) -> tuple:
    """For each output whether it has rank 0; for a list of tensors a tuple of that."""
    index, counts, attributes = map(_hashable, _values(arguments[:3]))
    shapes = arguments[3]["shape"]
    operator = record(index)
    if any(list(shape) == [-2] for shape in shapes):
        return (False,) * len(operator.outputs)
    flat = [
        (dtype_name(index, t.element_type()), len(shape))
        for t, shape in zip(arguments[3]["dtype"], shapes, strict=True)
    ]
    bound = list(bound_attributes(index, counts, attributes))
    outputs = operator.shapes(operator.by_argument(counts, flat), bound).outputs
    return tuple(
        tuple(not sizes for _, sizes in o) if isinstance(o, list) else not o[1] for o in outputs
    )


primitive_of = _Constant("pto_primitive_of", _primitive_of)
layout_of = _Constant("pto_layout_of", _layout_of)


def given(value):
    """() for None, else (value,)."""
    return () if value is None else (value,)


no_list = _Constant("pto_no_list", lambda i, x: refuse_type(i["value"], x["dtype"], True))


def listed(index, value):
    """The members of a list of tensors."""
    return tuple(value) if isinstance(value, (list, tuple)) else no_list(index, value)


def _flat(results, is_tuple):
    return tuple(results) if is_tuple else (results,)


def _shaped(result, is_scalar):
    return ops.reshape(result, ()) if is_scalar else result


def _restored(flat, layout):
    """A flat tuple of raw results, those of rank 0 reshaped."""
    restored = ()
    for output in layout:
        for is_scalar in output if isinstance(output, tuple) else (output,):
            restored = restored + (_shaped(flat[len(restored)], is_scalar),)
    return restored


def _structured(flat, layout):
    """Flat results as the schema has them: a tensor, or a tuple of tensors and tuples of them."""
    results = ()
    place = 0
    for output in layout:
        if isinstance(output, tuple):
            results = results + (flat[place : place + len(output)],)
            place = place + len(output)
        else:
            results = results + (flat[place],)
            place = place + 1
    return results[0] if len(results) == 1 else results


def call(index, counts, attributes, tensors, is_tuple):
    """The results of an operator in a graph."""
    flat = _flat(primitive_of(index, counts, attributes, tensors)(*tensors), is_tuple)
    layout = layout_of(index, counts, attributes, tensors)
    return _structured(_restored(flat, layout), layout)


refuse = _Constant("pto_refuse", lambda index: refuse_gradient(index["value"]))


def _plan_part(name: str) -> _Constant:
    def part(*arguments: dict) -> Any:
        index, counts, layout = map(_hashable, _values(arguments))
        outputs = tuple(len(o) if isinstance(o, tuple) else 1 for o in layout)
        return getattr(gradient_plan(index, counts, outputs), name)

    return _Constant(f"pto_plan_{name}", part)


plan_counts, plan_inputs = _plan_part("counts"), _plan_part("inputs")
plan_needs, plan_places = _plan_part("all_needs"), _plan_part("places")


def _backward(index: int, counts: tuple, attributes: tuple) -> Callable:
    """backward(tensors, out, dout) for a graph; attributes are those of the call."""
    operator = record(index)
    is_tuple = returns_many(index)
    derivative = operator.gradient
    if derivative < 0:

        def backward(tensors, out, dout):
            return refuse(index)

        return backward
    many = returns_many(derivative)

    def backward(tensors, out, dout):
        layout = layout_of(index, counts, attributes, tensors)
        pool = _restored(_flat(dout, is_tuple), layout) + tensors
        pool = pool + _restored(_flat(out, is_tuple), layout)
        given = ()
        for place in plan_inputs(index, counts, layout):
            given = given + (pool[place],)
        chosen = plan_counts(index, counts, layout)
        values = attributes + (plan_needs(index, counts, layout),)
        raw = _flat(primitive_of(derivative, chosen, values, given)(*given), many)
        results = _restored(raw, layout_of(derivative, chosen, values, given))
        gradients = ()
        for place in plan_places(index, counts, layout):
            known = len(gradients)
            x = tensors[known]
            one = ops.zeros_like(x) if place < 0 else gradient.summed(results[place], x)
            gradients = gradients + (one,)
        return gradients

    return backward
