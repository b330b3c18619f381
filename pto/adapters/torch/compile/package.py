# SPDX-License-Identifier: Apache-2.0
"""pto.torch.package(): a model that torch.export captured as one file, compiled.

    exported = torch.export.export(model, (x,), dynamic_shapes=({0: Dim("batch")},))
    pto.torch.package(exported, "m.pto")
    pto.load("m.pto")(x)                   # packaged_model.py: no Dynamo, no compiler

The file is of kind "model". Its header has the text of the function that runs the steps, what its
constants are, the inputs and the results; its payload the programs, then the weights. Thread
safety: one thread packages a model.
"""

import os
from collections.abc import Sequence
from typing import Any

import sympy

import torch
from pto import _core, container
from pto.adapters.torch.compile.capture import decompositions
from pto.adapters.torch.compile.compiled import CompiledGraph, line_of
from pto.adapters.torch.compile.options import checked
from pto.adapters.torch.compile.plan import name_of
from pto.adapters.torch.compile.recorded_calls import Packing, calls_of_operators, ours, used
from pto.adapters.torch.compile.sizes import expression, expressions, solutions, symbols_of, text_of
from pto.adapters.torch.compile.whole import kept_whole
from pto.adapters.torch.packaged_model import KIND, NUMBER_FUNCTIONS, weight_pieces
from pto.errors import InvalidType, InvalidValue
from pto.graphs.program import GroupProgram
from pto.language.library import compiled_callable, targets_of
from pto.language.location import describe
from pto.language.op import Operator
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

aten = torch.ops.aten
_WEIGHTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_WRITTEN = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)


def package(
    exported: ExportedProgram, path: str | os.PathLike, *,
    options: dict[str, Any] | None = None, targets: str | Sequence[str] = "",
) -> None:  # fmt: skip
    """Compiles a captured model and writes it to a file, which pto.load() reads.

    `options` are those of torch.compile(model, backend="pto"). `targets` names CPUs as in
    pto.package(), "portable,avx2"; "" is pto.config.target. Raises InvalidType for what
    torch.export did not capture, InvalidValue for what no file can hold.
    """
    if not isinstance(exported, ExportedProgram):
        raise InvalidType(
            f"package: the model is {describe(exported)}",
            "a package holds what torch.export has captured, once and for all its sizes",
            "pass torch.export.export(model, args)",
        )
    _check_weights(exported)
    path = container.path_of(path, "package")
    chosen = targets_of(targets)
    arguments = _text_of(exported.call_spec.in_spec, "takes")
    form = _text_of(exported.call_spec.out_spec, "returns")
    with kept_whole():
        captured = exported.run_decompositions(decompositions(of_export=True))
    _drop_checks_of_types(captured.graph_module)
    inputs, weights, constants = _inputs_of(captured)
    made = CompiledGraph("inference", checked(options, None), captured.graph_module, constants)
    programs = [step.program for step in made.steps if step.program is not None]
    programs = list(dict.fromkeys(programs))
    codes = [_sealed(one, place, target) for place, one in enumerate(programs) for target in chosen]
    examples = calls_of_operators(made, exported, inputs, list(weights.values()))
    operators = [compiled_callable(one, calls, chosen) for one, calls in examples.items()]
    pieces = [code for _, code in codes]
    header = {
        "torch": torch.__version__.partition("+")[0],
        "name": "model",
        "target": ",".join(dict.fromkeys(built for built, _ in codes)),
        "text": made.replay.source,
        "constants": {name: _described(name, made, programs, [*examples])
                      for name, _ in used(made)},
        "operators": [{**about, "bytes": sum(map(len, code))} for about, code in operators],
        "programs": [_about_program(one) for one in programs],
        "code_bytes": sum(map(len, pieces)),
        "inputs": inputs,
        "weights": [_about_weight(name, one) for name, one in weights.items()],
        "results": _results_of(captured),
        "arguments": arguments,
        "form": form,
    }  # fmt: skip
    pieces += [code for _, codes_of in operators for code in codes_of]
    pieces += [piece for one in weights.values() for piece in weight_pieces(one)]
    container.save(path, container.content_of(KIND, header, pieces))


def _check_weights(exported: ExportedProgram) -> None:
    for name, one in {**exported.constants, **exported.state_dict}.items():
        if isinstance(one, torch.Tensor) and (one.layout is not torch.strided or one.is_conj()):
            kind = "that torch conjugates where it reads it" if one.is_conj() else one.layout
            raise InvalidValue(
                f"package: the weight {name} is a tensor {kind}",
                "a file holds the elements of a weight, one after another, as they are",
                f"make it plain before the export: {name}.to_dense(), or {name}.resolve_conj()",
            )


