# SPDX-License-Identifier: Apache-2.0
"""Checks of the values that a program gets, before it goes on.

    pto.check(lengths <= keys.shape[0], "lengths are at most the number of keys")
    assert keys.shape[0] % 128 == 0, "keys are whole pages"      # one condition, in a def

A check of a program's own body runs in front of everything that it does not itself need, so a call
that it refuses has written nothing. One inside a loop or branch runs there. Thread safety: as a
trace.
"""

import math
from collections.abc import Callable
from typing import Any

from pto._core import Dim
from pto.errors import Error, InvalidType, InvalidValue
from pto.language.branches import truth
from pto.language.dtypes import boolean, i64
from pto.language.elementwise import ne
from pto.language.location import describe, fail
from pto.language.logic import logical_not
from pto.language.reduce import sum
from pto.language.symbol import unwrapped
from pto.language.tensor import Tensor
from pto.language.trace import current, is_tracing
from pto.language.types import cast, constant, number
from pto.language.whole import min, whole


def check(condition: Any, what: str) -> None:
    """Raises an Error at the call where an element of a condition is not true.

    `condition` is bool, of any shape; true where it has no elements. The error has the sentence
    `what`, the line, and how many elements are not true; where it compares what is given, sizes or
    numbers, also the first two that are not. A condition that is known while tracing fails then,
    unless it stands in a loop or branch.

    Formula: all(condition)
    Shapes: `condition` has any
    Example:
        pto.check(y > 0, "every number is positive")
        return pto.maximum(x, y)
    """
    condition = unwrapped(condition)
    if not isinstance(what, str):
        fail(f"check: {describe(what)} where a sentence is expected",
             "the error shows it to those who call the function",
             "say what has to be true: pto.check(n <= m, 'n is at most m')",
             InvalidType)  # fmt: skip
    trace = current("check")
    if isinstance(condition, Dim):
        condition = ne(whole(trace, condition, "check"), 0)
    if not isinstance(condition, Tensor):
        if not isinstance(known := number(condition), int):
            fail(f"check: the condition is {describe(condition)}",
                 "a condition is a tensor of bool, or a bool that is known while tracing",
                 "compare: pto.check(n >= 0, ...)", InvalidType)  # fmt: skip
        if known:
            return
        if trace.scope.parent is None:
            fail(f"check: not true: {what}", "the function states it, and it is known to be false",
                 "pass arguments of which it is true", InvalidValue)  # fmt: skip
        condition = constant(trace, False, boolean)
    if condition.dtype is not boolean:
        fail(f"check: the condition is {condition.dtype}", "a condition is true or false",
             "compare: pto.check(n >= 0, ...)", InvalidType)  # fmt: skip
    elements: Any = math.prod(condition.shape)
    wrong = min(sum(cast(logical_not(condition), i64)), elements)  # says the most it can be
    count = trace.size(whole(trace, wrong, "check"), condition.value)
    trace.here().guard_holds(count, what)
    trace.scope.keep_for_checks()


def asserted(condition: Any, text: Callable[[], Any], written: str) -> None:
    """`assert condition, text()` of a def: a check where the condition is traced.

    Elsewhere it is Python's, except in a loop or branch of the program. A check whose text would
    show traced values has the text as it is `written`.
    """
    condition = truth(condition)
    if isinstance(condition, Tensor):
        check(cast(condition, boolean), _said(text, written))
    elif not condition and is_tracing() and current("assert").scope.parent is not None:
        check(False, _said(text, written))
    elif not condition:
        raise AssertionError(text())


def _said(text: Callable[[], Any], written: str) -> str:
    try:
        found = str(text())
    except Error:  # a traced value has no such format
        return written
    return written if "<traced " in found else found
