# SPDX-License-Identifier: Apache-2.0
"""Branches of a program: one of two ways runs, which is known only at the call.

    if total[0] > 0:                    # rewrite_statements.py makes a call of run_if() of it
        total = total - 1
    y = pto.cond(total[0] > 0, lambda: total, lambda: -total)

Both ways are traced, into the bodies of a `branch`. A value that one reads from outside becomes an
input of both; a tensor that one of them writes into has its newest version behind the branch.

Invariant: both bodies have the same inputs, and results of the same types.
Thread safety: as a trace.
"""

from collections.abc import Callable
from typing import Any

from pto import _core
from pto.errors import InvalidType
from pto.language.carried import Undefined, may_equal, shaped, takes
from pto.language.dtypes import boolean, i64
from pto.language.elementwise import ne
from pto.language.leaves import Leaves
from pto.language.location import describe, fail
from pto.language.not_carried import held, is_same
from pto.language.results import taken_apart
from pto.language.scope import Captured
from pto.language.stepping import stepped
from pto.language.symbol import unwrapped
from pto.language.tensor import Tensor
from pto.language.trace import current
from pto.language.types import cast, number
from pto.language.ways import Chosen, Way
from pto.language.whole import whole


def branch(condition: Tensor, ways: tuple[Way, Way], results: list[tuple[int, int]]) -> list[int]:
    """Builds the branch of two ways; returns the values of the results, a pair for each.

    The handles that a way wrote get their new versions.
    """
    trace = condition.trace
    written = _joined(ways, lambda way, key: key in way.written)
    ends = [[*pair] for pair in zip(*results, strict=True)] or [[], []]
    for way, outputs in zip(ways, ends, strict=True):
        outputs += [way.version(c) for c in written]
    if not ends[0]:
        if not any(way.scope.has_checks for way in ways):
            return []
        for way, outputs in zip(ways, ends, strict=True):
            with way.open() as b:
                outputs.append(b.constant(0, "i64"))
    taken = _joined(ways, lambda way, key: way.scope.captured[key].is_input)
    for way, outputs in zip(ways, ends, strict=True):
        way.scope.builder.order_inputs([way.scope.input_of(c) for c in taken])
        for value in outputs:
            way.scope.builder.output(value)
    bodies = [way.scope.builder.build() for way in ways]
    b = trace.here()
    node = b.branch(condition.value, [c.outer for c in taken], *bodies)
    values = [b.result(node, i) for i in range(len(results) + len(written))]
    for c, value in zip(written, values[len(results) :], strict=True):
        c.handle.put(value)
    return values[: len(results)]


def _joined(ways: tuple[Way, Way], wanted: Callable[[Way, int], bool]) -> list[Captured]:
    """The handles that either way took from outside, those that are wanted, each once."""
    found = {}
    for way in ways:
        for key, c in way.scope.captured.items():
            if key not in found and wanted(way, key):
                found[key] = c
    return list(found.values())


def merged(ways: tuple[Way, Way], values: tuple[Any, Any]) -> tuple[tuple[int, int], bool] | str:
    """One result of both ways and whether it is a number; else why they have none in common."""
    found = []
    for way, value in zip(ways, values, strict=True):
        with way.open():
            found.append(way.traced(value))
    if found[0] is None or found[1] is None:
        return "one way gives it no tensor or number"
    types = " and ".join(f"{x.dtype}{list(x.shape)}" for x in found)
    differ = f"the ways give it {types}, which differ"
    kind = _common_type(*found)
    shape = _common_shape(*found, ways[0].scope.first_symbol)
    if kind is None or shape is None:
        return differ
    pair = []
    for way, x in zip(ways, found, strict=True):
        with way.open():
            pair.append(shaped(cast(x, kind), shape, "what the paths of an if give"))
    return (pair[0], pair[1]), found[0].weak and found[1].weak


def _common_type(a: Tensor, b: Tensor) -> Any:
    if a.weak and b.weak:
        return a.dtype if a.dtype.is_float else b.dtype
    if a.weak or b.weak:
        number, strong = (a, b) if a.weak else (b, a)
        return strong.dtype if takes(strong, number) else None
    return a.dtype if a.dtype is b.dtype else None


def _common_shape(a: Tensor, b: Tensor, first_symbol: int) -> tuple | None:
    """The sizes that both have, each one that is known outside of them."""
    if a.ndim != b.ndim or not all(map(may_equal, a.shape, b.shape)):
        return None
    shape = []
    for pair in zip(a.shape, b.shape, strict=True):
        known = [n for n in pair if _is_known(n, first_symbol)]
        known.sort(key=lambda n: not isinstance(n, int))
        if not known:
            return None
        shape.append(known[0])
    return tuple(shape)


def _is_known(size: Any, first_symbol: int) -> bool:
    """Says whether a size has none of the symbols that the ways define."""
    if isinstance(size, int) or size.op == 0:
        return True
    if size.op == 1:
        return size.value < first_symbol
    return _is_known(size.left, first_symbol) and _is_known(size.right, first_symbol)


def truth(value: Any) -> Any:
    """A condition as a bool or i64 of rank 0, where it is traced; else as it is."""
    value = unwrapped(value)
    if isinstance(value, _core.Dim):
        return whole(current("if"), value, "a condition")
    if not isinstance(value, Tensor):
        return value
    if value.ndim:
        fail(
            f"a condition (if, while) is {value.dtype}{list(value.shape)}",
            "one condition chooses what runs next",
            "compare numbers or elements: x[0] > 0; pto.where chooses element by element; reduce "
            "with pto.amax",
            InvalidType,
        )
    return value if value.dtype in (boolean, i64) else ne(value, 0)


