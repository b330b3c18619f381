# SPDX-License-Identifier: Apache-2.0
"""The ceilings of a bench's case, from measurements of the machine (pto/ceilings.py).

yield from peaks("f32", threads=2, multiply_adds=2.0 * m * n * k)
yield binding([Ceiling("read", Read(array, threads=2), 1), *peaks("f32", 2, 1e9)])
yield from copies(out, array, threads=2, nbytes=2 * array.nbytes)
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pto.bench.runner import Ceiling
from pto.bench.timing import interleave
from pto.ceilings import Copy, Peak, ways

STREAM_BYTES = 1 << 20  # copies from here on are also tried past the caches


def peaks(
    dtype: str, threads: int, multiply_adds: float, has_parts: bool = False
) -> Iterator[Ceiling]:
    """The ceilings of so many multiply-adds of a type: one for each way that the CPU has."""
    for kind, products in ways(dtype, has_parts):
        peak = Peak(kind, threads)
        if peak.multiply_adds:
            name = f"peak ({kind})" if products == 1 else f"peak ({kind}, {products} products)"
            yield Ceiling(name, peak, multiply_adds * products / peak.multiply_adds)


def binding(ceilings: Iterable[Ceiling], choose: Callable = max) -> Ceiling:
    """The slowest of ceilings that all hold, what binds, by a short measurement; or with min the
    fastest of several ways."""
    known = list(ceilings)
    samples = interleave({c.name: c.function for c in known}, rounds=3)
    return choose(known, key=lambda c: samples[c.name].median * c.calls)


def copies(to: Any, array: Any, threads: int, nbytes: float) -> Iterator[Ceiling]:
    """The ceilings of so many bytes read and written, by copying `array` into `to`."""
    calls = nbytes / (2 * array.nbytes)
    yield Ceiling("copy", Copy(to, array, threads), calls)
    if array.nbytes >= STREAM_BYTES:
        yield Ceiling("copy past caches", Copy(to, array, threads, past=True), calls)
