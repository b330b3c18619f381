# SPDX-License-Identifier: Apache-2.0
"""A group of nodes as one operator of the registry, whose `build` traces them one after another.

Groups that are equal up to names share the operator, as the layers of a model do, and sessions that
are made again. The operator's name begins with "_", so no framework declares it. Thread safety: any
thread may plan.
"""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pto import _core
from pto.adapters.onnxruntime.graph import OnnxNode, OnnxValue
from pto.adapters.onnxruntime.rows import bound, operator, row_of, version_of
from pto.adapters.record import Record
from pto.config import config
from pto.language.dtypes import DType, dtype, f32
from pto.language.op import Operator, op
from pto.language.tensor import Tensor
from pto.language.trace import Trace
from pto.language.types import cast, constant, wide
from pto.locks import Lock


@dataclass(frozen=True)
class Group:
    """Nodes in order, the values that come in as tensors, and those that leave."""

    nodes: tuple[OnnxNode, ...]
    inputs: tuple[OnnxValue, ...]
    outputs: tuple[OnnxValue, ...]
    learns: bool = False  # every number that a model may have learned comes in as a tensor


def is_number(node: OnnxNode, place: int, learns: bool = False) -> bool:
    """Says whether an input becomes a constant of the kernel; a number that a model has learned is
    read at the call, so that its layers share a kernel. One without axes is taken to be part of a
    formula, unless the group `learns`."""
    value, row = node.inputs[place], row_of(node)
    if value.data is None or value.data.size != 1:
        return False
    is_learned = value.dtype == "f32" and (learns or bool(value.shape))
    return not (place in row.read or (row.learns and is_learned))


def group_of(nodes: Sequence[OnnxNode], outputs: Sequence[OnnxValue], learns=False) -> Group:
    """The group of these nodes that gives these values."""
    inside = {value.name for node in nodes for value in node.outputs if value is not None}
    inputs = {value.name: value for value in _read(nodes, learns) if value.name not in inside}
    return Group(tuple(nodes), tuple(inputs.values()), tuple(outputs), learns)


def _read(nodes: Sequence[OnnxNode], learns: bool) -> Iterator[OnnxValue]:
    """The values that the formulas take as tensors."""
    for node in nodes:
        constants = row_of(node).constants
        for place, value in enumerate(node.inputs):
            if value is not None and place not in constants and not is_number(node, place, learns):
                yield value


def share(groups: Sequence[Group], fits: Callable[[Group], bool]) -> list[Group]:
    """The groups, where those that differ by numbers alone, as the scales of a quantised model's
    layers, read them and so have one kernel."""
    learning = {structure(one): group_of(one.nodes, one.outputs, True) for one in groups}
    kinds = list(map(structure, learning.values()))
    for kind, one in zip(kinds, learning.values(), strict=True):
        if kinds.count(kind) > 1 and fits(one) and traces(one):
            _sharing.add(kind)
    return list(map(shared, groups))


def shared(group: Group) -> Group:
    """The group as the last share() of one of its kind has it."""
    learning = group_of(group.nodes, group.outputs, True)
    return learning if structure(learning) in _sharing else group


_sharing: set[str] = set()


