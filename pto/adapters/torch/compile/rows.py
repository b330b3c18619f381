# SPDX-License-Identifier: Apache-2.0
"""The table of overloads that a compiled graph knows beside the rows of pto.aten: views, products,
norms, and what makes or moves tensors, as formulas of the tile language.

    @row(Kind.PRODUCT, "mm")
    def mm(out, a, b): ...

A formula takes `out`, the promised result (an Out), and the arguments of the overload, with
traced tensors in the places of tensors and sizes of programs in those of SymInts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pto.adapters.torch.compile.sizes import NotExpressible
from pto.aten import table as _aten_table  # noqa: F401 fills the rows
from pto.aten.rows import ROWS as FORMULAS
from pto.aten.rows import Row as Formula


class Kind(Enum):
    """The part of a node in a plan."""

    VIEW = "view"  # runs nothing, and belongs to each program that reads it
    MAKE = "make"  # reads no tensor, and belongs to each program that reads it
    POINT = "point"  # element by element
    REDUCE = "reduce"  # along axes
    NORM = "norm"
    PRODUCT = "product"
    GATHER = "gather"
    COPY = "copy"  # moves elements, or changes their type
    ATTENTION = "attention"  # an operator of the library, in a step of its own


@dataclass(frozen=True)
class Row:
    """`constants` are the places of arguments that a program packs where they are weights."""

    kind: Kind
    build: Callable[..., Any] | None
    constants: tuple[int, ...] = ()
    promotes: bool = False  # whether tensors of several types become one, as PyTorch's rules say


@dataclass(frozen=True)
class Out:
    """The promised result of a node: element type and shape; of several results those of each."""

    dtype: Any
    shape: tuple
    parts: tuple["Out | None", ...] = ()


def only(condition: bool, why: str) -> None:
    if not condition:
        raise NotExpressible(why)


def axis_of(x: Any, dim: int) -> int:
    return dim % max(len(x.shape), 1)


TABLE: dict[str, Row] = {}


def row(kind: Kind, *overloads: str, **options: Any) -> Callable[[Callable], Callable]:
    """Makes the decorated formula the row of these overloads."""

    def add(formula: Callable) -> Callable:
        for overload in overloads:
            TABLE[overload] = Row(kind, formula, **options)
        return formula

    return add


def _of(formula: Formula) -> Callable[..., Any]:
    return lambda out, *args, **kwargs: formula.formula(*args, **kwargs)


_SUMS = (
    "softmax.int",
    "log_softmax.int",
    "sum.dim_IntList",
    "mean.dim",
    "amax",
    "amin",
    "logsumexp",
)


def row_of(overload: str) -> Row | None:
    """The row of an overload, "add.Tensor", of this table or of that of ATen's surface."""
    found = TABLE.get(overload)
    if found is None and overload in FORMULAS:
        kind = Kind.REDUCE if overload in _SUMS else Kind.POINT
        found = TABLE[overload] = Row(kind, _of(FORMULAS[overload]), promotes=kind is Kind.POINT)
    return found
