# SPDX-License-Identifier: Apache-2.0
"""Functions of the language that take arguments by the public package's names, too.

    sum = with_public_names(pto.sum)
    sum(input=x, dim=-1)            # pto.sum(x, -1)

Thread safety: pure functions.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pto
from pto.errors import InvalidType
from pto.language.location import fail

_FIRST = {"input", "self", "input_tensor", "input1", "first", "base", "a", "x", "src"}
_SECOND = {"other", "mat2", "input2", "second"}
_ALSO = {"dims": "axes", "perm": "axes", "source": "src", "end": "stop", "gamma": "weight",
         "epsilon": "eps"}  # fmt: skip


def with_public_names(function: Callable, ignored: tuple[str, type] | None = None) -> Callable:
    """The function, called by its own names of arguments or by the public ones.

    `scatter_` takes those of `scatter`; `ignored` is the name and type of one without a meaning.
    """
    like = getattr(pto, function.__name__.removesuffix("_"), function)
    names = [*inspect.signature(like).parameters]
    without, kind = ignored or ("", ())

    @functools.wraps(function)
    def called(*args: Any, **given: Any) -> Any:
        given.pop(without, None)
        kept = [one for one in args if not isinstance(one, kind)]
        known = {_ours(function, name, names): value for name, value in given.items()}
        return function(*kept, **known)

    return called


def _ours(function: Callable, name: str, names: list[str]) -> str:
    if name in names:
        return name
    if name in _FIRST:
        return names[0]
    if name in _SECOND and len(names) > 1:
        return names[1]
    if _ALSO.get(name) in names:
        return _ALSO[name]
    return fail(f"{function.__name__} has no argument {name}", f"it takes {', '.join(names)}",
                "use one of these names, or pass it by its place", InvalidType)  # fmt: skip
