# SPDX-License-Identifier: Apache-2.0
"""Times and counts as reports show them."""

_TIMES = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
_COUNTS = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))


def time_text(seconds: float) -> str:
    """Three digits with the largest unit that fits: "1.24 ms"."""
    return _text(seconds, _TIMES)


def count_text(number: float) -> str:
    """Three digits with k, M, G or T: "12.5 G"."""
    return _text(number, _COUNTS)


def _text(value: float, units: tuple[tuple[str, float], ...]) -> str:
    unit, size = next((one for one in units if value >= one[1]), units[-1])
    return f"{value / size:.3g} {unit}".rstrip()
