# SPDX-License-Identifier: Apache-2.0
"""Loops of a program, over numbers that are known only when it runs.

    total = pto.zeros([4])
    for i in pto.loop(lengths[0]):              # Python's range unrolls, pto.loop makes a loop
        total = total + x[i]                    # carried from one iteration to the next

The body is traced once. rewrite_source.py turns the `for` into a call of run_loop(), with the body
as a function of the variables that it assigns; these, and tensors that it writes into, are carried.

Invariant: what leaves a body has the type with which it came in.
Thread safety: as a trace.
"""

from collections.abc import Callable, Iterator
from typing import Any

from pto import _core
from pto.errors import InvalidType
from pto.language.carried import Carried, Undefined, as_traced, enter, leaving
from pto.language.location import fail
from pto.language.scope import Captured, Scope
from pto.language.tensor import Tensor
from pto.language.trace import Trace, current, is_tracing
from pto.language.whole import is_whole, plain, whole


class loop:
    """The iterations of a loop of the program: `for i in pto.loop(stop)`, or start, stop, step.

    Outside a traced function it counts as range() does.
    """

    def __init__(self, *bounds: Any, name: str = "loop", idx_name: str = "i",
                 parallel: bool = False):  # fmt: skip
        if not 1 <= len(bounds) <= 3:
            fail(f"loop: {len(bounds)} bounds", "a loop takes stop, or start, stop and step",
                 "pass one to three whole numbers", InvalidType)  # fmt: skip
        self.start, self.stop = (0, bounds[0]) if len(bounds) == 1 else bounds[:2]
        self.step = bounds[2] if len(bounds) == 3 else 1
        self.name, self.idx_name, self.parallel = name, idx_name, parallel

    def bounds(self, trace: Trace) -> list[Tensor]:
        step = plain(self.step) if is_whole(self.step) else self.step
        if isinstance(step, int) and step == 0:
            fail("loop: the step is 0", "a loop must come to its end",
                 "use a positive or negative step")  # fmt: skip
        return [whole(trace, n, "loop") for n in (self.start, self.stop, self.step)]

    def __iter__(self) -> Iterator[int]:
        if is_tracing():
            fail(
                "pto.loop in a function whose text was not read",
                "the text of a function under @pto.jit is read to find what its loops carry; a "
                "function that it calls, a lambda, or one without a file is traced as it is",
                "decorate the function with @pto.jit, too; a range() unrolls",
                InvalidType,
            )
        return iter(range(self.start, self.stop, self.step))


def run_loop(body: Callable, over: Any, names: tuple[str, ...], outer: dict[str, Any]) -> tuple:
    """The values behind a loop of the variables that its body assigns.

    `body` takes the index and the variables, and returns its locals(); `outer` has the variables
    in front of the loop.
    """
    trace = current("loop")
    bounds = over.bounds(trace)
    given = {
        name: outer.get(name, Undefined(name, "it gets one in the loop only")) for name in names
    }
    firsts = {name: first for name, value in given.items()
              if (first := as_traced(trace, value)) is not None}  # fmt: skip
    scope = trace.enter(over.name)
    index = Tensor(trace, scope.parameter(over.idx_name, "i64", ()), weak=True)
    carried = [enter(trace, name, first) for name, first in firsts.items()]
    entered = given | {one.name: one.param for one in carried}
    found = body(index, **entered)
    last = [(one, leaving(one, found.get(one.name, one.param))) for one in carried]

    def build(graph: _core.Graph, ins: list[Carried | Captured], count: int) -> int:
        starts, values = [bound.value for bound in bounds], [one.outer for one in ins]
        return trace.here().loop(*starts, values[:count], graph, values[count:])

    results = finish(trace, last, [index.node], build) or {}
    return after_loop(given, entered, found, results)


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
    trace.leave()
    if not outputs:
        return None
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
