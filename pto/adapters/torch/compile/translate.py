# SPDX-License-Identifier: Apache-2.0
"""Nodes of an FX graph as formulas of the tile language.

    known = Translation()
    known.refusal(node)             # None, or why ATen runs it
    known.reads(node)               # the values that it reads, views looked through
    Building(known, {x: traced}, sizes).compute(node)

Views and tensors made of numbers alone are lazy: they are no steps, but belong to each program that
reads them. The results of a node that makes several are its getitem nodes. Thread safety: a
Translation belongs to one thread.
"""

import functools
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from pto import _core
from pto import language as tile
from pto.adapters.torch.compile import (  # noqa: F401 fill the table
    formulas,
    indexing,
    movement,
    pools,
    resizes,
)
from pto.adapters.torch.compile.rows import Kind, Out, Row, arguments_of, is_operator, only, row_of
from pto.adapters.torch.compile.sizes import dim_of, expression, is_from_data, symbols_of
from pto.adapters.torch.compile.values import ANY, Promise
from pto.errors import Error
from pto.formulas import NotExpressible
from pto.graphs.program import Parameter, Recipe
from pto.language.tensor import Tensor
from pto.language.types import cast
from torch import fx
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes
from torch.fx.experimental.symbolic_shapes import statically_known_true

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
LAZY = (Kind.VIEW, Kind.MAKE)
_SLICES = ("slice.Tensor", "slice_scatter")
# Here ATen takes the value of a tensor without axes as a number: it may exceed a narrow type.
_BY_NUMBERS = ("mul.Tensor", "div.Tensor")


