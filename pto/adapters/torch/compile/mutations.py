# SPDX-License-Identifier: Apache-2.0
"""Writes of a graph into its inputs: of a few elements, in place.

    write_in_place(graph)

AOTAutograd's graphs are functional: a model that writes a row of a cache makes a new cache, with
the row in it, and copies all of it into the old one at the end. Where nobody reads the old elements
any more, the row is written into the cache itself. Thread safety: a graph belongs to one thread.
"""

import torch
from pto.adapters.torch.compile.rows import TABLE, Kind
from pto.adapters.torch.compile.translate import is_part, overload_of
from torch import fx

aten = torch.ops.aten
_PUTS = {
    aten.index_put.default: aten.index_put_.default,
    aten._unsafe_index_put.default: aten.index_put_.default,
    aten.slice_scatter.default: None,  # a copy into the slice
}


def write_in_place(graph: fx.Graph) -> None:
    """Replaces copies into inputs of what some writes make of these inputs by the writes."""
    place = {node: at for at, node in enumerate(graph.nodes)}
    for copy in [node for node in graph.nodes if node.target is aten.copy_.default]:
        writes = _writes(copy, place)
        if not writes:
            continue
        written = copy.args[0]
        for write in writes:
            with graph.inserting_before(write):
                for made in _write(graph, write, written):
                    place[made] = place[write]
            write.replace_all_uses_with(written)
            graph.erase_node(write)
        copy.replace_all_uses_with(written)
        graph.erase_node(copy)


def _writes(copy: fx.Node, place: dict[fx.Node, int]) -> list[fx.Node]:
    """The writes, in order, that make of an input what is copied into it; [] where others than
    these read the elements of a version behind the next write."""
    written, made = copy.args[:2]
    if written.op != "placeholder":
        return []
    writes: list[fx.Node] = []
    while made is not written:
        if not isinstance(made, fx.Node) or made.target not in _PUTS or _adds(made):
            return []
        writes.append(made)
        made = made.args[0]
    writes.reverse()
    for base, write in zip([written, *writes], [*writes, copy], strict=True):
        if any(_root(one) is base for one in write.all_input_nodes if one is not base):
            return []  # it writes what it reads
        if any(place[reader] > place[write] for reader in _readers(base) if reader is not copy):
            return []
    return writes


def _adds(write: fx.Node) -> bool:
    """Says whether a write adds to what lies at its positions."""
    if write.target is aten.slice_scatter.default:
        return False
    return bool(write.kwargs.get("accumulate", write.args[3:] and write.args[3]))


def _is_view(node: fx.Node) -> bool:
    """Says whether a node may share elements with its first argument when they are read."""
    if is_part(node):
        return True
    if not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.is_mutable:
        return False
    row = TABLE.get(overload_of(node))
    is_lazy = row is not None and row.kind is Kind.VIEW
    return is_lazy or any(value.alias_info is not None for value in node.target._schema.returns)


def _root(node: fx.Node) -> fx.Node:
    """The value of which a node is a view; any other node itself."""
    while _is_view(node):
        node = node.args[0]
    return node


def _readers(node: fx.Node) -> list[fx.Node]:
    """The nodes that read the elements of a node, also through its views."""
    found: list[fx.Node] = []
    for user in node.users:
        found.append(user)
        if _is_view(user):
            found += _readers(user)
    return found


def _write(graph: fx.Graph, write: fx.Node, written: fx.Node) -> list[fx.Node]:
    """Adds nodes that write into the input what `write` puts into a new tensor."""
    _, *args = write.args
    if (put := _PUTS[write.target]) is not None:
        made = graph.call_function(put, (written, *args), write.kwargs)
        made.meta = dict(write.meta)
        return [made]
    source, *where = args
    part = graph.call_function(aten.slice.Tensor, (written, *where), write.kwargs)
    part.meta = dict(write.meta)
    part.meta["val"] = aten.slice.Tensor(written.meta["val"], *_values(where), **write.kwargs)
    made = graph.call_function(aten.copy_.default, (part, source))
    made.meta = dict(part.meta)
    return [part, made]


def _values(arguments: list) -> list:
    return [one.meta["val"] if isinstance(one, fx.Node) else one for one in arguments]
