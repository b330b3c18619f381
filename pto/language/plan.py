# SPDX-License-Identifier: Apache-2.0
"""The plan of a compiled program as data: its steps, and the memory of its values.

    plan = plan_of(_core.explain(graph, dump, strides), {0: 4096, 1: 64})
    plan.steps                # kernels, products, loops with the steps of their bodies ...
    plan.memory.peak(1)       # bytes that its values take at one time, on one thread

It reads what the code generator recorded while it printed (codegen/outline.hpp). Sizes from data
count with their largest value where the program says one, as `pto.min(page, n)` does.

Thread safety: plain values.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pto import _core
from pto.kept import kept
from pto.language.upper_bounds import Sizes, bytes_of, type_text

_KINDS = {"fused": "kernel", "matmul": "product", "repeat": "while", "update": "write"}
_KINDS_OF_FORMS = {"part": "address", "moved": "address", "element": "number",
                   "constant": "number", "number": "number"}  # fmt: skip
KINDS = {*_KINDS.values(), *_KINDS_OF_FORMS.values(), "loop", "branch", "result", "concat",
         "gather", "scatter", "scatter_add", "sort", "sort_descending", "cumsum", "cumprod",
         "cummax", "cummin", "empty", "iota", "tile"}  # fmt: skip
_QUIET = ("number", "address", "result")


@dataclass(frozen=True)
class Step:
    """A statement of a program: a kernel, a product, a loop, or an operation of its own.

    `operations` are those of a kernel; `steps` those of the bodies. `order` says whether the
    iterations of a loop run "side by side", where their work pays for it, or "in order", and `why`
    the reason for the latter. `nest` says whether it changed places with the loop in its body,
    where that would read memory in order. A step `inside` of a loop side by side runs on the thread
    of its iteration. It is cut into at most `workers` tasks, of `tiles_per_task` rows, pieces or
    iterations; 0 leaves that to the machine. `ends` says of a kernel why it does not go on; `bytes`
    counts what it reads and writes, and is None where that depends on data.
    """

    number: int
    block: int
    value: int  # the node in its block's graph
    kind: str
    name: str
    operations: tuple[str, ...]
    lines: tuple[str, ...]
    label: str
    type: str
    axes: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    workers: int = 0
    tiles_per_task: int = 0
    order: str = ""
    why: str = ""
    why_line: str = ""
    nest: str = ""
    inside: bool = False
    trips: int | None = None
    bytes: int | None = None
    steps: tuple["Step", ...] = ()

    @property
    def title(self) -> str:
        """Its name in texts and traces: 'kernel softmax_0 "row"'."""
        text = f"{self.kind} {self.name}" if self.kind != self.name else self.kind
        return text + (f' "{self.label}"' if self.label else "")

    @property
    def is_quiet(self) -> bool:
        """True where it only computes a number or an address."""
        return self.kind in _QUIET

    def all(self) -> Iterator["Step"]:
        """This step and those inside."""
        yield self
        for step in self.steps:
            yield from step.all()


@dataclass(frozen=True)
class Value:
    """Memory that a program takes beside inputs and outputs, until the end of its block.

    `size` is the number of bytes as a program over the sizes s0, s1 ...; `bytes` its value.
    """

    name: str
    type: str
    size: str
    bytes: int | None
    block: int
    step: int
    line: str


@dataclass(frozen=True)
class Copy:
    """Elements that the program copies: none where source and target turn out to be one place."""

    type: str
    bytes: int | None
    line: str
    may_be_none: bool


@dataclass(frozen=True)
class MemoryPlan:
    """Where the values of a program lie.

    `shared` names the steps whose results lie in one memory; `in_place` the inputs in whose memory
    outputs are computed where the caller's arrays allow it.
    """

    values: tuple[Value, ...]
    copies: tuple[Copy, ...]
    shared: dict[str, tuple[str, ...]]
    in_place: tuple[tuple[int, str], ...]
    blocks: tuple[tuple[int, int], ...]  # (step whose body it is, place among its bodies)
    loops: dict[int, tuple[bool, int | None]]  # step: runs side by side, trips
    steps: tuple[int, ...]  # the block of each step

    def peak(self, threads: int) -> int | None:
        """The most bytes of values at one time: None where sizes from data have no bound."""
        if any(value.bytes is None for value in self.values):
            return None
        return self._peak(0, threads)

    def _peak(self, block: int, threads: int) -> int:
        """Adds up what one block took so far and the largest body that runs meanwhile."""
        running = most = 0
        for step in (at for at, place in enumerate(self.steps) if place == block):
            running += sum(v.bytes or 0 for v in self.values if (v.block, v.step) == (block, step))
            side, trips = self.loops.get(step, (False, None))
            workers = threads if trips is None else max(1, min(threads, trips))
            bodies = (at for at, (owner, _) in enumerate(self.blocks) if owner == step and at)
            inside = [self._peak(at, 1 if side and workers > 1 else threads) for at in bodies]
            most = max(most, running + max(inside, default=0) * (workers if side else 1))
        owner = self.blocks[block][0]
        running += sum(v.bytes or 0 for v in self.values if (v.block, v.step) == (block, owner))
        return max(most, running)


class Plan:
    """The steps and the memory of one program, for the sizes of one call."""

    def __init__(self, found: dict[str, Any], sizes: dict[int, int], inputs: list[str]):
        self.found, self.inputs = found, inputs
        self.graphs, self.sizes = self._graphs(), Sizes(sizes)
        for block, nodes in enumerate(self.graphs):
            self.sizes.learn(block, nodes, self._owner(block))

    def _graphs(self) -> list[list[dict]]:
        """The nodes of each block."""
        graphs: list[list[dict]] = []
        for step, body in self.found["blocks"]:
            if step < 0:
                graphs.append(_core.nodes_of(self.found["graph"]))
                continue
            owner = self.found["steps"][step]
            node = graphs[owner["block"]][owner["value"]]
            graphs.append(_core.nodes_of(node["bodies"][body]))
        return graphs

    def node(self, step: int) -> dict:
        """The node of which a step is made."""
        one = self.found["steps"][step]
        return self.graphs[one["block"]][one["value"]]

    def trips(self, step: int) -> int | None:
        """How often a loop runs, where the arguments' sizes say so."""
        block = self.found["steps"][step]["block"]
        return self.sizes.trips(block, self.graphs[block], self.node(step))

    def outputs(self, block: int) -> list[int]:
        """The values of a block that leave it."""
        step, body = self.found["blocks"][block]
        graph = self.found["graph"] if step < 0 else self.node(step)["bodies"][body]
        return graph.output_values

    def _owner(self, block: int) -> tuple[int, dict] | None:
        """The block and node whose body a block is."""
        step = self.found["blocks"][block][0]
        return None if step < 0 else (self.found["steps"][step]["block"], self.node(step))

    @kept
    def steps(self) -> tuple[Step, ...]:
        return self._steps_of(0)

    def _steps_of(self, block: int) -> tuple[Step, ...]:
        found = self.found["steps"]
        return tuple(self._step(at) for at, one in enumerate(found) if one["block"] == block)

    def _step(self, at: int) -> Step:
        one, node = self.found["steps"][at], self.node(at)
        kind, body = kind_of(node), _core.nodes_of(node["bodies"][0]) if node["bodies"] else []
        inner = [n for n in body if n["form"] != "parameter"] if kind == "kernel" else []
        about = inner or [node]
        is_loop = kind == "loop"
        blocks = [b for b, (step, _) in enumerate(self.found["blocks"]) if step == at and b]
        return Step(
            number=at,
            block=one["block"],
            value=one["value"],
            kind=kind,
            name=one["function"] or node["op"],
            operations=tuple(_names_of(inner)),
            lines=tuple(dict.fromkeys(n["lines"][0] for n in about if n["lines"])),
            label=label_of(about),
            type=type_text(node["type"]),
            axes=tuple(f"{size}{' reduced' if reduced else ''}" for size, reduced in one["axes"]),
            places=tuple(dict.fromkeys(one["places"])),
            ends=tuple(self._ends(one)) if kind == "kernel" else (),
            workers=one["workers"],
            tiles_per_task=one["tiles_per_task"],
            order=("side by side" if one["is_parallel"] else "in order") if is_loop else "",
            why=one["why"],
            why_line=one["why_line"],
            nest=_nest_of(node),
            inside=self._is_inside(one["block"]),
            trips=self.trips(at) if is_loop else None,
            bytes=self._bytes(node, body) if kind == "kernel" else None,
            steps=tuple(step for b in blocks for step in self._steps_of(b)),
        )

    def _is_inside(self, block: int) -> bool:
        """Says whether a loop around a block runs side by side, in more than one iteration."""
        at = self.found["blocks"][block][0]
        if at < 0:
            return False
        step = self.found["steps"][at]
        return (step["is_parallel"] and self.trips(at) != 1) or self._is_inside(step["block"])

    def _bytes(self, node: dict, body: list[dict]) -> int | None:
        """Counts the inputs and outputs of a kernel."""
        kinds = [one["type"] for one in body if one["form"] == "parameter"]
        sizes = [self.sizes.most(bytes_of(kind)) for kind in kinds + node["bodies"][0].outputs]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    def _ends(self, one: dict) -> Iterator[str]:
        """Why a kernel ends where it does: who reads what it computes."""
        nodes = self.graphs[one["block"]]
        results = [v for v, node in enumerate(nodes) if node["op"] == "result"]
        made = {one["value"]} | {v for v in results if nodes[v]["operands"][0] == one["value"]}
        loops = {step["value"]: step["axes"] for step in self.found["steps"]
                 if step["block"] == one["block"] and step["function"]}  # fmt: skip
        is_read = False
        for value, node in enumerate(nodes):
            if value in made or not made & set(node["operands"]):
                continue
            is_read = True
            line = f" at {node['lines'][0]}" if node["lines"] else ""
            if node["op"] == "fused":
                yield _between(one["axes"], loops.get(value, []))
            elif node["op"] == "update":
                yield f"the write{line} keeps its result"
            else:
                yield f"{_READERS.get(node['op'], node['op'])}{line} reads its result from memory"
        if not is_read:
            yield "its result is one of the program" if one["block"] == 0 else "the body ends"

    @kept
    def memory(self) -> MemoryPlan:
        found = self.found
        values = [
            Value(name, type_text(kind), str(size := bytes_of(kind)), self.sizes.most(size), block,
                  step, self._line(step))
            for name, block, step, kind in found["memory"]
        ]  # fmt: skip
        copies = [
            Copy(type_text(kind), self.sizes.most(bytes_of(kind)), self._line(step), maybe)
            for _, step, kind, maybe in found["copies"]
        ]
        loops = {at: (step["is_parallel"], self.trips(at))
                 for at, step in enumerate(found["steps"])
                 if self.node(at)["op"] == "loop"}  # fmt: skip
        in_place = [(k, self.inputs[i]) for k, i in enumerate(found["replaces"]) if i >= 0]
        return MemoryPlan(
            tuple(values), tuple(copies), self._shared(), tuple(in_place),
            tuple(found["blocks"]), loops, tuple(step["block"] for step in found["steps"]),
        )  # fmt: skip

    def _shared(self) -> dict[str, tuple[str, ...]]:
        """The memories in which several steps have their results."""
        users: dict[str, list[str]] = {}
        for step in (inner for one in self.steps for inner in one.all()):
            for place in step.places:
                users.setdefault(place, []).append(step.name)
        return {self.place_name(p): tuple(names) for p, names in users.items() if len(names) > 1}

    def place_name(self, place: str) -> str:
        """A memory as a user knows it: "output 0", or a value of the program, "v12"."""
        if not place.startswith("p") or not place[1:].isdigit():
            return place
        at, outputs = int(place[1:]), len(self.found["replaces"])
        if at < len(self.inputs):
            return self.inputs[at]
        return f"output {at - len(self.inputs)}" if at < len(self.inputs) + outputs else place

    def _line(self, step: int) -> str:
        if step < 0:
            return ""
        node = self.node(step)
        inside = _core.nodes_of(node["bodies"][0]) if node["op"] == "fused" else [node]
        return next((n["lines"][0] for n in reversed(inside) if n["lines"]), "")


