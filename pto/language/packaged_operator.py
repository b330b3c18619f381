# SPDX-License-Identifier: Apache-2.0
"""Operators in packages: one with a `build` as a jitted function, a C++ kernel as its code.

    calls = every_call_of(pto.ops.gelu, as_function(pto.ops.gelu), [((x,), {})])
    header, programs = compiled_operator(pto.ops.gelu, calls, ("avx2",))

A loaded operator takes its arguments by place or by name, as in the schema. Float attributes are
numbers of each call; the others are constants, fixed in the code by an example.
Thread safety: none.
"""

import struct
from collections.abc import Iterator
from typing import Any

from pto import _core
from pto.errors import InvalidType
from pto.language.free_sizes import with_ones
from pto.language.jit import Jit
from pto.language.location import fail
from pto.language.op import Operator
from pto.language.package import (
    Given,
    call_text,
    compiled,
    described,
    every_call,
    header_of,
    scalars_of,
)
from pto.language.results import LEAF, Form
from pto.schema import Argument

KERNEL = "pto_packaged_kernel"
# Calls the kernel with the attributes of an example in the places of scalars and params.
_FIXED = """
extern "C" int32_t pto_packaged_kernel(const pto_args* args) {
  static const int64_t params[] = {%s};
  const uint64_t scalars[] = {%s};
  pto_args own = *args;
  own.scalars = scalars;
  own.n_scalars = %d;
  own.params = params;
  own.params_bytes = sizeof params;
  return %s(&own);
}
"""


def every_call_of(operator: Operator, jit: Jit, calls: list[tuple[tuple, dict]]) -> list:
    """The calls with all arguments by name, and those in which a free size of a type is 1."""
    _check(operator)

    def guarded(values: dict[str, Any]) -> tuple[list[Given], list]:
        call = described(jit, (), values)
        return call, _inferred(operator, call)[1]

    bound = [((), operator.bind(args, kwargs)) for args, kwargs in calls]
    bound = [((), {name: tuple(one) if isinstance(one, list) else one
                   for name, one in values.items()}) for _, values in bound]  # fmt: skip
    if operator.member("build"):
        return every_call(jit, bound)
    return with_ones(jit.parameters, bound, guarded)


def compiled_operator(
    operator: Operator, calls: list[tuple[tuple, dict]], targets: tuple[str, ...]
) -> tuple[dict, list[bytes]]:
    """The record of an operator and its programs for calls that every_call_of() gave."""
    jit = as_function(operator)
    if operator.member("build"):
        return compiled(jit, calls, targets)
    variants: list[dict] = []
    payload: list[bytes] = []
    form = Form(tuple, (), (LEAF,) * operator.n_returns)
    form = LEAF if operator.n_returns == 1 else form
    for _, values in calls:
        call = [_fixed(a, one) for a, one in zip(operator.arguments, described(jit, (), values),
                                                 strict=True)]  # fmt: skip
        for target in targets:
            built, program = _sealed(operator, call, target)
            payload.append(program)
        keys = [one.key(jit.__name__) for one in call]
        variants.append({"name": call_text(jit.__name__, call), "keys": keys, "form": form})
    return header_of(jit, ",".join(targets) if targets[0] else built, variants), payload


def as_function(operator: Operator) -> Jit:
    """A jitted function with the operator's arguments, which calls it."""
    name = operator.name.rpartition("::")[2]
    arguments, parts, is_named = [], [], False
    for a in operator.arguments:
        if a.keyword_only and not is_named:
            parts.append("*")
            is_named = True
        parts.append(f"{a.name}=defaults[{a.name!r}]" if a.has_default else a.name)
        arguments.append(f"{a.name}={a.name}")
    defaults = {a.name: tuple(a.default) if isinstance(a.default, list) else a.default
                for a in operator.arguments}  # fmt: skip
    scope: dict[str, Any] = {"operator": operator, "defaults": defaults}
    text = f"def {name}({', '.join(parts)}): return operator({', '.join(arguments)})"
    exec(text, scope)  # noqa: S102 the names are those of a schema
    return Jit(scope[name])