def _drop_checks_of_types(module: fx.GraphModule) -> None:
    """Takes out what checks element types that the loaded model checks at its inputs."""
    for node in list(module.graph.nodes):
        if node.target is aten._assert_tensor_metadata.default:
            module.graph.erase_node(node)


def _inputs_of(
    captured: ExportedProgram,
) -> tuple[list[dict], dict[str, torch.Tensor], set[fx.Node]]:
    """The header's record of each input of the graph, the weights once each by their first name,
    and the nodes of constant ones."""
    nodes = [node for node in captured.graph.nodes if node.op == "placeholder"]
    written = {spec.target for spec in captured.graph_signature.output_specs
               if spec.kind in _WRITTEN}  # fmt: skip
    inputs, asked, weights, places, constants = [], [], {}, {}, set()
    for node, spec in zip(nodes, captured.graph_signature.input_specs, strict=True):
        if spec.kind in _WEIGHTS:
            tensor = captured.state_dict.get(spec.target, captured.constants.get(spec.target))
            tensor = tensor.resolve_neg()  # which is no other weight's memory then
            own = spec.target if spec.target in written else ""
            key = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.dtype,
                   tensor.shape, tensor.stride(), own)  # fmt: skip
            if key not in places:
                places[key], weights[spec.target] = len(weights), tensor.detach()
            inputs.append({"weight": places[key], "name": spec.target})
            if spec.target in written:
                inputs[-1]["written"] = True
            else:
                constants.add(node)
        elif spec.kind is InputKind.USER_INPUT:
            inputs.append(_user_input(node, captured))
            asked.append((node, inputs[-1]))
        else:
            raise InvalidValue(
                f"package: the input {node.name} is of the kind {spec.kind.name}",
                "a package has tensors and numbers as inputs",
                "take objects and tokens out of the model",
            )
    _solve(asked)
    return inputs, weights, constants


def _solve(asked: Sequence[tuple[fx.Node, dict[str, Any]]]) -> None:
    """Notes in the records by which sizes a symbol is known that is no size itself, as (axis,
    symbol, a, b): that size is a times it plus b. Raises InvalidValue for one that stays unknown.
    """
    values = [node.meta["val"] for node, _ in asked]
    each = [value.shape if isinstance(value, torch.Tensor) else (value,)
            if isinstance(value, torch.SymInt) else () for value in values]  # fmt: skip
    places = [(about, axis) for (_, about), sizes in zip(asked, each, strict=True)
              for axis in range(len(sizes))]  # fmt: skip
    every = [expression(size) for sizes in each for size in sizes]
    told = solutions(every)
    for symbol, (place, factor, offset) in told.items():
        about, axis = places[place]
        if (factor, offset) != (1, 0):
            about.setdefault("tells", []).append([axis, symbol.name, factor, offset])
    for size, (about, _) in zip(every, places, strict=True):
        if unknown := symbols_of([size]) - told.keys():
            raise InvalidValue(
                f"package: the input {about['name']} has the size {size}",
                f"a call knows {(name := min(one.name for one in unknown))} from a size that is"
                f" {name} or a * {name} + b, in whole numbers, and no input has one",
                f"pass an input with the size {name}, too",
            )


def _user_input(node: fx.Node, captured: ExportedProgram) -> dict[str, Any]:
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        if isinstance(value, torch.SymInt):
            return {"name": node.name, "number": _shown(expression(value)),
                    "range": _range(expression(value), captured)}  # fmt: skip
        return {"name": node.name, "value": value}
    if not value.is_contiguous() or value.device.type != "cpu":
        raise InvalidValue(
            f"package: the input {node.name} has strides {tuple(value.stride())} on {value.device}",
            "a packaged model takes dense tensors on the CPU, in the order of their axes",
            "export the model with x.contiguous().cpu(); a call may pass any strides",
        )
    shape = [expression(size) for size in value.shape]
    ranges = [None if isinstance(size, int) else _range(size, captured) for size in shape]
    dtype = str(value.dtype).removeprefix("torch.")
    return {"name": node.name, "dtype": dtype, "shape": [*map(_shown, shape)], "ranges": ranges}


def _shown(size: Any) -> int | str:
    """A size as a number, the name of a symbol, or an expression of symbols."""
    if isinstance(size, int):
        return size
    return str(size) if size.is_Symbol else text_of(size)


def _range(size: Any, captured: ExportedProgram) -> list[int | None]:
    """The least and the largest value of a size that is free."""
    least = 2 if symbols_of([size]) & _squeezed(captured) else 0
    for _, factor, offset in solutions([size]).values():
        least = factor * least + offset
    known = captured.range_constraints.get(size)
    if known is None:
        return [least, None]
    lower, upper = (int(one) if one.is_Integer else None for one in (known.lower, known.upper))
    return [max(least, lower or 0), upper]


