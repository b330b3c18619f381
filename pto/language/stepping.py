# SPDX-License-Identifier: Apache-2.0
"""Calls in steps: the user's function runs in Python, and the interpreter computes as it goes.

    pto.config.interpret = True
    y = softmax(x)                   # step_call.py

Loops and branches run as Python's. In front of each the usual tracing goes over it in a scope that
is thrown away: it says what is wrong, and which types the variables have behind it. A program
therefore computes here what it computes compiled, within the bounds of interpret_with_bounds().

Thread safety: as a trace.
"""

from collections.abc import Callable
from typing import Any

from pto import _core
from pto.errors import InvalidValue
from pto.language.carried import Carried, Undefined, as_traced, leaving, shaped
from pto.language.interpret import unpack
from pto.language.leaves import Leaves
from pto.language.location import warn_at
from pto.language.results import taken_apart
from pto.language.symbol import unwrapped
from pto.language.tensor import Tensor
from pto.language.trace import Trace
from pto.language.types import cast
from pto.language.ways import Chosen, Way


class NeedsSteps(InvalidValue):
    """A function prints or stops where its values are not known: it runs in steps."""


class Steps:
    """The values of a trace whose inputs have theirs, `packed` as interpret() takes them."""

    def __init__(self, trace: Trace, packed: list[tuple]):
        self.core = _core.Stepper(trace.builder, packed)

    def value(self, x: Any) -> Any:
        """A NumPy array for a tensor, an int for a size; anything else as it is."""
        x = unwrapped(x)
        if isinstance(x, _core.Dim):
            return self.core.size(x)
        return unpack(self.core.value(x.value)) if isinstance(x, Tensor) else x

    def shown(self, value: Any) -> Any:
        """A value with all that stands in its tuples, lists and dicts; numbers as Python's."""
        leaves, form = taken_apart(value)
        found = [self.value(leaf) for leaf in leaves]
        numbers = [isinstance(leaf, Tensor) and leaf.weak and not leaf.ndim for leaf in leaves]
        return form.assemble(
            tuple(one.item() if yes else one for one, yes in zip(found, numbers, strict=True))
        )


def stepped(trace: Trace, usual: Callable[[], tuple], run: Callable[[], tuple]) -> tuple:
    """The variables behind a loop or branch that `run` executes, typed as `usual` traces it."""
    trace.trials += 1
    try:
        like = Way(trace, "types", usual).found
    finally:
        trace.trials -= 1
    pairs = {str(place): pair for place, pair in enumerate(zip(run(), like, strict=True))}
    leaves = Leaves.common(pairs)
    ends = [leaves.apart({name: pair[k] for name, pair in pairs.items()}) for k in (0, 1)]
    return leaves.behind(_as(value, ends[1][name]) for name, value in ends[0].items())


def _as(value: Any, like: Any) -> Any:
    if not isinstance(like, Tensor) or value is like or isinstance(value, Undefined):
        return like
    found = as_traced(like.trace, value)
    assert found is not None
    kind = Chosen if isinstance(like, Chosen) else Tensor
    return kind(like.trace, shaped(cast(found, like.dtype), like.shape), weak=like.weak)


def stepped_loop(trace: Trace, given: dict[str, Any], next_round: Callable) -> tuple:
    """The variables behind a loop; `next_round` takes them, and returns the locals() of its body,
    or None at the end."""
    now = {name: first for name, value in given.items()
           if (first := as_traced(trace, value)) is not None}  # fmt: skip
    entered = {}
    while True:
        for name, first in now.items():
            entered[name] = Carried(name, first, Tensor(trace, first.value, weak=first.weak))
        found = next_round(given | {name: one.param for name, one in entered.items()})
        if found is None:
            return tuple((given | now).values())
        for name, one in entered.items():
            value = leaving(one, found.get(name, one.param))
            if value is not None:
                now[name] = Tensor(trace, value, weak=one.first.weak)


_told: set[str] = set()


def warn_of_steps(name: str, error: NeedsSteps) -> None:
    """Says once for a function and line that its calls are interpreted."""
    text = f"{name} runs in the interpreter, right and slow, for it prints or stops here"
    if (found := f"{text} {error.location}") not in _told:
        _told.add(found)
        warn_at(error.location, text)
