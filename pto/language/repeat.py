# SPDX-License-Identifier: Apache-2.0
"""`while` of a program, over a condition that is known only when it runs.

    while table[page] != key:           # read anew in front of each round
        page = next_page[page]

Python executes what is known while tracing: only where the condition is traced does the rest become
a `repeat`, whose condition and step are bodies over the same carried values.

Invariant: as of a loop (control.py). Thread safety: as a trace.
"""

import functools
from collections.abc import Callable
from typing import Any

from pto import _core
from pto.errors import InvalidType
from pto.language.branches import truth
from pto.language.carried import Carried, Undefined, as_traced, enter, leaving
from pto.language.control import after_loop, finish
from pto.language.dtypes import boolean
from pto.language.leaves import Leaves
from pto.language.location import fail
from pto.language.not_carried import check_names, held
from pto.language.scope import Captured
from pto.language.stepping import stepped, stepped_loop
from pto.language.tensor import Tensor
from pto.language.trace import Trace
from pto.language.types import constant


def run_while(test: Callable, body: Callable, names: tuple[str, ...],
              outer: dict[str, Any]) -> tuple:  # fmt: skip
    """The values behind a `while` of the variables that its body assigns.

    `test` and `body` take the variables; the body returns its locals(), the test its condition.
    """
    given = {name: outer.get(name, Undefined(name, "it gets one in the loop only"))
             for name in names}  # fmt: skip
    while True:
        condition = truth(test(**given))
        if isinstance(condition, Tensor):
            leaves, run = Leaves.of(given), _step if condition.trace.is_stepping else _run_traced
            test, body = leaves.test(test), leaves.body(held("loop", body, outer))
            return leaves.behind(run(condition.trace, test, body, leaves.apart(given)))
        if not condition:
            return tuple(given.values())
        found = body(**given)
        given = {name: found.get(name, value) for name, value in given.items()}


def _step(trace: Trace, test: Callable, body: Callable, given: dict[str, Any]) -> tuple:
    """The variables behind a `while` that runs in steps."""

    def next_round(entered: dict[str, Any]) -> dict[str, Any] | None:
        return body(**entered) if trace.steps.value(truth(test(**entered))) else None

    usual = functools.partial(_run_traced, trace, test, body, given)
    return stepped(trace, usual, lambda: stepped_loop(trace, given, next_round))


class Condition:
    """The traced condition of a `while`: a graph over the same inputs as its step."""

    def __init__(self, trace: Trace, test: Callable, given: dict, firsts: dict[str, Tensor]):
        self.scope = trace.enter("condition")
        carried = [enter(trace, name, first) for name, first in firsts.items()]
        self.entered = {one.name: one.entered for one in carried}
        value = truth(test(**given | {one.name: one.param for one in carried}))
        if not isinstance(value, Tensor):
            value = constant(trace, bool(value), boolean)
        self.scope.builder.output(value.value)
        if any(c.handle.scope is self.scope for c in self.scope.captured.values()):
            fail("a condition of while writes into a tensor", "the condition only looks",
                 "write in the body", InvalidType)  # fmt: skip
        trace.leave()

    def graph(self, inputs: list[Carried | Captured]) -> _core.Graph:
        """The graph with inputs for these, in this order."""
        places = []
        for one in inputs:
            if isinstance(one, Carried):
                places.append(self.entered[one.name])
            else:
                places.append(self.scope.input_of(one))
        self.scope.builder.order_inputs(places)
        return self.scope.builder.build()


def _run_traced(trace: Trace, test: Callable, body: Callable, given: dict[str, Any]) -> tuple:
    firsts = {name: first for name, value in given.items()
              if (first := as_traced(trace, value)) is not None}  # fmt: skip
    condition = Condition(trace, test, given, firsts)
    trace.enter("step")
    carried = [enter(trace, name, first) for name, first in firsts.items()]
    entered = given | {one.name: one.param for one in carried}
    found = body(**entered)
    check_names(trace, given, entered, found, lambda now: (test(**now), body(**now))[1])
    last = [(one, leaving(one, found.get(one.name, one.param))) for one in carried]

    def build(step: _core.Graph, ins: list[Carried | Captured], count: int) -> int:
        values = [one.outer for one in ins]
        bodies = condition.graph(ins), step
        return trace.here().repeat(values[:count], *bodies, values[count:])

    results = finish(trace, last, [], build, condition.scope)
    if results is None:
        fail("while: the body changes nothing", "so its condition would never change",
             "assign what the condition reads in the body", InvalidType)  # fmt: skip
    return after_loop(given, entered, found, results)
