# SPDX-License-Identifier: Apache-2.0
"""Functions from generated text, whose source MindSpore can read back."""

import itertools
import linecache
from collections.abc import Callable
from typing import Any

_numbers = itertools.count()


def function_from(text: str, name: str) -> Callable:
    """Runs the text and returns the function `name` that it defines.

    MindSpore compiles a function from its source, which it asks of inspect; inspect looks in
    linecache, where an entry without a date is never dropped. It finds the names that a function
    uses among those of its closure, not among such globals.
    """
    file = f"<pto.mindspore {next(_numbers)} {name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": __name__}
    exec(compile(text, file, "exec"), space)
    return space[name]