def _check(operator: Operator) -> None:
    if operator.mutates or operator.member("bounded"):
        why = "it writes an argument" if operator.mutates else (
            "the size of its result is known only after it ran")  # fmt: skip
        fail(f"package: {operator.name} has no package", why,
             "call it from a jitted function, and package that" if operator.mutates
             else "ship its source, which is compiled where it runs", InvalidType)  # fmt: skip
    if any(a.kind == "Tensor[]" for a in operator.arguments) or any(
        output.is_list for output in operator.outputs
    ):
        fail(f"package: {operator.name} has a list of tensors",
             "a loaded function takes and returns tensors one by one",
             "package a jitted function with a parameter for each", InvalidType)  # fmt: skip


def _fixed(argument: Argument, one: Given) -> Given:
    """A parameter of a C++ kernel, which reads a float of each call and fixed other values."""
    is_number = argument.kind == "float" and not argument.optional
    return one._replace(is_number=is_number and one.about is None)


def _inferred(operator: Operator, call: list[Given]) -> tuple:
    """Results, sizes that must be equal, and perhaps the work, of a call."""
    given = {one.name: one for one in call}
    tensors = [given[a.name].about and given[a.name].about[:2] for a in operator.tensors]
    return operator.inferred(tensors, [given[a.name].constant for a in operator.attributes])


def _sealed(operator: Operator, call: list[Given], target: str) -> tuple[str, bytes]:
    about = {one.name: one.about and one.about[:2] for one in call}
    tensors = [about[a.name] for a in operator.tensors]
    outputs, guards, *work = _inferred(operator, call)
    given = [(a.name, *about[a.name]) for a in operator.tensors if about[a.name]]
    count, places = iter(range(len(given))), []
    for a in operator.tensors:
        places.append(next(count) if about[a.name] else -1)
    places += range(len(given), len(given) + len(outputs))
    _, text, function = operator.source([one and one[0] for one in tensors])
    params, scalars = _arguments(operator, {one.name: one for one in call})
    text += _FIXED % (", ".join(map(str, params or [0])), ", ".join(scalars or ["0"]),
                      len(scalars), function)  # fmt: skip
    named = [(f"output {i}", *one) for i, one in enumerate(outputs)]
    items, nbytes = work or (1, 0)
    return _core.seal_text(text, KERNEL, given, named, places, guards, items, nbytes, target,
                           call_text(operator.name.rpartition("::")[2], call),
                           scalars_of(call))  # fmt: skip


def _arguments(operator: Operator, call: dict[str, Given]) -> tuple[list[int], list[str]]:
    """The params, and the expression of each scalar, as abi/define_operator.h has them."""
    params: list[int] = []
    scalars: list[str] = []
    number = 0
    for a in operator.attributes:
        one = call[a.name]
        if one.is_number:
            scalars.append(f"args->scalars[{number}]")
            number += 1
        elif a.kind in ("str", "int[]") or a.optional:
            scalars.append(str(8 * len(params)))
            params += _encoded(a, one.constant)
        else:
            scalars.append(f"uint64_t({int(one.constant)}LL)")
    return params, scalars


def _encoded(argument: Argument, value: Any) -> Iterator[int]:
    """A count (-1: None) and the values."""
    if value is None:
        return iter([-1])
    if argument.kind == "str":
        content = value.encode()
        padded = content + b"\0" * (-len(content) % 8)
        return iter([len(content), *struct.unpack(f"<{len(padded) // 8}q", padded)])
    if argument.kind == "float":
        return iter([1, *struct.unpack("<q", struct.pack("<d", value))])
    return iter([len(value), *map(int, value)] if argument.kind == "int[]" else [1, int(value)])