def overload_of(node: fx.Node) -> str | None:
    """The overload that a node calls: "add.Tensor" of ATen, "prims::NAME" or "pto::NAME" elsewhere;
    None for what is no operator."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return None
    return node.target.name().removeprefix("aten::")


def is_symbolic(node: fx.Node) -> bool:
    """Says whether a node stands for a number."""
    return isinstance(node.meta.get("val"), (*_SYMBOLIC, int, float, bool))


def is_part(node: fx.Node) -> bool:
    return node.op == "call_function" and node.target is operator.getitem


def tensors_of(value: Any) -> list[torch.Tensor]:
    """The tensors of what a node makes."""
    found = value if isinstance(value, list | tuple) else [value]
    return [one for one in found if isinstance(one, torch.Tensor)]


def given_of(node: fx.Node) -> dict[str, Any]:
    """The arguments that a node of ATen gives, by their names."""
    return dict(zip(arguments_of(overload_of(node)), node.args, strict=False)) | node.kwargs


def _begins_inside(node: fx.Node) -> bool:
    """Says whether a slice begins at a number, or where PyTorch knows of a size that it is one of
    the axis: neither counted from the end nor cut."""
    given = {"dim": 0, "start": None, "step": 1} | given_of(node)
    if not isinstance(given["start"], fx.Node):
        return True
    begin, size = given["start"].meta["val"], node.args[0].meta["val"].shape[given["dim"]]
    is_known = not any(map(is_from_data, symbols_of([expression(begin)])))
    inside = begin >= 0, begin <= size
    return is_known and given["step"] == 1 and all(map(statically_known_true, inside))


class Translation:
    """Answers questions about the nodes of one graph, which stays as it is, and keeps the answers.

    `precision` is that of products of f32; None: as the process says.
    """

    def __init__(self, precision: str | None = None) -> None:
        self.precision = precision
        self._row_of = functools.cache(row_of)  # an operator that is defined anew stays as it was
        self._trials: dict[str, str | None] = {}
        for name in ("promise", "is_lazy", "reads", "refusal"):
            setattr(self, name, functools.cache(getattr(self, name)))

    def promise(self, node: fx.Node) -> Promise:
        return Promise(node.meta["val"])

    def row(self, node: fx.Node) -> Row | None:
        name = overload_of(node) if node.op == "call_function" else None
        return None if name is None else self._row_of(name)

    def is_lazy(self, node: fx.Node) -> bool:
        if is_part(node):
            return self.is_lazy(node.args[0])
        row = self.row(node)
        return row is not None and row.kind in LAZY and self.refusal(node) is None

    def fuses(self, node: fx.Node) -> bool:
        """Says whether a node is part of a program, not a step of its own."""
        row = self.row(node)
        return row is not None and row.build is not None and self.refusal(node) is None

    def is_dense_view(self, node: fx.Node) -> bool:
        """Says whether a node views one tensor without gaps as another one: as a reshape does."""
        if not self.is_lazy(node) or is_part(node) or self.is_made(node):
            return False
        (seen,) = (one for one in node.all_input_nodes if not is_symbolic(one))
        if not all(isinstance(one.meta["val"], torch.Tensor) for one in (seen, node)):
            return False
        promises = self.promise(seen), self.promise(node)
        return all(p.is_exact and [*p.order] == sorted(p.order) for p in promises)

    def is_made(self, node: fx.Node) -> bool:
        """Says whether a node is lazy and reads no elements, though perhaps sizes of a tensor."""
        return self.is_lazy(node) and not is_part(node) and self.row(node).kind is Kind.MAKE

    def bases(self, node: fx.Node) -> Iterator[fx.Node]:
        """The values that a lazy node is computed from; any other node itself."""
        if self.is_made(node):
            return
        if is_part(node) and self.is_lazy(node):
            yield from self.bases(node.args[0])
        elif self.is_lazy(node):
            for one in node.all_input_nodes:
                if not is_symbolic(one):
                    yield from self.bases(one)
        else:
            yield node

    def reads(self, node: fx.Node) -> list[fx.Node]:
        """The values that a node reads, each once."""
        read = (one for one in node.all_input_nodes if not is_symbolic(one))
        return list(dict.fromkeys(base for one in read for base in self.bases(one)))

    # --- what can be said -------------------------------------------------------------------------

    def refusal(self, node: fx.Node) -> str | None:
        """Why a node is no part of a program; None: it is one."""
        row = self.row(node)
        if row is None or row.build is None:
            is_ours = is_operator(overload_of(node) or "")
            return "it is a kernel in C++" if is_ours else "the tile language has no formula for it"
        if any(not isinstance(one.meta.get("val"), (torch.Tensor, *_SYMBOLIC, int, list, tuple))
               for one in node.all_input_nodes):  # fmt: skip
            return "an argument is no tensor"
        read = [one.meta["val"] for one in node.all_input_nodes if not is_symbolic(one)]
        for one in (*read, *tensors_of(node.meta.get("val"))):
            if not isinstance(one, torch.Tensor):
                return "an argument is a list that a node made"
            promise = Promise(one)
            if promise.dtype is None:
                return f"a tensor is {one.dtype} on {one.device}, {one.layout}"
            if promise.fake.ndim > _core.MAX_RANK:
                return f"a tensor has more than {_core.MAX_RANK} axes"
            if any(map(is_from_data, symbols_of(promise.shape))):
                return "a size comes from data"
            if row.by_rows and promise.stride_class == ANY:
                return "a tensor whose last axis has gaps in memory, which ATen reads faster"
        if overload_of(node) == "as_strided" and not self._is_alike(node):
            return "elements at strides of their own"
        if overload_of(node) in _SLICES and not _begins_inside(node):
            return "a slice whose begin is known only at the call"
        if any(is_symbolic(one) and not isinstance(one.meta["val"], torch.SymInt | int)
               for one in node.all_input_nodes):  # fmt: skip
            return "an argument is a number that is known only at the call"
        return self._trial(node)

    def _is_alike(self, node: fx.Node) -> bool:
        """Says whether a view shows its tensor as it is."""
        seen, shown = node.args[0].meta["val"], node.meta["val"]
        offsets = (expression(one.storage_offset()) for one in (seen, shown))
        return next(offsets) == next(offsets) and Promise(seen).is_alike(Promise(shown))

    def _trial(self, node: fx.Node) -> str | None:
        """Traces a node alone; nodes that differ only in names share the answer."""
        inputs = [one for one in node.all_input_nodes if not is_symbolic(one)]
        about = {one: f"{self.promise(one).dtype}{self.promise(one).shape}" for one in inputs}
        about |= {one: str(one.meta["val"]) for one in node.all_input_nodes if is_symbolic(one)}
        made = [(t.dtype, tuple(t.shape)) for t in tensors_of(node.meta["val"])]
        arguments = fx.node.map_arg((node.args, node.kwargs), lambda one: about[one])
        same = [inputs.index(one) for one in inputs]
        key = f"{overload_of(node)} {arguments} {same} {made}"
        if key not in self._trials:
            self._trials[key] = self._traced_alone(node, inputs)
        return self._trials[key]

    def _traced_alone(self, node: fx.Node, inputs: list[fx.Node]) -> str | None:
        numbers = [expression(one.meta["val"]) for one in node.all_input_nodes if is_symbolic(one)]
        wanted = symbols_of([s for one in (*inputs, node) for t in tensors_of(one.meta["val"])
                             for s in Promise(t).shape] + numbers)  # fmt: skip
        symbols = sorted(wanted, key=str)
        parameters = [Parameter(self.promise(one).dtype) for one in inputs] + [Parameter("u8")]

        def shapes(sizes: Sequence[Any]) -> list[tuple]:
            known = dict(zip(symbols, sizes, strict=True))
            own = [tuple(dim_of(n, known) for n in self.promise(one).shape) for one in inputs]
            return [*own, (1,)]

        def build(tensors: list[Tensor], sizes: Sequence[Any]) -> list[Tensor]:
            known = dict(zip(symbols, sizes, strict=True))
            found = Building(self, dict(zip(inputs, tensors, strict=False)), known).compute(node)
            return list(found) if isinstance(found, tuple) else [found]

        places = tuple((0, 0) for _ in symbols)
        try:
            Recipe(("trial",), tuple(parameters), places, shapes, build).trace()
        except NotExpressible as why:
            return str(why)
        except Error as error:
            return error.what
        except Exception as error:  # what does not trace, for whatever reason, stays with ATen
            return f"{type(error).__name__}: {error}"
        return None


class Building:
    """One tracing of nodes: `values` has the traced tensor of each node that is known."""

    def __init__(self, of: Translation, values: dict[fx.Node, Any], known: dict):
        self.of, self.values, self.known = of, values, known

    def value(self, node: fx.Node) -> Any:
        """The traced value of a node; views are computed when they are asked for."""
        if node not in self.values:
            if is_part(node):
                self.values[node] = self.value(node.args[0])[node.args[1]]
            else:
                self.values[node] = self.compute(node)
        return self.values[node]

    def compute(self, node: fx.Node) -> Any:
        """Records a node; its value, with the types that the graph promises."""
        row = self.of.row(node)
        out = self._out(node.meta["val"])
        argument = self._argument_of_made if row.kind is Kind.MAKE else self._argument
        args = [argument(one) for one in node.args]
        kwargs = {name: argument(one) for name, one in node.kwargs.items()}
        if row.promotes:
            args, kwargs = self._promoted(node, row, out, args, kwargs)
        found = row.build(out, *args, **kwargs)
        if isinstance(found, tuple):
            return tuple(map(_promised, found, out.parts))
        return _promised(found, out)

    def _out(self, value: Any) -> Out:
        if isinstance(value, list | tuple):
            parts = tuple(self._out(one) for one in value)
            return Out(parts[0].dtype, parts[0].shape, parts)
        promise = Promise(value)
        kind, shape = tile.dtype(promise.dtype), self._sizes(promise.shape)
        return Out(kind, shape, precision=self.of.precision)

    def _sizes(self, sizes: Sequence[Any]) -> tuple:
        return tuple(dim_of(size, self.known) for size in sizes)

    def _argument(self, value: Any) -> Any:
        if isinstance(value, fx.Node):
            if is_symbolic(value):
                return dim_of(expression(value.meta["val"]), self.known)
            return self.value(value)
        if isinstance(value, list | tuple):
            return [self._argument(one) for one in value]
        return value

    def _argument_of_made(self, value: Any) -> Any:
        """As _argument(), with None for a tensor, of which only the sizes count."""
        is_tensor = isinstance(value, fx.Node) and not is_symbolic(value)
        return None if is_tensor else self._argument(value)

    def _promoted(
        self, node: fx.Node, row: Row, out: Out, args: list, kwargs: dict
    ) -> tuple[list, dict]:
        """The arguments with the element type in which PyTorch computes."""
        apart, named = row.others, given_of(node)
        if out.dtype is tile.boolean:  # a factor makes no numbers of conditions
            named.pop("alpha", None)
        flat = [a for name, a in named.items() if a is not None and name not in apart]
        given = [a.meta["val"] if isinstance(a, fx.Node) else a for a in flat]
        given = [a for a in given if isinstance(a, torch.Tensor | int | float | torch.SymInt)]
        _, common = elementwise_dtypes(
            *given, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
        )
        are_whole = not any(isinstance(a, torch.Tensor) and a.is_floating_point() for a in given)
        is_whole = not out.dtype.is_float and out.dtype is not tile.boolean
        if common.is_floating_point and are_whole and is_whole:
            raise NotExpressible("a number would make floats of its whole numbers")
        name = str(common).removeprefix("torch.")
        if out.dtype.is_float and not common.is_floating_point:
            name = out.dtype.long_name
        if name not in row.types:
            raise NotExpressible(f"there is no formula for {name}")
        kind = tile.dtype(name)

        def typed(of: str, value: Any) -> Any:
            if not isinstance(value, Tensor) or of in apart:
                return value
            is_number = of == "other" and value.ndim == 0 and overload_of(node) in _BY_NUMBERS
            return cast(value, tile.f32 if is_number and kind in (tile.f16, tile.bf16) else kind)

        names = arguments_of(overload_of(node))
        typed_args = [typed(n, a) for n, a in zip(names, args, strict=False)]
        return typed_args, {n: typed(n, v) for n, v in kwargs.items()}


def _promised(found: Tensor, out: Out) -> Tensor:
    only(len(found.shape) == len(out.shape), "its formula gives another number of axes")
    return found if found.dtype is out.dtype else cast(found, out.dtype)


def arranged(x: Tensor, order: Sequence[int]) -> Tensor:
    """x with its axes in this order."""
    return x if list(order) == sorted(order) else tile.permute(x, tuple(order))


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=lambda axis: order[axis]))
