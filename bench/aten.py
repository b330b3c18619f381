# SPDX-License-Identifier: Apache-2.0
"""./dev bench aten [--row ROW] [--kind TYPE] [--threads N] [--table]: our rows against ATen.

Every row in f32 and bf16, from 16 KB to 64 MB a tensor, with a fresh result and with `out`, beside
the dispatcher's own call. A line says the least ratio of ATen's time to ours, the geometric mean,
and where the least one was, with the bytes that ours and ATen's move there; a row takes over where
that is 1 at least. One that does not counts as 1.0 in the mean over all. `--table` writes the cells
of this target to pto/aten/wins.json, and where rows lose to losses.json beside it; set PTO_TARGET
for another, and ATEN_CPU_CAPABILITY, ONEDNN_MAX_CPU_ISA and MKL_ENABLE_INSTRUCTIONS to the same.
"""

import dataclasses
import json
import time
from collections.abc import Sequence
from typing import Any

import torch

from pto.adapters.torch import build
from pto.aten import wins
from pto.aten.measuring import Found, cell_of, measured
from pto.aten.records import library
from pto.aten.rows import Row
from pto.bench.peers import set_threads
from pto.bench.timing import geometric_mean

KINDS = ("float32", "bfloat16")


def rows_of(names: Sequence[str]) -> list[Row]:
    """The rows of these overloads or names; all of them, without other names of one."""
    library()
    from pto.aten.table import ROWS

    own = [row for row in ROWS.values() if not row.base]
    wanted = [r for r in own if r.overload in names or r.overload.partition(".")[0] in names]
    return wanted if names else own


def line(found: Sequence[Found]) -> str:
    least = min(found, key=lambda one: one.ratio)
    ratios = [one.ratio for one in found]
    small = [one for one in found if one.bytes == wins.SIZES[0] and not one.with_out]
    micros = f"{small[0].ours_s * 1e6:.1f}/{small[0].aten_s * 1e6:.1f}" if small else "-"
    verdict = "ours" if least.ratio >= 1 else "ATen's"
    return (
        f"{found[0].overload:32} {found[0].kind:9} {least.ratio:6.2f} {geometric_mean(ratios):6.2f}"
        f"  {verdict:7} least at {least.where:42}  16 KB: {micros} us"
    )


def summary(ratios: dict[tuple[str, str], list[float]]) -> list[str]:
    """How many rows take over, their mean, and the mean over all."""
    lines = []
    for kind in KINDS:
        mine = [r for (_, k), r in ratios.items() if k == kind]
        taken = [geometric_mean(r) for r in mine if min(r) >= 1]
        if mine:
            over = geometric_mean(taken)
            all_ = geometric_mean([*taken, *[1.0] * (len(mine) - len(taken))])
            lines.append(
                f"{kind}: {len(taken)} of {len(mine)} rows take over, geometric mean {over:.2f}x;"
                f" mean over all {all_:.2f}x"
            )
    return lines


def _with_threads(row: Row, kind: str, rounds: int, threads: int) -> list[Found]:
    set_threads(threads)
    clock = time.thread_time if threads == 1 else time.perf_counter
    found = measured(row, kind, rounds=rounds, clock=clock)
    return [dataclasses.replace(one, threads=threads) for one in found]


def run(
    names: Sequence[str] = (), rounds: int = 9, threads: Sequence[int] = (1,),
    kinds: Sequence[str] = KINDS, writes: bool = False,
) -> list[Any]:  # fmt: skip
    """Measures and prints; writes the cells where asked to. It builds the parts that it calls."""
    build.build()
    column = wins.target()
    print(f"{column}, ATen with {torch.backends.cpu.get_cpu_capability()}, {threads} threads")
    ratios: dict[tuple[str, str], list[float]] = {}
    for row in rows_of(names):
        for kind in (k for k in kinds if k in row.types):
            try:
                found = [f for n in threads for f in _with_threads(row, kind, rounds, n)]
            except Exception as error:  # the others are measured
                print(f"WRONG: {row.overload} {kind}: {str(error).splitlines()[0]}", flush=True)
                continue
            ratios[row.overload, kind] = [one.ratio for one in found]
            print(line(found), flush=True)
            if writes:
                write(column, found)
    print("\n".join(summary(ratios)))
    return []


def write(column: str, found: Sequence[Found]) -> None:
    """Puts a row's cell, and where it loses its worst place, into the tables of the package."""
    least = min(found, key=lambda one: one.ratio)
    wins.table.cache_clear()
    wins.losses.cache_clear()
    cells, losses = wins.table(), wins.losses()
    cells.setdefault(column, {}).setdefault(least.overload, {})[least.kind] = cell_of(found)
    places = losses.setdefault(column, {}).setdefault(least.overload, {})
    places.pop(least.kind, None)
    if least.ratio < 1:
        places[least.kind] = least.where
    wins.TABLE.write_text(wins.text(cells))
    kept = {target: {name: one for name, one in rows.items() if one}
            for target, rows in losses.items()}  # fmt: skip
    wins.LOSSES.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
