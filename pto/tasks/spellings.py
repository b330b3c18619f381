# SPDX-License-Identifier: Apache-2.0
"""Accepts keywords of the published Python API, so that programs written for it run unchanged.

    @with_published_keywords
    def compile(...): ...

    compile(orch=..., extra_include_dirs=["include"], block_dim=24)    # include_dirs; a note

`extra_include_dirs` is a spelling of `include_dirs`, `runtime_name` of `runtime`. The others say
what the engine decides by itself: they are accepted, and the first use of each says so.
"""

import functools
import warnings
from collections.abc import Callable
from typing import Any

from pto.errors import InvalidType
from pto.locks import Lock
from pto.tasks.origin import own_frames

_DECIDED = {
    "block_dim": "a task says itself how many blocks it has",
    "aicpu_thread_num": "the threads of a run are Runtime(workers=)",
    "orch_thread_num": "one thread orchestrates",
    "build_dir": "objects lie in the cache folder, which is cache_dir=",
}
_SPELLINGS = {"extra_include_dirs": "include_dirs", "runtime_name": "runtime"}
_noted: set[str] = set()
_lock = Lock()


def without_published_keywords(
    call: str, given: dict[str, Any], others: dict[str, str] | None = None
) -> dict[str, Any]:
    """The keywords as they are spelled here, and without those that do nothing.

    `others`: such that only this call has, each with its reason.
    """
    decided = {**_DECIDED, **(others or {})}
    kept = {name: value for name, value in given.items() if name not in decided}
    _note(call, {name: decided[name] for name in given if name in decided})
    for spelling, name in _SPELLINGS.items():
        value = kept.pop(spelling, None)
        if value and kept.get(name):
            raise InvalidType(
                f"{call}: both {name}= and {spelling}= are given",
                "both are names of the same argument",
                f"pass {name}= alone",
            )
        if value:
            kept[name] = value
    return kept


def with_published_keywords(function: Callable) -> Callable:
    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        return function(*args, **without_published_keywords(function.__name__, given))

    return call


def _note(call: str, reasons_of: dict[str, str]) -> None:
    with _lock:
        fresh = [name for name in reasons_of if name not in _noted]
        _noted.update(fresh)
    if not fresh:
        return
    reasons = "; ".join(f"{name}: {reasons_of[name]}" for name in fresh)
    text = f"{call}: accepted, and without effect here: {reasons}"
    warnings.warn(text, RuntimeWarning, stacklevel=1 + own_frames())
