# SPDX-License-Identifier: Apache-2.0
"""Rooflines: the work of a statement, by its shapes, and the least time that it takes here.

    work = work_of(plan, step, plan.sizes)   # bytes, multiply-adds, functions of elements
    seconds(work, threads=2)           # no execution is faster

A roofline is the larger of bytes / bandwidth of that working set and the sum of work / peak over
the multiply-adds and the functions, since these share ports. Bandwidths and peaks are measured
where they are first needed, and kept for the process.

Thread safety: any thread; two that measure at once disturb each other.
"""

import functools
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pto import _core, ceilings
from pto.errors import Error
from pto.language.plan import Plan, Step
from pto.language.upper_bounds import Sizes, bytes_of, symbols_of

# Functions that take longer than a multiply-add; other operations count as one.
FUNCTIONS = ("exp", "log", "tanh", "erf", "sin", "cos", "sqrt", "rsqrt", "reciprocal")
_ELEMENTS = 1 << 12  # of a function's measurement, so few that one thread computes them
_SMALLEST, _LARGEST = 16 << 10, 64 << 20  # working sets whose bandwidth is measured
_AT_ONCE = 4 << 20  # bytes of a call
_SECONDS = 2e-3  # that a measurement takes at least
_STEPS = ("matmul", "concat", "gather", "cumsum", "cumprod", "cummax", "cummin")


@dataclass(frozen=True)
class Work:
    """One execution: bytes read and written, multiply-adds of `dtype`, and elements of functions;
    "" counts the operations that take about as long as a multiply-add."""

    read: int
    written: int
    multiply_adds: int = 0
    dtype: str = "f32"
    functions: dict[str, int] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return self.read + self.written

    @property
    def operations(self) -> int:
        """Multiply-adds, and operations on elements."""
        return self.multiply_adds + sum(self.functions.values())


def work_of(plan: Plan, step: Step, sizes: Sizes) -> Work | None:
    """The work of a statement; None where it depends on data, or of one that holds others."""
    node = plan.graphs[step.block][step.value]
    try:
        if step.kind == "kernel":
            return _kernel(sizes, node)
        return _operation(plan, sizes, step, node) if node["op"] in _STEPS else None
    except _FromData:
        return None


def works_of(plan: Plan, step: Step, executions: list[dict[int, int]]) -> list[tuple[Work, int]]:
    """The works of executions, and how often each was done; each has its sizes from data."""
    node = plan.graphs[step.block][step.value]
    kinds = [plan.graphs[step.block][v]["type"] for v in node["operands"]]
    kinds += [node["type"], *(n["type"] for body in node["bodies"] for n in _core.nodes_of(body))]
    needed = set[int]().union(*(symbols_of(size) for kind in kinds for size in kind[1]))
    found = Counter(tuple((one, sizes[one]) for one in sorted(needed & sizes.keys()))
                    for sizes in executions)  # fmt: skip
    works = [(work_of(plan, step, plan.sizes.where(dict(data))), count)
             for data, count in found.items()]  # fmt: skip
    return [(work, count) for work, count in works if work is not None]


class _FromData(Exception):
    pass


def _exact(sizes: Sizes, size: Any) -> int:
    found = sizes.exact(size)
    if found is None:
        raise _FromData
    return found


def _elements(sizes: Sizes, kind: tuple) -> int:
    total = 1
    for size in kind[1]:
        total *= _exact(sizes, size)
    return total


def _moved_from(nodes: list[dict], v: int) -> int:
    """The node of which another one is the elements, addressed in another way."""
    while nodes[v]["form"] == "moved":
        v = nodes[v]["operands"][0]
    return v


def _kernel(sizes: Sizes, node: dict) -> Work:
    body = node["bodies"][0]
    nodes = _core.nodes_of(body)
    gathers = [n for n in nodes if n["op"] == "gather"]
    tables = {_moved_from(nodes, n["operands"][0]) for n in gathers}  # of which rows are read
    parameters = (n for v, n in enumerate(nodes) if n["form"] == "parameter" and v not in tables)
    read = sum(_exact(sizes, bytes_of(n["type"])) for n in (*parameters, *gathers))
    written = sum(_exact(sizes, bytes_of(kind)) for kind in body.outputs)
    functions: Counter[str] = Counter()
    for one in nodes:
        if one["form"] in ("element", "reduction"):
            of = nodes[one["operands"][0]] if one["form"] == "reduction" else one
            name = one["op"] if one["op"] in FUNCTIONS else ""
            functions[name] += _elements(sizes, of["type"])
    return Work(read, written, functions=dict(functions))


