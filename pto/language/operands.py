# SPDX-License-Identifier: Apache-2.0
"""The types of arguments that many functions of the language share.

    def pad(x: Tensor, pad: Sequence[Whole], value: Operand = 0) -> Tensor: ...

They are for readers and type checkers, to which docs/stubs.py passes them on; the functions check
what they get themselves.
"""

from collections.abc import Sequence
from types import EllipsisType
from typing import Any, Protocol, SupportsIndex

from pto._core import Dim
from pto.language.dtypes import DType
from pto.language.symbol import SymbolicScalar
from pto.language.tensor import Tensor


class Array(Protocol):
    """An array of any library: outside of a traced function it stands in the place of a Tensor."""

    @property
    def __array__(self) -> Any: ...


class LibraryType(Protocol):
    """An element type of another library, such as numpy.dtype("f4") or torch.float32."""

    @property
    def itemsize(self) -> int: ...


Axes = int | tuple[int, ...] | list[int] | None  # along which something goes; None: all
Operand = Tensor | float | Dim | SymbolicScalar  # a tensor, or one number for all its elements
Whole = SupportsIndex | Tensor | Dim | SymbolicScalar  # a size, a position or a count
Kind = DType | str | type[Any] | LibraryType  # an element type, as pto.dtype() takes it
Place = Whole | slice | EllipsisType | None  # what an index says of one axis
Key = Place | tuple[Place, ...]
Shape = Whole | Sequence[Whole]
