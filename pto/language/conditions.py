# SPDX-License-Identifier: Apache-2.0
"""Conditions of a program: known while tracing, or traced numbers of rank 0.

    both(lambda: n > 0, lambda: table[n - 1] == 3)     # n > 0 and table[n - 1] == 3
    compared(("lt", "lt"), 0, lambda: n, lambda: 8)    # 0 < n < 8

rewrite_statements.py makes these calls of the text of conditions, since Python's `and`, `or` and
`not` need a truth value, and sizes have no comparisons. A part that Python would not evaluate does
not run here.

Thread safety: as a trace.
"""

import builtins
import functools
import operator
from collections.abc import Callable
from typing import Any

from pto import _core
from pto.errors import InvalidType
from pto.language import whole as whole_numbers
from pto.language.branches import branch, merged, truth
from pto.language.dtypes import boolean
from pto.language.elementwise import ne
from pto.language.location import fail
from pto.language.logic import logical_and, logical_not, logical_or
from pto.language.not_carried import held
from pto.language.symbol import unwrapped
from pto.language.tensor import Tensor
from pto.language.trace import current
from pto.language.types import constant, describe, number
from pto.language.ways import Way
from pto.language.whole import whole

Test = Callable[[], Any]
_EXTREMES = {builtins.min: whole_numbers.min, builtins.max: whole_numbers.max}
_PLAIN = {"input", "constant", "scalar", "extent", "cast", "add", "sub", "mul", "neg", "lt", "le",
          "gt", "ge", "eq", "ne", "logical_and", "logical_or", "logical_not", "minimum",
          "maximum", "floor_divide", "remainder"}  # fmt: skip


def known(test: Test, kind: str) -> Any:
    """A condition that steers Python; fails where it is traced."""
    value = test()
    if isinstance(value, Tensor):
        fail(
            f"{kind} chooses by a traced value",
            "what runs next is known only at the call, and a branch of the program runs to its end",
            "assign a variable on each path and use it behind them; leave a pto.loop or while, not "
            "a range(), by break; pto.where and pto.cond choose values",
            InvalidType,
        )
    return value


def extreme(function: Callable, *values: Any) -> Any:
    """Calls min or max, on traced numbers as those of the language; or any other function."""
    is_traced = any(isinstance(value, Tensor | _core.Dim) for value in values)
    if is_traced and len(values) > 1 and function in _EXTREMES:
        return functools.reduce(_EXTREMES[function], values)
    return function(*values)


def both(*tests: Test) -> Any:
    """`a and b`."""
    return _joined(tests, lambda a, b: _chosen(a, b, lambda: False, logical_and), False)


def either(*tests: Test) -> Any:
    """`a or b`."""
    return _joined(tests, lambda a, b: _chosen(a, lambda: True, b, logical_or), True)


def _joined(tests: tuple[Test, ...], join: Callable, stops: bool) -> Any:
    result = truth(tests[0]())
    for test in tests[1:]:
        if isinstance(result, Tensor):
            result = join(_as_bool(result), test)
        elif bool(result) is stops:
            return result
        else:
            result = truth(test())
    return result


def _as_bool(value: Any) -> Tensor:
    value = truth(value)
    if not isinstance(value, Tensor):
        return constant(current("if"), bool(value), boolean)
    return value if value.dtype is boolean else ne(value, 0)


def _chosen(condition: Tensor, then: Test, otherwise: Test, simple: Callable) -> Tensor:
    """Evaluates a test only where Python would, unless evaluating it always does no harm."""
    trace = condition.trace
    ways = (Way(trace, "then", lambda: _as_bool(then())),
            Way(trace, "otherwise", lambda: _as_bool(otherwise())))  # fmt: skip
    if all(_is_plain(way) for way in ways):
        return simple(condition, _as_bool((then if simple is logical_and else otherwise)()))
    result = merged(ways, (ways[0].found, ways[1].found))
    assert not isinstance(result, str)
    return Tensor(trace, branch(condition, ways, [result[0]])[0])


def _is_plain(way: Way) -> bool:
    """Says whether a way has only arithmetic of numbers: it reads no part of a tensor."""
    if way.written:
        return False
    b, last = way.scope.builder, way.found.node
    return all(b.node(v)[0] in _PLAIN and not b.type(v)[1] for v in range(last + 1))


def joined(word: str, *tests: Test) -> Any:
    """`a and b` or `a or b` as a value: one of them, as in Python, or a traced condition."""
    for i, test in enumerate(tests):
        value = unwrapped(found := test())
        if _is_condition(value):
            rest = (functools.partial(_condition, word, one) for one in tests[i + 1 :])
            return (both if word == "and" else either)(lambda value=value: value, *rest)
        if i + 1 == len(tests) or bool(found) is (word == "or"):
            return found
    raise AssertionError("no operand")


def _is_condition(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype is boolean and not value.ndim


def _condition(word: str, test: Test) -> Any:
    value = unwrapped(test())
    if not _is_condition(value) and not isinstance(value, bool):
        fail(f"a traced condition {word} {describe(value)}",
             "it is one of them, which is known only at the call",
             "compare the number; choose by pto.where, or by if and else", InvalidType)  # fmt: skip
    return value


def negated(value: Any) -> Any:
    """`not a`."""
    value = truth(value)
    return logical_not(_as_bool(value)) if isinstance(value, Tensor) else not value


def compared(signs: tuple[str, ...], left: Any, *others: Test) -> Any:
    """`a < b`, or a chain: `a < b <= c`."""
    if len(signs) == 1:
        return _compare(signs[0], left, others[0]())
    middle = others[0]()
    first = _compare(signs[0], left, middle)
    return both(lambda: first, lambda: compared(signs[1:], middle, *others[1:]))


def _compare(sign: str, a: Any, b: Any) -> Any:
    """A comparison as Python makes it; that of a size with another number is traced."""
    is_size = [isinstance(x, _core.Dim) for x in (a, b)]
    is_same = all(is_size) and a.same(b)
    known = [yes or number(x) is not None for yes, x in zip(is_size, (a, b), strict=True)]
    if any(is_size) and all(known) and not is_same:
        trace = current("if")
        a, b = (whole(trace, x, "a condition") if yes else x
                for yes, x in zip(is_size, (a, b), strict=True))  # fmt: skip
    return getattr(operator, sign)(a, b)


def choose(condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """`a if condition else b`."""
    condition = truth(condition)
    if not isinstance(condition, Tensor):
        return then() if condition else otherwise()
    trace = condition.trace
    then, otherwise = (held("branch", way, {}) for way in (then, otherwise))
    ways = Way(trace, "then", then), Way(trace, "otherwise", otherwise)
    result = merged(ways, (ways[0].found, ways[1].found))
    if isinstance(result, str):
        fail(f"a conditional expression: {result}", "it has one type and shape",
             "cast, broadcast or reshape one of them", InvalidType)  # fmt: skip
    pair, weak = result
    return Tensor(trace, branch(condition, ways, [pair])[0], weak=weak)
