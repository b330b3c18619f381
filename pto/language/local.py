# SPDX-License-Identifier: Apache-2.0
"""Local tensors of a program, which get their elements by writes.

    scores = pto.tensor([rows, 64], pto.f32)      # nothing is in it
    scores[i] = row                               # from here on it can be read
    y = pto.tensor()                              # shape and type come with the first write
    y[:] = scores * 2

A write of a tensor without elements takes those of another: t[:] = pto.tensor(t.shape).

Invariant: what is read was written before, in the order of the text, or in a loop that is known to
have no iteration; parts that no write reached are 0. Thread safety: as a trace.
"""

from typing import Any, NoReturn

from pto.errors import InvalidType
from pto.language.dtypes import f32
from pto.language.fill import zeros
from pto.language.location import fail, user_line
from pto.language.operands import Kind, Shape
from pto.language.tensor import Tensor
from pto.language.trace import Trace, current


class LocalTensor(Tensor):
    """A tensor that can be read once it was written; without a shape until then, if need be."""

    __slots__ = ("emptied", "is_written", "line", "skipped")

    def __init__(self, trace: Trace, empty: Tensor | None):
        self.is_written, self.line, self.skipped = False, user_line(), trace.skipped
        self.emptied: tuple[Any, int] | None = None  # the version that is without elements again
        if empty is not None:
            super().__init__(trace, empty.node)
        else:
            self.trace, self.scope, self.node = trace, trace.scope, -1
            self.weak = self.is_input = False
            self._shape = None  # type: ignore[assignment]

    @property
    def has_elements(self) -> bool:
        """Says whether a write comes before this line, in the order of the text."""
        if (self.scope, self.node) == self.emptied:
            return False
        return self.is_written or self.trace.skipped > self.skipped

    @property
    def value(self) -> int:
        if not self.has_elements:
            fail(
                f"a tensor is read that nothing has written, from {self.line}",
                "pto.tensor declares a tensor; a write gives it elements",
                "write it in front of this line: t[:] = value; pto.zeros(shape) starts with zeros",
                InvalidType,
            )
        return self.old()

    def old(self) -> int:
        return Tensor.value.fget(self)  # type: ignore[attr-defined]

    @property
    def shape(self) -> tuple:
        return super().shape if self._shape is not None else self._no_type()

    @property
    def dtype(self) -> Any:
        return self._dtype if self._shape is not None else self._no_type()

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return super().__repr__() if self._shape is not None else "<traced, of no shape yet>"

    def put(self, value: int) -> None:
        super().put(value)
        self.is_written = True

    def empty(self) -> None:
        """Takes the elements away: nothing is in it until the next write."""
        if self.is_written:
            self.old()  # a body takes what it writes from outside
            super().put(zeros(self.shape, self.dtype).node)
            self.emptied = self.scope, self.node

    def take_type(self, value: Any, is_whole: bool) -> None:
        """Takes shape and type of a value that is about to be written, where it has none yet."""
        if self._shape is not None:
            return
        if not is_whole or not isinstance(value, Tensor):
            self._no_type()
        empty = zeros(value.shape, value.dtype)
        super().__init__(self.trace, empty.node)

    def _no_type(self) -> NoReturn:
        fail(
            f"a tensor has no shape yet, from {self.line}",
            "pto.tensor() takes shape and type from a first write of all of it",
            "write t[:] = value first, or declare them: pto.tensor([4, 8], pto.f32)",
            InvalidType,
        )


def tensor(shape: Shape | None = None, dtype: Kind = f32, name: str = "") -> LocalTensor:
    """A tensor of a program without elements; `name` is for the reader.

    Formula: t[key] = value comes before t is read
    Shapes: `shape`, or that of the first write
    Example:
        t = pto.tensor(x.shape, x.dtype)
        t[0], t[1] = x[1], x[0]
        return t
    """
    trace = current("tensor")
    return LocalTensor(trace, None if shape is None else zeros(shape, dtype))
