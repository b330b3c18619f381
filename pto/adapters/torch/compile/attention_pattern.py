# SPDX-License-Identifier: Apache-2.0
"""Attention that a model writes as two products and a softmax, as one node: the option bits="free".

    recognise_attention(graph)

softmax(q k^T * scale + masks) v, of four axes, becomes ATen's attention, which the library's
operator computes: it sums in another order than the products do. What somebody else reads, as the
weights of attention, stays. Thread safety: a graph belongs to one thread.
"""

import operator
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from pto.adapters.torch.compile.sizes import expressions
from torch import fx

aten = torch.ops.aten
ATTENTION = aten._scaled_dot_product_flash_attention_for_cpu.default
_RESHAPES = (aten.view.default, aten._unsafe_view.default)
_COPIES = (aten.clone.default, aten.expand.default, aten.alias.default)
_TYPES = (torch.float32, torch.float16, torch.bfloat16)


@dataclass
class Scores:
    """A product of queries and keys, with what is done to it before the softmax."""

    product: fx.Node
    scale: float = 1.0
    masks: list[fx.Node] = field(default_factory=list)  # that are added, behind the scale


def recognise_attention(graph: fx.Graph) -> None:
    """Rewrites what it recognises."""
    found = False
    for softmax in [n for n in graph.nodes if n.target is aten._softmax.default]:
        scores = _scores(softmax)
        result = None if scores is None else _result(softmax)
        if result is not None and _rewrite(graph, scores, *result):
            found = True
    if found:
        graph.eliminate_dead_code()


def _shape(node: fx.Node) -> tuple:
    return expressions(node.meta["val"].shape)


def _only_user(node: fx.Node) -> fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _chain(node: fx.Node) -> Iterator[fx.Node]:
    """A node, and what it copies or reshapes without change of the last axis."""
    yield node
    while node.target in (*_RESHAPES, *_COPIES) and _shape(node.args[0])[-1:] == _shape(node)[-1:]:
        node = node.args[0]
        yield node


def _scores(softmax: fx.Node) -> Scores | None:
    """The scores of a softmax along the last of four axes, whose steps nobody else reads."""
    scores, dim, converts = softmax.args
    is_plain = dim in (-1, 3) and not converts and softmax.meta["val"].dtype in _TYPES
    return _scores_of(scores) if is_plain and softmax.meta["val"].ndim == 4 else None


def _scores_of(node: object) -> Scores | None:
    if not isinstance(node, fx.Node) or len(node.users) != 1:
        return None
    if node.target is aten.bmm.default:
        return Scores(node)
    if node.target in (*_RESHAPES, *_COPIES):
        return _scores_of(node.args[0]) if _shape(node)[-2:] == _shape(node.args[0])[-2:] else None
    if node.target in (aten.mul.Tensor, aten.div.Tensor) and isinstance(node.args[1], float | int):
        found, factor = _scores_of(node.args[0]), float(node.args[1])
        if found is None or found.masks or not factor:
            return None
        found.scale *= factor if node.target is aten.mul.Tensor else 1 / factor
        return found
    if node.target is aten.add.Tensor and not node.kwargs:
        for one, other in (node.args, node.args[::-1]):
            found = _scores_of(one)
            if found is not None and isinstance(other, fx.Node):
                found.masks.append(other)
                return found
    return None


def _result(softmax: fx.Node) -> tuple[fx.Node, fx.Node] | None:
    """The product of the softmax with values, and its view of four axes."""
    node, user = softmax, _only_user(softmax)
    while user is not None and user.target in (*_RESHAPES, *_COPIES):
        if _shape(user)[-2:] != _shape(node)[-2:]:
            return None
        node, user = user, _only_user(user)
    if user is None or user.target is not aten.bmm.default or user.args[0] is not node:
        return None
    view = _only_user(user)
    if view is None or view.target not in _RESHAPES:
        return None
    batch, heads, rows, _ = _shape(softmax)
    return (user, view) if _shape(view) == (batch, heads, rows, _shape(user)[-1]) else None


def _of_four_axes(node: fx.Node, batch: tuple) -> fx.Node | None:
    """The tensor [batch, heads, ., .] that an operand of a product [batch * heads, ., .] copies."""
    wanted = (*batch, *_shape(node)[1:])
    return next((one for one in _chain(node) if _shape(one) == wanted), None)


def _rewrite(graph: fx.Graph, scores: Scores, product: fx.Node, view: fx.Node) -> bool:
    batch, width = _shape(view)[:2], _shape(scores.product)[-1]
    query = _of_four_axes(scores.product.args[0], batch)
    turned = _of_four_axes(scores.product.args[1], batch)
    value = _of_four_axes(product.args[1], batch)
    whole = (*_shape(view)[:3], width)
    if query is None or turned is None or value is None:
        return False
    dtype = view.meta["val"].dtype
    if not all(_broadcasts(one, whole) and one.meta["val"].dtype is dtype for one in scores.masks):
        return False
    with graph.inserting_before(product):
        key = _made(graph, aten.permute.default, (turned, [0, 1, 3, 2]), view)
        mask = None
        for one in scores.masks:
            mask = one if mask is None else _made(graph, aten.add.Tensor, (mask, one), view)
        while mask is not None and mask.meta["val"].ndim < 4:
            mask = _made(graph, aten.unsqueeze.default, (mask, 0), view)
        options = {"scale": scores.scale} | ({} if mask is None else {"attn_mask": mask})
        call = graph.call_function(ATTENTION, (query, key, value, 0.0, False), options)
        call.meta = dict(view.meta)
        call.meta["val"] = (view.meta["val"], None)
        part = graph.call_function(operator.getitem, (call, 0))
        part.meta = dict(view.meta)
    view.replace_all_uses_with(part)
    return True


def _broadcasts(mask: fx.Node, whole: tuple) -> bool:
    shape = _shape(mask)
    pairs = zip(shape[::-1], whole[::-1], strict=False)
    return len(shape) <= len(whole) and all(size in (1, wanted) for size, wanted in pairs)


def _made(graph: fx.Graph, target: torch._ops.OpOverload, args: tuple, like: fx.Node) -> fx.Node:
    """A new node, of the model's line of another one."""
    node = graph.call_function(target, args)
    node.meta = dict(like.meta)
    values = [one.meta["val"] if isinstance(one, fx.Node) else one for one in args]
    node.meta["val"] = target(*values)
    return node
