# SPDX-License-Identifier: Apache-2.0
"""Accepts keywords of the published Python API, so that programs written for it run unchanged.

    @with_published_keywords
    def compile(...): ...

    compile(orch=..., extra_include_dirs=["include"], block_dim=24)    # include_dirs; a note

`extra_include_dirs` is a spelling of `include_dirs`. The others set what the engine decides by
itself: they are accepted, and the first use of each prints a note.
"""

import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any

from pto.errors import InvalidType

_DECIDED = {
    "runtime_name": "there is one runtime",
    "runtime": "there is one runtime",
    "block_dim": "a task says itself how many blocks it has",
    "aicpu_thread_num": "the threads of a run are Runtime(workers=)",
    "orch_thread_num": "one thread orchestrates",
    "build_dir": "objects lie in the cache folder, which is cache_dir=",
}
_noted: set[str] = set()
_lock = threading.Lock()


def without_published_keywords(call: str, given: dict[str, Any]) -> dict[str, Any]:
    """The keywords with extra_include_dirs as include_dirs, and without those that do nothing."""
    kept = {name: value for name, value in given.items() if name not in _DECIDED}
    _note(call, [name for name in given if name in _DECIDED])
    extra = kept.pop("extra_include_dirs", None)
    if not extra:
        return kept
    if kept.get("include_dirs"):
        raise InvalidType(
            f"{call}: both include_dirs= and extra_include_dirs= are given",
            "they are spellings of one argument",
            "pass include_dirs= alone",
        )
    return {**kept, "include_dirs": extra}


def with_published_keywords(function: Callable) -> Callable:
    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        return function(*args, **without_published_keywords(function.__name__, given))

    return call


def _note(call: str, names: list[str]) -> None:
    with _lock:
        fresh = [name for name in names if name not in _noted]
        _noted.update(fresh)
    if not fresh:
        return
    reasons = "; ".join(f"{name}: {_DECIDED[name]}" for name in fresh)
    warnings.warn(
        f"{call}: accepted, and without effect here: {reasons}", RuntimeWarning, stacklevel=4
    )
