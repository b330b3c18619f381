# SPDX-License-Identifier: Apache-2.0
"""python -m pto bench CASE [SIZE...]: ours, the peers of this machine, and what it can do at most.

For instance:

    python -m pto bench matmul 512x384x1536 --dtype f32
    python -m pto bench attention 12x512x64 --threads 1,2 --json attention.jsonl
"""

import argparse
import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

from pto.bench import attention, peers, products, report, rows
from pto.bench.runner import Case, Outcome, Setting, measure
from pto.config import config
from pto.errors import Failure, InvalidValue, UnknownName, nearest

LEAST_ROUNDS = 10
COPIES = 4  # of all elements that a measurement holds in f64: results, and what is expected


@dataclass(frozen=True)
class Kind:
    """A word of the command line."""

    help: str
    axes: tuple[str, ...]  # what a size says, by the number of its parts
    dtypes: tuple[str, ...]
    sizes: tuple[tuple[int, ...], ...]  # where none is given
    cases: dict[str, Callable]
    elements: Callable  # size -> how many all arrays have
    is_product: bool = False

    def axes_of(self, count: int) -> str | None:
        """Says what a size of so many parts means; None: there is none."""
        return next((axes for axes in self.axes if axes.count(" x ") + 1 == count), None)


MATRICES = ("rows x depth x columns",)


def of_matrices(size: tuple[int, ...]) -> int:
    m, k, n = size
    return m * k + k * n + m * n


def of_heads(size: tuple[int, ...]) -> int:
    heads, queries, keys, width = size[0], size[1], size[-2], size[-1]
    return 2 * heads * (queries + keys) * width + queries * keys


