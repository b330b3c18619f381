# SPDX-License-Identifier: Apache-2.0
"""The backend: graphs of Dynamo through AOTAutograd, each compiled by a plan.

AOTAutograd gives functional graphs of core ATen, which copy into mutated inputs at their end;
overloads with a kernel of ours stay whole (_OURS), and some that ATen computes faster (whole.py).
AOTAutograd itself makes views among outputs around the graph.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pto.torch  # noqa: F401 makes torch.ops.pto
import torch
from pto.adapters.torch.compile.compiled import CompiledGraph
from pto.adapters.torch.compile.entry import forget_streams, with_short_entry
from pto.adapters.torch.compile.foreach import of_lists
from pto.adapters.torch.compile.fragments import runs_faster_in_eager
from pto.adapters.torch.compile.options import Options, checked
from pto.adapters.torch.compile.whole import kept_whole, without_whole
from torch import fx
from torch._decomp import (
    _core_aten_decompositions_post_autograd,
    core_aten_decompositions,
    get_decompositions,
)
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import SkipFrame
from torch._guards import TracingContext

aten = torch.ops.aten
_OURS = (
    aten._scaled_dot_product_flash_attention_for_cpu.default,
    aten.silu.default, aten.silu_backward.default, aten.gelu_backward.default,
    aten.hardswish.default, aten.mish.default, aten.addcmul.default, aten.addcdiv.default,
    aten.rsub.Scalar, aten.rsub.Tensor, aten.xlogy.Tensor, aten.special_xlog1py.default,
    aten.masked_fill.Scalar, aten.masked_fill.Tensor, aten.baddbmm.default, aten.roll.default,
    aten.native_layer_norm_backward.default, aten.threshold_backward.default,
    aten.tanh_backward.default, aten.sigmoid_backward.default, aten.elu_backward.default,
    aten.hardswish_backward.default, aten.hardtanh_backward.default, aten.logit_backward.default,
    aten.smooth_l1_loss_backward.default, aten.embedding_dense_backward.default,
    aten.linalg_cross.default,
)  # fmt: skip
# Decompositions of these draw other numbers than eager mode.
_RANDOM = ("bernoulli", "rrelu")


@functools.cache
def decompositions(of_export: bool = False) -> dict:
    """Core ATen's, less what stays whole or is random, and what core leaves whole backward.

    An exported graph holds composite operators, too, which the dispatcher decomposes elsewhere;
    PyTorch takes some 70 ms to list them.
    """
    core = core_aten_decompositions if of_export else _core_aten_decompositions_post_autograd
    table = without_whole(core())
    for one in list(table):
        if one in _OURS or one._schema.name.removeprefix("aten::") in _RANDOM:
            table.pop(one)
    entropy = aten.binary_cross_entropy.default
    table[entropy] = functools.partial(_of_probabilities, table[entropy])
    return table | get_decompositions([aten.native_layer_norm_backward]) | of_lists()


def _of_probabilities(decompose: Callable, x: torch.Tensor, *others: Any) -> torch.Tensor:
    """PyTorch's decomposition, which does not check the elements as ATen's kernel does."""
    are_right = ((x >= 0) & (x <= 1)).all()  # NaN is none
    aten._assert_async.msg(are_right, "all elements of input should be between 0 and 1")
    return decompose(x, *others)


def backend(
    graph: fx.GraphModule,
    inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """The compiled form of a graph of Dynamo, with example inputs.

    Raises InvalidValue for an unknown option or mode, and SkipFrame, which is no error, where eager
    mode is faster.
    """
    chosen = checked(options, mode)
    if chosen.fallback == "aten" and runs_faster_in_eager(graph, inputs):
        raise SkipFrame("operations on a few elements, which take less than the guards of a graph")
    compile_ = aot_autograd(
        fw_compiler=functools.partial(compiled, "forward", chosen),
        bw_compiler=functools.partial(compiled, "backward", chosen),
        inference_compiler=functools.partial(compiled, "inference", chosen),
        decompositions=decompositions(),
        keep_inference_input_mutations=True,
    )
    with kept_whole():
        made = compile_(graph, inputs)
    forget_streams(graph)
    return with_short_entry(graph, inputs, made)


def compiled(
    kind: str, options: Options, module: fx.GraphModule, inputs: Sequence[Any]
) -> Callable[[list], list]:
    """The function of one graph of AOTAutograd, which takes a list that it empties."""
    return CompiledGraph(kind, options, module, constants_of(kind, module)).run


def constants_of(kind: str, module: fx.GraphModule) -> set[fx.Node]:
    """The inputs that are parameters and buffers of an inference graph."""
    context = TracingContext.try_get()
    metadata = context and context.fw_metadata
    if kind != "inference" or metadata is None:
        return set()
    places = set(metadata.static_input_indices)
    given = [node for node in module.graph.nodes if node.op == "placeholder"]
    return {node for place, node in enumerate(given) if place in places}
