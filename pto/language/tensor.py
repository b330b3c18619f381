# SPDX-License-Identifier: Apache-2.0
"""Tensor: a value of a program that is being traced. It has a shape and a type, but no data.

    y = x.exp() * 2             # records operations; `if x > 0` raises InvalidType

Its operators and methods are the functions of this folder, which register themselves with `@method`
(operation.py). An operation that would need data (`if x > 0`, `float(x)`) is an error with the fix.
A call in steps (stepping.py) has values: `numpy.asarray(x)`, `x.numpy()`, `x.item()`, `x.tolist()`,
`repr` and formats show them. Conditions and numbers stay errors: compiled they could not steer.

A Tensor is a handle on a version of a value: `x[i] = y` puts it on the next version. In the body
of a loop a tensor from outside stands for an input of the body: scope.py.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from pto.errors import Error, InvalidType, TracedCondition, UnknownAttribute, nearest
from pto.language.annotations import TensorType
from pto.language.dtypes import DType, dtype
from pto.language.location import fail, user_line
from pto.language.misuse import formatted, not_here, refuse_key

if TYPE_CHECKING:
    from pto.language.trace import Trace


class ListedShape(list):
    """Sizes as a list that the reader may change; it adds to and compares with tuples as one."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return ListedShape(found) if isinstance(at, slice) else found

    def __add__(self, other: Any) -> Any:
        return ListedShape([*self, *other]) if isinstance(other, list | tuple) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return ListedShape([*other, *self]) if isinstance(other, list | tuple) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return list.__eq__(self, list(other) if isinstance(other, tuple) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other  # list has its own, without tuples


class Tensor:
    """A traced tensor: `shape` (int, or Dim where the size is known only at the call), `dtype`."""

    __slots__ = ("_dtype", "_shape", "is_input", "node", "scope", "trace", "weak")
    __array_ufunc__ = None  # NumPy hands `array * tensor` to the reflected operator here

    def __class_getitem__(cls, sizes: Any) -> TensorType:
        return TensorType(sizes)  # an annotation: pto.Tensor[pto.DYN, 64]

    def __init__(self, trace: "Trace", value: int, weak: bool = False, is_input: bool = False):
        name, shape = trace.builder.type(value)
        self.trace, self.node, self.weak, self.is_input = trace, value, weak, is_input
        self.scope = trace.scope
        self._dtype, self._shape = dtype(name), shape

    @property
    def value(self) -> int:
        """The number of the node in the graph; raises InvalidType where the tracing has ended."""
        self.trace.check_open()
        scope = self.trace.scope
        return self.node if self.scope is scope else scope.value_of(self)

    def old(self) -> int:
        """The value that a write changes."""
        return self.value

    def put(self, value: int) -> None:
        """Puts the handle on another version of its value, of the same type."""
        self.scope, self.node = self.trace.scope, value

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def shape(self) -> tuple:
        """The sizes; under short_writes a list: `half = x.shape; half[-1] //= 2`."""
        listed: Any = ListedShape(self._shape) if self.trace.short_writes else self._shape
        return listed

    @property
    def valid_shape(self) -> tuple:
        """The shape: every element of a tensor exists."""
        return self.shape

    @property
    def ndim(self) -> int:
        return len(self._shape)

    def dim(self) -> int:
        """As `ndim`: the number of axes."""
        return self.ndim

    @property
    def T(self) -> "Tensor":
        """This tensor with its axes in the opposite order."""
        return self._turned(range(self.ndim)[::-1])

    @property
    def mT(self) -> "Tensor":
        """This tensor with its last two axes exchanged."""
        if self.ndim < 2:
            fail(f"x.mT has two axes or more, and x has {self.ndim}",
                 "the last two axes, those of a matrix, are exchanged",
                 "pass a matrix, or x[:, None]", InvalidType)  # fmt: skip
        return self._turned([*range(self.ndim - 2), self.ndim - 1, self.ndim - 2])

    def _turned(self, axes: Sequence[int]) -> "Tensor":
        if self.ndim < 2:
            return self
        return Tensor(self.trace, self.trace.here().transpose(self.value, list(axes)))

    def __repr__(self) -> str:
        kind = f"{self._dtype}[{', '.join(map(str, self._shape))}]"
        if self._has_values():
            return f"<{kind} {self.trace.steps.value(self)}>"
        return f"<traced {kind}>"

    def _has_values(self) -> bool:
        """Says whether its elements are known: in steps, and not in a body that is looked over."""
        trace = self.trace
        return trace.open and trace.is_stepping and self.scope is trace.scope

    def __format__(self, form: str) -> str:
        if form and not self._shape and self._has_values():
            return format(self.trace.steps.value(self).item(), form)
        return formatted(self, repr(self), form)

    def __hash__(self) -> int:
        if self.trace.open:
            refuse_key(self)
        return id(self)

    def __len__(self) -> int:
        return _no_data(self, "len()", "use x.shape[0]")

    def __iter__(self) -> NoReturn:
        _no_data(
            self, "iteration", "use operations on whole tensors, or range() over a known number"
        )

    def __delitem__(self, key: object) -> NoReturn:
        fail(
            f"del of a part of {self!r}",
            "a tensor keeps its sizes, so no part of it can be taken away",
            "join the parts that stay: pto.concat([x[:i], x[i + 1:]], 0)",
            InvalidType,
        )

    def __bool__(self) -> bool:
        return _no_data(
            self,
            "a condition (if, while, and, or, not, in)",
            "choose element by element with pto.where(condition, a, b); combine conditions with "
            "& | ~; make what steers the program a parameter of the function",
            TracedCondition,
        )

    def _number(self) -> NoReturn:
        _no_data(
            self,
            "conversion to a Python number (range, an index of a list, int(), math.sqrt())",
            "keep it a tensor: numbers and tensors combine; count with pto.loop(n); look numbers "
            "up in a tensor instead of a list; compute with pto.sqrt(x)",
        )

    __int__ = __float__ = __index__ = __complex__ = _number

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        found = self.numpy()
        return found if dtype is None else found.astype(dtype)

    def __dlpack__(self, *_: object, **__: object) -> NoReturn:
        _no_data(self, "conversion to an array", "use the functions of pto on it: pto.exp(x)")

    def numpy(self) -> Any:
        """A NumPy array of the values, to look at in steps; an error where they are not known."""
        if self._has_values():
            return self.trace.steps.value(self)
        return _no_data(
            self, "conversion to an array", "use the functions of pto on it: pto.exp(x)"
        )

    def tolist(self) -> Any:
        """The values as lists of Python's numbers, to look at in steps."""
        return self.numpy().tolist() if self._has_values() else self._number()

    def item(self) -> Any:
        """The value of one element as Python's number, to look at in steps."""
        if not self._has_values():
            self._number()
        found = self.numpy()
        if found.size == 1:
            return found.item()
        return fail(
            f"item() of {found.size} elements", "it is the value of one", "take one: x[0].item()"
        )

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(f"a traced tensor has no attribute {name!r}")

        why = other_name(name) or nearest(name, dir(self))
        raise UnknownAttribute(
            f"a traced tensor has no {name}", why, "use a name of pto", user_line()
        )

    @classmethod
    def __torch_function__(
        cls, function: Callable, _: object, args: tuple, kwargs: dict | None = None
    ) -> NoReturn:
        name = getattr(function, "__name__", "function")
        given = (*args, *(kwargs or {}).values())
        x = next((one for one in given if isinstance(one, Tensor)), None)
        _no_data(x, f"torch.{name}()", f"inside a traced function use pto.{name}, if pto has it")


class ShortPart(Tensor):
    """A part of which not all exists: `room` is the shape that it was asked in."""

    __slots__ = ("room",)

    def __init__(self, x: Tensor, room: tuple):
        super().__init__(x.trace, x.node, weak=x.weak)
        self.room = room


_REDUCTIONS = {"max": "amax", "min": "amin"}
_OPERATORS = {"conv2d", "embedding", "gemm", "nonzero", "slice", "split"}
_NAMES = {"cat": "concat", "mm": "matmul", "bmm": "matmul", "matmul": "matmul", "empty": "zeros"}
_NAMES |= {"top_k": "topk", "take": "index_select", "take_along_axis": "take_along_dim"}


def other_name(name: str) -> str:
    """Our name for a name that other libraries use; "" if it is unknown."""
    if name in _REDUCTIONS:
        return f"pto.{_REDUCTIONS[name]} reduces, pto.{name}imum takes two operands"
    if name in _NAMES:
        return f"pto.{_NAMES[name]} does that"
    if name in _OPERATORS:
        return f"pto.ops.{name} exists, but a traced function cannot call it"
    return ""


def _no_data(x: Tensor | None, use: str, fix: str, kind: type[Error] = InvalidType) -> NoReturn:
    if x is not None:
        x.trace.check_open()
    if x is None or x.trace.steps is None:
        fail(f"{use} on a traced tensor", not_here(False), fix, kind)
    if x.trace.is_stepping:
        fix += "; to look at it: numpy.asarray(x), x.item()"
        fail(f"{use} on a traced tensor", not_here(True), fix, kind)
    fail(
        f"{use} on a traced tensor in the body of a loop or branch",
        "the body is looked over before it runs, to learn its types, and has no values then",
        fix + "; to look at it: pto.print(x)",
        kind,
    )
