# SPDX-License-Identifier: Apache-2.0
"""The table of overloads that compiled graphs know beside the rows of pto.aten, as formulas of the
tile language: views, products, norms, overloads that make or move tensors, and those that are here
with other conditions than there.

    @row(Kind.PRODUCT, "mm")
    def mm(out, a, b): ...

A formula takes `out`, the promised result (an Out), and the arguments of the overload, with
traced tensors in the places of tensors and sizes of programs in those of SymInts.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from pto.aten import table as _aten_table  # noqa: F401 fills the rows
from pto.aten.rows import EVERY, INTEGERS, rounded
from pto.aten.rows import ROWS as FORMULAS
from pto.aten.rows import Row as Formula
from pto.formulas import NotExpressible
from pto.language.op import Operator
from pto.language.redefinition import newest
from pto.language.tensor import Tensor


class Kind(Enum):
    """The part that a node plays in a plan."""

    VIEW = "view"  # runs nothing, and belongs to each program that reads it
    MAKE = "make"  # reads no tensor, and belongs to each program that reads it
    POINT = "point"  # element by element
    REDUCE = "reduce"  # along axes
    NORM = "norm"
    PRODUCT = "product"
    GATHER = "gather"
    COPY = "copy"  # moves elements, or changes their type
    OPERATOR = "operator"  # one that @op defines in the tile language
    ATTENTION = "attention"  # an operator of the library, in a step of its own


@dataclass(frozen=True)
class Row:
    """An overload: its kind and its formula, None for one that only a step of its own computes.

    `constants` are the places of arguments that a program packs where they are weights.
    """

    kind: Kind
    build: Callable[..., Any] | None
    constants: tuple[int, ...] = ()
    promotes: bool = False  # whether tensors of several types become one, as PyTorch's rules say
    types: tuple[str, ...] = EVERY  # that a row which promotes computes in
    others: tuple[str, ...] = ()  # arguments that keep their types: conditions, positions
    by_rows: bool = False  # whether it takes only tensors whose last axis lies in one piece


@dataclass(frozen=True)
class Out:
    """The promised result of a node: element type and shape; of several results those of each;
    and the precision of products of f32, see tile.matmul()."""

    dtype: Any
    shape: tuple
    parts: tuple["Out | None", ...] = ()
    precision: str | None = None


def only(condition: bool, why: str) -> None:
    """Raises NotExpressible with this reason unless the condition holds."""
    if not condition:
        raise NotExpressible(why)


def axis_of(x: Any, dim: int) -> int:
    """The axis of x, counted from the front; 0 for a tensor without axes."""
    return dim % max(len(x.shape), 1)


TABLE: dict[str, Row] = {}


def row(kind: Kind, *overloads: str, **options: Any) -> Callable[[Callable], Callable]:
    """Makes the decorated formula the row of these overloads."""

    def add(formula: Callable) -> Callable:
        for overload in overloads:
            TABLE[overload] = Row(kind, formula, **options)
        return formula

    return add


@functools.cache
def arguments_of(overload: str) -> dict[str, Any]:
    """The names of an overload's arguments in order, each with its default, None where it has
    none."""
    packet, _, name = overload.partition(".")
    schema = getattr(getattr(torch.ops.aten, packet), name or "default")._schema
    return {a.name: a.default_value if a.has_default_value() else None for a in schema.arguments}


def _of(formula: Formula, overload: str) -> Callable[..., Any]:
    """The formula of a row of ATen's surface under the row's own conditions: numbers and shapes
    that it does not take, arguments that change no result, one rounding of f16 and bf16."""
    known = arguments_of(overload)

    def build(out: Out, *args: Any, **kwargs: Any) -> Any:
        values = known | dict(zip(known, args, strict=False)) | kwargs
        why = formula.unless(values) if formula.unless else None
        only(not why, str(why))
        values = formula.given(values) if formula.given else values
        given = {n: values[n] for n in formula.parameters if n in values and n != "out"}
        for name in values.keys() - given.keys() - {*formula.ignored}:
            is_default = not isinstance(values[name], Tensor) and values[name] == known.get(name)
            only(is_default, f"an argument {name}")

        def named(*tensors: Any) -> Any:
            return formula.formula(**dict(zip(given, tensors, strict=True)))

        is_wide = formula.widens and bool(formula.ulp)
        return rounded(named, *given.values()) if is_wide else named(*given.values())

    return build


def row_of_integers(*overloads: str) -> Callable[[Callable], Callable]:
    """Makes the decorated formula serve integers; floats keep that of ATen's surface."""

    def add(formula: Callable) -> Callable:
        for overload in overloads:
            floats = _of(FORMULAS[overload], overload)

            def build(out: Out, *args: Any, floats: Any = floats, **kwargs: Any) -> Any:
                return (formula if out.dtype.is_integer else floats)(out, *args, **kwargs)

            types = (*INTEGERS, *FORMULAS[overload].types)
            TABLE[overload] = Row(Kind.POINT, build, promotes=True, types=types)
        return formula

    return add


_REDUCTIONS = ("softmax.int", "log_softmax.int", "logsumexp")  # of ATen's surface


def is_foreign(overload: str) -> bool:
    """Says whether an overload is neither ATen's nor of `prims`: "pto::linear"."""
    return "::" in overload and not overload.startswith("prims::")


def operator_of(overload: str) -> Operator | None:
    return newest.get(overload.removeprefix("pto::"))


def is_operator(overload: str) -> bool:
    """Says whether an overload is an operator of ours, "pto::linear" or one of @op."""
    is_ours = overload.startswith("pto::") or is_foreign(overload) and operator_of(overload)
    return bool(is_ours)


def _row_of_operator(overload: str) -> Row | None:
    """The row of an operator of @op, "pto::layer_norm", or of a jitted function: its definition,
    traced in its place. None for a kernel in C++, one that writes, or has lists of results."""
    operator = operator_of(overload)
    if operator is None or operator.member("build") is None:
        return None
    writes = any(one.mutable for one in operator.tensors)
    if writes or any(one.is_list for one in operator.outputs):
        return None
    kept = operator.member("constants") or ()
    constants = tuple(i for i, one in enumerate(operator.arguments) if one.name in kept)

    def build(out: Out, *args: Any, **kwargs: Any) -> Any:
        found = operator(*args, **kwargs)
        row = tuple(found) if isinstance(found, list | tuple) else (found,)
        return row if out.parts else row[0]

    return Row(Kind.OPERATOR, build, constants)


def row_of(overload: str) -> Row | None:
    """The row of an overload, "add.Tensor", of this table or of that of ATen's surface; or that of
    an operator of @op, "pto::layer_norm"."""
    if is_foreign(overload):
        return _row_of_operator(overload)
    found = TABLE.get(overload)
    if found is None and overload in FORMULAS:
        kind = Kind.REDUCE if overload in _REDUCTIONS else Kind.POINT
        known = FORMULAS[overload]
        found = TABLE[overload] = Row(
            kind, _of(known, overload), (), kind is Kind.POINT, known.types, tuple(known.others)
        )
    return found
