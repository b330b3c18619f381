# SPDX-License-Identifier: Apache-2.0
"""health(): what a call of a jitted function is made of, and what would make it faster or smaller.

    found = pto.health(attend, q, keys, lengths, out)
    print(found)                  # counts, and findings with advice
    found.peak_bytes, [one.kind for one in found.findings]

Nothing is compiled and nothing runs: it reads what explain() says of these arguments.

Thread safety: plain values.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pto import _core
from pto.cells import ShownAsText, preformatted, table
from pto.errors import InvalidType
from pto.language.explanation import Explanation
from pto.language.location import describe, user_line
from pto.language.plan import Step, name_of
from pto.language.tools import unbound

SMALL_BYTES = 64 << 10  # a kernel that moves less runs on one thread, and its call counts
_MANY_EQUAL = 3  # kernels, from which on they look unrolled
_CUBE = ("cube_m", "cube_k", "cube_n")


@dataclass(frozen=True)
class Finding:
    """Something that costs time or memory; `line` is the user's, or ""."""

    kind: str
    what: str
    advice: str
    line: str

    def __str__(self) -> str:
        at = f"{self.line}: " if self.line else ""
        return f"{at}{self.kind}: {self.what}\n  advice: {self.advice}"


@dataclass(frozen=True)
class Health(ShownAsText):
    """Counts of the traced graph, bodies included, and of the program that it becomes.

    `depth` is the longest chain of operations, `width` the most operations with chains of one
    length in front; `fan_in` and `fan_out` the most operands and readers of one. `homogeneity` is
    the share of the kernels that do the same as some other one, or 1 for a single kernel.
    `small_kernels` is the share that moves less than SMALL_BYTES in a call. `peak_bytes` is None
    where it depends on data.
    """

    name: str
    operations: dict[str, int]
    depth: int
    width: int
    fan_in: int
    fan_out: int
    kernels: int
    products: int
    loops: int
    peak_bytes: int | None
    threads: int
    homogeneity: float
    small_kernels: float
    findings: tuple[Finding, ...]

    def __str__(self) -> str:
        findings = self.findings or ["  nothing found"]
        return "\n".join([self._counts(), *map(str, findings)])

    def _cells(self) -> Iterator[str]:
        yield preformatted(self._counts() if self.findings else str(self))
        rows = [(one.kind, one.what, one.advice, one.line) for one in self.findings]
        yield table(("finding", "what", "advice", "line"), rows)

    def _counts(self) -> str:
        total = sum(self.operations.values())
        most = ", ".join(f"{n} {op}" for op, n in Counter(self.operations).most_common(6))
        peak = "depends on data" if self.peak_bytes is None else f"{self.peak_bytes} bytes"
        return "\n".join([
            f"{self.name}: {total} operations ({most})",
            f"  depth {self.depth}, width {self.width}, fan-in {self.fan_in}, "
            f"fan-out {self.fan_out}",
            f"  {self.kernels} kernels, {self.products} products, {self.loops} loops",
            f"  peak of values: {peak} on {self.threads} threads",
            f"  equal kernels {self.homogeneity:.0%}, small kernels {self.small_kernels:.0%}",
        ])  # fmt: skip


def health(function: Any, /, *args: Any, **kwargs: Any) -> Health:
    """Counts of a call with these arguments, and findings with advice.

    Example:
        @pto.jit
        def double(x):
            return x + x

        print(pto.health(double, x).operations)
    """
    function, args = unbound(function, args)
    explain = getattr(function, "explain", None)
    if explain is None:
        raise InvalidType(
            f"health: the function is {describe(function)}",
            "health tells of functions that become programs",
            "put @pto.jit on it, and pass it with the arguments of a call",
            user_line(),
        )
    found = explain(*args, **kwargs)
    kernels = found.steps_of("kernel")
    nodes = _nodes(found.graph)
    threads = _core.num_threads()
    depth, width = _extent(found.graph)
    kinds = Counter(map(_signature, kernels))
    small = [one for one in kernels if one.bytes is not None and one.bytes < SMALL_BYTES]
    equal = sum(count for count in kinds.values() if count > 1)
    return Health(
        name=found.graph.name,
        operations=dict(Counter(name_of(node) for node in nodes)),
        depth=depth,
        width=width,
        fan_in=max((len(node["operands"]) for node in nodes), default=0),
        fan_out=_fan_out(found.graph),
        kernels=len(kernels),
        products=len(found.steps_of("product")),
        loops=len(found.steps_of("loop")) + len(found.steps_of("while")),
        peak_bytes=None if found.reason else found.memory.peak(threads),
        threads=threads,
        homogeneity=1.0 if len(kernels) < 2 else equal / len(kernels),
        small_kernels=len(small) / len(kernels) if kernels else 0.0,
        findings=tuple(_findings(found, small, kinds)),
    )


def _is_operation(node: dict) -> bool:
    return node["form"] not in ("parameter", "constant") and node["op"] != "result"


def _graphs(graph: _core.Graph) -> Iterator[list[dict]]:
    """The nodes of a graph, and those of each body in it."""
    nodes = _core.nodes_of(graph)
    yield nodes
    for node in nodes:
        for body in node["bodies"]:
            yield from _graphs(body)


def _nodes(graph: _core.Graph) -> list[dict]:
    return [node for nodes in _graphs(graph) for node in nodes if _is_operation(node)]


def _fan_out(graph: _core.Graph) -> int:
    """The most operands that one operation is."""
    most = 0
    for nodes in _graphs(graph):
        reads = Counter(v for node in nodes for v in node["operands"])
        most = max([most, *(n for v, n in reads.items() if _is_operation(nodes[v]))])
    return most