_READERS = {"matmul": "the product", "loop": "the loop", "repeat": "the loop",
            "branch": "the branch", "view": "the part"}  # fmt: skip


def _between(first: list, second: list) -> str:
    """Why two kernels are two."""
    a, b = ([str(size) for size, _ in axes] for axes in (first, second))
    reduced = [str(size) for size, is_reduced in first if is_reduced]
    if a != b:
        return f"the next kernel loops over [{', '.join(b)}], this one over [{', '.join(a)}]"
    if reduced:
        return f"the next kernel needs the whole of what this one reduces over {', '.join(reduced)}"
    return "the next kernel runs in a later stage of the same loops"


def _nest_of(node: dict) -> str:
    """Whether a loop that reads beside its next iteration runs inside of the loop in its body."""
    hints = {name: text for name, _, text in node["hints"]}
    if "any_step" in hints:
        return "groups of iterations run inside of the loop in its body: they read side by side"
    kept = hints.get("keeps_order")
    return (
        f"runs outside of the loop in its body, though they read side by side: {kept}"
        if kept
        else ""
    )


def name_of(node: dict) -> str:
    """Returns the operation of a node, or the user's that it belongs to."""
    if node["op"] == "tile":
        return node["name"]
    return next((text for name, _, text in node["hints"] if name == "tile_op"), node["op"])


def _names_of(nodes: list[dict]) -> Iterator[str]:
    """The operations of a kernel; those of a user once for each line that calls them."""
    last = None
    for node in nodes:
        if node["form"] == "constant":
            continue
        name = name_of(node)
        if name == node["op"] or (name, node["lines"]) != last:
            yield name
        last = (name, node["lines"])


def kind_of(node: dict) -> str:
    return _KINDS.get(node["op"]) or _KINDS_OF_FORMS.get(node["form"], node["op"])


def label_of(nodes: list[dict]) -> str:
    """Returns the label of the first operation that has one, else the name of its leaf."""
    for wanted in ("label", "leaf"):
        for node in nodes:
            for name, _, text in node["hints"]:
                if name == wanted:
                    return text
    return ""
