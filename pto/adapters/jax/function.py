# SPDX-License-Identifier: Apache-2.0
"""An operator as a jitted function of JAX."""

import functools
from collections.abc import Callable
from typing import Any

import jax
from pto.adapters.jax import gradient
from pto.adapters.jax.site import Site, refuse_bounded
from pto.adapters.record import Record

_record = functools.cache(Record)


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
    lists = {a.name for a in record.arguments if a.kind == "int[]"}
    return _with_tuples(jitted, lists, positional) if lists else jitted


def _with_tuples(function: Callable, lists: set[str], positional: list[str]) -> Callable:
    """Lists of integers as tuples: what is static has to be hashable."""
    places = [name in lists for name in positional]

    @functools.wraps(function)
    def with_tuples(*args: Any, **kwargs: Any) -> Any:
        args = [
            tuple(v) if is_list and isinstance(v, list) else v
            for v, is_list in zip(args, places, strict=False)
        ] + list(args[len(places) :])
        for name in lists & kwargs.keys():
            if isinstance(kwargs[name], list):
                kwargs[name] = tuple(kwargs[name])
        return function(*args, **kwargs)

    return with_tuples
