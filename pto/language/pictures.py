# SPDX-License-Identifier: Apache-2.0
"""Pictures of graphs, drawn by Graphviz: softmax.trace(x).svg(), or a graph at the end of a cell.

    svg = graph.svg()            # text of an SVG; needs the program dot
    print(graph.dot())           # Graphviz's text of it, for which nothing is needed

A box is a node, with its operation, attributes, type and the user's line; an arrow is a value.
Loops and branches are one box each: their bodies stand in str(graph).

Thread safety: pure functions.
"""

import json
import re
from collections.abc import Iterator

from pto import _core
from pto.cells import preformatted
from pto.errors import Failure, InvalidValue

MOST_NODES = 1000
_NODE = re.compile(r"  %(\w+) = (\w+)(?:\(([^)]*)\))?(?: \{([^}]*)\})?(.*)")
_ABOUT = re.compile(r" : (.*?)(?: @ (\".*\":\d+))?$")  # type and line; of a loop, behind its body
_INPUT = re.compile(r"%(\w+): ((?:constant |scalar )?\w+(?:\[[^]]*\])?)")


def dot(graph: _core.Graph) -> str:
    """The graph in Graphviz's language."""
    lines = str(graph).splitlines()
    parts = ["digraph {", "  node [shape=box, fontname=monospace, fontsize=10]"]
    for name, kind in _INPUT.findall(lines[0].partition("->")[0]):
        parts.append(f"  {_quoted(name)} [label={_quoted(f'{name}: {kind}')}, shape=oval]")
    parts += _nodes(lines)
    returned = next((line for line in lines if line.startswith("  return")), "")
    for place, name in enumerate(re.findall(r"%(\w+)", returned)):
        parts.append(f'  "out {place}" [shape=oval]')
        parts.append(f'  {_quoted(name)} -> "out {place}"')
    return "\n".join([*parts, "}"]) + "\n"


def _nodes(lines: list[str]) -> Iterator[str]:
    count = 0
    for line in lines[1:]:
        if (found := _NODE.match(line)) is None:
            continue
        count += 1
        if count > MOST_NODES:
            raise InvalidValue(f"a picture of a graph with more than {MOST_NODES} nodes",
                               "nobody could read it", "print(graph)")  # fmt: skip
        name, op, operands, attributes, rest = found.groups()
        about = None if rest.endswith("{") else _ABOUT.match(rest)
        texts = (f"{op} {attributes or ''}".rstrip(), *(about.groups() if about else ()))
        label = "\n".join(text for text in texts if text)
        yield f"  {_quoted(name)} [label={_quoted(label)}]"
        for operand in re.findall(r"%(\w+)", operands or ""):
            yield f"  {_quoted(operand)} -> {_quoted(name)}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def svg(graph: _core.Graph) -> str:
    """The picture as the text of an SVG; Failure where Graphviz is not installed."""
    import shutil  # seldom needed, slow to load
    import subprocess

    text = dot(graph)
    program = shutil.which("dot")
    if program is None:
        raise Failure(
            "graph.svg(): the program dot was not found on PATH",
            "Graphviz lays out the picture",
            "apt install graphviz, or draw graph.dot() elsewhere",
        )
    command = [program, "-Tsvg"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise Failure("graph.svg(): dot refused the graph", done.stderr.strip()[:400],
                      "print(graph.dot())")  # fmt: skip
    return done.stdout[max(done.stdout.find("<svg"), 0) :]


def shown_in_notebook(graph: _core.Graph) -> str:
    """The picture where it can be drawn, else the text."""
    try:
        return svg(graph)
    except Exception:  # noqa: BLE001 a cell shows the text where the picture fails
        return preformatted(str(graph))


Graph = _core.Graph
Graph.dot, Graph.svg, Graph._repr_html_ = dot, svg, shown_in_notebook
