# SPDX-License-Identifier: Apache-2.0
"""Annotations of parameters: which sizes are free, fixed, or each a case of its own.

    def scores(q: pto.Tensor[pto.DYN, 64], w: pto.Constant, out: pto.Tensor[..., pto.STATIC]): ...

A number fixes a size, and another one is an error; DYN (DYNAMIC) lets it vary, as without an
annotation; STATIC compiles for each value; `...` stands for any number of axes. An element type
behind the sizes is checked, too. Constant marks a tensor whose elements stay as they are.

Thread safety: immutable values.
"""

import types
from typing import Any

from pto import _core
from pto.errors import InvalidType
from pto.language.closures import closure_of
from pto.language.dtypes import DType
from pto.language.location import describe, fail


class Marker:
    """DYN or STATIC."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"pto.{self.name}"


DYN = DYNAMIC = Marker("DYN")
STATIC = Marker("STATIC")


class TensorType:
    """The text of an annotation as values; `sizes` is None where it says nothing of them.

    `rest` says what `...` says of each axis that it stands for: DYN or STATIC.
    """

    __slots__ = ("is_constant", "kind", "rest", "sizes")

    def __init__(self, parts: Any = None, is_constant: bool = False, rest: Marker = DYN):
        given = () if parts is None else parts if isinstance(parts, tuple | list) else (parts,)
        self.kind = given[-1] if given and isinstance(given[-1], DType) else None
        sizes = given[:-1] if self.kind else given
        for size in sizes:
            whole = isinstance(size, int) and not isinstance(size, bool) and size >= 0
            if not (whole or size is Ellipsis or isinstance(size, Marker)):
                fail(f"an annotation of a tensor has the size {describe(size)}",
                     "sizes are numbers, pto.DYN, pto.STATIC or ...; an element type may follow",
                     "write pto.Tensor[pto.DYN, 64]", InvalidType)  # fmt: skip
        if [*sizes].count(Ellipsis) > 1:
            fail("an annotation of a tensor has two ...", "one stands for all axes that are left",
                 "take one out", InvalidType)  # fmt: skip
        self.sizes = tuple(sizes) if parts is not None else None
        self.is_constant = is_constant
        self.rest = rest

    def __repr__(self) -> str:
        parts = [*map(str, self.sizes or ()), *([f"pto.{self.kind}"] if self.kind else [])]
        return f"pto.Tensor[{', '.join(parts).replace('Ellipsis', '...')}]"

    def of_rank(self, name: str, rank: int) -> list[Any]:
        """Returns what it says of each axis of a tensor of this rank."""
        if self.sizes is None:
            return [DYN] * rank
        given = [*self.sizes]
        if Ellipsis in given:
            at = given.index(Ellipsis)
            given[at : at + 1] = [self.rest] * (rank - len(given) + 1)
        if len(given) != rank:
            fail(
                f"{name} has {rank} axes, and is annotated as {self!r}",
                "an annotation has a size for each axis",
                "pass another tensor, or change it",
            )
        return given

    def shape(self, name: str, kind: str, shape: tuple) -> tuple:
        """The shape with which a function is traced, for a call with this one."""
        if self.kind is not None and str(self.kind) != kind:
            fail(
                f"{name} is {kind}, and is annotated as {self!r}",
                "an annotation fixes the element type",
                f"cast it to {self.kind}",
                InvalidType,
            )
        sizes = []
        for axis, (size, wanted) in enumerate(
            zip(shape, self.of_rank(name, len(shape)), strict=True)
        ):
            is_fixed = isinstance(wanted, int)
            may_fit = size == wanted if isinstance(size, int) else wanted != 1
            if is_fixed and not may_fit:
                refuse_size(name, axis, size, self)
            sizes.append(wanted if is_fixed else size)
        return tuple(sizes)

    def with_sizes(self, name: str, shape: tuple) -> "TensorType":
        """The annotation with the sizes of this shape in the place of STATIC."""
        if self.sizes is None:
            return self
        sizes = self.of_rank(name, len(shape))
        for axis, (size, wanted) in enumerate(zip(shape, sizes, strict=True)):
            if isinstance(size, int) and isinstance(wanted, int) and size != wanted:
                refuse_size(name, axis, size, self)
            sizes[axis] = size if wanted is STATIC and isinstance(size, int) else wanted
        return TensorType((*sizes, *([self.kind] if self.kind else [])), self.is_constant)

    @property
    def is_static(self) -> bool:
        sizes = self.sizes or ()
        return STATIC in sizes or (Ellipsis in sizes and self.rest is STATIC)

    @property
    def is_free(self) -> bool:
        """Says whether every tensor fits it."""
        return self.kind is None and self.sizes in (None, (Ellipsis,)) and not self.is_static


def refuse_size(name: str, axis: int, size: Any, kind: TensorType) -> None:
    """Raises InvalidValue for an axis of another size than its annotation fixes."""
    given = "another size than 1" if isinstance(size, _core.Dim) else f"the size {size}"
    fail(f"{name} has {given} along axis {axis}, and is annotated as {kind!r}",
         "a number in an annotation fixes the size",
         "pass a tensor of that size, or write pto.DYN or pto.STATIC")  # fmt: skip


class Constant:
    """Marks a parameter as a tensor whose elements stay as they are: `w: pto.Constant`.

    `pto.Constant[pto.DYN, 64]` says its sizes, too.
    """

    def __class_getitem__(cls, sizes: Any) -> TensorType:
        return TensorType(sizes, is_constant=True)


def annotations_of(function: types.FunctionType) -> dict[str, TensorType]:
    """Returns what the annotations of a function say of its tensors."""
    found = {}
    for name, given in getattr(function, "__annotations__", {}).items():
        if isinstance(given, str):
            given = _evaluated(function, given)
        for one in (given, *getattr(given, "__metadata__", ())):  # of typing.Annotated
            if isinstance(one, TensorType):
                found[name] = one
            elif one is Constant:
                found[name] = TensorType(is_constant=True)
    return found


def _evaluated(function: types.FunctionType, text: str) -> Any:
    """The value of an annotation that is a text; None where its names are not known here."""
    known = {name: cell.cell_contents for name, cell in closure_of(function).items()}
    try:
        return eval(text, function.__globals__, known)  # noqa: S307 the user's own text
    except (NameError, AttributeError, ValueError, SyntaxError, TypeError):
        return None