def cond(condition: Tensor, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """The result of `then()` where the condition holds, else that of `otherwise()`.

    Only one of them runs. They return tensors of equal types and shapes, or containers of them.

    Formula: then() if condition else otherwise()
    Shapes: `condition` has no axes; both results have equal shapes
    Example: pto.cond(v[0] > 0, lambda: x, lambda: -x)
    """
    trace = current("cond")
    for way in (then, otherwise):
        if not callable(way):
            fail(f"cond: a branch is {describe(way)}", "a branch is a function that may not run",
                 "pass it as lambda: value", InvalidType)  # fmt: skip
    condition = unwrapped(condition)
    if isinstance(condition, _core.Dim):
        condition = ne(whole(trace, condition, "cond"), 0)
    if isinstance(known := number(condition), int):
        return then() if known else otherwise()
    if not isinstance(condition, Tensor):
        fail(f"cond: the condition is {describe(condition)}",
             "a condition is a bool of rank 0, or one that is known while tracing",
             "compare numbers: x[0] > 0", InvalidType)  # fmt: skip
    if condition.dtype is not boolean or condition.ndim:
        fail(
            f"cond: the condition is {condition.dtype}{list(condition.shape)}",
            "one condition chooses between two branches",
            "compare numbers or elements: x[0] > 0; pto.where chooses element by element",
            InvalidType,
        )
    then, otherwise = (held("branch", way, {}) for way in (then, otherwise))
    if trace.is_stepping:
        return _step_cond(condition, then, otherwise)
    ways = Way(trace, "then", then), Way(trace, "otherwise", otherwise)
    (first, form), (second, other) = (taken_apart(way.found) for way in ways)
    for leaf in (*first, *second):
        if not isinstance(leaf, Tensor):
            fail(f"cond: a branch returns {describe(leaf)}", "branches return tensors",
                 "make a tensor of it: pto.full([], 2.0)", InvalidType)  # fmt: skip
    if form != other:
        fail("cond: the branches return different containers", "one of them is the result",
             "return the same containers from both", InvalidType)  # fmt: skip
    results = [merged(ways, pair) for pair in zip(first, second, strict=True)]
    if any(isinstance(one, str) for one in results):
        given = [[f"{x.dtype}{list(x.shape)}" for x in leaves] for leaves in (first, second)]
        fail(f"cond: one branch returns {given[0]}, the other {given[1]}",
             "one of them is the result, so their types and shapes are equal",
             "cast, broadcast or reshape in a branch", InvalidType)  # fmt: skip
    values = branch(condition, ways, [pair for pair, _ in results])
    leaves = [Tensor(trace, value, weak=weak)
              for value, (_, weak) in zip(values, results, strict=True)]  # fmt: skip
    return form.assemble(tuple(leaves))


def _step_cond(condition: Tensor, then: Callable, otherwise: Callable) -> Any:
    """cond() in steps."""
    trace, form = condition.trace, []

    def usual() -> tuple:
        leaves, found = taken_apart(cond(condition, then, otherwise))
        form.append(found)
        return tuple(leaves)

    def run() -> tuple:
        return tuple(taken_apart((then if trace.steps.value(condition) else otherwise)())[0])

    leaves = stepped(trace, usual, run)
    return form[0].assemble(leaves)


def run_if(condition: Any, then: Callable, otherwise: Callable, names: tuple[str, ...],
           outer: dict[str, Any]) -> tuple:  # fmt: skip
    """The values behind an `if` of the variables that its ways assign.

    Each way takes the variables and returns its locals(); `outer` has them in front of the `if`. A
    condition that is known chooses now.
    """
    condition = truth(condition)
    given = {name: outer.get(name, Undefined(name, "no path that was taken assigns it", "if"))
             for name in names}  # fmt: skip
    if not isinstance(condition, Tensor):
        found = (then if condition else otherwise)(**given)
        return tuple(found.get(name, given[name]) for name in names)
    trace = condition.trace
    then, otherwise = (held("branch", way, outer) for way in (then, otherwise))
    if trace.is_stepping:

        def run() -> tuple:
            found = (then if trace.steps.value(condition) else otherwise)(**given)
            return tuple(found.get(name, given[name]) for name in names)

        return stepped(trace, lambda: _run_both(condition, then, otherwise, given), run)
    return _run_both(condition, then, otherwise, given)


def _run_both(condition: Tensor, then: Callable, otherwise: Callable,
              given: dict[str, Any]) -> tuple:  # fmt: skip
    """The variables behind an `if` of which both ways are traced."""
    trace = condition.trace
    ways = (Way(trace, "then", lambda: then(**given)),
            Way(trace, "otherwise", lambda: otherwise(**given)))  # fmt: skip
    ends = [{name: way.found.get(name, value) for name, value in given.items()} for way in ways]
    leaves = Leaves.common({name: (ends[0][name], ends[1][name]) for name in given})
    ends = [leaves.apart(end) for end in ends]
    after, results = {}, {}
    for name in ends[0]:
        pair = ends[0][name], ends[1][name]
        after[name] = pair[0]
        if is_same(*pair):
            continue
        result = (
            "one path gives it no value"
            if any(isinstance(value, Undefined) for value in pair)
            else merged(ways, pair)
        )
        if isinstance(result, str):
            after[name] = Undefined(name, result, "if")
        else:
            results[name] = result
    values = branch(condition, ways, [pair for pair, _ in results.values()])
    for (name, (_, weak)), value in zip(results.items(), values, strict=True):
        before = given.get(name)
        is_another = any(
            way.is_another(end[name], before) for way, end in zip(ways, ends, strict=True)
        )
        kind = Chosen if is_another else Tensor
        after[name] = kind(trace, value, weak=weak)
    return leaves.behind(after.values())
