# SPDX-License-Identifier: Apache-2.0
"""The table of what wins: which rows take calls by themselves, on which kind of machine.

    cell("avx512", "exp", "float32")    # [2.1, 2.4, 2.2, 2.1]: ATen's time over ours at SIZES

`wins.json` has a column for each target; `./dev bench aten --table` measures and writes the cells,
and for rows that ATen runs where they are slowest, to `losses.json`.
A row without a cell leaves its calls to ATen. A row takes over for all sizes or for none, so that a
result does not depend on the batch: its least ratio over all measured sizes is then at least 1.
Where config.by_size is set, it also takes calls between measured sizes at which it is faster. It
takes over only calls like the measured ones: contiguous tensors, of one shape where the row was
measured so, and reductions along the last axis. Thread safety: any thread may ask.
"""

import functools
import json
import math
import reprlib
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pto import _core
from pto.aten.binding import Bound
from pto.aten.records import arrays_in, library
from pto.config import config
from pto.language.dtypes import dtype
from pto.measured_target import target

TABLE = Path(__file__).with_name("wins.json")
LOSSES = Path(__file__).with_name("losses.json")
SIZES = (16 << 10, 256 << 10, 4 << 20, 64 << 20)  # bytes of a tensor
# Target, overload, element type: the least ratio at each size, as far as a row was measured.
Cells = dict[str, dict[str, dict[str, list[float]]]]
_BY_SIZE = "; pto.config.by_size takes the sizes where ours is faster"
_UNMEASURED = "nobody has measured on this kind of machine whether it is faster; ask for slot=0"


@functools.cache
def table() -> Cells:
    """The table of the package; empty where it has no file."""
    return json.loads(TABLE.read_text()) if TABLE.exists() else {}


def measured_file() -> Path:
    """Where pto.aten.measure() writes the cells of this machine, see measuring.py."""
    return Path(_core.cache_directory()) / "aten_ratios.json"


@functools.cache
def own() -> Cells:
    """The cells measured on this machine; none, with a warning, where their file is damaged."""
    try:
        _check(cells := json.loads(measured_file().read_text()))
        return cells
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        text = (f"pto.aten: {measured_file()} is not read: {error}\n  why: it holds the cells that"
                " pto.aten.measure() found on this machine, as JSON, and is damaged\n"
                "  fix: remove it, or measure again")  # fmt: skip
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        return {}


def _check(found: Any, *place: str) -> None:
    """Raises ValueError for what is no Cells, or at a place in them not what stands there."""
    if len(place) < 3 and isinstance(found, dict):
        for name, one in found.items():
            _check(one, *place, name)
    elif len(place) < 3 or not isinstance(found, list) or not all(map(_is_ratio, found)):
        kind = "object" if len(place) < 3 else "list of ratios"
        raise ValueError(f"{', '.join(place) or 'it'} is {reprlib.repr(found)}, no {kind}")


def _is_ratio(found: Any) -> bool:
    return isinstance(found, int | float) and 0 <= found < math.inf


def text(cells: Cells) -> str:
    """The JSON of a table, a line a row."""
    columns = []
    for column, rows in sorted(cells.items()):
        lines = [
            f"  {json.dumps(n)}: {json.dumps(k, sort_keys=True)}" for n, k in sorted(rows.items())
        ]
        columns.append(f" {json.dumps(column)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(columns) + "\n}\n"


def cell(target: str, overload: str, kind: str) -> list[float]:
    """The least ratios of ATen's time to the row's by size; empty where nobody measured."""
    cells = own() if config.measured and own().get(target, {}).get(overload) else table()
    return cells.get(target, {}).get(overload, {}).get(kind, [])


def is_faster(ratios: Sequence[float]) -> bool:
    """Whether a row takes over calls of any size."""
    return bool(ratios) and min(ratios) >= 1


def is_faster_at(ratios: Sequence[float], size: int) -> bool:
    """Whether the row is faster at the measured sizes in bytes around this one."""
    sizes = SIZES[: len(ratios)]
    above = next((i for i, one in enumerate(sizes) if one >= size), len(sizes) - 1)
    below = above if sizes[above] <= size else max(above - 1, 0)
    return is_faster(ratios[below : above + 1])


