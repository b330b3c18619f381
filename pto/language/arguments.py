# SPDX-License-Identifier: Apache-2.0
"""The policy of calls: says which values are tensors, which are constants, and words refusals.

The compiled call (bindings/jit_binder.cpp) asks it only for a type that it has not met before, and
for an error. It imports no framework: it knows types by their names.
"""

import contextlib
import enum
import functools
import importlib.util
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

from pto import _core
from pto.errors import Failure, InvalidType, InvalidValue
from pto.language import adapters
from pto.language.dtypes import KNOWN, DType, numpy_type  # noqa: F401 results.cpp asks for it
from pto.language.location import describe, user_line
from pto.language.results import LEAF, taken_apart
from pto.language.tensor import Tensor

UNKNOWN, CONSTANT, TRACED, TORCH, EXCHANGE, NUMPY, DLPACK = range(7)
LIBRARY, NUMPY_NUMBER, STRUCTURE = range(7, 10)
_ADAPTERS = {  # of the libraries' modules
    "torch": "torch",
    "tensorflow": "tensorflow",
    "jax": "jax",
    "jaxlib": "jax",
    "mindspore": "mindspore",
}
# Sizes and numbers of PyTorch that are known only at the call.
SYMBOLIC = frozenset(f"torch.Sym{kind}" for kind in ("Int", "Float", "Bool"))
_CONSTANTS = (bool, int, float, str, type(None), tuple, DType)


def classify(kind: type) -> int:
    """How values of a type are taken: the enum Kind of bindings/argument.hpp."""
    if kind in _CONSTANTS:
        return CONSTANT
    if issubclass(kind, Tensor):
        return TRACED
    names = {f"{base.__module__}.{base.__name__}" for base in kind.__mro__}
    if "numpy.generic" in names:
        return NUMPY_NUMBER
    if "numpy.ndarray" in names:
        return UNKNOWN if any(name.endswith(".MaskedArray") for name in names) else NUMPY
    if names & SYMBOLIC:
        return LIBRARY
    if "torch.Tensor" in names:
        if not _is_plain_torch(kind):
            return LIBRARY
        with contextlib.suppress(Failure):  # another PyTorch: our own threads then
            adapters.load("torch_threads")
        return TORCH
    if hasattr(kind, "__dlpack_c_exchange_api__"):
        return EXCHANGE
    if hasattr(kind, "__dlpack__"):
        return DLPACK
    is_structure = issubclass(kind, list | dict | enum.Enum) or "__dataclass_fields__" in vars(kind)
    return STRUCTURE if is_structure else UNKNOWN


def is_typed(value: Any) -> bool:
    """Says whether it is a tensor of any library, or a class of these: it has an element type and
    a shape."""
    return hasattr(value, "dtype") and hasattr(value, "shape")


def _is_plain_torch(kind: type) -> bool:
    """False for classes that PyTorch asks what a call means: fake and wrapped tensors, others."""
    torch = sys.modules["torch"]
    own = getattr(kind, "__torch_dispatch__", None)
    function = getattr(kind.__torch_function__, "__func__", kind.__torch_function__)
    return (own is None or own == torch.Tensor.__torch_dispatch__) and function in (
        torch.Tensor.__torch_function__.__func__,
        torch._C._disabled_torch_function_impl,
    )


def load_weight_owner() -> None:
    """Loads what tells who owns a torch tensor, without which constants are not packed."""
    with contextlib.suppress(Failure):
        adapters.load("torch")


@functools.cache
def adapter(kind: type) -> str:
    """The adapter that takes calls of operators with values of this type, "" for none."""
    for base in kind.__mro__:
        name = _ADAPTERS.get(base.__module__.partition(".")[0], "")
        if name and importlib.util.find_spec(f"pto.adapters.{name}"):
            return name
    return ""


def grad_enabled() -> bool:
    """Says whether PyTorch, which is loaded, records gradients on this thread."""
    return sys.modules["torch"].is_grad_enabled()


def forward_mode() -> dict[str, Any]:
    """The names of PyTorch's module of derivatives in forward mode."""
    return vars(sys.modules["torch"].autograd.forward_ad)


def has_tangent(tensor: Any) -> bool:
    """Says whether a torch tensor carries a derivative in forward mode."""
    return sys.modules["torch"].autograd.forward_ad.unpack_dual(tensor).tangent is not None


def numpy_ndarray() -> Any:
    """The class numpy.ndarray; results of NumPy's calls are made of it."""
    import numpy

    return numpy.ndarray


