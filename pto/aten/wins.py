# SPDX-License-Identifier: Apache-2.0
"""The table of what wins: which rows take calls by themselves, on which kind of machine.

    cell("avx512", "exp", "float32")    # 2.1: the least ratio of ATen's time to ours, or None

`wins.json` has a column for each target; `./dev bench aten --table` measures and writes the cells.
A row without a cell leaves its calls to ATen. A row takes over for all sizes or for none, so that a
result does not depend on the batch: its least ratio over all measured sizes is then at least 1. It
takes over only calls like the measured ones: contiguous tensors, of one shape where the row was
measured so, and reductions along the last axis. Thread safety: any thread may ask.
"""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pto import _core
from pto.aten.binding import Bound
from pto.aten.records import arrays_in, library
from pto.config import config

TABLE = Path(__file__).with_name("wins.json")
Cells = dict[str, dict[str, dict[str, float]]]  # target, overload, element type
_UNMEASURED = "nobody has measured on this kind of machine whether it is faster; ask for slot=0"


@functools.lru_cache(maxsize=8)
def _target(asked: str) -> str:
    flags = _core.target_flags()
    return "avx512" if "avx512f" in flags else "avx2" if "avx2" in flags else "portable"


def target() -> str:
    """The column of this machine, or of config.target."""
    return _target(config.target)


@functools.cache
def table() -> Cells:
    """The table of the package; empty where it has no file."""
    return json.loads(TABLE.read_text()) if TABLE.exists() else {}


def measured_file() -> Path:
    """Where pto.aten.measure() writes the cells of this machine, see measuring.py."""
    return Path(_core.cache_directory()) / "aten_wins.json"


@functools.cache
def own() -> Cells:
    """The cells measured on this machine; none where there are none or their file is damaged."""
    try:
        return json.loads(measured_file().read_text())
    except (FileNotFoundError, ValueError):
        return {}


def cell(target: str, overload: str, kind: str) -> float | None:
    """The least ratio of ATen's time to the row's over all sizes; None where nobody measured."""
    cells = own() if config.measured and own().get(target, {}).get(overload) else table()
    return cells.get(target, {}).get(overload, {}).get(kind)


_INDEXED = "each element's place is computed by itself, not for a vector of them"
_CALL = "at 16 KB its call, an operator of the library through PyTorch's dispatcher, takes 8 us"
_PRODUCT = "at 16 KB both multiply equally fast"
_EXACT = "our remainder is exact for any quotient, by steps; ATen's is not"
_ROUNDED = "bf16 is rounded by whole-number instructions, which take longer than memory does"
_MEMORY = "both wait for memory or the cache, from 4 MB on"
_PROFILES = {
    **dict.fromkeys(("gather", "tril", "triu", "flip", "index_select"), _INDEXED),
    **dict.fromkeys(("cat", "embedding"), _CALL),
    **dict.fromkeys(("bmm", "addmm", "baddbmm"), _PRODUCT),
    **dict.fromkeys(("fmod", "remainder"), _EXACT),
    "topk": "it sorts the whole axis",
    "exp2": "it is a power of 2 by the general power",
    "embedding_dense_backward": "it adds row after row in the order of the indices",
    "cumsum": "a scan goes element by element",
    "cumprod": "a scan goes element by element",
}  # fmt: skip


def profile(overload: str, kind: str) -> str:
    """Where the time of a row that does not take over goes, in one line."""
    known = _PROFILES.get(overload.partition(".")[0])
    return known or (_ROUNDED if kind in ("bfloat16", "float16") else _MEMORY)


def why_not(overload: str) -> Callable[[Bound], str | None]:
    """The `waits` of a row's implementation: why ATen runs a call that the row would take."""

    def waits(bound: Bound) -> str | None:
        arrays = [(n, v) for n, v in arrays_in(bound.values) if library().dense_type(v)]
        for name, value in arrays:
            if not library().is_contiguous(value):
                return f"{name} is not in the order of its axes, which nobody has measured"
        kind = library().dense_type(arrays[0][1]) if arrays else None
        ratio = cell(target(), overload, kind) if kind else None
        if ratio is None:
            return _UNMEASURED
        if ratio < 1:
            share = f"ATen takes {ratio:.2f} of our time at one of the measured sizes"
            return f"{share}: {profile(overload, kind or '')}"
        return _along_other_axes(bound.values, arrays)

    return waits


def may_win(overload: str) -> Callable[[], bool]:
    """The `may_win` of a row's implementation: whether a cell of any target is at least 1."""

    def found() -> bool:
        columns = [*table().values(), *own().values()]
        return any(ratio >= 1 for one in columns for ratio in one.get(overload, {}).values())

    return found


def _along_other_axes(values: Mapping[str, Any], arrays: Sequence[tuple[str, Any]]) -> str | None:
    """Why a call differs from those that were measured: another axis, or shapes that broadcast."""
    rank = max(len(library().shape(one)) for _, one in arrays)
    given = values.get("dim")
    axes = given if isinstance(given, list | tuple) else [] if given is None else [given]
    if any(axis not in (-1, rank - 1) for axis in axes):
        return "only the last axis was measured"
    if {name for name, _ in arrays} <= {
        "self",
        "other",
        "end",
        "weight",
        "tensor1",
        "tensor2",
        "exponent",
    }:
        shapes = {library().shape(one) for _, one in arrays}
        if len(shapes) > 1:
            return "shapes that broadcast were not measured"
    return None