def build(group: Group, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Traces the outputs of the group.

    Between its nodes values of f16 and bf16 stay f32, as in ONNX Runtime's own kernels; a Cast
    rounds.
    """
    traced = dict(zip((v.name for v in group.inputs), tensors, strict=True))
    trace = tensors[0].trace
    for node in group.nodes:
        row = row_of(node)
        arguments = [
            None if value is None or place in row.constants
            else wide(_number(trace, value) if is_number(node, place, group.learns)
                      else traced[value.name])
            for place, value in enumerate(node.inputs)
        ]  # fmt: skip
        results = row.build(node, *arguments)
        results = results if isinstance(results, list | tuple) else (results,)
        for value, result in zip(node.outputs, results, strict=False):
            if value is not None:
                traced[value.name] = result
    return tuple(_rounded(traced[value.name], value) for value in group.outputs)


def _rounded(result: Tensor, value: OnnxValue) -> Tensor:
    kind = dtype(value.dtype)
    return cast(result, kind) if wide_type(kind) is result.dtype else result


def wide_type(kind: DType) -> DType:
    return f32 if kind.is_float and kind.bytes < 4 else kind


def _number(trace: Trace, value: OnnxValue) -> Tensor:
    number = constant(trace, value.data.item(), dtype(value.dtype))
    return number.broadcast_to((1,) * len(value.shape)) if value.shape else number


def is_served(node: OnnxNode) -> bool:
    """Says whether there is a row for this node, and it computes these types and ranks."""
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    row = row_of(node)
    if row is None or not row.serves(node) or not all(v.is_typed for v in values):
        return False
    if row.call is not None:
        return call_of(node) is not None
    if row.build is None:
        return True
    group = group_of([node], [v for v in node.outputs if v is not None])
    return bool(group.inputs) and traces(group)


def fuses(node: OnnxNode) -> bool:
    """Says whether a served node may share a kernel with others."""
    return row_of(node).build is not None


@dataclass(frozen=True)
class LibraryCall:
    """A call of an operator of the library: the values of each tensor argument, the attributes."""

    record: Record
    tensors: list[list[OnnxValue]]
    attributes: list[tuple[str, object]]  # (kind, value)
    prepared: dict[int, Record]  # of a tensor argument: what makes it of the constant that is there


def call_of(node: OnnxNode) -> LibraryCall | None:
    """The call of an operator of the library that computes a node.

    None where the operator refuses the arguments, or gives other element types or ranks than the
    model says.
    """
    try:
        call = row_of(node).call(node)
        record = Record(operator(call.operator).index)
        values = bound(record, list(node.inputs[: call.tensors]), call.attributes)
        tensors, attributes = [], []
        for argument, value in zip(record.arguments, values, strict=True):
            if argument.is_tensor:
                tensors.append(value if isinstance(value, list) else [value] if value else [])
            else:
                attributes.append((argument.kind, value))
        prepared = {place: Record(operator(n).index) for place, n in call.prepared.items()}
        kinds = [_kinds(v, prepared.get(place)) for place, v in enumerate(tensors)]
        given = record.by_argument(map(len, kinds), itertools.chain(*kinds))
        outputs = record.shapes(given, [value for _, value in attributes]).outputs
    except Exception:  # what the operator refuses, for whatever reason, stays with ONNX Runtime
        return None
    made = [out for output in outputs for out in (output if isinstance(output, list) else [output])]
    agrees = len(made) == len(node.outputs) and all(
        value is not None and kind == value.dtype and len(sizes) == len(value.shape)
        for (kind, sizes), value in zip(made, node.outputs, strict=True)
    )
    return LibraryCall(record, tensors, attributes, prepared) if agrees else None


def _kinds(members: list[OnnxValue], prepared: Record | None) -> list[tuple[str, int]]:
    """Element types and ranks of a tensor argument."""
    kinds = [(value.dtype, len(value.shape)) for value in members]
    if prepared is None:
        return kinds
    ((dtype, sizes),) = prepared.shapes(kinds, [a.default for a in prepared.attributes]).outputs
    return [(dtype, len(sizes))]


def traces(group: Group) -> bool:
    """Says whether the tile language expresses the group, the compiler has a form for it, and it
    gives the element types and ranks that the model says.

    Equal groups are tried once, as the layers of a model are.
    """
    sizes: dict[object, object] = {}
    shapes = [_dims(v, sizes) for v in group.inputs]
    key = structure(group) + str(shapes)
    if key not in _traced:
        _traced[key] = _traces(group, shapes)
    return _traced[key]


_traced: dict[str, bool] = {}


def _traces(group: Group, shapes: Sequence[tuple]) -> bool:
    trace = Trace("group")
    try:
        tensors = [trace.input(v.name, v.dtype, s)
                   for v, s in zip(group.inputs, shapes, strict=True)]  # fmt: skip
        results = build(group, tensors)
        graph, _ = trace.finish(results)
        _core.explain(graph, lambda *_: None)
    except Exception:  # what does not compile, for whatever reason, stays with ONNX Runtime
        return False
    return all(
        str(result.dtype) == value.dtype and result.ndim == len(value.shape)
        for result, value in zip(results, group.outputs, strict=True)
    )


def _dims(value: OnnxValue, sizes: dict) -> tuple:
    """The shape with a symbol for each size that the model leaves open, or is not 0 or 1."""
    shape = []
    for axis, size in enumerate(value.shape):
        if size in (0, 1):
            shape.append(size)
            continue
        key = size if size is not None else (value.name, axis)
        shape.append(sizes.setdefault(key, _core.Dim.symbol(len(sizes))))
    return tuple(shape)


def structure(group: Group) -> str:
    """A text that is equal for two groups exactly if they compute the same from equal inputs."""
    numbers: dict[str, int] = {}

    def about(value: OnnxValue | None, is_known: bool = False) -> object:
        if value is None:
            return None
        number = numbers.setdefault(value.name, len(numbers))
        ones = None if value.shape is None else [n == 1 for n in value.shape]
        data = value.data.tolist() if is_known else None
        return [number, value.dtype, ones, data]

    nodes = []
    for node in group.nodes:
        fixed = row_of(node).constants
        read = [
            about(v, v is not None and (place in fixed or is_number(node, place, group.learns)))
            for place, v in enumerate(node.inputs)
        ]
        made = [about(v) for v in node.outputs]
        nodes.append([node.type, node.since, version_of(node), node.attributes, read, made])
    ends = [[about(v) for v in values] for values in (group.inputs, group.outputs)]
    return json.dumps([nodes, ends], sort_keys=True)


_operators: dict[str, Operator] = {}
_lock = Lock()


def operator_of(group: Group) -> Operator:
    """The operator of the group, defined at its first use."""
    key = structure(group)
    with _lock:
        if key not in _operators:
            _operators[key] = _define(group, key)
        return _operators[key]


def _define(group: Group, key: str) -> Operator:
    name = "_onnx_" + hashlib.sha256(key.encode()).hexdigest()[:16]
    tensors = ", ".join(f"Tensor x{i}" for i in range(len(group.inputs)))
    results = ", ".join(["Tensor"] * len(group.outputs))
    names = "+".join(node.type for node in group.nodes)
    definition = type(name, (), {
        "__doc__": f"The ONNX nodes {names}.",
        "build": staticmethod(lambda *tensors: build(group, tensors)),
    })  # fmt: skip
    schema = f"{name}({tensors}) -> " + (f"({results})" if len(group.outputs) > 1 else results)
    types = [", ".join(v.dtype for v in values) for values in (group.inputs, group.outputs)]
    return op(schema, "({}) -> ({})".format(*types))(definition)


def ahead(group: Group) -> Iterator[tuple[tuple, ...]]:
    """The shapes of the inputs for which to compile a kernel before the first call.

    A size that the model leaves open is not 1; but in the first shapes it is 1 on all first axes,
    as of a batch of one.
    """

    def shapes(is_single: bool) -> tuple[tuple, ...]:
        count = itertools.count()  # numbered as a call numbers them
        return tuple(
            tuple(1 if n == 1 or (is_single and not axis and not isinstance(n, int))
                  else _core.Dim.symbol(next(count)) for axis, n in enumerate(v.shape))
            for v in group.inputs
        )  # fmt: skip

    if any(v.shape and not isinstance(v.shape[0], int) for v in group.inputs):
        yield shapes(True)
    yield shapes(False)


def compile_ahead(made: Operator, group: Group, shapes: tuple[tuple, ...]) -> None:
    """Compiles the kernel for these shapes, so that the first call does not wait.

    A second call under the same settings does nothing.
    """
    key = made.index, str(shapes), config.target, config.cxx, config.cache_dir
    if key in _compiled:
        return
    tensors = [(v.dtype, shape) for v, shape in zip(group.inputs, shapes, strict=True)]
    _core.compile(made.trace(tensors, []))
    _compiled.add(key)


_compiled: set[tuple] = set()
