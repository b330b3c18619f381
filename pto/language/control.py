# SPDX-License-Identifier: Apache-2.0
"""Loops of a program, over numbers that are known only when it runs.

    total = pto.zeros([4])
    for i in pto.loop(lengths[0]):              # Python's range unrolls, pto.loop makes a loop
        total = total + x[i]                    # carried from one iteration to the next

The body is traced once, and not at all where the loop is known to have no iteration: what it would
read may not exist. rewrite_source.py turns the `for` into a call of run_loop(), with the body
as a function of the variables that it assigns; these, and tensors that it writes into, are carried.

Invariant: what leaves a body has the type with which it came in.
Thread safety: as a trace.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from pto import _core
from pto.errors import InvalidType, InvalidValue
from pto.language.carried import Carried, Undefined, as_traced, enter, leaving
from pto.language.dtypes import boolean, i64
from pto.language.elementwise import eq, ge, gt, le, where
from pto.language.leaves import Leaves
from pto.language.location import describe, fail, user_line
from pto.language.not_carried import check_names, held
from pto.language.scope import Captured, Scope
from pto.language.stepping import stepped, stepped_loop
from pto.language.symbol import is_whole, unwrapped
from pto.language.tensor import Tensor
from pto.language.trace import Trace, current, is_tracing
from pto.language.types import cast, constant
from pto.language.whole import max, plain, whole


class loop:
    """The iterations of a loop of the program: `for i in pto.loop(stop)`, or start, stop, step.

    `unroll_list=[8, 2]` runs the body eight times in one iteration, then twice, then once for what
    is left. A condition as a bound counts as 0 or 1. Outside a traced function it counts as range()
    does.

    Formula: for k in range(start, stop, step)
    Shapes: bounds have no axes; carried tensors keep their shapes
    Example:
        total = v * 0
        for k in pto.loop(x.shape[0]):
            total = total + x[k]
        return total
    """

    takes_pairs = False

    def __init__(self, *bounds: Any, name: str = "loop", idx_name: str = "i",
                 parallel: bool = False, unroll_list: Sequence[int] = ()):  # fmt: skip
        if not 1 <= len(bounds) <= 3:
            fail(f"loop: {len(bounds)} bounds", "a loop takes stop, or start, stop and step",
                 "pass one to three whole numbers", InvalidType)  # fmt: skip
        bounds = tuple(map(_counted, bounds))
        self.start, self.stop = (0, bounds[0]) if len(bounds) == 1 else bounds[:2]
        self.step = bounds[2] if len(bounds) == 3 else 1
        self.name, self.idx_name, self.parallel = name, idx_name, parallel
        self.factors = self._factors(unroll_list)

    def __reversed__(self) -> NoReturn:
        fail("reversed() of a pto.loop", "a loop of the program counts from start to stop",
             "count down: pto.loop(stop - 1, start - 1, -1)", InvalidType)  # fmt: skip

    def _factors(self, unroll_list: Sequence[int]) -> list[int]:
        """How many iterations each version of the body makes, the largest first, 1 the last."""
        if not isinstance(unroll_list, list | tuple) or not all(
            isinstance(k, int) and not isinstance(k, bool) and k > 0 for k in unroll_list
        ):
            fail(f"loop: the unroll_list is {unroll_list!r}"[:80],
                 "it says how many iterations each version of the body makes",
                 "pass a list of positive integers", InvalidType)  # fmt: skip
        return sorted({*unroll_list, 1}, reverse=True)

    def _count(self) -> Any:
        """The number of iterations; the step is known while tracing."""
        step = plain(self.step) if is_whole(self.step) else self.step
        if not isinstance(step, int) or step == 0:
            fail(f"loop: an unroll_list with the step {self.step!r}"[:80],
                 "the versions of the body are one step apart, which is known while tracing",
                 "use an integer as the step", InvalidType)  # fmt: skip
        first, last = (self.start, self.stop) if step > 0 else (self.stop, self.start)
        return max((plain(last) - plain(first) + abs(step) - 1) // abs(step), 0)

    def bounds(self, trace: Trace, start: Any, stop: Any, factor: int) -> list[Tensor]:
        step = plain(self.step) if is_whole(self.step) else self.step
        if isinstance(step, int) and step == 0:
            fail("loop: the step is 0", "a loop must come to its end",
                 "use a positive or negative step")  # fmt: skip
        return [whole(trace, n, "loop") for n in (start, stop, factor * step)]

    def never_runs(self) -> bool:
        """Says whether numbers that are known while tracing leave no iteration."""
        ends = [plain(n) if is_whole(n) else n for n in (self.start, self.stop, self.step)]
        return all(isinstance(n, int) for n in ends) and ends[2] != 0 and not range(*ends)

    def check_apart(self, body: _core.Graph, factor: int) -> None:
        """Refuses parallel=True where iterations of the body write one place for certain."""
        ends = [plain(n) if is_whole(n) else n for n in (self.start, self.stop, self.step)]
        is_known = all(isinstance(n, int) for n in ends)
        if not self.parallel or (is_known and len(range(*ends)) <= factor):
            return
        step = ends[2] if isinstance(ends[2], int) else 0
        if conflict := _core.loop_conflict(body, step * factor):
            why, line = conflict
            raise InvalidValue(
                f"loop: parallel=True, but {why}",
                "iterations that run side by side have no order, so which write is the last one "
                "would be left to chance",
                "write a part of its own in each iteration, out[i] = y, and reduce behind the "
                "loop; or leave parallel=True away: then it runs in order",
                line or user_line(),
            )

    def __iter__(self) -> Iterator[int]:
        if is_tracing():
            fail(
                "pto.loop in a function whose text was not read",
                "the text of a function under @pto.jit, and of functions that it calls by their "
                "names, is read to find what loops carry; others are traced as they are",
                "call it by its name, behind its def; or put @pto.jit on it; a range() unrolls",
                InvalidType,
            )
        return iter(range(self.start, self.stop, self.step))


def _counted(bound: Any) -> Any:
    """A condition as a number, 0 or 1; any other bound as it is."""
    value = unwrapped(bound)
    if isinstance(value, Tensor) and value.ndim == 0 and value.dtype is boolean:
        return Tensor(value.trace, cast(value, i64).value, weak=True)
    return int(value) if isinstance(value, bool) else bound


class loop_unroll(loop):
    """A loop whose body makes several iterations: `for i, k in loop_unroll(n, unroll_list=[8])`.

    i is the first of k iterations. One version of the body is traced for each k of the list, the
    largest first, and for 1.

    Formula: for k in range(start, stop, step), several k at a time
    Shapes: bounds have no axes; carried tensors keep their shapes
    Example:
        total = x[:, 0]
        for k, count in pto.loop_unroll(1, 3, unroll_list=[2]):
            total = total + pto.sum(x[:, k : k + count], 1)
        return total
    """

    takes_pairs = True

    def __iter__(self) -> Iterator[Any]:
        indices = [*super().__iter__()]
        for k in self.factors:
            while len(indices) >= k:
                yield indices[0], k
                indices = indices[k:]


class Index(Tensor):
    """The index of a loop, which knows where the loop begins and ends."""

    __slots__ = ("over", "width")

    def __init__(self, x: Tensor, over: loop, width: Any):
        super().__init__(x.trace, x.value, weak=True)
        self.over, self.width = over, width  # it stands for the iterations of this width


def is_loop_begin(index: Index) -> Tensor:
    """Says whether this iteration is the first of its loop.

    Formula: index == start
    Shapes: the index and the result have no axes
    Example:
        found = v * 0
        for k in pto.loop(2):
            if pto.is_loop_begin(k):
                found = x[k]
        return found
    """
    over = _loop_of("is_loop_begin", index)
    return eq(index, whole(index.trace, over.start, "loop"))


def is_loop_end(index: Index) -> Tensor:
    """Says whether this iteration is the last of its loop.

    Formula: index + step >= stop
    Shapes: the index and the result have no axes
    Example:
        found = v * 0
        for k in pto.loop(2):
            if pto.is_loop_end(k):
                found = x[k]
        return found
    """
    over = _loop_of("is_loop_end", index)
    after = index + index.width
    step, stop = plain(over.step), whole(index.trace, over.stop, "loop")
    if isinstance(step, int):
        return ge(after, stop) if step > 0 else le(after, stop)
    return where(gt(whole(index.trace, step, "loop"), 0), ge(after, stop), le(after, stop))


def _loop_of(name: str, index: Any) -> loop:
    if not isinstance(index, Index):
        fail(f"{name}: {describe(index)} is no index of a loop",
             "the index of a pto.loop knows where its loop begins and ends",
             "pass the variable of `for i in pto.loop(...)` itself", InvalidType)  # fmt: skip
    return index.over


def run_loop(body: Callable, over: Any, names: tuple[str, ...], outer: dict[str, Any]) -> tuple:
    """The values behind a loop of the variables that its body assigns.

    `body` takes the index and the variables, and returns its locals(); `outer` has the variables
    in front of the loop.
    """
    trace = current("loop")
    given = {
        name: outer.get(name, Undefined(name, "it gets one in the loop only")) for name in names
    }
    leaves = Leaves.of(given)
    body, given = leaves.body(held("loop", body, outer)), leaves.apart(given)
    usual = functools.partial(_run_all, trace, body, over, given)
    if trace.is_stepping:
        return leaves.behind(stepped(trace, usual, lambda: _step(trace, body, over, given)))
    return leaves.behind(usual())


def _step(trace: Trace, body: Callable, over: loop, given: dict[str, Any]) -> tuple:
    """The variables behind a loop that runs in steps."""
    ends = [int(trace.steps.value(n)) for n in over.bounds(trace, over.start, over.stop, 1)]
    left = [*range(*ends)]

    def next_round(entered: dict[str, Any]) -> dict[str, Any] | None:
        if not left:
            return None
        factor = next(k for k in over.factors if k <= len(left)) if over.takes_pairs else 1
        index = Tensor(trace, constant(trace, left[0], i64).value, weak=True)
        del left[:factor]
        return _iterations(body, over, factor, index, entered)

    return stepped_loop(trace, given, next_round)


def _run_all(trace: Trace, body: Callable, over: loop, given: dict[str, Any]) -> tuple:
    """The variables behind the loops that `over` stands for, one for each factor."""
    if over.never_runs():
        trace.skipped += 1
        return tuple(given.values())
    if over.factors == [1]:
        return _run_once(trace, body, over, 1, (over.start, over.stop), given)
    start, left = plain(over.start), over._count()
    for factor in over.factors:
        groups = left // factor
        stop = start + groups * factor * over.step
        if not (isinstance(groups, int) and groups == 0):
            after = _run_once(trace, body, over, factor, (start, stop), given)
            given = dict(zip(given, after, strict=True))
        start, left = stop, left - groups * factor
    return tuple(given.values())


def _run_once(trace: Trace, body: Callable, over: loop, factor: int, ends: tuple,
              given: dict[str, Any]) -> tuple:  # fmt: skip
    """The variables behind one loop, whose body makes `factor` iterations at once."""
    bounds = over.bounds(trace, *ends, factor)
    firsts = {name: first for name, value in given.items()
              if (first := as_traced(trace, value)) is not None}  # fmt: skip
    scope = trace.enter(over.name)
    index = Tensor(trace, scope.parameter(over.idx_name, "i64", ()), weak=True)
    carried = [enter(trace, name, first) for name, first in firsts.items()]
    entered = given | {one.name: one.param for one in carried}
    run = functools.partial(_iterations, body, over, factor, index)
    found = run(entered)
    check_names(trace, given, entered, found, run)
    last = [(one, leaving(one, found.get(one.name, one.param))) for one in carried]

    def build(graph: _core.Graph, ins: list[Carried | Captured], count: int) -> int:
        over.check_apart(graph, factor)
        starts, values = [bound.value for bound in bounds], [one.outer for one in ins]
        return trace.here().loop(*starts, values[:count], graph, values[count:])

    results = finish(trace, last, [index.node], build) or {}
    return after_loop(given, entered, found, results)


def _iterations(body: Callable, over: loop, factor: int, index: Tensor,
                given: dict[str, Any]) -> dict[str, Any]:  # fmt: skip
    """The variables behind `factor` iterations from `index` on."""
    if over.takes_pairs:
        return body(Index(index, over, factor * over.step), factor, **given)
    for k in range(factor):
        at = index if k == 0 else index + k * over.step
        found = body(Index(at, over, over.step), **given)
        given = {name: found.get(name, value) for name, value in given.items()}
    return given


def after_loop(given: dict[str, Any], entered: dict[str, Any], found: dict[str, Any],
               results: dict[str, Tensor]) -> tuple:  # fmt: skip
    """The variables behind a loop, from those in front, as its body got them and left them."""
    after = given | results
    for name, value in given.items():
        is_carried = entered[name] is not value
        if not is_carried and found.get(name, value) is not value:
            after[name] = Undefined(name, "what a loop computes is lost behind it, unless a value "
                                          "in front of the loop is carried")  # fmt: skip
    return tuple(after.values())


def finish(trace: Trace, last: list[tuple[Carried, int | None]], lead: list[int], build: Callable,
           condition: Scope | None = None) -> dict[str, Tensor] | None:  # fmt: skip
    """Builds the loop of the body that was traced; returns the variables that it changed.

    `last` has the values with which they leave the body, `lead` its inputs in front of them.
    `build` makes the node of a body, what stands for its inputs, and how many of these it changes.
    `condition` is another body of the same inputs. None: the body changes nothing.
    """
    scope = trace.scope
    writes = [c for c in scope.captured.values() if c.handle.scope is scope]
    outputs = [value for _, value in last if value is not None]
    outputs += [c.handle.node for c in writes]
    changed = [one for one, value in last if value is not None]
    taken = {id(c.handle): c for c in condition.captured.values()} if condition else {}
    taken |= {id(c.handle): c for c in scope.captured.values()}
    others = [c for c in taken.values() if c.is_input and c not in writes]
    if not outputs and scope.has_checks:  # nothing leaves a body, which has a result
        idle = Tensor(trace, scope.parameter("idle", "i64", ()))
        outputs = [idle.node]
    trace.leave()
    if not outputs:
        return None
    if not (changed or writes):
        changed = [Carried("idle", constant(trace, 0, i64), idle)]
    ins = [*changed, *writes, *(one for one, value in last if value is None), *others]
    inner = [one.entered if isinstance(one, Carried) else scope.input_of(one) for one in ins]
    scope.builder.order_inputs([*lead, *inner])
    for value in outputs:
        scope.builder.output(value)
    node = build(scope.builder.build(), ins, len(outputs))
    values = [trace.here().result(node, i) for i in range(len(outputs))]
    for c, value in zip(writes, values[len(changed) :], strict=True):
        c.handle.put(value)
    return {one.name: Tensor(trace, value, weak=one.first.weak)
            for one, value in zip(changed, values, strict=False)}  # fmt: skip