def _extent(graph: _core.Graph) -> tuple[int, int]:
    """(depth, width); a loop or branch is as deep as its deepest body, and one operation wide."""
    depths: list[int] = []
    level: Counter[int] = Counter()
    width = 0
    for node in _core.nodes_of(graph):
        ahead = max((depths[v] for v in node["operands"]), default=0)
        inside = [_extent(body) for body in node["bodies"]]
        own = max([1, *(depth for depth, _ in inside)]) if _is_operation(node) else 0
        depths.append(ahead + own)
        if own:
            level[ahead] += 1
        width = max([width, *(wide for _, wide in inside)])
    return max(depths, default=0), max([width, *level.values()])


def _signature(kernel: Step) -> tuple:
    """Returns what equal kernels share: operations and ranks, not the names of sizes."""
    return kernel.operations, kernel.type.partition("[")[0], len(kernel.axes)


def _findings(found: Explanation, small: list[Step], kinds: Counter) -> Iterator[Finding]:
    if found.reason:
        advice = "write what it names in another way: the interpreter is slow"
        yield Finding("interpreter", found.reason, advice, "")
        return
    yield from _loops(found)
    yield from _tiles(found)
    yield from _memory(found)
    kernels = found.steps_of("kernel")
    for kernel in kernels:
        signature = _signature(kernel)
        if (count := kinds[signature]) >= _MANY_EQUAL:
            kinds[signature] = 0
            yield Finding("equal kernels", f"{count} kernels do {' '.join(kernel.operations)}",
                          "loop over pto.loop instead of Python's range, so that one kernel "
                          "serves all", next(iter(kernel.lines), ""))  # fmt: skip
    if len(small) > 1 and 2 * len(small) > len(kernels):
        yield Finding("small kernels", f"{len(small)} of {len(kernels)} kernels move less than "
                      f"{SMALL_BYTES} bytes in a call",
                      "take more rows at a time: a larger part, or unroll_list of pto.loop",
                      next(iter(small[0].lines), ""))  # fmt: skip


def _loops(found: Explanation) -> Iterator[Finding]:
    for loop in found.steps_of("loop"):
        if loop.order == "in order" and loop.trips != 1 and not loop.inside:
            advice = next(text for part, text in _ADVICE if part in loop.why)
            yield Finding("loop in order", loop.why, advice, loop.why_line)
    for loop in (one for one in found.steps_of("while") if not one.inside):
        yield Finding("loop in order", "a while loop runs one round behind the other",
                      "use pto.loop where the number of rounds is known in front",
                      next(iter(loop.lines), ""))  # fmt: skip


# By a part of the reason (ir/parallel_loop.cpp), the first that fits.
_ADVICE = (
    ("from the iteration before",
     "store each iteration's part in a row of its own, and join the rows behind the loop"),
    ("the body reads", "read one tensor and write into another"),
    ("may write the same part",
     "write to an offset that grows with the index by the size of the part"),
    ("step", "use a positive number as the step"),
    ("", "write into what is carried, or read it without carrying it"),
)  # fmt: skip


def _tiles(found: Explanation) -> Iterator[Finding]:
    """Sizes of this call that the hinted tiles do not divide."""
    told = set()
    for nodes in found.plan.graphs:
        for node in [n for one in nodes for n in _inside(one)]:
            for what, size, tile in _cut(found, nodes, node):
                key = (what, str(size), tile, *node["lines"][:1])
                if size is None or size % tile == 0 or key in told:
                    continue
                told.add(key)
                yield Finding("tile", f"{what} is {size}, and a tile has {tile}: the last one is "
                              f"{size % tile} wide", "choose a tile that divides the size, or pad "
                              "the tensor", next(iter(node["lines"]), ""))  # fmt: skip


def _inside(node: dict) -> list[dict]:
    """The operations of a kernel, or a step itself."""
    return _core.nodes_of(node["bodies"][0]) if node["op"] == "fused" else [node]


def _cut(found: Explanation, nodes: list[dict], node: dict) -> Iterator[tuple]:
    """(what, size, tile) of each axis for which a hint asks."""
    hints = {name: numbers for name, numbers, _ in node["hints"]}
    sizes, shape = found.plan.sizes, node["type"][1]
    if node["op"] == "matmul" and all(name in hints for name in _CUBE):
        inner = nodes[node["operands"][0]]["type"][1][-1]
        for name, size in zip(_CUBE, (shape[-2], inner, shape[-1]), strict=True):
            yield f"{name[-1]} of the product", sizes.exact(size), hints[name][-1]
    elif node["form"] in ("element", "reduction"):
        tile = hints.get("vec_tile", ())
        shape = shape if len(shape) == len(tile) else ()
        for axis, (size, step) in enumerate(zip(shape, tile, strict=False)):
            number = sizes.exact(size)
            if number is not None and number > step:
                yield f"axis {axis} of {node['op']}", number, step


def _memory(found: Explanation) -> Iterator[Finding]:
    for symbol, line in found.plan.sizes.unbounded.items():
        yield Finding("size from data", f"s{symbol} has no bound, so that the memory of what has "
                      "this size is unknown", "say the most it can be: pto.min(limit, n)",
                      line)  # fmt: skip
    for copy in found.memory.copies:
        if not copy.may_be_none:
            yield Finding("copy", f"{copy.type} is copied",
                          "compute it where it is kept, and read an old version before the write",
                          copy.line)  # fmt: skip
