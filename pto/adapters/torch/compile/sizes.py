# SPDX-License-Identifier: Apache-2.0
"""PyTorch's symbolic sizes as ours: a sympy expression as a _core.Dim, and as Python text.

    expression(node.meta["val"].shape[0])          # 16, or s0 * s1
    dim_of(s0 * s1, {s0: Dim.symbol(0), s1: Dim.symbol(1)})

Thread safety: pure functions.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import sympy

import torch
from pto.formulas import NotExpressible
from pto.language.infer import size_max, size_min
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._sympy import functions as ours
from torch.utils._sympy.printers import PythonPrinter

_QUOTIENTS = tuple(getattr(ours, name) for name in ("FloorDiv", "CleanDiv") if hasattr(ours, name))
_REMAINDERS = tuple(getattr(ours, n) for n in ("Mod", "PythonMod") if hasattr(ours, n))


def expression(size: Any) -> Any:
    """A size as an int or a sympy expression; 1 where the graph was captured for that alone, since
    an axis of size 1 is repeated beside others."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    found = size.node.expr
    if found.is_Integer:
        return int(found)
    return 1 if not found.is_Symbol and statically_known_true(size == 1) else found


def expressions(sizes: Sequence[Any]) -> tuple:
    return tuple(map(expression, sizes))


def symbols_of(sizes: Sequence[Any]) -> set[sympy.Symbol]:
    return {one for size in sizes if not isinstance(size, int) for one in size.free_symbols}


def is_from_data(symbol: sympy.Symbol) -> bool:
    """Says whether a size depends on elements of tensors, as nonzero's."""
    return symbol.name.startswith(("u", "zuf"))


def solutions(sizes: Sequence[Any]) -> dict[sympy.Symbol, tuple[int, int, int]]:
    """How sizes tell their symbols: a symbol is (sizes[place] - b) / a for its (place, a, b).

    The first size that is a symbol tells it, else the first that is a times it plus b. Symbols of
    which there is no such size are left out.
    """
    found: dict[sympy.Symbol, tuple[int, int, int]] = {}
    for is_plain in (True, False):
        for place, size in enumerate(sizes):
            symbols = symbols_of([size])
            if len(symbols) == 1 and not symbols & found.keys() and size.is_Symbol == is_plain:
                (symbol,) = symbols
                offset = size.subs(symbol, 0)
                factor = (size - offset).coeff(symbol)
                is_linear = size.is_polynomial(symbol) and size == factor * symbol + offset
                if is_linear and factor.is_Integer and factor > 0 and offset.is_Integer:
                    found[symbol] = place, int(factor), int(offset)
    return found


_ABOVE = 1 << 48


def lift_of(symbol: sympy.Symbol) -> int:
    """The number to add to a symbol for the size that carries it into a program: 0 for a size; a
    large one for a number of the call, which may be negative as no size is."""
    return 0 if symbol.is_nonnegative else _ABOVE


def dim_of(size: Any, known: Mapping[sympy.Symbol, Any]) -> Any:
    """A size for known values of its symbols. Raises NotExpressible for an unknown symbol or an
    operation that sizes of programs lack."""
    if isinstance(size, int):
        return size
    if size.is_Integer:
        return int(size)
    if size.is_Symbol:
        if size not in known:
            raise NotExpressible(f"the size {size} comes from data")
        return known[size]
    parts = [dim_of(one, known) for one in size.args]
    if size.is_Add:
        return functools.reduce(lambda a, b: a + b, parts)
    if size.is_Mul:
        return functools.reduce(lambda a, b: a * b, parts)
    if size.is_Pow and isinstance(parts[1], int) and 0 < parts[1] < 8:
        return functools.reduce(lambda a, b: a * b, [parts[0]] * parts[1])
    if isinstance(size, _QUOTIENTS):
        return parts[0] // parts[1]
    if isinstance(size, _REMAINDERS):
        return parts[0] % parts[1]
    if isinstance(size, ours.ModularIndexing):
        return parts[0] // parts[1] % parts[2]
    if isinstance(size, (ours.Max, sympy.Max)):
        return functools.reduce(size_max, parts)
    if isinstance(size, (ours.Min, sympy.Min)):
        return functools.reduce(size_min, parts)
    raise NotExpressible(f"the size {size} has an operation that sizes of programs lack")


def text_of(size: Any) -> str:
    """A size as Python text over the names of its symbols; it may call `math` and `torch`."""
    return str(size) if isinstance(size, int) else f"({PythonPrinter().doprint(size)})"
