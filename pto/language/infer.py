# SPDX-License-Identifier: Apache-2.0
"""The values that `infer` of an operator computes with: Specs, sizes, and the rules between them.

    def infer(x, y, alpha): return pto.broadcast(x, y)
    def infer(x, sizes, dim): return [x.like((n, *x.shape[1:])) for n in sizes]

A size is an int, or a Dim if only the call knows it; + - * // % and size_min, size_max,
size_broadcast combine them. `require_equal` states that two sizes must be equal. A Dim may be 1 in
some call, so comparing two sizes proves nothing; `broadcast` is right for every size.
"""

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

from pto import _core
from pto.errors import Error, InvalidType, InvalidValue
from pto.language.dtypes import DType, dtype
from pto.language.location import describe
from pto.language.tensor import Tensor

Size = int | _core.Dim
_BROADCAST = 9  # Dim.op


class Spec:
    """Element type and shape of a tensor."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple, dtype: DType):
        self.shape, self.dtype = shape, dtype

    def __repr__(self) -> str:
        return f"Spec({list(self.shape)}, {self.dtype})"

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def like(self, shape: tuple | None = None, dtype: DType | None = None) -> "Spec":
        return Spec(self.shape if shape is None else tuple(shape), dtype or self.dtype)

    def axis(self, dim: int) -> int:
        """`dim` counted from the front. Raises InvalidValue where there is no such axis."""
        if not -self.ndim <= dim < self.ndim:
            raise InvalidValue(
                f"there is no axis {dim} in a tensor of {self.ndim} axes",
                "an axis counts from the front from 0, or from the end from -1"
                if self.ndim
                else "a tensor of rank 0 has no axis",
                f"pass an axis from {-self.ndim} to {self.ndim - 1}"
                if self.ndim
                else "pass a tensor with an axis",
            )
        return dim % self.ndim


def spec_of(like: Any) -> Any:
    """The Spec of (element type, shape), of a list of them, or None."""
    if isinstance(like, list):
        return [spec_of(one) for one in like]
    return None if like is None else Spec(tuple(like[1]), dtype(like[0]))


def spec_of_value(value: Any) -> Any:
    """The Spec of a traced tensor, or of a list of them; another value as it is."""
    if isinstance(value, list):
        return [spec_of_value(one) for one in value]
    return Spec(value.shape, value.dtype) if isinstance(value, Tensor) and not value.weak else value


def described(result: Any) -> Any:
    """(element type, shape) of a Spec or traced tensor, or of a list of them."""
    if isinstance(result, tuple | list):
        return [described(one) for one in result]
    return str(result.dtype), tuple(result.shape)


def where_needed(needs: int, *specs: Any) -> tuple:
    """The results of a gradient operator, Specs or lists of them: empty ones where no bit of
    `needs` asks for them."""
    return tuple(
        s if needs >> i & 1 else [] if isinstance(s, list) else s.like((0,))
        for i, s in enumerate(specs)
    )


_recorded = threading.local()


@contextlib.contextmanager
def recorded_guards(name: str) -> Iterator[list[tuple[Size, Size, str, int]]]:
    """Collects what require_equal() states on this thread; errors name the operator."""
    outer = getattr(_recorded, "guards", None)
    _recorded.guards = []
    try:
        yield _recorded.guards
    except Error as error:
        if name not in error.what:
            error.what = f"{name}: {error.what}"
        raise
    finally:
        _recorded.guards = outer


def require_equal(a: Size, b: Size, because: str) -> None:
    """States that two sizes are equal in every call; `because` names what needs it.

    Formula: a == b
    Example:
        try:
            pto.require_equal(2, 3, "rows of x and y")
        except pto.Error as error:
            print(error.what)
    """
    _check_sizes("require_equal", a, b)
    if isinstance(a, int) and isinstance(b, int):
        if a != b:
            raise InvalidValue(
                f"{because}: sizes {a} and {b} differ",
                "they must be equal",
                "pass tensors of fitting shapes",
            )
        return
    guards = getattr(_recorded, "guards", None)
    if guards is None:
        raise InvalidType(
            "require_equal() was called outside infer", "it records a rule of an operator",
            "call it in the infer of a class under @op",
        )  # fmt: skip
    guards.append((a, b, because, 0))


def require_shape(spec: Spec, shape: tuple[Size, ...], because: str) -> None:
    """States that a tensor has this shape in every call."""
    if spec.ndim != len(shape):
        raise InvalidValue(
            f"{because}: a tensor of {spec.ndim} axes where {len(shape)} are expected",
            f"its shape must be {list(shape)}",
            "pass a tensor of that shape",
        )
    for own, size in zip(spec.shape, shape, strict=True):
        require_equal(own, size, because)


def _check_sizes(name: str, *sizes: object) -> None:
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int | _core.Dim):
            raise InvalidType(
                f"{name}: a size is {describe(size)}",
                "sizes are integers, or sizes of the arguments",
                "pass those of a tensor, such as x.shape[0]",
            )


def _joined(name: str, a: Size, b: Size, numbers: Any) -> Size:
    _check_sizes(f"size_{name}", a, b)
    if isinstance(a, int) and isinstance(b, int):
        return numbers(a, b)
    return getattr(a, name)(b) if isinstance(a, _core.Dim) else getattr(b, name)(a)


def size_min(a: Size, b: Size) -> Size:
    """The smaller size.

    Formula: min(a, b)
    Example: print(pto.size_min(2, 3))
    """
    return _joined("min", a, b, min)


def size_max(a: Size, b: Size) -> Size:
    """The larger size.

    Formula: max(a, b)
    Example: print(pto.size_max(2, 3))
    """
    return _joined("max", a, b, max)


def _broadcast_numbers(a: int, b: int) -> int:
    if 1 in (a, b) or a == b:
        return b if a == 1 else a
    raise InvalidValue(
        f"sizes {a} and {b} do not broadcast",
        "sizes are equal or one of them is 1",
        "pass tensors whose shapes broadcast",
    )


def size_broadcast(a: Size, b: Size) -> Size:
    """b where a is 1, a where b is 1 or equal; other pairs are an error of the call.

    Formula: b if a == 1 else a
    Example: print(pto.size_broadcast(1, 3))
    """
    return _joined("broadcast", a, b, _broadcast_numbers)


def broadcast_sizes(a: tuple, b: tuple) -> tuple:
    """The shape to which two shapes broadcast."""
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    ahead = len(longer) - len(shorter)
    return (*longer[:ahead], *map(size_broadcast, longer[ahead:], shorter))


def broadcast(*specs: Spec) -> Spec:
    """The Spec to which all broadcast, by NumPy's rules, of the first one's element type.

    Formula: size_broadcast(a, b) of the sizes of each axis
    Shapes: any that broadcast, as in NumPy
    Example: print(pto.broadcast(pto.Spec((2, 1), pto.f32), pto.Spec((3,), pto.f32)))
    """
    if not specs or not all(isinstance(s, Spec | Tensor) for s in specs):
        raise InvalidType(
            f"broadcast: called with {', '.join(map(describe, specs)) or 'nothing'}",
            "it joins the shapes of tensors, in infer of an operator",
            "pass those arguments of infer that are tensors",
        )
    return specs[0].like(functools.reduce(broadcast_sizes, (spec.shape for spec in specs)))


def agree(inferred: tuple, built: tuple, guards: list) -> bool:
    """Says whether an inferred shape is the one that was built, where the guards hold.

    A kernel is traced for sizes that are not 1, where broadcast(a, b) is either of them.
    """
    names: dict[str, str] = {}  # of sizes that guards make equal, to one of them

    def name(size: Size) -> str:
        found = str(size)
        while found in names:
            found = names[found]
        return found

    for a, b, *_ in guards:
        if name(a) != name(b):
            names[name(a)] = name(b)

    def alike(a: Size, b: Size) -> bool:
        if name(a) == name(b):
            return True
        joins = isinstance(a, _core.Dim) and a.op == _BROADCAST
        return joins and (alike(a.left, b) or alike(a.right, b))

    return len(inferred) == len(built) and all(map(alike, inferred, built))
