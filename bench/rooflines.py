# SPDX-License-Identifier: Apache-2.0
"""Rooflines: a weight that a few rows read once and multiply, and functions of elements.

In use:

    packed = packed_once(lambda: ops.linear(x, weight))
    yield from of_weight(weight.nbytes, packed, setting, multiply_adds, has_parts=True)

    yield from functions(threads, elements=4 * scores, exp=scores)   # they add up
    yield total("computing", [*functions(2, 0, exp=scores), *peaks("f32", 2, multiply_adds)])
"""

from collections.abc import Callable, Iterable, Iterator

import torch

import pto
from pto.bench.ceilings import binding, peaks
from pto.bench.runner import Ceiling, Setting
from pto.bench.timing import interleave
from pto.ceilings import Peak, Read
from pto.language.rooflines import Function

REACHED = 0.9  # of the peak in registers: the most that multiply-adds reach beside loads
READ, READ_PACKED = "read", "read packed"
# Operations on a score of a softmax beside its exponential: the largest, the difference, the sum;
# the rounding of its weight.
WEIGHT = {"f32": 3, "bf16": 4}


def of_weight(
    own: int, packed: int, setting: Setting, multiply_adds: float,
    dtype: str = "f32", has_parts: bool = False,
) -> Iterator[Ceiling]:  # fmt: skip
    """The larger of reading the weight's own bytes and of so many multiply-adds; and the same with
    the bytes of the packed weight, where these are more."""
    ways = peaks(dtype, setting.threads, multiply_adds / REACHED, has_parts)
    computed = binding(ways, choose=min)
    for name, nbytes in ((READ, own), (READ_PACKED, packed)):
        if name == READ or nbytes > own:
            memory = torch.ones(nbytes, dtype=torch.uint8)  # zeros may be one page of the system's
            yield binding([Ceiling(name, Read(memory, setting.threads), 1), computed])


def packed_once(call: Callable) -> int:
    """Calls until the weight is packed; returns the bytes of that, 0 where it is not."""
    before = pto.memory()["packed_weights"]
    for _ in range(3):
        call()
    return pto.memory()["packed_weights"] - before


def functions(threads: int, elements: float, **counts: float) -> Iterator[Ceiling]:
    """The ceilings of so many elements of functions, by name, at the speed of one row in the first
    cache; `elements` counts operations on them that take about as long as a multiply-add."""
    if elements:
        peak = Peak("f32", threads)
        yield Ceiling("elements", peak, elements / peak.multiply_adds)
    for name, count in counts.items():
        if count:
            one = Function(name)
            yield Ceiling(name, one, count / one.elements(threads))


def total(name: str, terms: Iterable[Ceiling]) -> Ceiling:
    """The sum of several ceilings as one; what is measured in its place is the largest of them."""
    known = list(terms)
    samples = interleave({c.name: c.function for c in known}, rounds=3)
    taken = {c.name: samples[c.name].median * c.calls for c in known}
    most = max(known, key=lambda c: taken[c.name])
    return Ceiling(name, most.function, most.calls * sum(taken.values()) / taken[most.name])
