# SPDX-License-Identifier: Apache-2.0
"""Arguments that an operator must refuse with an error that says what to do, or compute as usual.

    for name, wrong in outcomes(case): ...    # "" where all is well, or what is wrong

Thread safety: none.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pto.errors import Error
from pto.language.misuse import RAISED
from pto.testing.cases import Case, copied, flat, mapped


def swapped(x: np.ndarray) -> np.ndarray:
    """The same elements with the bytes of the other order."""
    return x.astype(x.dtype.newbyteorder())


def misaligned(x: np.ndarray) -> np.ndarray:
    """The same elements at an address that is no multiple of their size."""
    room = np.empty(x.nbytes + 1, np.uint8)
    y = np.ndarray(x.shape, x.dtype, room, 1)
    y[...] = x
    return y


def read_only(x: np.ndarray) -> np.ndarray:
    y = copied(x)
    y.setflags(write=False)
    return y


def huge_strides(x: np.ndarray) -> np.ndarray:
    """One element, whose neighbours would lie outside all memory."""
    ones = (1,) * x.ndim
    return np.lib.stride_tricks.as_strided(x, ones, (1 << 40,) * x.ndim) if x.size else x


# Changes of the first array, which the operator refuses or reads for what they are.
CHANGED: dict[str, Callable[[np.ndarray], Any]] = {
    "swapped bytes": swapped,
    "a misaligned array": misaligned,
    "a read-only array": read_only,
    "objects": lambda x: x.astype(object),
    "complex numbers": lambda x: x.astype(np.complex64),
    "texts": lambda x: np.full(x.shape, "x"),
    "a record": lambda x: np.zeros(x.shape, [("a", "f4"), ("b", "i4")]),
    "sixteen axes": lambda x: x.reshape((1,) * (16 - x.ndim) + x.shape),
    "an array without axes": lambda x: x.reshape(-1)[:1].reshape(()) if x.size else x,
    "no elements": lambda x: x[:0] if x.ndim else x,
    "a list": lambda x: x.tolist(),
    "a text": lambda x: "x",
    "None": lambda x: None,
    "a class": lambda x: np.ndarray,
    "a huge stride": huge_strides,
}  # fmt: skip
SAME = ("swapped bytes", "a misaligned array", "a read-only array")  # compute as usual, if at all


def outcomes(case: Case) -> Iterator[tuple[str, str]]:
    """(what was passed, "" or what is wrong) for each change of the first array of a call."""
    wanted = case.results()
    for name, change in CHANGED.items():
        yield name, _outcome(case, name, change, wanted)
    yield "no argument", _refusal(lambda: case.operator())
    yield "an unknown keyword", _refusal(lambda: case.operator(*case.args, no_such_name=1))


def _outcome(case: Case, name: str, change: Callable, wanted: list[np.ndarray]) -> str:
    waiting = [True]

    def changed(x: np.ndarray) -> Any:
        return change(copied(x)) if waiting and waiting.pop() else copied(x)

    found: list[Any] = []

    def call() -> None:
        found[:] = flat(case.operator(*mapped(changed, case.args), **case.kwargs))

    wrong = _refusal(call)
    if not found:
        return wrong
    if name not in SAME:
        return ""
    same = all(a.dtype == b.dtype.newbyteorder("=") and np.array_equal(a, b, equal_nan=True)
               for a, b in zip(found, wanted, strict=True))  # fmt: skip
    return "" if same else "it computes something else"


def _refusal(call: Callable[[], object]) -> str:
    """Says what is wrong with the way a call is refused; "" for a good error, or for none."""
    try:
        call()
    except Error as error:
        if RAISED in error.why:
            return error.what
        return "" if error.why and error.fix else f"an error without why and fix: {error.what}"
    except Exception as error:  # noqa: BLE001 whatever else comes is the finding
        return f"{type(error).__name__}: {error}"
    return ""
