# SPDX-License-Identifier: Apache-2.0
"""Primitives of MindSpore for our operators: ops.Custom over libpto_mindspore.so.

The operator's name and schema, the given tensors and the attributes are texts in the primitive,
which the library reads (request.hpp has the grammar). An exported graph keeps them.
"""

import ctypes
import functools
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import mindspore
from mindspore import ops
from mindspore._c_expression import typing as _typing
from pto import _core
from pto.adapters.build import LIBRARIES
from pto.adapters.record import Record
from pto.errors import Failure, InvalidType, InvalidValue

# MindSpore's element types by the names of ours, in the order of abi/dtypes.def.
DTYPES = {
    row.name: getattr(mindspore, "bool_" if row.numpy == "bool" else row.numpy)
    for row in _core.dtypes()
}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}

PATH = LIBRARIES / "libpto_mindspore.so"

record = functools.cache(Record)


@functools.cache
def library() -> ctypes.CDLL:
    """The library of plain functions, which stays loaded; MindSpore opens it by its path."""
    try:
        loaded = ctypes.CDLL(str(PATH))
    except OSError as error:
        raise Failure(
            f"the MindSpore adapter cannot be loaded: {error}",
            "its library is built with the project",
            "build the project again",
        ) from None
    ids = [_typing.type_to_type_id(dtype) for dtype in DTYPES.values()]
    loaded.pto_mindspore_set_type_ids((ctypes.c_int32 * len(ids))(*ids))
    return loaded


def dtype_name(index: int, dtype: Any) -> str:
    """Our name of an element type of MindSpore; raises InvalidType where there are no kernels."""
    if dtype not in DTYPE_NAMES:
        raise InvalidType(
            f"{record(index).name}: a tensor has the dtype {dtype}",
            "kernels exist for bool, integers, float16, bfloat16, float32 and float64",
            "convert it first: x.astype(mindspore.float32)",
        )
    return DTYPE_NAMES[dtype]


def returns_many(index: int) -> bool:
    """Says whether calls return a tuple: several outputs, or a list of tensors."""
    outputs = record(index).outputs
    return len(outputs) != 1 or outputs[0].is_list


def _value_text(value: Any) -> str:
    if value is None:
        return "n"
    if isinstance(value, int):  # bool too
        return f"i{int(value)}"
    if isinstance(value, float):
        return f"f{value.hex()}"
    if isinstance(value, str):
        return f"s{len(value.encode())}:{value}"
    return f"l{len(value)}:" + "".join(f"{v}," for v in value)


def call_text(counts: tuple[int, ...], attributes: tuple) -> str:
    """The call as the library reads it: "1,0;f0x1.8p+0;s4:tanh;"."""
    given = "".join(f"{count}," for count in counts)
    return f"{given};" + "".join(f"{_value_text(value)};" for value in attributes)


_EXACT = {
    "int": int,
    "SymInt": int,
    "float": float,
    "bool": bool,
    "str": str,
    "int[]": lambda values: tuple(map(int, values)),
}


def bound_attributes(index: int, counts: tuple[int, ...], attributes: tuple) -> tuple:
    """The attributes as values of the schema's types; raises InvalidType where they are not."""
    of = record(index)
    numbers, values = iter(counts), iter(attributes)
    arguments: dict[str, Any] = {}
    for a in of.arguments:
        if not a.is_tensor:
            arguments[a.name] = next(values)
        elif a.kind == "Tensor[]":
            arguments[a.name] = [next(numbers)]
        else:
            arguments[a.name] = next(numbers) or None
    bound = zip(of.arguments, of.bind((), arguments), strict=True)
    return tuple(
        value if value is None else _EXACT[a.kind](value) for a, value in bound if not a.is_tensor
    )


class OperatorPrimitive(ops.Custom):
    """One operator with these attributes for this number of tensors; calling it calls MindSpore.

    With `lifts_scalars` a result of rank 0 comes with the shape (1,), as graphs need it. `shape`
    stands for a shape that a subclass infers in Python; without it the library infers it.
    """

    def __init__(
        self,
        index: int,
        text: str,
        bprop: Callable | None,
        lifts_scalars: bool = False,
        shape: Callable | None = None,
    ) -> None:
        many = returns_many(index)
        function = "pto_mindspore_many" if many else "pto_mindspore_one"
        library()
        super().__init__(f"{PATH}:{function}", shape, shape, "aot", bprop, None)
        name = record(index).name
        for key, value in (("pto_operator", name), ("pto_call", text), ("reg_op_name", name)):
            self.add_prim_attr(key, value)
        self.add_prim_attr("pto_schema", record(index).schema)
        if many:
            self.add_prim_attr("multi_output", True)
        if lifts_scalars:
            self.add_prim_attr("pto_lifts_scalars", True)


def require_tensors(index: int, tensors: Iterable[Any]) -> None:
    """Raises InvalidType for what is no tensor of MindSpore."""
    for value in tensors:
        if not isinstance(value, mindspore.Tensor):
            refuse_type(index, type(value).__name__)


def refuse_type(index: int, kind: Any, is_list: bool = False) -> NoReturn:
    """Raises InvalidType for an argument of this type in the place of a tensor, or of a list."""
    raise InvalidType(
        f"{record(index).name}: a {'list of tensors' if is_list else 'tensor argument'} is of type"
        f" {kind}",
        f"the signature is {record(index).schema}",
        f"pass {'a list, [x] for one' if is_list else 'a tensor: mindspore.Tensor(value)'}",
    )


def refuse_bounded(index: int) -> None:
    """Raises InvalidType for an operator whose results MindSpore cannot have."""
    if record(index).is_bounded:
        raise InvalidType(
            f"{record(index).name}: the size of its result is known only after it ran",
            "MindSpore asks a custom operator for the sizes of its results before it runs",
            "call the operator on x.asnumpy(), and make a tensor of the result",
        )


def refuse_gradient(index: int) -> NoReturn:
    """Raises InvalidValue for the gradient of an operator that has none."""
    raise InvalidValue(
        f"{record(index).name}: its gradient is asked for, but the operator has none",
        "a result without gradient would silently cut the graph of gradients",
        "give the operator a grad, or call mindspore.ops.stop_gradient on what goes in",
    )
