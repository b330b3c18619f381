# SPDX-License-Identifier: Apache-2.0
"""The gradients of loops and branches: loops that run backwards, branches on the same conditions.

    for i in loop(n): h = f(h, x[i])     # stack[t] = h in a loop of its own, then, from t = n - 1:
    d_h, d_x = gradient of f at stack[t], d_h given, d_x added up

The backward body computes the forward one again from the carried values with which the iteration
began. Only those of them that it reads are kept, in tensors with one more axis, of the number of
iterations. That of a `while` is counted in front.

Invariant: a gradient of what a body reads from outside goes into the body and comes out of it, so
what it adds to a part is added there.
Thread safety: as a trace.
"""

from collections.abc import Sequence
from typing import Any

from pto import _core
from pto.language.carried import shaped
from pto.language.dtypes import i64
from pto.language.elementwise import maximum
from pto.language.shape import broadcast_to, reshape
from pto.language.tensor import Tensor
from pto.language.trace import Trace
from pto.language.types import constant


def zeros(like: Tensor) -> Tensor:
    """Zeros of the shape and type of a traced tensor."""
    return zeros_of(like.trace, like.dtype, like.shape)


def zeros_of(trace: Trace, kind: Any, shape: Sequence) -> Tensor:
    return broadcast_to(constant(trace, 0, kind), tuple(shape))


