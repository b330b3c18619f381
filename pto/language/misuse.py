# SPDX-License-Identifier: Apache-2.0
"""Uses of traced values that Python or a library refuses in its own words, or answers wrongly.

    told(error, code)        # an Error with the fix, for a bare TypeError about a traced value
    refuse_key(n)            # in __hash__: `n in {3, 4}` would be False for every n

Thread safety: pure functions.
"""

import dis
import re
import sys
import types

from pto.errors import Error, InvalidIndex, InvalidType
from pto.language.location import fail, is_users, line_of, shown

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
_NUMPY_INDEX = "only integers, slices (`:`), ellipsis"


def told(error: Exception, code: types.CodeType) -> Error | None:
    """The error of the function with this code as ours, with the user's line.

    None where no traced value is at fault.
    """
    known = error if isinstance(error, Error) else _known(error)
    if known is not None:
        definition = f"{shown(code.co_filename)}:{code.co_firstlineno}"
        known.location = known.location or line_of(error) or definition
        known.__traceback__ = error.__traceback__
    return known


def _known(error: Exception) -> Error | None:
    text = str(error)
    if isinstance(error, TypeError | AttributeError) and _TRACED.search(text):
        return InvalidType(
            f"Python refuses a traced value: {text}",
            "the function is compiled once for all values, so a traced one stands for a number or "
            "tensor that only operations of pto take",
            next(fix for words, fix in _FIXES if words in text),
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


def refuse_key(value: object, only_in: bool = False) -> None:
    """Fails where the user's own line asks for the hash of a traced value; `only_in`: by `in`."""
    frame = sys._getframe(2)
    code = frame.f_code
    by_in = code.co_code[frame.f_lasti] == dis.opmap["CONTAINS_OP"]
    if is_users(code.co_filename) and (by_in or not only_in):
        fail(
            f"{value!r} is a key of a dict or a member of a set",
            "these look for an equal number, and the value of a traced one is known only at the "
            "call, so none would ever be found",
            "compare with each number: (n == 3) | (n == 4); or look it up in a tensor: table[n]",
            InvalidType,
        )
