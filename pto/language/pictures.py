# SPDX-License-Identifier: Apache-2.0
"""Pictures of graphs, drawn by Graphviz: softmax.trace(x).svg(), or a graph at the end of a cell.

    svg = graph.svg()            # text of an SVG; needs the program dot
    print(graph.dot())           # Graphviz's text of it, for which nothing is needed

A box is a node, with its operation, attributes, type and the user's line; an arrow is a value. Each
body of a loop or a branch is a frame with boxes of its own, and broken lines lead to what it gets.

Thread safety: pure functions.
"""

import re
from collections.abc import Generator, Iterator

from pto import _core
from pto.errors import InvalidValue
from pto.graphviz import digraph, quoted, shown_in_notebook, svg

MOST_NODES = 1000
_NODE = re.compile(r"%(\w+) = (\w+)(?:\(([^)]*)\))?(?: \{([^}]*)\})?(.*)")
_ABOUT = re.compile(r" : (.*?)(?: @ (\".*\":\d+))?$")  # type and line, behind bodies where it has
_INPUT = re.compile(r"%(\w+): ((?:constant |scalar )?\w+(?:\[[^]]*\])?)")
_FILE = re.compile(r'"(?:\\.|[^"\\])*"')


def dot(graph: _core.Graph) -> str:
    """The graph in Graphviz's language."""
    lines = str(graph).splitlines()
    if sum(_NODE.match(line.lstrip()) is not None for line in lines) > MOST_NODES:
        raise InvalidValue(f"a picture of a graph with more than {MOST_NODES} nodes",
                           "nobody could read it", "print(graph)")  # fmt: skip
    return digraph(_graph(lines[0], iter(lines[1:]), ""))


def _graph(head: str, lines: Iterator[str], inside: str) -> Generator[str, None, str]:
    """The statements of a graph, or of the body `inside` a node; returns the line that ends it."""
    for name, kind in _inputs(head):
        yield f"{quoted(inside + name)} [label={quoted(f'{name}: {kind}')}, shape=oval]"
    for line in map(str.strip, lines):
        if line.startswith("}"):
            return line[1:]
        if line.startswith("return"):
            for place, name in enumerate(re.findall(r"%(\w+)", line)):
                end = quoted(f"{inside}out {place}")
                yield f"{end} [label={quoted(f'out {place}')}, shape=oval]"
                yield f"{quoted(inside + name)} -> {end}"
        elif (found := _NODE.match(line)) is not None:
            yield from _node(found, lines, inside)
    return ""


def _inputs(head: str) -> list[tuple[str, str]]:
    """(name, type) of the inputs of a graph; names of files in its head count for nothing."""
    return _INPUT.findall(_FILE.sub("", head).partition("->")[0])


def _node(found: re.Match, lines: Iterator[str], inside: str) -> Iterator[str]:
    name, op, operands, attributes, rest = found.groups()
    bodies, outside = 0, []  # a node that a frame's statement names would be in the frame
    while rest.endswith("{"):
        body = f"{inside}{name}.{bodies}/"
        outside += [f"{quoted(inside + name)} -> {quoted(body + one)} [style=dashed]"
                    for one, _ in _inputs(rest)]  # fmt: skip
        yield f"subgraph {quoted('cluster ' + body)} {{"
        yield f"label={quoted(rest.split('(')[0].removeprefix(' graph '))}"
        rest = yield from _graph(rest, lines, body)
        yield "}"
        bodies += 1
    yield from outside
    about = _ABOUT.match(rest)
    texts = (f"{op} {attributes or ''}".rstrip(), *(about.groups() if about else ()))
    label = "\n".join(text for text in texts if text)
    yield f"{quoted(inside + name)} [label={quoted(label)}]"
    for operand in re.findall(r"%(\w+)", operands or ""):
        yield f"{quoted(inside + operand)} -> {quoted(inside + name)}"


Graph = _core.Graph
Graph.dot, Graph.svg, Graph._repr_html_ = dot, svg, shown_in_notebook