_MEMORY = "both wait for memory or the cache"
_PROFILES = {
    "an element at a time goes through a position of 8 bytes":
        "gather take index_select scatter flip reflection_pad2d reflection_pad3d replication_pad2d"
        " replication_pad3d reflection_pad2d_backward reflection_pad3d_backward"
        " replication_pad2d_backward replication_pad3d_backward tril triu",
    "positions are checked before anything is written, and floats added in double":
        "scatter_add index_add embedding_dense_backward",
    "the call of an operator of the library goes through Python, which counts at 16 KB":
        "cat stack hstack vstack dstack column_stack embedding topk",
    "both multiply equally fast, and ours checks more": "mm bmm addmm baddbmm",
    "totals are in double, one addition after another": "cumsum cumprod",
    "positions are read and written beside values": "argmax argmin",
    "one thread reduces all elements, so that they are added in one order":
        "sum prod dot vdot max min nansum mean aminmax",
    _MEMORY: "sum.dim_IntList mean.dim max.other min.other prod.dim_int",
    "our remainder is exact for any quotient, by steps; ATen's is not": "fmod remainder",
    "powers are computed in double precision": "exp2 logaddexp2",
    "its rows are passed three times":
        "native_group_norm native_group_norm_backward _softmax_backward_data",
}  # fmt: skip
_PROFILE_OF = {name: why for why, names in _PROFILES.items() for name in names.split()}
_ROUNDED = "bf16 is rounded by whole-number instructions, which take longer than memory does"


@functools.cache
def losses() -> dict[str, dict[str, dict[str, str]]]:
    """Where rows that leave calls to ATen are slowest, in the places of table()."""
    return json.loads(LOSSES.read_text()) if LOSSES.exists() else {}


def profile(target: str, overload: str, kind: str) -> str:
    """Where a row that does not take over is slowest, and why, in one line."""
    default = _ROUNDED if kind in ("bfloat16", "float16") else _MEMORY
    names = overload, overload.partition(".")[0]
    why = next((_PROFILE_OF[name] for name in names if name in _PROFILE_OF), default)
    where = losses().get(target, {}).get(overload, {}).get(kind)
    return f"{where}; {why}" if where else why


def why_not(overload: str, others: Collection[str]) -> Callable[[Bound], str | None]:
    """The `waits` of a row's implementation: why ATen runs a call that the row would take.

    `others` names the tensors that may have another element type than the row's cells tell.
    """

    def waits(bound: Bound) -> str | None:
        arrays = [(n, v) for n, v in arrays_in(bound.values) if library().dense_type(v)]
        for name, value in arrays:
            if not library().is_contiguous(value):
                return f"{name} is not in the order of its axes, which nobody has measured"
        kind = _kind(bound, others)
        ratios = cell(target(), overload, kind) if kind else []
        if not ratios:
            return _UNMEASURED
        size = max(math.prod(library().shape(one)) for _, one in arrays) * dtype(kind).bytes
        if not is_faster(ratios) and not (config.by_size and is_faster_at(ratios, size)):
            share = f"ATen takes {min(ratios):.2f} of our time at one of the measured sizes"
            reason = f"{share}: {profile(target(), overload, kind or '')}"
            return reason + _BY_SIZE * (not config.by_size and max(ratios) >= 1)
        return _along_other_axes(bound.values, arrays)

    return waits


def may_win(overload: str, others: Collection[str]) -> Callable[[Bound | None], bool]:
    """The `may_win` of a row's implementation: whether a cell is at least 1.

    It is one of any target, or that of this one for the element type of a call.
    """

    def takes_some(ratios: Sequence[float]) -> bool:
        return is_faster(ratios) or (config.by_size and max(ratios, default=0) >= 1)

    def found(bound: Bound | None) -> bool:
        if bound is not None and (kind := _kind(bound, others)):
            return takes_some(cell(target(), overload, kind))
        columns = [*table().values(), *own().values()]
        return any(takes_some(found) for one in columns for found in one.get(overload, {}).values())

    return found


def _kind(bound: Bound, others: Collection[str]) -> str | None:
    """The element type of a call: that of its first array that is not among the others.

    It is "" where that array is not dense, None where there is none.
    """
    types = (library().dense_type(one) for n, one in arrays_in(bound.values) if n not in others)
    return next(types, None)


_BROADCAST = {"self", "other", "end", "weight", "tensor1", "tensor2", "exponent"}


def _along_other_axes(values: Mapping[str, Any], arrays: Sequence[tuple[str, Any]]) -> str | None:
    """Why a call differs from those that were measured: another axis, or shapes that broadcast."""
    rank = max(len(library().shape(one)) for _, one in arrays)
    given = values.get("dim")
    axes = given if isinstance(given, list | tuple) else [] if given is None else [given]
    if any(axis not in (-1, rank - 1) for axis in axes):
        return "only the last axis was measured"
    may_broadcast = {name for name, _ in arrays} <= _BROADCAST
    if may_broadcast and len({library().shape(one) for _, one in arrays}) > 1:
        return "shapes that broadcast were not measured"
    return None
