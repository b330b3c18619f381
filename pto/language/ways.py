# SPDX-License-Identifier: Apache-2.0
"""One way of a branch, traced into a body of its own: branches.py.

    way = Way(trace, "then", lambda: x + 1)      # way.found is a tensor of way.scope

Thread safety: as a trace.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from pto import _core
from pto.errors import InvalidType
from pto.language.carried import as_traced
from pto.language.location import fail
from pto.language.scope import Captured
from pto.language.tensor import Tensor
from pto.language.trace import Trace


class Chosen(Tensor):
    """The value of a variable that stands for another tensor on some path; it is read only."""

    __slots__ = ()

    def put(self, value: int) -> None:
        fail(
            "a write into a variable that is another tensor on some path",
            "which tensor it is, is known only at the call, and the variable has its value",
            "write into the tensor itself on that path; or give the variable its own: pto.clone(x)",
            InvalidType,
        )


class Way:
    """One of the ways: its graph, what it computed, and the versions that it wrote."""

    def __init__(self, trace: Trace, name: str, run: Callable[[], Any]):
        self.trace, self.scope = trace, trace.enter(name)
        hints = dict(trace.hints.now) if trace.hints else None
        self.found = run()
        self.written: dict[int, int] = {}  # id() of a handle -> its newest version here
        for key, c in self.scope.captured.items():
            if c.handle.scope is self.scope:
                self.written[key] = c.handle.node
                c.handle.scope, c.handle.node = self.scope.parent, c.outer  # for the other way
        if trace.hints and trace.hints.now != hints:
            trace.hints.put_back(hints or {})
        trace.leave()

    @contextlib.contextmanager
    def open(self) -> Iterator[_core.GraphBuilder]:
        """Records into this way again."""
        outer, self.trace.scope = self.trace.scope, self.scope
        try:
            yield self.trace.here()
        finally:
            self.trace.scope = outer

    def version(self, c: Captured) -> int:
        """The version of a handle with which this way ends."""
        if id(c.handle) in self.written:
            return self.written[id(c.handle)]
        with self.open():
            return c.handle.value

    def is_another(self, value: Any, before: Any) -> bool:
        """Says whether a value is a tensor from outside that has another name, as inputs have."""
        c = self.scope.captured.get(id(value))
        return c is not None and bool(c.handle.shape) and (value is not before or value.is_input)

    def traced(self, value: Any) -> Tensor | None:
        """A value as a tensor of this way, a handle with the version that it has at its end."""
        if id(value) in self.written:
            return Tensor(self.trace, self.written[id(value)])
        return as_traced(self.trace, value)
