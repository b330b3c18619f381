# SPDX-License-Identifier: Apache-2.0
"""Uses of traced values that Python or a library refuses in its own words, or answers wrongly.

    told(error, code)        # an Error with the fix, for a bare TypeError about a traced value
    not_here(in_steps)       # why no line of Python gets the value
    refuse_key(n)            # in __hash__: `n in {3, 4}` would be False for every n

Thread safety: pure functions.
"""

import dis
import functools
import linecache
import re
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

from pto.errors import BY_KIND, Error, Failure, InvalidIndex, InvalidType
from pto.language.location import describe, fail, is_users, line_of, place_of, shown

RAISED = "a function of the operator's class raised it"  # why an error of worded() came

_TRACED = re.compile(
    r"\b(Tensor|Dim|SymbolicScalar|Index|Chosen|ShortPart)\b|<(traced|symbolic) |, got 's\d+\b"
)
_FIXES = (
    ("ufunc", "use the function of pto: pto.sqrt(x) instead of numpy.sqrt(x)"),
    ("not callable", "leave the brackets away, or write x[i] for a part"),
    ("has no attribute", "use a method of tensors; x.shape has the sizes"),
    ("__round__", "use pto.round, pto.floor or pto.ceil"),
    ("format", "print it as an expression: f'{n}'"),
    ("", "use operations of pto, which take tensors, sizes and numbers; or make the number a "
         "parameter of the function"),
)  # fmt: skip
_USES = ("does not support item assignment", "is not subscriptable")
_OF_TENSORS = {"shape", "dtype", "ndim", "view", "reshape", "transpose", "valid_shape"}
_LOOKUPS = ("get", "pop", "setdefault")  # methods of a dict
_NUMPY_INDEX = "only integers, slices (`:`), ellipsis"


def not_here(in_steps: bool) -> str:
    """The reason why a line of Python cannot have the value of a traced tensor or number."""
    if in_steps:
        return "values are there to be looked at in steps; compiled, no line could depend on one"
    return "the function is compiled once for all values, so none is known while it is traced"


def told(error: Exception, code: types.CodeType, in_steps: bool = False) -> Error | None:
    """The error of the function with this code as ours, with the user's line.

    None where no traced value is at fault.
    """
    known = error if isinstance(error, Error) else _known(error, in_steps)
    if known is not None:
        definition = f"{shown(code.co_filename)}:{code.co_firstlineno}"
        known.location = known.location or line_of(error) or definition
        known.__traceback__ = error.__traceback__
    return known


def _known(error: Exception, in_steps: bool) -> Error | None:
    text = str(error)
    if isinstance(error, TypeError | AttributeError) and _TRACED.search(text):
        look = "; to look at it: numpy.asarray(x)" if in_steps and "Tensor" in text else ""
        why = ("the function is compiled once for all values, so a traced one stands for a number "
               "or tensor that only operations of pto take")  # fmt: skip
        return InvalidType(
            f"Python refuses a traced value: {text}",
            not_here(True) if in_steps else why,
            next(fix for words, fix in _FIXES if words in text) + look,
        )
    if isinstance(error, KeyError) and any(_TRACED.search(type(x).__name__) for x in error.args):
        return InvalidType(
            f"a dict has no key {error.args[0]!r}",
            "its keys are known, and a traced value is none of them before the call",
            "look numbers up in a tensor: table[n]; or compare: pto.where(n == 3, a, b)",
        )
    if isinstance(error, IndexError) and text.startswith(_NUMPY_INDEX):
        return InvalidIndex(
            f"an index of a NumPy array: {text}",
            "an array from outside takes known integers, and a traced number is none",
            "make the array a parameter of the function, and index that",
        )
    return None


def worded(method: Callable) -> Callable:
    """Lets a method that calls functions of an operator's class raise none but our errors.

    Frameworks pass on the text of an error alone, so it has the user's line and the kind.
    """

    @functools.wraps(method)
    def call(operator: Any, *args: Any) -> Any:
        try:
            return method(operator, *args)
        except Error:
            raise
        except Exception as error:
            kind = next((k for k in BY_KIND if isinstance(error, k.__bases__[1])), Failure)
            found = _known(error, False) or kind(
                f"{operator.name}: {type(error).__name__}: {error}",
                RAISED,
                "correct that line, or the call",
            )
            found.location = line_of(error)
            raise found from error

    return call


def told_of_constant(error: Exception, name: str, arguments: Iterable[tuple]) -> Error | None:
    """The error of a line that uses an argument as a tensor which is none; None for any other.

    `arguments` are the parameters, the constants, and what is known of tensors.
    """
    text, place = str(error), place_of(error)
    line = linecache.getline(*place) if place else ""
    for parameter, value, about in arguments:
        kind, looked_up = type(value).__name__, getattr(error, "name", None) in _OF_TENSORS
        if about is not None:
            continue
        is_part = text.startswith(tuple(f"{kind!r} object {use}" for use in _USES))
        if (looked_up and getattr(error, "obj", error) is value) or (
            is_part and re.search(rf"\b{parameter}\s*\[", line)
        ):
            return InvalidType(
                f"{name}: {parameter} is {describe(value)}, and a line uses it as a tensor: {text}",
                "an argument that is no array is a constant, and a part or shape of it is Python's",
                f"pass an array for {parameter}",
                line_of(error),
            )
    return None


def formatted(value: object, text: str, form: str) -> str:
    """The text of a traced value in a format, which fits an expression."""
    try:
        return format(text, form)
    except ValueError:
        fail(
            f"the format {form!r} of {value!r}",
            "one kernel serves all sizes and numbers; until it runs they print as an expression",
            "leave the format away: f'{n}'",
        )


def refuse_key(value: object, may_be_kept: bool = False) -> None:
    """Fails where the user's own line asks for the hash of a traced value.

    One that `may_be_kept` is a key among its like, as in memo[n]; it fails where a number may be
    the key, and its absence is no error: `n in d`, `d.get(n)`.
    """
    frame = sys._getframe(2)
    if is_users(frame.f_code.co_filename) and not (may_be_kept and not _may_miss(frame)):
        fail(
            f"{value!r} is a key of a dict or a member of a set",
            "these look for an equal number, and a traced one stands for those of all calls, "
            "so none would ever be found",
            "compare with each number: (n == 3) | (n == 4); or look it up in a tensor: table[n]",
            InvalidType,
        )


def _may_miss(frame: types.FrameType) -> bool:
    """Says whether a line looks a key up in a way that answers where there is none."""
    code = frame.f_code
    operation = dis.opname[code.co_code[frame.f_lasti]]
    if not operation.startswith("CALL"):
        return operation == "CONTAINS_OP"
    here = [(start, end) for start, end, line in code.co_lines() if line == frame.f_lineno]
    return any(
        one.argval in _LOOKUPS and any(start <= one.offset < end for start, end in here)
        for one in dis.get_instructions(code)
    )