def _squeezed(captured: ExportedProgram) -> set[sympy.Symbol]:
    """The symbols of sizes that a squeeze looks at: it drops an axis of size 1, and a graph has the
    same axes at every size."""
    found = []
    for node in captured.graph.nodes:
        if getattr(node.target, "overloadpacket", None) is aten.squeeze:
            shape = expressions(node.args[0].meta["val"].shape)
            axes = node.args[1] if len(node.args) > 1 else range(len(shape))
            found += [shape[axis] for axis in ([axes] if isinstance(axes, int) else axes)]
    return symbols_of(found)


def _results_of(captured: ExportedProgram) -> list[dict[str, Any]]:
    """For each result of the graph the input that it replaces; for others, what the caller gets."""
    found = []
    for spec in captured.graph_signature.output_specs:
        if spec.kind in _WRITTEN:
            found.append({"name": spec.target, "writes": spec.target})
        elif spec.kind is OutputKind.USER_OUTPUT:
            found.append({"name": str(getattr(spec.arg, "name", None) or "a constant")})
        else:
            raise InvalidValue(
                f"package: a result is of the kind {spec.kind.name}",
                "a package runs a model forward", "export the model alone",
            )  # fmt: skip
    return found


def _text_of(form: pytree.TreeSpec, verb: str) -> str:
    """The containers of what a model takes or returns, as text."""
    try:
        return pytree.treespec_dumps(form)
    except NotImplementedError as error:
        for place in range(form.num_children):
            _text_of(form.child(place), verb)
        kind = form.context if isinstance(form.context, type) else form.type
        raise InvalidValue(
            f"package: the model {verb} a {kind.__module__}.{kind.__qualname__}",
            "a file holds the names of containers, and PyTorch has none of this one",
            "use a tuple, as by return tuple(x.max(-1)); or give the class a serialized_type_name"
            " by torch.utils._pytree",
        ) from error


def _operator(overload: Any, is_direct: bool) -> list[Any]:
    name, _, which = overload.name().partition(".")
    return ["operator", name, which or "default", is_direct]


def _described(
    name: str, made: CompiledGraph, programs: list[GroupProgram], operators: list[Operator]
) -> list[Any]:
    """A constant of the function as JSON; packaged_model.py reads it."""
    if name in made.replay.overloads:
        return _operator(made.replay.overloads[name], True)
    value = made.replay.space[name]
    if (operator := ours(value)) in operators:
        packing = Packing.of(operator)
        has_packer = packing is not None and packing.packer in operators
        rest = [*packing.places, operators.index(packing.packer)] if has_packer else []
        return ["packaged", operators.index(operator), *rest]
    if isinstance(value, GroupProgram):
        return ["program", programs.index(value)]
    if isinstance(value, torch._ops.OpOverload):
        return _operator(value, False)
    if isinstance(value, torch._ops.OpOverloadPacket):
        return _operator(value.default, False)
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return ["of torch", str(value).removeprefix("torch.")]
    function = getattr(value, "__name__", "")
    if NUMBER_FUNCTIONS.get(function) is value:
        return ["of numbers", function]
    if isinstance(value, torch.device):
        return ["device", str(value)]
    if isinstance(value, float):
        return ["number", repr(value)]  # JSON has no infinities
    if isinstance(value, complex):
        return ["complex", repr(value)]
    if isinstance(value, torch.Tensor) and value.numel() == 1 and value.dtype == torch.uint8:
        return ["carrier"]
    nodes = made.module.graph.nodes
    node = next(one for one in nodes if any(value is part for part in _parts_of(one)))
    raise InvalidValue(
        f"package: {name_of(node)} {'is' if node.target is value else 'reads'} a"
        f" {type(value).__name__}",
        "a file holds operators and numbers, no functions of the model",
        "write the step with these, torch.cond() as torch.where(), for example",
        line_of(node),
    )


def _parts_of(node: fx.Node) -> list[Any]:
    """The target of a node and the leaves of its arguments."""
    return [node.target, *pytree.tree_leaves((node.args, node.kwargs))]


def _sealed(program: GroupProgram, place: int, target: str) -> tuple[str, bytes]:
    """The target and the code."""
    strides = [about.strides for about in program.recipe.parameters]
    return _core.seal(program.graph, strides, [], target, f"{place} {program.graph.name}", [])


def _about_program(program: GroupProgram) -> dict[str, Any]:
    parameters = program.recipe.parameters
    return {"name": program.graph.name, "results": program.results,
            "strides": [about.strides for about in parameters],
            "constants": [about.is_constant for about in parameters]}  # fmt: skip


def _about_weight(name: str, weight: torch.Tensor) -> dict[str, Any]:
    return {"name": name, "dtype": str(weight.dtype).removeprefix("torch."),
            "shape": list(weight.shape), "strides": list(weight.stride())}  # fmt: skip
