# SPDX-License-Identifier: Apache-2.0
"""The distance of our results from ATen's, in units of the last place of the element type.

    apart(row, given, got, want)      # 1.0; a text where types or shapes differ

Results are NumPy arrays, with element types of ml_dtypes where NumPy lacks them. Thread safety:
pure functions.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pto.aten.records import library
from pto.aten.rows import FORMS, Row


def arrays_of(values: Any) -> Iterator[np.ndarray]:
    """Every array among results or arguments, in order, as NumPy's."""
    if isinstance(values, Mapping):
        values = list(values.values())
    for one in values if isinstance(values, list | tuple) else (values,):
        if isinstance(one, list | tuple):
            yield from arrays_of(one)
        elif library().dense_type(one) is not None:
            yield library().as_numpy(one)


def apart(row: Row, given: Any, got: Any, want: Any) -> float | str:
    """The largest distance of a call's results, in units of the last place.

    `given` are the call's arguments, `got` our results, `want` ATen's. A text says which types,
    shapes or counts differ; inf stands for special values or integers that do.
    """
    ours, theirs = list(arrays_of(got)), list(arrays_of(want))
    if len(ours) != len(theirs):
        return f"{len(ours)} results are not {len(theirs)}"
    largest, size = _largest(given) if row.is_sum or row.is_product else (0.0, 0)
    inner = 1
    if row.factors:
        first, second = (next(arrays_of(given[name])) for name in row.factors)
        largest, inner = _largest(first)[0] * _largest(second)[0], first.shape[-1]
    found = []
    for a, b in zip(ours, theirs, strict=True):
        # The rounding errors of so many terms add up as a random walk does.
        terms = max(1, inner, size // max(1, b.size))
        if row.is_product:
            apart_by = distance(a, b)
            found.append(apart_by if isinstance(apart_by, str) else apart_by / terms**0.5)
        else:
            found.append(distance(a, b, largest * terms**0.5))
    texts = [one for one in found if isinstance(one, str)]
    return texts[0] if texts else max((one for one in found if isinstance(one, float)), default=0.0)


def _largest(given: Any) -> tuple[float, int]:
    """The largest finite magnitude in arrays, and the number of elements of the largest array."""
    found, size = 0.0, 0
    for one in arrays_of(given):
        wide = np.abs(one.astype(np.float64))
        found = max(found, float(np.max(wide, initial=0.0, where=np.isfinite(wide))))
        size = max(size, one.size)
    return found, size


def distance(got: np.ndarray, want: np.ndarray, largest: float = 0.0) -> float | str:
    """The largest difference, in units of the last place of `want`, or of `largest` if larger.

    inf where an integer, a bool, a NaN or an infinity differs; a text where types or shapes do.
    """
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)} is not {want.dtype}{list(want.shape)}"
    name = want.dtype.name
    if name not in FORMS:
        return 0.0 if np.array_equal(got, want) else float("inf")
    a, b = got.astype(np.float64), want.astype(np.float64)
    is_finite = np.isfinite(a) & np.isfinite(b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if not np.all(same | is_finite):
        return float("inf")
    a, b = a[is_finite], b[is_finite]
    bits, least = FORMS[name]
    scale = np.maximum(np.abs(b), max(largest, 2.0**least))
    unit = np.exp2(np.floor(np.log2(scale))) * 2.0**-bits
    return float(np.max(np.abs(a - b) / unit, initial=0.0))
