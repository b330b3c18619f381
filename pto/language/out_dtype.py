# SPDX-License-Identifier: Apache-2.0
"""out_dtype=: a call names the element type of its result, and gets the operator that gives it.

    class MatMul:
        others = (MatMulF32, MatMulI32)    # with the same arguments

    matmul(a, b, out_dtype="f32")          # MatMulF32(a, b), where a and b are f16 or bf16

Thread safety: pure functions.
"""

from typing import Any

from pto.errors import InvalidType
from pto.language.arguments import is_typed
from pto.language.dtypes import dtype


def chosen(operator: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The operator for a call with out_dtype, and the call's other named arguments."""
    others = {name: value for name, value in kwargs.items() if name != "out_dtype"}
    wanted = kwargs["out_dtype"]
    if wanted is None:
        return operator, others
    values = operator.bind(args, {n: v for n, v in others.items() if n != "out"})
    given = {a.name: dtype(v.dtype).name for a in operator.tensors if is_typed(v := values[a.name])}
    if len(given) < len(operator.tensors):
        return operator, others  # which says what is no tensor
    results = {result_of(one, given): one for one in (*operator.member("others"), operator)}
    results.pop("", None)
    found = results.get(dtype(wanted).name)
    if found is None:
        types = ", ".join(f"{name} {kind}" for name, kind in given.items())
        known = " or ".join(map(repr, sorted(results)))
        raise InvalidType(
            f"{operator.name}: out_dtype is {dtype(wanted)}, the element types are {types}",
            f"their result is {known}" if known else "there is no product of these types",
            f"pass out_dtype={known}, or convert the arguments" if known
            else "convert the arguments to one type",
        )  # fmt: skip
    return found, others


def result_of(operator: Any, given: dict[str, str]) -> str:
    """The element type of an operator's result for tensors of these types; "": it refuses them."""
    bound: dict[int, str] = {}
    for argument in operator.tensors:
        kind = given[argument.name]
        if kind not in operator.types[argument.type]:
            return ""
        if bound.setdefault(argument.type, kind) != kind:
            return ""
    variable = operator.outputs[0].type
    return bound[variable] if variable in bound else operator.output_types[0]
