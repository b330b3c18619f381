# SPDX-License-Identifier: Apache-2.0
"""interpret(): computes slowly what a graph means, for tests and for questions.

    graph = softmax.trace(x)
    pto.interpret(graph, x)         # a NumPy array, or a list of them

It computes floats in double and rounds them after every operation.
"""

from typing import Any

from pto import _core
from pto.errors import InvalidType
from pto.language.dtypes import DType, numpy_type
from pto.language.dtypes import dtype as element_type
from pto.language.location import describe


def _wide(dtype: str) -> str:
    """The type of NumPy in which the interpreter gets and gives the elements of another one."""
    return "float64" if element_type(dtype).is_float else "int64"


def _fits(array: Any, kind: DType) -> bool:
    """Says whether an array's elements are numbers of a type; floats may round to it."""
    if kind.is_float:
        return array.dtype.kind not in "cSUmM"
    if array.size == 0:
        return True
    low, high = (int(array.min()), int(array.max())) if array.dtype.kind in "biu" else (-1, -1)
    holds = kind.holds if kind.is_integer else (0, 1).__contains__
    return array.dtype.kind in "biu" and holds(low) and holds(high)


def pack(value: Any, dtype: str) -> tuple:
    """(dtype, shape, bytes in f64 or i64) of an array or number, as _core.interpret() takes it.

    Raises InvalidType where NumPy makes no such array of it.
    """
    import numpy

    if hasattr(value, "detach"):  # NumPy has no bf16 of its own: torch's goes through f32
        value = value.detach()
        value = (value.float() if dtype == "bf16" else value).numpy()
    try:
        array = numpy.asarray(value)
        if not _fits(array, element_type(dtype)):
            raise TypeError(f"its elements, of type {array.dtype}, are no numbers of that type")
        return dtype, array.shape, numpy.ascontiguousarray(array, _wide(dtype)).tobytes()
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidType(
            f"interpret: {describe(value)} is no array of {dtype}: {error}",
            "inputs are arrays and numbers of the types that the graph names",
            "convert it with numpy.asarray",
        ) from None


def _packed(graph: _core.Graph, inputs: tuple) -> list[tuple]:
    if not isinstance(graph, _core.Graph):
        raise InvalidType(
            f"interpret: the graph is {describe(graph)}",
            "the first argument is a graph, the others are its inputs",
            "pass function.trace(x), or pto.Graph.parse(text)",
        )
    if len(inputs) != len(graph.inputs):
        raise InvalidType(
            f"interpret: the graph takes {len(graph.inputs)} inputs but got {len(inputs)}",
            "tensors and scalars come in the order of the graph's inputs",
            "pass one array for each",
        )
    return [pack(value, about[1]) for value, about in zip(inputs, graph.inputs, strict=True)]


def unpack(packed: tuple) -> Any:
    """The NumPy array that pack() gives as these three."""
    import numpy

    dtype, shape, data = packed
    return numpy.frombuffer(data, _wide(dtype)).reshape(shape).astype(numpy_type(dtype))


def interpret(
    graph: _core.Graph, *inputs: Any, operations: int = 1 << 33, elements: int = 1 << 29
) -> Any:
    """The outputs of a graph on arrays or numbers: a NumPy array, or a list where there are more.

    Floats of another type round to that of their input. Raises Error where the inputs do not fit
    the graph, or where it computes more than `operations`
    elements or holds more than `elements` at a time: a graph that was sent always comes to its end.

    Example:
        @pto.jit
        def double(x):
            return x + x

        print(pto.interpret(double.trace(x), x))
    """
    packed = _packed(graph, inputs)
    found = _core.interpret(graph, packed, operations=operations, elements=elements)
    results = [unpack(result) for result in found]
    return results[0] if len(results) == 1 else results


def interpret_with_bounds(graph: _core.Graph, *inputs: Any) -> list[tuple[Any, Any]]:
    """(value, bound) of each output: how far compiled code may be off, element by element.

    Example:
        @pto.jit
        def grown(x):
            return pto.exp(x)

        ((value, bound),) = pto.interpret_with_bounds(grown.trace(x), x)
        print(value[0], bound[0] < 1e-5)
    """
    import numpy

    pairs = []
    for result, bounds in _core.interpret_with_bounds(graph, _packed(graph, inputs)):
        value = unpack(result)
        pairs.append((value, numpy.frombuffer(bounds, numpy.float64).reshape(value.shape)))
    return pairs
