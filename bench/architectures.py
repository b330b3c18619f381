# SPDX-License-Identifier: Apache-2.0
"""Tiny models of many architectures under torch.compile(backend="pto"), against eager.

    ./dev bench compile_architectures

It prints the times of each architecture of tests/compile_architectures.py at three sizes, and, at
the middle one, ATen's part of the steps' time. Results are compared with eager's before they are
timed.
"""

import dataclasses
import functools
import warnings

import torch

import pto.torch
from bench.compile import is_there
from pto.bench.runner import Measurement
from pto.bench.timing import interleave
from tests.compile_architectures import ARCHITECTURES, architecture

SIZES = ((1, 5), (2, 7), (3, 12))  # batch, length; a new size is the third one, with symbols
MIDDLE = SIZES[1]


@dataclasses.dataclass(frozen=True)
class Row:
    """An architecture at one size: microseconds of a call, and ATen's part of the steps' time,
    without convolutions, where it was looked at."""

    name: str
    size: tuple[int, int]
    us: dict[str, float]
    part_of_aten: float | None = None

    @property
    def ratio(self) -> float:
        return self.us["torch"] / self.us["pto"]

    def __str__(self) -> str:
        part = "" if self.part_of_aten is None else f"  {100 * self.part_of_aten:5.1f} % in ATen"
        batch, length = self.size
        return (f"{self.name:<16}{batch} x {length:<4}{self.us['torch']:>9.0f}"
                f"{self.us['pto']:>9.0f} us {self.ratio:6.2f}x{part}")  # fmt: skip


def part_of_aten(steps: tuple) -> float:
    """ATen's part of the time of steps; convolutions are oneDNN's and count on neither side."""
    counted = [one for one in steps if not any("convolution" in name for name in one.operations)]
    total = sum(one.us for one in counted)
    return sum(one.us for one in counted if one.kind == "ATen") / total if total else 0.0


def rows_of(name: str) -> list[Row]:
    """The rows of an architecture; raises where a result differs from eager's."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, inputs = architecture(name)
    model = model.eval().requires_grad_(False)
    compiled = torch.compile(model, backend="pto")
    rows = []
    for size in SIZES:
        given = inputs(*size)
        for _ in range(2):  # the second call packs weights
            torch.testing.assert_close(
                compiled(**given)[0], model(**given)[0], rtol=1e-3, atol=1e-4
            )
        calls = {
            "pto": functools.partial(compiled, **given),
            "torch": functools.partial(model, **given),
        }
        us = {contender: s.median * 1e6 for contender, s in interleave(calls, 11).items()}
        part = part_of_aten(pto.torch.explain(compiled, **given).steps) if size == MIDDLE else None
        rows.append(Row(name, size, us, part))
    return rows


def run() -> list[Measurement]:
    """Prints the rows of all architectures with one thread, and how many hold the floors."""
    if not is_there("transformers"):
        print("compile_architectures: transformers is not installed: ./dev demo")
        return []
    torch.set_num_threads(1)
    rows: list[Row] = []
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ARCHITECTURES:
            for row in rows_of(name):
                rows.append(row)
                print(row, flush=True)
    ratios = torch.tensor([row.ratio for row in rows], dtype=torch.float64)
    slower = [f"{row.name} {row.size[0]} x {row.size[1]}" for row in rows if row.ratio < 1]
    parts = [row.part_of_aten for row in rows if row.part_of_aten is not None]
    few = sum(part <= 0.05 for part in parts)
    print(f"compile_architectures: geometric mean {ratios.log().mean().exp():.2f}x eager, least"
          f" {ratios.min():.2f}x; slower than eager: {', '.join(slower) or 'none'}; ATen has at"
          f" most 5 % of the time in {few} of {len(parts)} (goal 40)")  # fmt: skip
    return []
