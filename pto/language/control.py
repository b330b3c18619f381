# SPDX-License-Identifier: Apache-2.0
"""Loops and branches of a program, over numbers that are known only when it runs.

    total = pto.zeros([4])
    for i in pto.loop(lengths[0]):              # Python's range unrolls, pto.loop makes a loop
        total = total + x[i]                    # carried from one iteration to the next
    y = pto.cond(total[0] > 0, lambda: total, lambda: -total)

The body is traced once. rewrite_source.py turns the `for` into a call of run_loop(), with the body
as a function of the variables that it assigns; these, and tensors that it writes into, are carried.

Invariant: what leaves a body has the type with which it came in.
Thread safety: as a trace.
"""

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from pto import _core
from pto.errors import InvalidType
from pto.language.dtypes import boolean, f32, i64
from pto.language.location import describe, fail
from pto.language.results import taken_apart
from pto.language.scope import Captured
from pto.language.shape import same_size
from pto.language.tensor import Tensor
from pto.language.trace import Trace, current, is_tracing
from pto.language.types import cast, constant, number
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


class Undefined:
    """Stands for a variable without a value that could be used; any use is an error."""

    def __init__(self, name: str, why: str):
        self.__dict__.update(_name=name, _why=why)

    def _use(self, *_: Any, **__: Any) -> NoReturn:
        fail(
            f"the variable {self._name} has no value here",
            self._why,
            f"give {self._name} a value in front of the loop, of the type that the loop gives it",
            InvalidType,
        )

    def __getattr__(self, name: str) -> NoReturn:
        self._use()

    def __repr__(self) -> str:
        return f"<no value: {self._name}>"

    __bool__ = __len__ = __iter__ = __call__ = __getitem__ = __index__ = __float__ = _use
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _use
    __rtruediv__ = __matmul__ = __rmatmul__ = __floordiv__ = __rfloordiv__ = _use
    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __and__ = __or__ = __array__ = _use


class Carried:
    """A variable that the body may change: its value in front, and as the body gets it."""

    __slots__ = ("entered", "first", "name", "param")

    def __init__(self, name: str, first: Tensor, param: Tensor):
        self.name, self.first, self.param = name, first, param
        self.entered = param.node


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
              if (first := _as_tensor(trace, value)) is not None}  # fmt: skip
    scope = trace.enter(over.name)
    index = Tensor(trace, scope.parameter(over.idx_name, "i64", ()), weak=True)
    carried = [_enter(trace, name, first) for name, first in firsts.items()]
    given |= {one.name: one.param for one in carried}
    found = body(index, **given)
    leaving = [(one, _leaving(one, found.get(one.name, one.param))) for one in carried]
    results = _finish(trace, bounds, index.node, leaving)
    after = dict(given)
    for name in names:
        if name in firsts:
            after[name] = results.get(name, outer[name])
        elif found.get(name) is not given[name]:
            after[name] = Undefined(name, "what a loop computes is lost behind it, unless a value "
                                          "in front of the loop is carried")  # fmt: skip
    return tuple(after[name] for name in names)


def _as_tensor(trace: Trace, value: Any) -> Tensor | None:
    """A variable's value in front of a loop, where it can be carried."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, _core.Dim):
        return whole(trace, value, "loop")
    known = None if isinstance(value, Undefined) else number(value)
    if known is None:
        return None
    kind = boolean if isinstance(known, bool) else i64 if isinstance(known, int) else f32
    first = constant(trace, known, kind)
    first.weak = kind is not boolean
    return first


def _enter(trace: Trace, name: str, first: Tensor) -> Carried:
    entered = trace.scope.parameter(name, first.dtype.name, first.shape)
    return Carried(name, first, Tensor(trace, entered, weak=first.weak))


def _leaving(one: Carried, last: Any) -> int | None:
    """The value with which a variable leaves an iteration; None where it did not change."""
    param = one.param
    if last is param:
        return param.value if param.node != one.entered else None
    if not isinstance(last, Tensor):
        last = _as_tensor(param.trace, last)
    if last is not None and last.weak:
        last = cast(last, param.dtype) if _is_kept(last, param) else last
    if last is None or last.dtype is not param.dtype or last.ndim != param.ndim:
        return _changes_type(one, last)
    b = param.trace.here()
    for size, wanted in zip(last.shape, param.shape, strict=True):
        fixed = [n for n in (size, wanted) if isinstance(n, int)]
        if (len(fixed) == 2 and size != wanted) or fixed == [1]:  # a symbol is never 1
            _changes_type(one, last)
        if not same_size(size, wanted):
            b.guard_equal(size, wanted, f"the loop's variable {one.name}")
    return last.value


def _is_kept(last: Tensor, param: Tensor) -> bool:
    """Says whether a number takes the variable's type: an int any, a float those of floats."""
    return last.dtype.is_integer or param.dtype.is_float


