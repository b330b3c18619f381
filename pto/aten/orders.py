# SPDX-License-Identifier: Apache-2.0
"""The order in memory of what a row computes: a result has the strides that ATen's would have.

    lies = Order(bound, is_pointwise=True)
    result = lies.placed(program(**lies.taken(values)))

ATen keeps the order of its arguments: exp(x.T) is column by column where x.T is. A row that works
element by element gets views whose axes are in the order of the result, which it then writes row by
row; placed() copies the result of another row where ATen's has another order. A call whose tensors
lie in several orders is ATen's, because each of its kernels lets another tensor decide.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from pto.aten.binding import Bound
from pto.aten.records import arrays_in, library, record_of
from pto.kept import kept


def is_pointwise(full_name: str) -> bool:
    """Whether PyTorch says that an overload works element by element; its result lies so too.

    PyTorch says nothing of special_NAME, which calls NAME.
    """
    if full_name in _NOT_KEPT:
        return False
    record = record_of(full_name)
    is_special = record.name.startswith("special_")
    called = library().records(record.name.removeprefix("special_")) if is_special else ()
    return any("pointwise" in one.tags for one in (record, *called))


# The kernels of these lay their results row by row, though their Meta kernels keep the order.
_NOT_KEPT = frozenset({
    "log_sigmoid", "hardtanh_backward", "softplus_backward", "elu_backward",
    "hardsigmoid_backward", "hardswish_backward", "mse_loss_backward", "pow.Scalar",
})  # fmt: skip


class Order:
    """How the results of a call lie in memory.

    `written` is the array that the call writes, None where it makes its results.
    """

    def __init__(self, bound: Bound, is_pointwise: bool, written: Any = None):
        self._bound, self._is_pointwise, self._written = bound, is_pointwise, written
        dense = (one for _, one in arrays_in(bound.values) if library().dense_type(one))
        self._arrays = [one for one in dense if library().shape(one)]
        self.is_plain = all(map(library().is_contiguous, self._arrays))

    def refuses(self) -> str | None:
        """Why the order of ATen's results is not known; None: it is."""
        if self.is_plain or self._written is not None or self._are_in_order:
            return None
        is_known = self._are_alike if self._is_pointwise else self._strides is not None
        return None if is_known else "its tensors lie in other orders than row by row"

    @kept
    def _are_in_order(self) -> bool:
        return all(map(is_in_order, self._arrays))

    @kept
    def _are_alike(self) -> bool:
        return lie_alike(self._arrays)

    @kept
    def _strides(self) -> list[tuple[int, ...]] | None:
        """The strides of the results that a call makes, in elements; None: not known."""
        record = self._bound.record
        if self._is_pointwise:
            return [library().strides_of(self._arrays[0])] if self._are_alike else None
        if record.full_name in _NOT_KEPT:
            return None
        return library().strides(record, self._bound.values)

    @kept
    def _axes(self) -> tuple[int, ...] | None:
        """The axes of the result by stride, largest first; None where they need no change."""
        if self.is_plain or not self._is_pointwise or self._are_in_order:
            return None
        first = self._arrays[0] if self._written is None else self._written
        return by_stride(library().strides_of(first))

    def taken(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values with arrays as views in the order of the result."""
        return {name: self.place(value) for name, value in values.items()}

    def place(self, value: Any) -> Any:
        """An array as a view in that order; another value as it is."""
        is_array = self._axes is not None and library().dense_type(value) is not None
        if not is_array or not library().shape(value):
            return value
        return library().permuted(value, self._axes)

    def placed(self, made: Any) -> Any:
        """The results of the program as ATen's lie."""
        if self.is_plain or self._are_in_order or not self._strides:
            return made
        if isinstance(made, tuple | list):
            return type(made)(map(self._placed, made, self._strides))
        return self._placed(made, self._strides[0])

    def _placed(self, made: Any, strides: Sequence[int]) -> Any:
        if self._axes is not None:
            back = sorted(range(len(self._axes)), key=self._axes.__getitem__)
            made = library().permuted(made, back)
        return library().relaid(made, strides)


def by_stride(strides: Sequence[int]) -> tuple[int, ...]:
    """Axes by stride, largest first, equal ones in their order."""
    return tuple(sorted(range(len(strides)), key=lambda axis: -strides[axis]))


def is_in_order(array: Any) -> bool:
    """Whether an array lies row by row; it may have gaps and repeated elements."""
    both = zip(library().shape(array), library().strides_of(array), strict=True)
    steps = [stride for size, stride in both if size > 1 and stride]
    return all(a >= b for a, b in pairwise(steps))


def lie_alike(arrays: Sequence[Any]) -> bool:
    """Whether arrays have the same sizes and strides and no gaps, so that order does not matter."""
    lies = {(library().shape(one), library().strides_of(one)) for one in arrays}
    return len(lies) == 1 and library().is_dense(arrays[0])
