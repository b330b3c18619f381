# SPDX-License-Identifier: Apache-2.0
"""pto.tune: searches the options of a program on the arguments of a call, and keeps what it found.

    found = pto.tune(attend, q, k, v, budget_s=30)
    print(found)                   # what was tried, how long it took, the best against the default
    attend(q, k, v)                # runs with the best options from now on, in later processes too

It goes through the options one after another, each with the best of those before, and times each
candidate in turns with the best so far, on copies of the arguments. A candidate whose results
differ in a bit is a defect of ours: it is left out and named. A file keeps the result: tuned.py.

Thread safety: one thread tunes at a time; others may call the function meanwhile.
"""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

from pto import _core
from pto.cells import ShownAsText, preformatted, table
from pto.container import path_of
from pto.errors import InvalidType, InvalidValue
from pto.language.arguments import is_typed
from pto.language.copies import copies_of
from pto.language.explanation import explain
from pto.language.jit_call import bound_by_name
from pto.language.location import describe, user_line
from pto.language.recording import recordable
from pto.language.results import taken_apart
from pto.language.tools import unbound
from pto.language.tuned import Store, cpu_kind, form_of, key_of, own_file

_GAIN = 0.97  # of the time: what is less than 3 % faster is noise
_SLICE_S = 0.15  # of one comparison
_FEWEST = 3


@dataclass(frozen=True)
class Trial:
    """One candidate: its options, the times of a call with them and of the best in turns with them;
    `note` says why it was left out."""

    options: dict[str, Any]
    seconds: float
    best_seconds: float
    note: str = ""

    @property
    def row(self) -> tuple[str, str, str, str]:
        times = ("", "") if self.note else (
            f"{self.seconds * 1e6:.1f} us", f"{self.best_seconds / self.seconds:.2f}")  # fmt: skip
        return (_text(self.options), *times, self.note)

    def __str__(self) -> str:
        if self.note:
            return f"{_text(self.options)}: {self.note}"
        ratio = self.best_seconds / self.seconds
        return f"{_text(self.options)}: {self.seconds * 1e6:.1f} us, {ratio:.2f} x the best so far"


@dataclass(frozen=True, repr=False)
class Tuned(ShownAsText):
    """The result of a search: `options`, {} where the defaults are best; seconds of a call."""

    name: str
    options: dict[str, Any]
    seconds: float
    default_seconds: float
    trials: tuple[Trial, ...]
    duration_s: float
    path: str
    cpu: str

    def __str__(self) -> str:
        head, end = self._ends()
        return "\n".join([head, *(f"  tried {one}" for one in self.trials), f"  {end}"])

    __repr__ = __str__

    def _cells(self) -> Iterator[str]:
        head, end = self._ends()
        yield preformatted(head)
        yield table(("tried", "time", "x the best so far", ""), (one.row for one in self.trials))
        yield preformatted(end)

    def _ends(self) -> tuple[str, str]:
        ratio = self.default_seconds / self.seconds
        return (f"{self.name}: {_text(self.options)}, {self.seconds * 1e6:.1f} us, "
                f"{ratio:.2f} x the default of {self.default_seconds * 1e6:.1f} us",
                f"in {self.duration_s:.1f} s, kept in {self.path} for {self.cpu}")  # fmt: skip


def tune(f: Any, *args: Any, budget_s: float = 30, path: Any = None, **kwargs: Any) -> Tuned:
    """Searches options for a jitted function on these arguments, for about `budget_s` seconds.

    Later calls of the function that compile for a program of this text use what it found, on CPUs
    of this kind. `path` is another file to write, which config.tuned may name; then nothing changes
    here. Raises pto.Error where f is no jitted function or runs without kernels, and before the
    search where the file cannot be written.

    Example:
        @pto.jit
        def double(x):
            return x + x

        found = pto.tune(double, x, budget_s=0.1, path="tuned.json")
        print(found.seconds <= found.default_seconds)
    """
    f, args = unbound(f, args)
    _check(f, budget_s)
    function, args, kwargs = f.plain(args, kwargs)
    recordable("tune", function, args, kwargs)  # refuses what has no kernels
    store = Store(own_file() if path is None else str(path_of(path, "tune")))
    store.check_writable()
    search = _Search(function, args, kwargs)
    started = time.perf_counter()
    search.run(started + budget_s)
    seconds, default = search.final()
    options = search.best if seconds < default * _GAIN else {}
    seconds = seconds if options else default
    entry = {"name": function.__name__, "options": options, "seconds": seconds,
             "default_seconds": default}  # fmt: skip
    store.put(search.key, entry)
    if path is None:
        function.compiled.forget_kernels()
    return Tuned(function.__name__, options, seconds, default, tuple(search.trials),
                 time.perf_counter() - started, store.given, cpu_kind())  # fmt: skip