class _Body:
    """A graph whose inputs stand for tensors around it, in their order."""

    def __init__(self, trace: Trace, name: str):
        self.trace, self.scope = trace, trace.enter(name)
        self.inputs: list[int] = []

    def take(self, name: str, likes: Sequence[Tensor]) -> list[Tensor]:
        return [self.take_one(name, like.dtype.name, like.shape) for like in likes]

    def take_one(self, name: str, kind: str, shape: Sequence) -> Tensor:
        found = Tensor(self.trace, self.scope.parameter(name, kind, tuple(shape)))
        self.inputs.append(found.value)
        return found

    def inline(self, graph: _core.Graph, values: Sequence[Tensor]) -> list[Tensor]:
        """The outputs of a graph of these inputs, computed here."""
        given = [shaped(x, about[2]) for x, about in zip(values, graph.inputs, strict=True)]
        found, self.trace.symbols = self.scope.builder.inline(graph, given, self.trace.symbols)
        return [Tensor(self.trace, value) for value in found]

    def close(self, outputs: Sequence[Tensor], likes: Sequence[Tensor]) -> _core.Graph:
        """The graph; its outputs have the shapes of these tensors."""
        values = [shaped(x, like.shape) for x, like in zip(outputs, likes, strict=True)]
        self.scope.builder.order_inputs(self.inputs)
        for value in values:
            self.scope.builder.output(value)
        self.trace.leave()
        return self.scope.builder.build()

    def needed(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[bool]:
        """Says which inputs the outputs, or sizes, are computed from."""
        b = self.scope.builder
        waiting = [x.value for x in outputs]
        waiting += [v for v in range(len(b)) if b.node(v)[0] == "size"]
        seen = set(waiting)
        while waiting:
            new = set(b.node(waiting.pop())[1]) - seen
            seen |= new
            waiting += new
        return [x.value in seen for x in inputs]


class _Loop:
    """A loop or while of the trace, as count() iterations of one body."""

    def __init__(self, trace: Trace, value: int):
        b = trace.builder
        op, operands, _ = b.node(value)
        xs = [Tensor(trace, x) for x in operands]
        self.trace, self.is_while, self.bodies = trace, op == "repeat", b.bodies(value)
        self.body = self.bodies[-1]
        carries = len(self.body.outputs)
        self.bounds, xs = ([], xs) if self.is_while else (xs[:3], xs[3:])
        self.carried, self.others = xs[:carries], xs[carries:]
        self.different = [*{x.value: x for x in self.others}.values()]

    def count(self) -> Tensor:
        """The number of iterations, computed in front of the loop."""
        if self.is_while:
            return self._counted()
        start, stop, step = self.bounds
        return maximum(-((start - stop) // step), 0)

    def _counted(self) -> Tensor:
        """Runs the while with one more carried number."""
        first = constant(self.trace, 0, i64)
        graphs = []
        for place, name in enumerate(("condition", "step")):
            body = _Body(self.trace, name)
            carried, at = body.take("carried", self.carried), body.take("count", [first])[0]
            given = body.inline(self.bodies[place], carried + body.take("other", self.others))
            results, likes = (given, given) if place == 0 else ([*given, at + 1],
                                                                [*self.carried, first])  # fmt: skip
            graphs.append(body.close(results, likes))
        b = self.trace.here()
        node = b.repeat([x.value for x in [*self.carried, first]], *graphs,
                        [x.value for x in self.others])  # fmt: skip
        return Tensor(self.trace, b.result(node, len(self.carried)))

    def enter(self, t: Tensor, carried: list[Tensor], bounds: list[Tensor],
              different: list[Tensor]) -> list[Tensor]:  # fmt: skip
        """Gives what the body takes in iteration t, from values of the scope that is traced."""
        of_value = {x.node: inner for x, inner in zip(self.different, different, strict=True)}
        others = [of_value[x.node] for x in self.others]
        index = [] if self.is_while else [bounds[0] + t * bounds[1]]
        return [*index, *carried, *others]

    def lead(self) -> list[Tensor]:
        """Start and step."""
        return self.bounds[::2]


def loop_gradient(reverse: Any, value: int, d_results: dict[int, Tensor]) -> None:
    """Passes the gradients of a loop's results on to what it reads."""
    trace = reverse.trace
    loop = _Loop(trace, value)
    firsts = [reverse.reaches(x) for x in loop.carried]
    outside = [i for i, x in enumerate(loop.different) if reverse.reaches(x)]
    body = _Body(trace, "gradient")
    t = body.take_one("t", "i64", ())
    bounds, carried = body.take("bound", loop.lead()), body.take("carried", loop.carried)
    different = body.take("other", loop.different)
    results = body.inline(loop.body, loop.enter(t, carried, bounds, different))
    changed = _dependent(reverse, firsts, carried, results, [different[i] for i in outside])
    d_carried = body.take("d", [loop.carried[k] for k in changed])
    sums = body.take("sum", [loop.different[i] for i in outside])
    wanted = [carried[k] for k in changed] + [different[i] for i in outside]
    seeds = {different[i].value: x for i, x in zip(outside, sums, strict=True)}
    given = [(results[k], d) for k, d in zip(changed, d_carried, strict=True)]
    found = reverse.nested(given, wanted, seeds)
    keeps = body.needed(found, carried)
    likes = [loop.carried[k] for k in changed] + [loop.different[i] for i in outside]
    graph = body.close(found, likes)
    d_firsts = [d_results[k] if k in d_results else zeros(loop.carried[k]) for k in changed]
    d_firsts += reverse.gradients([loop.different[i] for i in outside])
    if not d_firsts:
        return
    after = _run_backwards(loop, graph, keeps, d_firsts)
    for i, d in zip(outside, after[len(changed) :], strict=True):
        reverse.found[loop.different[i].value] = d
    for k, d in zip(changed, after, strict=False):
        if firsts[k]:
            reverse.add(loop.carried[k].value, d)


def _dependent(reverse: Any, firsts: list[bool], carried: list[Tensor], results: list[Tensor],
               outside: list[Tensor]) -> list[int]:  # fmt: skip
    """The places of carried values with a gradient: an iteration computes each from one with it."""
    flags = list(firsts)
    while True:
        wanted = [x.value for x, yes in zip(carried, flags, strict=True) if yes]
        depends = reverse.dependence({*wanted, *(x.value for x in outside)})
        now = [yes or (x.dtype.is_float and depends(y.value))
               for yes, x, y in zip(flags, carried, results, strict=True)]  # fmt: skip
        if now == flags:
            return [k for k, yes in enumerate(flags) if yes]
        flags = now


def _run_backwards(loop: _Loop, graph: _core.Graph, keeps: list[bool],
                   firsts: list[Tensor]) -> list[Tensor]:  # fmt: skip
    """Runs the gradient of the body from the last iteration to the first."""
    trace, count = loop.trace, loop.count()
    stacks = _kept(loop, keeps, count)
    body = _Body(trace, "backward")
    t = body.take_one("t", "i64", ())
    d = body.take("d", firsts)
    bounds, different = body.take("bound", loop.lead()), body.take("other", loop.different)
    inner = iter(body.take("stack", stacks))
    carried = [_row(next(inner), t) if kept else zeros(x)
               for kept, x in zip(keeps, loop.carried, strict=True)]  # fmt: skip
    results = body.inline(graph, [t, *bounds, *carried, *different, *d])
    built = body.close(results, firsts)
    others = [*loop.lead(), *loop.different, *stacks]
    start, end = count - 1, constant(trace, -1, i64)
    return _looped(trace, (start, end, end), firsts, built, others)


def _kept(loop: _Loop, keeps: list[bool], count: Tensor) -> list[Tensor]:
    """Tensors of the carried values that `keeps` names, with which each iteration begins."""
    trace = loop.trace
    kept = [k for k, yes in enumerate(keeps) if yes]
    if not kept:
        return []
    size = trace.size(count)
    firsts = [zeros_of(trace, loop.carried[k].dtype, (size, *loop.carried[k].shape)) for k in kept]
    body = _Body(trace, "keep")
    t = body.take_one("t", "i64", ())
    carried, stacks = body.take("carried", loop.carried), body.take("stack", firsts)
    bounds, different = body.take("bound", loop.lead()), body.take("other", loop.different)
    results = body.inline(loop.body, loop.enter(t, carried, bounds, different))
    rows = [_with_row(stack, t, carried[k]) for stack, k in zip(stacks, kept, strict=True)]
    built = body.close([*results, *rows], [*loop.carried, *firsts])
    ends = constant(trace, 0, i64), count, constant(trace, 1, i64)
    given = [*loop.carried, *firsts]
    return _looped(trace, ends, given, built, [*loop.lead(), *loop.different])[len(carried) :]


def _looped(trace: Trace, ends: tuple, carried: list[Tensor], body: _core.Graph,
            others: list[Tensor]) -> list[Tensor]:  # fmt: skip
    values, rest = [x.value for x in carried], [x.value for x in others]
    b = trace.here()
    node = b.loop(*(x.value for x in ends), values, body, rest)
    return [Tensor(trace, b.result(node, i)) for i in range(len(carried))]


def _row(stack: Tensor, t: Tensor) -> Tensor:
    b, shape = stack.trace.here(), stack.shape[1:]
    zero = constant(stack.trace, 0, i64).value
    part = b.view(stack.value, [t.value, *[zero] * len(shape)], (1, *shape))
    return reshape(Tensor(stack.trace, part), shape)


def _with_row(stack: Tensor, t: Tensor, row: Tensor) -> Tensor:
    at = [t.value, *[constant(stack.trace, 0, i64).value] * row.ndim]
    part = reshape(row, (1, *row.shape)).value
    return Tensor(stack.trace, stack.trace.here().update(stack.value, part, at))


def branch_gradient(reverse: Any, value: int, d_results: dict[int, Tensor]) -> None:
    """Passes the gradients of a branch's results on, by the way that was taken."""
    trace = reverse.trace
    _, operands, _ = trace.builder.node(value)
    condition, *given = [Tensor(trace, x) for x in operands]
    different = {x.value: x for x in given}
    outside = [x for x in different.values() if reverse.reaches(x)]
    if not outside:
        return
    d_places, ds = list(d_results), list(d_results.values())
    firsts = reverse.gradients(outside)
    graphs = []
    for graph, name in zip(trace.builder.bodies(value), ("then", "otherwise"), strict=True):
        body = _Body(trace, name)
        inner = dict(zip(different, body.take("outer", [*different.values()]), strict=True))
        d_inner, sums = body.take("d", ds), body.take("sum", outside)
        results = body.inline(graph, [inner[x.node] for x in given])
        wanted = [inner[x.node] for x in outside]
        seeds = {x.value: one for x, one in zip(wanted, sums, strict=True)}
        ends = [(results[k], d) for k, d in zip(d_places, d_inner, strict=True)]
        graphs.append(body.close(reverse.nested(ends, wanted, seeds), outside))
    b = trace.here()
    inputs = [x.value for x in (*different.values(), *ds, *firsts)]
    node = b.branch(condition.value, inputs, *graphs)
    for i, x in enumerate(outside):
        reverse.found[x.value] = Tensor(trace, b.result(node, i))