def _operation(plan: Plan, sizes: Sizes, step: Step, node: dict) -> Work:
    operands = [plan.graphs[step.block][v]["type"] for v in node["operands"]]
    read = sum(_exact(sizes, bytes_of(kind)) for kind in operands)
    written = _exact(sizes, bytes_of(node["type"]))
    if node["op"] == "gather":  # reads as much as it writes, and the places
        read = written + _exact(sizes, bytes_of(operands[1]))
    if node["op"] != "matmul":
        return Work(read, written)
    inner = _exact(sizes, operands[0][1][-1])
    return Work(read, written, _elements(sizes, node["type"]) * inner, operands[0][0])


def seconds(work: Work, threads: int) -> float:
    """The least time of one execution on so many threads."""
    copied = 2 * min(work.read, work.written)
    traffic = copied / copy_rate(work.bytes, threads)
    traffic += max(0, work.read - work.written) / read_rate(work.bytes, threads)
    traffic += max(0, work.written - work.read) / copy_rate(work.bytes, threads)
    computed = work.multiply_adds / peak(work.dtype, threads)
    for name, elements in work.functions.items():
        computed += elements / (function_rate(name, threads) if name else peak("f32", threads))
    return max(traffic, computed)


# --- measurements --------------------------------------------------------------------------------


def _least(run: Callable[[], Any]) -> float:
    """The least time of a call, of at least a few."""
    least, began, calls = float("inf"), time.perf_counter(), 0
    while calls < 5 or time.perf_counter() - began < _SECONDS:
        start = time.perf_counter()
        run()
        least = min(least, time.perf_counter() - start)
        calls += 1
    return least


def _set_of(nbytes: int) -> int:
    """The working set that stands for so many bytes: the next power of four, within limits."""
    size = _SMALLEST
    while size < min(nbytes, _LARGEST):
        size *= 4
    return min(size, _LARGEST)


def _times(nbytes: int) -> int:
    """The passes of one call, so that a launch counts little."""
    return max(1, _AT_ONCE // nbytes)


def read_rate(nbytes: int, threads: int) -> float:
    """Bytes that so many threads read in a second, of a working set of that size."""
    return _read_rate(_set_of(nbytes), threads)


def copy_rate(nbytes: int, threads: int) -> float:
    """The same of bytes that are read and written."""
    return _copy_rate(_set_of(nbytes), threads)


@functools.cache
def _read_rate(nbytes: int, threads: int) -> float:
    import numpy

    memory, times = numpy.ones(nbytes, numpy.uint8), _times(nbytes)
    return times * nbytes / _least(ceilings.Read(memory, threads, times))


@functools.cache
def _copy_rate(nbytes: int, threads: int) -> float:
    import numpy

    memory, to = numpy.ones(nbytes // 2, numpy.uint8), numpy.ones(nbytes // 2, numpy.uint8)
    times, ways = _times(nbytes), (False, True) if nbytes > (2 << 20) else (False,)
    return max(times * nbytes / _least(ceilings.Copy(to, memory, threads, past, times))
               for past in ways)  # fmt: skip


def peak(dtype: str, threads: int) -> float:
    """Multiply-adds in a second, in the best way of the CPU for the present matmul_precision."""
    return _peak(tuple(ceilings.ways(dtype, has_parts=True)), threads)


@functools.cache
def _peak(ways: tuple[tuple[str, int], ...], threads: int) -> float:
    found = [0.0]
    for kind, products in ways:
        one = ceilings.Peak(kind, threads)
        if one.multiply_adds:
            found.append(one.multiply_adds / products / _least(one))
    return max(found) or float("inf")


class Function:
    """Computes a function of one row in the first cache."""

    def __init__(self, name: str) -> None:
        import numpy

        from pto.language import elementwise

        self._name, self._function = name, getattr(elementwise, name)
        self._row = numpy.full(_ELEMENTS, 0.5, numpy.float32)

    def __call__(self) -> Any:
        return self._function(self._row)

    def elements(self, threads: int) -> float:
        """How many such threads compute in the time of a call, without its cost."""
        return function_rate(self._name, threads) * _least(self)


@functools.cache
def function_rate(name: str, threads: int) -> float:
    """Elements of a function in a second, on so many threads; without the cost of its call."""
    try:
        calls = Function(name), Function("neg")
        one, cheap = (min(_least(run) for _ in range(4)) for run in calls)  # the first compiles
    except (AttributeError, Error):  # no array form
        return peak("f32", threads)
    rate = _ELEMENTS * threads / (one - cheap) if one > cheap else float("inf")
    return min(rate, peak("f32", threads))