def convert(value: Any) -> tuple[object, str] | None:
    """A NumPy array without a buffer format, as (array of its bits, name of its type)."""
    if getattr(value.dtype, "name", "") != "bfloat16":
        return None
    import numpy

    return numpy.asarray(value).view(numpy.uint16), "bf16"


def export_dlpack(value: Any) -> object:
    """The DLPack capsule of an array, of version 1 where its library knows that."""
    try:
        return value.__dlpack__(max_version=(1, 0))
    except TypeError:
        return value.__dlpack__()


def as_library(buffer: object, like: Any) -> object:
    """Converts a result to an array of the library of `like`; None if that library has no way."""
    namespace = getattr(like, "__array_namespace__", None)
    return namespace and namespace().from_dlpack(buffer)


def key(function: str, name: str, value: Any) -> tuple:
    """Returns what stands in the key for a list, dict, dataclass, or member of an enumeration."""
    if isinstance(value, enum.Enum):
        return type(value), value.name
    if isinstance(value, list):
        return list, *_keys(function, name, value)
    if isinstance(value, dict):
        known = (constant_key(function, f"a key of {name}", one) for one in value)
        members = (constant_key(function, f"{name}[{k!r}]", one) for k, one in value.items())
        return type(value), *zip(known, members, strict=True)
    fields = vars(type(value))["__dataclass_fields__"]
    members = (constant_key(function, f"{name}.{n}", getattr(value, n)) for n in fields)
    return type(value), *members


def constant_key(function: str, name: str, value: Any) -> Any:
    """Returns what stands for a constant in the key; refuses any other value."""
    kind = classify(type(value))
    if kind == STRUCTURE:
        return key(function, name, value)
    if kind == NUMPY_NUMBER:
        return type(value), value.item()
    if kind != CONSTANT:
        refuse(function, name, value, "array inside" if kind > TRACED else "kind", "")
    return tuple(_keys(function, name, value)) if isinstance(value, tuple) else value


def _keys(function: str, name: str, values: list | tuple) -> Iterator[Any]:
    return (constant_key(function, f"{name}[{i}]", one) for i, one in enumerate(values))


def targets(function: str, form: Any, out: Any) -> tuple:
    """The arrays of `out=` in the order of the outputs; `form` is a Form, or the type tuple."""
    if form is tuple and isinstance(out, tuple | list):
        return tuple(out)
    leaves = None if form is tuple else form.leaves_of(out)
    if leaves is None:
        refuse(function, "out", out, "out form", "a tuple" if form is tuple else form.describe())
    return tuple(leaves)


def version_counter() -> Any:
    """The function that lets PyTorch know that the elements of a tuple of its tensors changed."""
    return sys.modules["torch"].autograd.graph.increment_version


def mismatch(jit: Any, args: tuple, kwargs: dict) -> NoReturn:
    """Raises an error that says what Python says of these arguments."""
    import inspect

    function = getattr(jit, "__wrapped__", jit)
    signature = inspect.signature(function, follow_wrapped=False)
    what = "takes other arguments"
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        what = str(error)
    fix = "call it as the signature says"
    if [*signature.parameters][:1] == ["self"]:
        fix += "; a tool takes the object first: Layer.f.explain(layer, x)"
    raise InvalidType(f"{jit.__name__}() {what}", f"the signature is {jit.__name__}{signature}",
                      fix, user_line())  # fmt: skip


def bound_to(jit: Any, signature: Any, args: tuple, kwargs: dict) -> Any:
    """The arguments of a call, by parameter; raises as mismatch() does."""
    with contextlib.suppress(TypeError):
        return signature.bind(*args, **kwargs)
    mismatch(jit, args, kwargs)


def _about(value: Any) -> str:
    kind = getattr(value, "dtype", type(value).__name__)
    return f"{type(value).__module__.split('.')[0]}'s {kind} of shape {list(value.shape)}"


