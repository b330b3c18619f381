# SPDX-License-Identifier: Apache-2.0
"""Jitted functions and operators at the end of a notebook's cell.

    function_cell(softmax)      # HTML: its signature, and what it was compiled for
    operator_cell(ops.gelu)     # its schema, and how each framework calls it

Thread safety: needs Python's lock.
"""

import importlib.util
from typing import TYPE_CHECKING, Any

from pto import _core
from pto.cells import preformatted, table
from pto.language.adapters import NAMES
from pto.language.upper_bounds import type_text

if TYPE_CHECKING:
    from pto.language.op import Operator

_CONSTANTS = (int, float, bool, str, type(None))  # whose repr runs no code of a user
_CALLS = {
    "torch": "torch.ops.{space}.{name}", "tensorflow": "pto.tensorflow.{name}",
    "jax": "pto.jax.{name}", "onnxruntime": "a node {name} for PtoExecutionProvider",
    "mindspore": "pto.mindspore.{name}",
}  # fmt: skip
_FIXED_SIZES = ("jax", "mindspore")  # want the sizes of results before a run


def call_text(
    names: tuple[str, ...], tensors: list, constants: list, graph: _core.Graph
) -> tuple[str, str]:
    """("x: f32[s0, s1], n=3", "f32[s0]"): the arguments and results of one compilation."""
    inputs = {name: type_text((kind, shape)) for name, kind, shape, _ in graph.inputs}
    found = []
    for name, tensor, value in zip(names, tensors, constants, strict=True):
        if name in inputs:
            found.append(f"{name}: {inputs[name]}")
        elif tensor is None and _is_shown(value):
            found.append(f"{name}={value!r:.40}")
    return ", ".join(found), ", ".join(map(type_text, graph.outputs))


def _is_shown(value: Any) -> bool:
    return all(map(_is_shown, value)) if type(value) is tuple else type(value) in _CONSTANTS


def function_cell(function: Any) -> str:
    """The HTML of a function under @pto.jit."""
    import inspect  # slow to load

    made: dict[str, str] = {}
    for one in _compiled(function):
        made |= one.compiled_for
    about = (inspect.getdoc(function) or "").partition("\n")[0]
    head = f"@pto.jit\ndef {function.__name__}{inspect.signature(function.__wrapped__)}"
    state = "compiled for" if made else "not compiled: its first call does that"
    text = "\n".join(line for line in (head, f"    {about}" if about else "", state) if line)
    return preformatted(text) + table(("arguments", "result"), made.items())


def _compiled(function: Any) -> list[Any]:
    """The compiled functions of one: one for each of its static sizes, or of its lists' lengths."""
    parts = getattr(function, "made", None) or getattr(function, "of_lists", None) or {}
    inner = [one for part in parts.values() for one in _compiled(part)]
    own = getattr(function, "compiled", None)
    return [*([] if own is None else [own]), *inner]


def operator_cell(operator: "Operator") -> str:
    """The HTML of an operator."""
    space, _, name = operator.name.rpartition("::")
    about = (operator.__doc__ or "").strip().partition("\n")[0]
    has_gradient = operator.gradient or operator.member("gradient")
    rows = [
        (NAMES[module], call.format(space=space or "pto", name=name), _state(operator, module))
        for module, call in _CALLS.items()
    ]
    lines = (operator.schema, about, "" if has_gradient else "no gradient")
    text = "\n".join(line for line in lines if line)
    return preformatted(text) + table(("framework", "call", ""), rows)


def _state(operator: "Operator", module: str) -> str:
    if module in _FIXED_SIZES and (operator.is_bounded or operator.member("bounded")):
        return "refused: the size of a result depends on data"
    return "installed" if importlib.util.find_spec(module) else "not installed"
