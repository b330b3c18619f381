# SPDX-License-Identifier: Apache-2.0
"""Runs one call of a jitted function in steps: stepping.py.

    step_call(softmax, (x,), {})     # what softmax(x) returns

Thread safety: any thread.
"""

import sys
from typing import TYPE_CHECKING, Any

from pto.errors import TracedCondition
from pto.language import arguments
from pto.language.call_numbers import Tracing
from pto.language.interpret import pack
from pto.language.jit_call import bound
from pto.language.location import without_our_frames
from pto.language.misuse import told
from pto.language.watched import watched

if TYPE_CHECKING:
    from pto.language.jit import Jit


def step_call(jit: "Jit", args: tuple, kwargs: dict[str, Any]) -> Any:
    """The result of a call, as the compiled function returns it."""
    tensors, constants, _ = jit.describe_call(*args, **kwargs)
    out = kwargs.pop("out", None) if "out" not in jit.parameters else None
    arrays = [
        value for value, about in zip(bound(jit, args, kwargs), tensors, strict=True) if about
    ]
    packed = [
        pack(value, about[0]) for value, about in zip(arrays, filter(None, tensors), strict=True)
    ]
    if tensors[0] is None and jit.is_object(0, constants[0]):
        seen = watched(constants[0], jit.reads[type(constants[0])], jit.code)
        constants = [seen, *constants[1:]]

    def traced() -> Tracing:
        function = jit.traced_function()
        try:
            return Tracing(jit.__name__, function, jit.annotated(tensors), constants, (),
                           jit.writes, jit.short_writes, packed)  # fmt: skip
        except TracedCondition as error:
            if not (error.is_new or jit.begin_branches(function)):
                raise
        return traced()

    try:
        found = traced()
        steps = found.trace.steps
        leaves = [_for_library(steps.value(x), arrays[0]) for x in found.outputs]
    except Exception as error:
        if (known := told(error, jit.__wrapped__.__code__, in_steps=True)) is None:
            raise
        raise without_our_frames(known) from error.__cause__
    found.trace.open = False
    if out is None:
        return found.form.assemble(tuple(leaves))
    form = tuple if found.form.is_row else found.form
    targets = (out,) if found.form.is_leaf else arguments.targets(jit.__name__, form, out)
    for target, value in zip(targets, leaves, strict=True):
        target[...] = value
    return out


def _for_library(value: Any, like: Any) -> Any:
    """A NumPy array as one of the library of `like`."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(like, torch.Tensor):
        if value.dtype.name == "bfloat16":
            return torch.from_numpy(value.astype("float32")).bfloat16()
        return torch.from_numpy(value.copy())
    namespace = getattr(like, "__array_namespace__", None)
    is_numpy = type(like).__module__.partition(".")[0] == "numpy"
    return value.copy() if is_numpy or namespace is None else namespace().asarray(value)
