# SPDX-License-Identifier: Apache-2.0
"""An operator as a jitted function of JAX."""

from collections.abc import Callable
from typing import Any

import jax
from pto import _core

TARGET = "pto_call"  # the handler's name, in libpto_jax.so and among XLA's targets


def make(index: int) -> Callable:
    """pto.jax.NAME of the operator with this index."""
    record = _core.operator_record(index)
    arguments = record["arguments"]
    attribute_names = [a[0] for a in arguments if not a[1].startswith("Tensor")]
    static = [a[0] for a in arguments if not a[1].startswith("Tensor") and a[1] != "float"]
    positional = [a[0] for a in arguments if not a[2]]

    def function(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(positional, args, strict=False)) | kwargs
        values = [given.get(a[0], a[4]) for a in arguments]
        tensors = [v for v, a in zip(values, arguments, strict=True) if a[1].startswith("Tensor")]
        attributes = [
            v for v, a in zip(values, arguments, strict=True) if not a[1].startswith("Tensor")
        ]
        graph = _core.trace_operator(
            index,
            [(_OURS[str(t.dtype)], t.shape) for t in tensors],
            [0.0 if isinstance(v, float) else v for v in attributes],
        )
        results = [
            jax.ShapeDtypeStruct(shape, jax.numpy.dtype(_THEIRS[kind]))
            for kind, shape in graph.outputs
        ]
        named = dict(zip(attribute_names, attributes, strict=True))
        found = jax.ffi.ffi_call(TARGET, results)(
            *tensors, **{"pto.op": record["name"], "pto.index": index}, **named
        )
        return found[0] if len(found) == 1 else tuple(found)

    function.__name__ = record["name"]
    return jax.jit(function, static_argnames=static)


_OURS = {
    "bool": "bool",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
}
_THEIRS = {ours: theirs for theirs, ours in _OURS.items()}
