# SPDX-License-Identifier: Apache-2.0
"""An operator as a jitted function of JAX."""

import functools
from collections.abc import Callable, Hashable
from typing import Any

import jax
from pto.adapters.jax import gradient
from pto.adapters.jax.site import Site, refuse_bounded
from pto.adapters.record import Record
from pto.errors import InvalidType

_record = functools.cache(Record)
_OF_JIT = ("lower", "trace", "eval_shape", "clear_cache", "_cache_size")


def make(index: int) -> Callable:
    """pto.jax.NAME of the operator with this index.

    JAX compiles it for each set of int, bool, str and list attributes; tensors and floats are
    arguments of the compiled program.
    """
    record = _record(index)
    static = [a.name for a in record.arguments if not a.is_tensor and a.kind != "float"]
    positional = [a.name for a in record.arguments if not a.keyword_only]

    def function(*args: Any, **kwargs: Any) -> Any:
        refuse_bounded(record)
        site, operands = Site.of(record, record.bind(args, kwargs))
        outputs = gradient.call(site, operands, _record)
        return site.nested(outputs, operands)

    function.__name__ = function.__qualname__ = record.name
    function.__doc__ = f"{record.schema}\n\n{record.document}"
    places = [i for i, name in enumerate(positional) if name in static]
    jitted = jax.jit(function, static_argnums=places, static_argnames=static)
    return _with_statics(jitted, record, positional) if static else jitted


def _with_statics(function: Callable, record: Record, positional: list[str]) -> Callable:
    """Lists of integers as tuples: what is static has to be hashable. Raises InvalidType for what
    is not, as an array."""
    lists = {a.name for a in record.arguments if a.kind == "int[]"}
    places = [name in lists for name in positional]

    @functools.wraps(function)
    def with_statics(*args: Any, **kwargs: Any) -> Any:
        args = [
            tuple(v) if is_list and isinstance(v, list) else v
            for v, is_list in zip(args, places, strict=False)
        ] + list(args[len(places) :])
        for name in lists & kwargs.keys():
            if isinstance(kwargs[name], list):
                kwargs[name] = tuple(kwargs[name])
        try:
            return function(*args, **kwargs)
        except ValueError:
            _check_statics(record, dict(zip(positional, args, strict=False)) | kwargs)
            raise

    for name in _OF_JIT:
        setattr(with_statics, name, getattr(function, name))
    return with_statics


def _check_statics(record: Record, given: dict[str, Any]) -> None:
    for argument in record.arguments:
        if argument.is_tensor or argument.kind == "float":
            continue
        value = given.get(argument.name)
        for one in value if isinstance(value, tuple) else (value,):
            if not isinstance(one, Hashable):
                raise InvalidType(
                    f"{record.name}: {argument.name} has a {type(one).__name__}, {one}",
                    f"{argument.kind} is part of what JAX compiles: {record.schema}",
                    "pass a number of Python, in jax.jit by static_argnames, or an array's size",
                )