# reason: (what, why, fix, class of the error); {value} and {detail} are filled in.
_TEXTS = {
    "kind": (
        "{name} is {value}",
        "arguments are arrays (torch, NumPy, anything with DLPack) and constants: bool, int, "
        "float, str, None, a pto type, or tuples, lists, dicts and dataclasses of these",
        "convert it; an array of a class of its own (masked) to a plain one",
        InvalidType,
    ),
    "array inside": (
        "{name} is {value}, inside of a constant",
        "tuples, lists, dicts and dataclasses are constants of the compilation; programs alone, "
        "which write into a parameter or loop over pto.loop, take lists of tensors",
        "give each array a parameter, and pass them one by one: f(*arrays); or write the result: "
        "out[:] = value, and pass a list",
        InvalidType,
    ),
    "depth": (
        "{name} is a tuple of tuples, more than 64 deep",
        "constants are compared at each call",
        "pass a flat tuple",
        InvalidType,
    ),
    "no array": (
        "{name} is {value}",
        "the operator computes on arrays: of NumPy, or of a library with DLPack or an adapter",
        "convert it: numpy.asarray(value)",
        InvalidType,
    ),
    "no tensor": (
        "no argument is an array",
        "a compiled function computes on arrays; numbers are constants of its compilation",
        "pass an array, numpy.asarray(value) for a number",
        InvalidType,
    ),
    "device": (
        "{name} is on device {device}",
        "pto computes on the CPU",
        "move it: {name}.cpu()",
        InvalidValue,
    ),
    "no memory": (
        "{name} has no memory behind it",
        "a fake or deleted tensor has sizes but no elements",
        "pass a real tensor",
        InvalidValue,
    ),
    "dtype": (
        "{name} has the element type {dtype}",
        KNOWN,
        "convert it first",
        InvalidType,
    ),
    "rank": (
        "{name} has {ndim} axes",
        f"a tensor has at most {_core.MAX_RANK}",
        "join axes with reshape before the call",
        InvalidValue,
    ),
    "alignment": (
        "{name} does not lie at a multiple of its element size",
        "elements are read whole, and the processor wants them aligned",
        "copy it: {name}.copy(), or {name}.clone() in PyTorch",
        InvalidValue,
    ),
    "for library": (
        "the arguments are no plain tensors of the CPU",
        "trace(), explain() and warm() read them where they lie",
        "pass tensors like these without gradient, on the CPU: x.detach().cpu()",
        InvalidValue,
    ),
    "traced": (
        "a tool gets a tensor of a function that is being traced",
        "it shows or saves a call with arrays, and nothing runs while a function is traced",
        "use it outside of functions under @pto.jit",
        InvalidType,
    ),
    "unreadable": (
        "{name} cannot be read: {detail}",
        "its memory must be dense or strided, and on the CPU",
        "convert it to a plain CPU tensor",
        InvalidType,
    ),
    "mixed libraries": (
        "{name} is {value}, but another array is of type {detail}",
        "the arrays of a call come from one library, which also gets the results",
        "convert one: torch.from_numpy(a), or t.numpy()",
        InvalidType,
    ),
    "too many": (
        f"{{name}} is the {_core.MAX_TENSORS + 1}th array",
        f"a call takes at most {_core.MAX_TENSORS}",
        "join some of them, or split the function",
        InvalidValue,
    ),
    "recursion": (
        "{name} calls itself with arrays while it is traced",
        "the tracing would never end",
        "call it with its own parameters, or write a loop",
        InvalidValue,
    ),
    "read-only": (
        "{name} is read-only",
        "results are written into it",
        "pass a writable array",
        InvalidValue,
    ),
    "out count": (
        "out does not hold as many arrays as the function has outputs, {detail}",
        "each output needs an array",
        "pass a tuple of that length",
        InvalidValue,
    ),
    "out type": (
        "{name} is {about}, but the output is {detail}",
        "results are written without conversion",
        "allocate it with that type and shape",
        InvalidValue,
    ),
    "out shared": (
        "elements of {name} share memory",
        "an element would get the values of several",
        "pass memory of its own",
        InvalidValue,
    ),
    "out form": (
        "out is {value}, but the function returns {detail}",
        "out has the containers of the result, with an array for each output",
        "pass the same containers with an array for each tensor",
        InvalidType,
    ),
    "out overlap": (
        "{name} overlaps {detail}",
        "elements might be overwritten before they are read",
        "pass memory of its own",
        InvalidValue,
    ),
}


def refuse(function: str, name: str, value: Any, reason: str, detail: str) -> NoReturn:
    """Raises the error for an argument that cannot be taken."""
    what, why, fix, kind = _TEXTS[reason]
    device = getattr(value, "device", None)
    if reason == "unreadable" and device is not None and str(device) != "cpu":
        what, why, fix, kind = _TEXTS["device"]
    form = taken_apart(value)[1] if reason == "out form" else LEAF
    fields = {
        "name": name,
        "value": describe(value) if form.is_leaf else form.describe(),
        "detail": detail.splitlines()[0] if detail else "",
        "device": device,
        "dtype": getattr(value, "dtype", None),
        "ndim": getattr(value, "ndim", None),
        "about": _about(value) if reason == "out type" else "",
    }
    what, why, fix = (text.format(**fields) for text in (what, why, fix))
    raise kind(f"{function}: {what}", why, fix, user_line())
