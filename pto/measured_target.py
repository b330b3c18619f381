# SPDX-License-Identifier: Apache-2.0
"""The kind of CPU by which tables of measured times have a column. Thread safety: any thread may
ask."""

import functools

from pto import _core
from pto.config import config


@functools.lru_cache(maxsize=8)
def _target(asked: str) -> str:
    flags = _core.target_flags()
    return "avx512" if "avx512f" in flags else "avx2" if "avx2" in flags else "portable"


def target() -> str:
    """The column of this machine, or of config.target: "avx512", "avx2" or "portable"."""
    return _target(config.target)
