# SPDX-License-Identifier: Apache-2.0
"""The adapter's prebuilt library: its functions, and the callbacks by which it calls Python.

`answer` is the address that the library passes to a callback, valid until the callback returns.
Errors: RuntimeError where ONNX Runtime refuses what the planner answers. Thread safety: several
threads may make sessions; a failure's text belongs to its thread.
"""

import ctypes
import traceback
from collections.abc import Callable, Sequence

from pto.adapters.build import LIBRARIES
from pto.errors import Error

PATH = str(LIBRARIES / "libpto_onnxruntime.so")
_PLANNER = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.POINTER(ctypes.c_char), ctypes.c_int64, ctypes.c_void_p
)
_library = ctypes.CDLL(PATH)
_library.pto_onnxruntime_fail.argtypes = [ctypes.c_char_p]
_library.pto_onnxruntime_prepare.restype = ctypes.c_char_p


class AttributeValue(ctypes.Structure):
    """pto_operator_value of abi/operator.h."""

    class _Union(ctypes.Union):
        _fields_ = [
            ("integer", ctypes.c_int64),
            ("real", ctypes.c_double),
            ("text", ctypes.c_char_p),
            ("integers", ctypes.POINTER(ctypes.c_int64)),
        ]

    _anonymous_ = ("value",)
    _fields_ = [("value", _Union), ("count", ctypes.c_int64)]


def _integers(values: Sequence[int]) -> ctypes.Array:
    return (ctypes.c_int32 * len(values))(*values)


def attribute_value(kind: str, value: object) -> AttributeValue:
    """An attribute of a call; the object keeps what it points to."""
    made = AttributeValue()
    if value is None:
        made.count = -1
    elif kind == "float":
        made.real = value
    elif kind == "str":
        text = value.encode()
        made.text, made.count = text, len(text)
    elif kind == "int[]":
        made.integers = (ctypes.c_int64 * max(1, len(value)))(*value)
        made.count = len(value)
    else:
        made.integer = int(value)
    return made


def take(answer: int, places: Sequence[int]) -> None:
    """Answers plan(): the nodes at these places become one kernel."""
    if _library.pto_onnxruntime_take(ctypes.c_void_p(answer), _integers(places), len(places)):
        raise RuntimeError(f"ONNX Runtime refused the group of nodes {list(places)}")


def take_view(answer: int, place: int) -> None:
    """Answers plan(): the node at this place runs as a view."""
    if _library.pto_onnxruntime_take_view(ctypes.c_void_p(answer), place):
        raise RuntimeError(f"ONNX Runtime refused the node {place}")


def add_view(type_: str, first: int, last: int, view: int) -> None:
    """Nodes of this type and these versions may run as views, see views.hpp."""
    _library.pto_onnxruntime_add_view(type_.encode(), first, last, view)


def use(
    answer: int,
    index: int,
    inputs: Sequence[Sequence[int]],
    attributes: Sequence[AttributeValue],
    outputs: Sequence[int],
) -> None:
    """Answers build(): the group runs operator `index`.

    `inputs` are the places of each tensor argument among the group's inputs, `outputs` those of the
    operator's outputs among the group's.
    """
    values = (AttributeValue * max(1, len(attributes)))(*attributes)
    counts = _integers([len(places) for places in inputs])
    places = _integers([place for places in inputs for place in places])
    if _library.pto_onnxruntime_use(
        ctypes.c_void_p(answer), index, counts, places, values, _integers(outputs), len(outputs)
    ):
        raise RuntimeError(f"there is no operator {index}")


def prepare(answer: int, argument: int, index: int, attributes: Sequence[AttributeValue]) -> None:
    """Runs operator `index` once on a constant of the model; its result becomes the argument of the
    group's operator that the constant was."""
    values = (AttributeValue * max(1, len(attributes)))(*attributes)
    failure = _library.pto_onnxruntime_prepare(ctypes.c_void_p(answer), argument, index, values)
    if failure is not None:
        raise RuntimeError(failure.decode(errors="replace"))


def _callback(planner: Callable[[str, int], None]) -> Callable:
    def call(json: object, size: int, answer: int) -> int:
        try:
            text = ctypes.string_at(json, size).decode(errors="surrogateescape")
            planner(text, answer)
            return 0
        except Error as error:
            _library.pto_onnxruntime_fail(str(error).encode())
        except BaseException:
            _library.pto_onnxruntime_fail(traceback.format_exc().encode())
        return 1

    return _PLANNER(call)


_callbacks: list[Callable] = []  # the library calls them as long as the process lives


def set_planner(plan: Callable[[str, int], None], build: Callable[[str, int], None]) -> None:
    """Installs plan(json, answer), which chooses groups, and build(json, answer), which makes the
    kernel of one; both get the text of describe.hpp."""
    _callbacks[:] = [_callback(plan), _callback(build)]
    _library.pto_onnxruntime_set_planner(*_callbacks)
