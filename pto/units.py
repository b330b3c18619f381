# SPDX-License-Identifier: Apache-2.0
"""Times as reports show them."""


def time_text(seconds: float) -> str:
    """Three digits with the largest unit that fits: "1.24 ms"."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
