# SPDX-License-Identifier: Apache-2.0
"""The entry of a graph: what Dynamo's code does at each call before it calls the graph.

    return with_short_entry(graph, inputs, function)    # in the backend, of the compiled function

A call of a small graph takes PyTorch longer than the graph itself. Dynamo writes the code of the
entry when the backend has compiled the graph, so that the backend decides what the code passes on.
Thread safety: PyTorch captures on one thread at a time.
"""

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import torch
from pto.adapters.torch.graph_function import function_of
from torch import fx
from torch._dynamo import callback_handler, config, graph_bytecode_inputs
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.source import TensorPropertySource
from torch._subclasses import FakeTensor


def with_short_entry(graph: fx.GraphModule, inputs: Sequence[Any], function: Callable) -> Callable:
    """The function of a graph that takes what the entry passes from now on."""
    written = _written_for(graph)
    if written is None:
        return function
    if not torch.autograd.profiler._is_profiler_enabled:
        _leave_out_label()
    return _with_sizes_of_tensors(written, inputs, function)


def _written_for(graph: fx.GraphModule) -> OutputGraph | None:
    """The writer of the code that calls this graph; None where something between Dynamo and the
    backend calls it with inputs of its own."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        found = frame.f_locals.get("self")
        if isinstance(found, OutputGraph):
            return found if found.graph is graph.graph else None
        frame = frame.f_back
    return None


def _with_sizes_of_tensors(
    written: OutputGraph, inputs: Sequence[Any], function: Callable
) -> Callable:
    """Lets a function ask tensors for the sizes that Dynamo passes beside them, which asks by a
    function in Python wrapped against its own tracing: four times the time of the question."""
    given = {
        f"v{place}": one for place, one in enumerate(zip(written.placeholders, inputs, strict=True))
    }
    places: dict[Any, str] = {}
    for name, (node, value) in given.items():
        if type(value) in (torch.Tensor, torch.nn.Parameter, FakeTensor):
            for axis, size in enumerate(node.meta["example_value"].shape):
                if isinstance(size, torch.SymInt):
                    places.setdefault(size.node.expr, f"{name}.size({axis})")
    asked = {name: places[value.node.expr] for name, (node, value) in given.items()
             if _is_size(node, value) and value.node.expr in places}  # fmt: skip
    if not asked:
        return function
    behind = next(node for node in written.graph.nodes if node.op != "placeholder")
    for name in asked:  # the graph is compiled: its inputs count from now on, not their users
        node, _ = given[name]
        with written.graph.inserting_before(behind):
            node.replace_all_uses_with(written.graph.call_function(torch.sym_int, (0,)))
        written.remove_node(node)
    taken = ", ".join(name for name in given if name not in asked)
    passed = ", ".join(asked.get(name, name) for name in given)
    text = f"def entry({taken}):\n    return function({passed})\n"
    return function_of(text, {"function": function})


def _is_size(node: fx.Node, value: Any) -> bool:
    """Says whether Dynamo takes this input from a tensor, and looks for none by its source."""
    is_size = isinstance(value, torch.SymInt)
    is_size = is_size and isinstance(node.meta["grapharg"].source, TensorPropertySource)
    return is_size and not value.node.shape_env.specializations


def _leave_out_label() -> None:
    """Lets this code be written without a label of PyTorch's profiler, two wrapped functions."""
    if config.record_runtime_overhead:
        config.record_runtime_overhead = False
        callback_handler.register_end_callback(_put_label_back)


def _put_label_back(_: Any) -> None:
    config.record_runtime_overhead = True
    others = [one for one in callback_handler.end_callbacks if one is not _put_label_back]
    callback_handler.end_callbacks = others  # another list: PyTorch walks along the former


def forget_streams(graph: fx.GraphModule) -> None:
    """Lets calls of a graph that takes none of the noted objects by its number pass on no stream.

    PyTorch notes the current stream of an accelerator, such as the emulated npu, beside each graph,
    and would find and keep it at each call, which takes as long as two small operations.
    """
    noted = graph_bytecode_inputs.index_to_external_object_weakref
    parts = [part for part in graph.modules() if isinstance(part, fx.GraphModule)]
    targets = " ".join(str(node.target) for part in parts for node in part.graph.nodes)
    takes_one = any(name in targets for name in ("streams.", "external_object", "leaf_function"))
    if len(noted) == 1 and isinstance(noted[0](), torch.Stream) and not takes_one:
        graph_bytecode_inputs.reset_user_object_tracking()