def _changes_type(one: Carried, last: Tensor | None) -> NoReturn:
    after = "no tensor or number" if last is None else f"{last.dtype}{list(last.shape)}"
    fail(
        f"the variable {one.name} is {one.param.dtype}{list(one.param.shape)} in front of an "
        f"iteration and {after} behind it",
        "a loop carries a variable from one iteration to the next, with one type and shape",
        f"start with pto.zeros or pto.full of that type, or use another name than {one.name}",
        InvalidType,
    )


def _finish(
    trace: Trace, bounds: list[Tensor], index: int, leaving: list[tuple[Carried, int | None]]
) -> dict[str, Tensor]:
    """Builds the loop of the body that was traced; returns the variables that it changed."""
    scope = trace.scope
    writes = [c for c in scope.captured.values() if c.handle.scope is scope]
    outputs = [value for _, value in leaving if value is not None]
    outputs += [c.handle.node for c in writes]
    changed = [one for one, value in leaving if value is not None]
    kept = [one for one, value in leaving if value is None]
    others = [c for c in scope.captured.values() if c.is_input and c not in writes]
    trace.leave()
    if not outputs:
        return {}
    inputs = [one.entered for one in changed] + [c.inner for c in writes]
    inputs += [one.entered for one in kept] + [c.inner for c in others]
    scope.builder.order_inputs([index, *inputs])
    for value in outputs:
        scope.builder.output(value)
    first = [one.first.value for one in changed] + [c.outer for c in writes]
    rest = [one.first.value for one in kept] + [c.outer for c in others]
    starts = [bound.value for bound in bounds]
    node = trace.here().loop(*starts, first, scope.builder.build(), rest)
    values = [trace.here().result(node, i) for i in range(len(outputs))]
    for c, value in zip(writes, values[len(changed) :], strict=True):
        c.handle.put(value)
    return {one.name: Tensor(trace, value, weak=one.first.weak)
            for one, value in zip(changed, values, strict=False)}  # fmt: skip


def cond(condition: Tensor, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """The result of `then()` where the condition holds, else that of `otherwise()`.

    Only one of them runs. They return tensors of equal types and shapes, or containers of them.
    """
    trace = current("cond")
    for branch in (then, otherwise):
        if not callable(branch):
            fail(f"cond: a branch is {describe(branch)}", "a branch is a function that may not run",
                 "pass it as lambda: value", InvalidType)  # fmt: skip
    if not isinstance(condition, Tensor):
        return then() if condition else otherwise()
    if condition.dtype is not boolean or condition.ndim:
        fail(
            f"cond: the condition is {condition.dtype}{list(condition.shape)}",
            "one condition chooses between two branches",
            "compare numbers or elements: x[0] > 0; pto.where chooses element by element",
            InvalidType,
        )
    holds = cast(condition, i64)
    chosen, form = _branch(trace, holds, then, None)
    result, other = _branch(trace, 1 - holds, otherwise, chosen)
    if form != other:
        fail("cond: the branches return different containers", "one of them is the result",
             "return the same containers from both", InvalidType)  # fmt: skip
    return form.assemble(tuple(result))


def _branch(
    trace: Trace, times: Tensor, branch: Callable[[], Any], before: list[Tensor] | None
) -> tuple[list[Tensor], Any]:
    """`before`, or in its place the result of a branch that runs once or not at all."""
    bounds = [constant(trace, 0, i64), times, constant(trace, 1, i64)]
    scope = trace.enter("branch")
    index = scope.parameter("i", "i64", ())
    leaves, form = taken_apart(branch())
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            fail(f"cond: a branch returns {describe(leaf)}", "branches return tensors",
                 "make a tensor of it: pto.full([], 2.0)", InvalidType)  # fmt: skip
    values = [leaf.value for leaf in leaves]
    types = [scope.builder.type(value) for value in values]
    outer = trace.scope
    trace.scope = scope.parent
    if before is None:
        before = [_zeros(trace, *about) for about in types]
    _check_branch(before, types, scope.first_symbol)
    trace.scope = outer
    leaving = []
    for place, (first, value) in enumerate(zip(before, values, strict=True)):
        one = _enter(trace, f"result{place}", first)
        leaving.append((one, value))
    found = _finish(trace, bounds, index, leaving)
    return [found[one.name] for one, _ in leaving], form


def _zeros(trace: Trace, dtype: str, shape: tuple) -> Tensor:
    b = trace.here()
    return Tensor(trace, b.broadcast(b.constant(0, dtype), shape))


def _check_branch(before: list[Tensor], types: list[tuple], first_symbol: int) -> None:
    found = [(x.dtype.name, list(map(str, x.shape))) for x in before]
    given = [(kind, list(map(str, shape))) for kind, shape in types]
    if found != given:
        fail(f"cond: one branch returns {found}, the other {given}",
             "one of them is the result, so their types and shapes are equal",
             "cast, broadcast or reshape in a branch", InvalidType)  # fmt: skip


__all__ = ["Captured", "Carried", "Undefined", "cond", "loop", "run_loop"]