def _check(f: Any, budget_s: Any) -> None:
    if not hasattr(f, "plain") or not hasattr(f, "explain"):
        raise InvalidType(
            f"tune: the function is {describe(f)}",
            "options belong to the kernels of a function under @pto.jit",
            "pass such a function, then its arguments",
            user_line(),
        )
    is_number = isinstance(budget_s, Real) and not isinstance(budget_s, bool)
    if not is_number or not 0 < budget_s < 1e6:
        raise InvalidValue(
            f"tune: budget_s is {budget_s!r}",
            "it is how many seconds the search may take",
            "pass a number above 0 and below 1e6",
            user_line(),
        )


def _text(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in sorted(options.items())) or "defaults"


def choices() -> dict[str, tuple]:
    """The values of each option, in the order in which they are tried."""
    threads = _core.num_threads()
    return {
        "tiles_per_task": (1, 4, 16, 64, 256),
        "workers": tuple(sorted({1, max(1, threads // 2), threads, 2 * threads})),
        "merge": (1, 2, 4, 8, 16),
        "order": ("depth", "longest", "submitted"),
        "prefetch_bytes": (0, 1024, 16384),
    }


class _Search:
    """Coordinate descent over the options of one call."""

    def __init__(self, function: Any, args: tuple, kwargs: dict[str, Any]):
        self.function = function
        compiled = function.compiled
        self.given = bound_by_name(compiled, args, kwargs)
        self.key = key_of(compiled._graph(*compiled.describe_call(*args, **kwargs))[0])
        self.best: dict[str, Any] = {}
        self.default = self.runner({})
        self.runners = {(): self.default}
        self.wanted = self.results(self.default)
        self.seen = {self.text(self.default)}
        self.trials: list[Trial] = []
        self.slowest_s = 0.0

    def runner(self, options: dict[str, Any]) -> Any:
        return form_of(self.function, chosen=options)

    def text(self, runner: Any) -> str:
        """The code of a candidate: equal text is no other candidate."""
        return explain(runner.compiled, tuple(self.given.values()), {}).cpp

    def results(self, runner: Any) -> list[bytes]:
        """The bits of the results of a call, and of the arguments behind it."""
        values = copies_of(self.given)
        result = runner(*values.values())
        return [_bits(one) for one in taken_apart((result, *values.values()))[0] if is_typed(one)]

    def candidates(self) -> Iterator[dict[str, Any]]:
        for name, values in choices().items():
            for value in values:
                yield {**self.best, name: value}

    def run(self, end: float) -> None:
        """Tries candidates while one more is likely to end in time."""
        for options in self.candidates():
            if end - time.perf_counter() < self.slowest_s:
                return
            started = time.perf_counter()
            self.try_one(options)
            self.slowest_s = max(self.slowest_s, time.perf_counter() - started)

    def try_one(self, options: dict[str, Any]) -> None:
        runner = self.runner(options)
        text = self.text(runner)
        if text in self.seen:
            return
        self.seen.add(text)
        if self.results(runner) != self.wanted:
            note = "left out: its results differ from those of the defaults, a defect of OpenPTO"
            self.trials.append(Trial(options, 0, 0, note))
            return
        best = self.runners[_frozen(self.best)]
        seconds, best_seconds = self.duel(runner, best, _SLICE_S)
        self.trials.append(Trial(options, seconds, best_seconds))
        if seconds < best_seconds * _GAIN:
            self.best = options
            self.runners[_frozen(options)] = runner

    def final(self) -> tuple[float, float]:
        """Seconds of the best and of the defaults, measured longer."""
        return self.duel(self.runners[_frozen(self.best)], self.default, 4 * _SLICE_S)

    def duel(self, one: Any, other: Any, slice_s: float) -> tuple[float, float]:
        """The shortest time of a call of each, in turns."""
        calls = [(runner, list(copies_of(self.given).values())) for runner in (one, other)]
        shortest = [float("inf")] * 2
        end, rounds = time.perf_counter() + slice_s, 0
        while rounds < _FEWEST or (time.perf_counter() < end and rounds < 10000):
            for place, (runner, values) in enumerate(calls):
                started = time.perf_counter()
                runner(*values)
                shortest[place] = min(shortest[place], time.perf_counter() - started)
            rounds += 1
        return shortest[0], shortest[1]


def _frozen(options: dict[str, Any]) -> tuple:
    return tuple(sorted(options.items()))


def _bits(array: Any) -> bytes:
    if hasattr(array, "detach"):
        kind = sys.modules["torch"].uint8
        array = array.detach().cpu().contiguous().reshape(-1).view(kind).numpy()
    import numpy

    return numpy.ascontiguousarray(array).tobytes()