KINDS = {
    "matmul": Kind(
        "a product of two matrices", MATRICES, products.DTYPES,
        ((256, 256, 256), (512, 384, 1536), (1024, 1024, 1024)),
        {"matmul": products.matmul}, of_matrices, is_product=True,
    ),
    "linear": Kind(
        "a product with a weight, columns x depth, that stays the same", MATRICES,
        ("f32", "f16", "bf16", "f64"), ((1, 1024, 1024), (128, 384, 1536), (512, 1536, 384)),
        {"linear": products.linear}, of_matrices, is_product=True,
    ),
    "attention": Kind(
        "softmax(q kT) v, of all keys and causal",
        ("heads x length x width", "heads x queries x keys x width"), attention.DTYPES,
        ((12, 512, 64),),
        {"attention": attention.attention, "causal": attention.causal}, of_heads,
    ),
    "rows": Kind(
        "functions of rows: softmax, layer_norm, rms_norm", ("rows x columns",), rows.DTYPES,
        ((256, 1536), (4096, 1024)),
        {name: partial(rows.contenders, name) for name in rows.FUNCTIONS},
        lambda size: 2 * prod(size),
    ),
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    words = "; ".join(f"{name}: {kind.help}" for name, kind in KINDS.items())
    parser.add_argument("case", help=words)
    parser.add_argument("size", nargs="*", help="as in 512x384x1536; a few where none is given")
    parser.add_argument("--dtype", default="f32", help="element type: f32, f16, bf16, ...")
    parser.add_argument("--threads", help="as in 1,2; as many as pto uses where not given")
    parser.add_argument("--peers", help="only these peers, as in torch.mm,NumPy")
    parser.add_argument("--rounds", help=f"samples of each, {LEAST_ROUNDS} to 999999; 11")
    parser.add_argument("--png", metavar="FILE", help="draw the bars (needs matplotlib)")
    parser.add_argument("--json", metavar="FILE", help="write one JSON line per measurement")


# --- what the user wrote -------------------------------------------------------------------------


def kind_of(name: str) -> Kind:
    if name not in KINDS:
        raise UnknownName(
            f"bench: there is no case {name!r}",
            f"the cases are {', '.join(KINDS)}",
            nearest(name, KINDS),
        )
    return KINDS[name]


def size_of(name: str, kind: Kind, text: str) -> tuple[int, ...]:
    """Numbers of at least 1, as many as one of the kind's lists of axes has."""
    parts = text.lower().split("x")
    is_size = all(re.fullmatch(r"[0-9]{1,9}", part) and int(part) for part in parts)
    if not is_size or not kind.axes_of(len(parts)):
        raise InvalidValue(
            f"bench {name}: the size {text!r}",
            f"a size is {' or '.join(kind.axes)}, each at least 1",
            f"write it as in {report.shape(kind.sizes[0])}",
        )
    size = tuple(map(int, parts))
    needed = 8 * COPIES * kind.elements(size)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > memory:
        raise InvalidValue(
            f"bench {name}: the size {text} needs about {needed / 1e9:.1f} GB",
            f"this machine has {memory / 1e9:.1f} GB",
            "take a smaller size",
        )
    return size


def dtype_of(name: str, kind: Kind, dtype: str) -> str:
    if dtype not in kind.dtypes:
        raise InvalidValue(
            f"bench {name}: the dtype {dtype!r}",
            f"{name} has the element types {', '.join(kind.dtypes)}",
            nearest(dtype, kind.dtypes),
        )
    return dtype


def cores() -> int:
    """The most threads that a call may use."""
    before = config.threads
    config.threads = (1 << 31) - 1  # counts as the cores of this process
    most, config.threads = config.threads, before
    return most


def threads_of(text: str | None) -> list[int]:
    if text is None:
        return [config.threads]
    most = cores()
    found = [int(part) if re.fullmatch(r"[0-9]{1,9}", part) else 0 for part in text.split(",")]
    if not all(1 <= count <= most for count in found):
        raise InvalidValue(
            f"bench: --threads {text}",
            f"a number of threads is 1 to {most}, the cores that this process may use",
            f"write numbers with commas, as in --threads {'1,2' if most > 1 else '1'}",
        )
    return found


def rounds_of(text: str | None) -> int:
    if text is None:
        return 0
    if not re.fullmatch(r"[0-9]{1,6}", text) or int(text) < LEAST_ROUNDS:
        raise InvalidValue(
            f"bench: --rounds {text}",
            f"a median is of {LEAST_ROUNDS} to 999999 samples: of fewer it says little",
            "give such a number, or leave it out",
        )
    return int(text)


def check_writable(option: str, path: str | None) -> None:
    """Fails before anything is measured; leaves no file behind."""
    if path is None:
        return
    existed = os.path.lexists(path)
    try:
        with open(path, "ab"):
            pass
        if not existed:
            os.unlink(path)
    except OSError as error:
        raise Failure(
            f"bench: {option} {path}: {error.strerror}",
            "the results are written there at the end",
            "name a file in a folder that exists and that you may write to",
        ) from None


# --- measuring -----------------------------------------------------------------------------------


class Chosen:
    """The peers that --peers names, all without it; notes which there are."""

    def __init__(self, text: str | None) -> None:
        self._names = None if text is None else text.split(",")
        self._known: dict[str, None] = {}

    def only(self, contenders: Callable, setting: Setting) -> Iterator[Any]:
        """Yields what a case does, without the peers that were not asked for."""
        for item in contenders(setting):
            if isinstance(item, tuple) and item[0] != report.OURS:
                self._known[item[0]] = None
                if self._names is not None and item[0] not in self._names:
                    continue
            yield item

    def check(self) -> None:
        """Fails for a name that no case had."""
        for name in self._names or []:
            if name not in self._known:
                known = ", ".join(self._known) or "none"
                raise UnknownName(
                    f"bench: there is no peer {name!r}",
                    f"the peers of this case, type and machine are: {known}",
                    nearest(name, self._known) if self._known else "leave --peers out",
                )


@contextlib.contextmanager
def kept_threads() -> Iterator[None]:
    """Gives the threads back that the process had."""
    before = config.threads
    peers.torch()  # its import, if interrupted, must not begin again below: PyTorch would crash
    try:
        yield
    finally:
        peers.set_threads(before)


def outcomes(
    kind: Kind, sizes: list, dtype: str, threads: list[int], rounds: int, chosen: Chosen
) -> Iterator[Outcome]:
    for name, contenders in kind.cases.items():
        one = Case(name, partial(chosen.only, contenders), sizes, [dtype], tuple(threads))
        for setting in one.settings():
            peers.set_threads(setting.threads)
            outcome = measure(one, setting, rounds)
            chosen.check()
            yield outcome


def write(arguments: argparse.Namespace, kind: Kind, found: list[Outcome]) -> None:
    compared = [one for one in map(report.Comparison.of, found) if one]
    print("\n".join([*report.summary(compared), *missing_lines(kind)]))
    if arguments.png and compared:
        axes = [kind.axes_of(len(one.ours.size)) or "" for one in compared]
        report.picture(compared, axes, arguments.png)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for one in found for line in one.lines())


def missing_lines(kind: Kind) -> list[str]:
    lines = peers.missing(kind.is_product)
    return ["not on this machine:", *(f"  {line}" for line in lines)] if lines else []


def run(arguments: argparse.Namespace) -> int:
    """Measures, prints, writes; 1 where a result is wrong."""
    name = arguments.case
    kind = kind_of(name)
    sizes = [size_of(name, kind, text) for text in arguments.size] or list(kind.sizes)
    dtype = dtype_of(name, kind, arguments.dtype)
    threads, rounds = threads_of(arguments.threads), rounds_of(arguments.rounds)
    if arguments.png:
        report.require_matplotlib()
    check_writable("--png", arguments.png)
    check_writable("--json", arguments.json)
    found = []
    with kept_threads():
        for outcome in outcomes(kind, sizes, dtype, threads, rounds, Chosen(arguments.peers)):
            found.append(outcome)
            one = report.Comparison.of(outcome)
            if one:
                axes = kind.axes_of(len(one.ours.size)) or ""
                print("\n".join(report.table(one, axes, sys.stdout.encoding)), flush=True)
            for line in outcome.wrong:
                print(f"WRONG: {line}", flush=True)
            print(flush=True)
    write(arguments, kind, found)
    return int(any(outcome.wrong for outcome in found))
