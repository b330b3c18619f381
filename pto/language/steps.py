# SPDX-License-Identifier: Apache-2.0
"""The indices of a pto.loop that a `break` may leave: it runs as a `while` over its index.

    steps = Steps(pto.loop(n))          # rewrite_statements.py makes these calls of the text
    at = steps.first
    while not left and steps.goes(at):
        i = steps.index(at)
        ...
        at = steps.after(at)

Thread safety: as a trace.
"""

from pto.errors import InvalidValue
from pto.language.control import Index, loop
from pto.language.elementwise import gt, lt, where
from pto.language.location import fail
from pto.language.tensor import Tensor
from pto.language.trace import current


class Steps:
    """The indices of one loop, one after the other."""

    def __init__(self, over: loop):
        if over.parallel:
            fail("loop: parallel=True, but its body has a break",
                 "whether an iteration runs is known only after the one before it",
                 "leave parallel=True away; or let each iteration run and write what it found",
                 InvalidValue)  # fmt: skip
        self.over = over
        bounds = over.bounds(current("loop"), over.start, over.stop, 1)
        self.first, self.stop, self.step = bounds

    def goes(self, at: Tensor) -> Tensor:
        """Says whether the loop has an iteration for this index."""
        if isinstance(self.over.step, int):
            return lt(at, self.stop) if self.over.step > 0 else gt(at, self.stop)
        return where(gt(self.step, 0), lt(at, self.stop), gt(at, self.stop))

    def index(self, at: Tensor) -> Index:
        return Index(at, self.over, self.over.step)

    def after(self, at: Tensor) -> Tensor:
        return at + self.over.step
