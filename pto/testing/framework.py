# SPDX-License-Identifier: Apache-2.0
"""Framework: the base class of a framework in the matrix of modes, with a method for each mode.

A mode takes a Case and returns its results as NumPy arrays, flat; it raises Skipped with a reason
where the framework has no such thing.
"""

import importlib.util
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from pto.testing.cases import Case, adapter_record, members
from pto.testing.expected import gradient_case, wanted


class Skipped(Exception):
    """Why a cell of the matrix has no case."""


class Framework:
    """`modes`: name -> method; `full`: those that run on every type and variant."""

    name = ""
    module = ""
    modes: dict[str, Callable[[Any, Case], list[np.ndarray]]] = {}
    full: tuple[str, ...] = ()

    @classmethod
    def is_installed(cls) -> bool:
        return importlib.util.find_spec(cls.module) is not None

    def function(self, case: Case) -> Callable:
        """The operator as a function of the case's tensors; `face` is its module, pto.jax."""
        return case.of_tensors(getattr(self.face, case.operator.name))

    def threads(self, case: Case) -> list[np.ndarray]:
        """The first mode in one of four threads that run at once; all must agree."""
        mode, *_ = self.modes.values()
        found: list[Any] = [None] * 4

        def work(place: int) -> None:
            try:
                found[place] = mode(self, case)
            except Exception as error:
                found[place] = error

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for one in found:
            if isinstance(one, Exception):
                raise one
            assert [t.tobytes() for t in one] == [t.tobytes() for t in found[0]]
        return found[0]


def needs_known_sizes(case: Case, why: str) -> None:
    """Skips operators whose results have a size that is known only after the run."""
    if adapter_record(case.operator).is_bounded:
        raise Skipped(f"the size of the result is known only after the run, and {why}")


def needs_gradient(case: Case) -> None:
    """Skips operators and types without a gradient."""
    if adapter_record(case.operator).gradient < 0:
        raise Skipped("the operator has no gradient")
    if case.dtype == "i32":
        raise Skipped("integers have no gradient")


def needs_second_gradient(case: Case) -> None:
    """Skips operators whose gradient has none."""
    needs_gradient(case)
    if gradient_case(gradient_case(case)) is None:
        raise Skipped("the operator has no second derivative")


def wanted_tensors(case: Case) -> list[int]:
    """The case's tensors by which it is differentiated."""
    owners = [
        place
        for place, a in enumerate(case.args)
        for t in members(a)
        if isinstance(t, np.ndarray)
    ]  # fmt: skip
    return [i for i, owner in enumerate(owners) if owner in wanted(case)]


def batch_of_two(x: np.ndarray) -> np.ndarray:
    """The array twice, along a new first axis."""
    return np.stack([x, x])


def one_of_two(results: list[np.ndarray]) -> list[np.ndarray]:
    """The results of a mapped function for the first of two equal arguments; both must agree."""
    for first, second in results:
        assert first.tobytes() == second.tobytes()
    return [first for first, _ in results]
