# SPDX-License-Identifier: Apache-2.0
"""Arguments of a row's call, for tests, benches and measure().

    arguments(row, 7, 33, "float32")       # {"self": an array [7, 33], "alpha": 2}

Tensors are NumPy arrays of [rows, columns]; a row whose arguments have to fit together has its own
`sample`. NUMBERS gives a value to each number that a schema asks for. Thread safety: pure
functions.
"""

import math
from typing import Any

import numpy as np

from pto.aten.records import library, record_of
from pto.aten.rows import INTEGERS, Row

NUMBERS = {
    "dim": -1, "weight": 0.3, "alpha": 2, "value": 0.5, "negative_slope": 0.1, "p": 2,
    "rounding_mode": "trunc", "decimals": 2, "beta": 1, "threshold": 1, "min_val": -1, "max_val": 1,
    "lambd": 0.5, "scale": 1, "input_scale": 1, "is_result": False, "self_is_result": False,
    "reduction": 0, "min": -1, "max": 2, "posinf": 5.0, "neginf": -5.0, "half_to_float": False,
    "delta": 1.0, "approximate": "none",
}  # fmt: skip
_OPTIONAL = ("alpha", "value", "negative_slope", "min", "max", "posinf", "neginf", "reduction")
_DOMAIN = {
    "asin": (-0.9, 0.9), "acos": (-0.9, 0.9), "atanh": (-0.9, 0.9), "acosh": (1, 9),
    "erf": (-1, 1), "erfinv": (-1, 1), "special_ndtri": (0, 1), "log1p": (-0.9, 5),
    "logit": (0.05, 0.95), "logit_backward": (0.05, 0.95), "prod": (0.5, 1.5),
    "cumprod": (0.9, 1.1), "bitwise": (0, 100), "rsqrt": (0.1, 5), "pow": (0.1, 3),
    "_log_softmax_backward_data": (-3, 0), "binary_cross_entropy": (0.1, 0.9),
    "binary_cross_entropy_backward": (0.1, 0.9),
}  # fmt: skip


_DRAWN = 999_983  # a prime: larger arrays repeat so many drawn numbers


class Maker:
    """Makes NumPy arrays of an element type from a range; equal seeds give equal arrays.

    Integers are drawn from nine times the range; `high` asks for 0 to high - 1.
    """

    def __init__(self, kind: str, low: float, high: float, seed: int):
        self.kind, self.low, self.high = kind, low, high
        self.random = np.random.default_rng(seed)

    @property
    def dtype(self) -> Any:
        """The element type as a call takes it."""
        return library().convert("ScalarType", self.kind)[1]

    def __call__(self, *shape: int, dtype: str = "", high: int = 0) -> np.ndarray:
        kind = dtype or self.kind
        if kind == "bool":
            return self.random.random(shape) < 0.5
        if high:
            return self.random.integers(0, high, shape).astype(kind)
        several = self.random.random(min(math.prod(shape), _DRAWN), np.float32)
        values = np.resize(several, shape) * np.float32(self.high - self.low)
        values += np.float32(self.low)
        if kind in INTEGERS:
            values = np.rint(abs(values) * 9 if kind == "uint8" else values * 9)
        return values.astype(_type(kind), copy=False)


def _type(kind: str) -> Any:
    if kind == "bfloat16":
        import ml_dtypes

        return ml_dtypes.bfloat16
    return np.dtype(kind)


def arguments(row: Row, rows: int, columns: int, kind: str, seed: int = 0) -> dict[str, Any]:
    """Values of a functional call of a row."""
    name = row.overload.partition(".")[0]
    low, high = _DOMAIN.get(name, (-3, 3))
    tensor = Maker(kind, low, high, seed)
    if row.sample is not None:
        return row.sample(tensor, rows, columns)
    made: dict[str, Any] = {}
    for one in record_of(row.overload).arguments:
        if one.type == "Tensor" or (one.type == "Tensor?" and one.name in ("min", "max")):
            made[one.name] = tensor(rows, columns)
        elif one.type == "ScalarType?":
            continue
        elif one.is_required or one.name in _OPTIONAL:
            made[one.name] = _number(one, kind)
    return made


def _number(argument: Any, kind: str) -> Any:
    value = NUMBERS.get(argument.name, 2)
    if "int[" in argument.type or argument.type == "SymInt[]":
        return [value]
    if kind == "uint8" and not isinstance(value, str):
        value = abs(value)
    whole = kind in INTEGERS and argument.type in ("Scalar", "Scalar?")
    return math.ceil(value) if whole and isinstance(value, float) else value
