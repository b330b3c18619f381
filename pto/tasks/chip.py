# SPDX-License-Identifier: Apache-2.0
"""Level "chip": one device, whose tasks run on the cores of this process.

    rt = pto.Runtime(level="chip", platform="cpu", device=0)
    rt.register("vector_add", orch="orch.cpp", kernels=[{"source": "add.cpp", "func_id": 0}])
    rt.run("vector_add", args=[pto.Arg.input(x), pto.Arg.output(y)])
    rt.close()

The C++ orchestration submits tasks; tasks that touch no common memory run side by side. A failed
run raises the first cause, and the runtime stays usable. Any thread may call all functions.
"""

import os
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

from pto import _core
from pto.errors import InvalidType, InvalidValue
from pto.locks import Lock
from pto.tasks.arguments import Arg, check_arg
from pto.tasks.check import CheckReport, checked
from pto.tasks.compilation import check_platform, compile
from pto.tasks.graph import CapturedGraph
from pto.tasks.package import CompiledPackage
from pto.tasks.run import Report, Run, RunQueue
from pto.tasks.runtime import (
    Runtime,
    check_platform_of,
    check_program_name,
    refuse_unknown,
    registered,
)
from pto.tasks.simulation import Scaling, SimulatedRun, checked_cores, simulated
from pto.tasks.spellings import without_published_keywords
from pto.tasks.tracing import Tracing

_OPTIONS = {"platform": "cpu", "device": 0, "workers": 0, "window": 4096, "checker": False}
_WORKERS_MOST, _WINDOW_MOST = 1024, 2**20
_QUEUES_MOST = 4 << 30  # bytes
_DEADLINE_MOST_S = 1e9  # 31 years: the engines count 64-bit nanoseconds
_COMPILED = ("orch", "kernels", "orch_func", "include_dirs", "flags", "cache_dir", "signature",
             "runtime", "orch_source", "kernel_sources")  # fmt: skip


class ChipRuntime(Runtime):
    """`workers`: threads of a run, 0 for all; `window`: tasks in flight, a power of two.

    With `checker` each run is checked instead, see check(), and fails for what is found.
    """

    level = "chip"

    def __init__(self, level: str = "chip", **options: Any) -> None:
        refuse_unknown("Runtime(level='chip')", options.keys() - _OPTIONS.keys(), _OPTIONS)
        chosen = {**_OPTIONS, **options}
        check_platform(chosen["platform"])
        for name, least, most in (("device", 0, 2**31 - 1), ("workers", 0, _WORKERS_MOST),
                                  ("window", 2, _WINDOW_MOST)):  # fmt: skip
            _check_number(name, chosen[name], least, most)
        if chosen["window"] & (chosen["window"] - 1):
            raise InvalidValue(
                f"window is {chosen['window']}", "tasks in flight lie in a ring of that size",
                f"pass a power of two, such as {2 ** chosen['window'].bit_length()}",
            )  # fmt: skip
        _check_queues(chosen["workers"] or os.cpu_count() or 1, chosen["window"])
        self.platform, self.device = chosen["platform"], chosen["device"]
        self._workers, self._window = chosen["workers"], chosen["window"]
        if not isinstance(chosen["checker"], bool):
            raise InvalidType(
                f"Runtime: checker is {chosen['checker']!r}", "it is on or off",
                "pass True or False",
            )  # fmt: skip
        self._checker = chosen["checker"]
        self._packages: dict[str, tuple[CompiledPackage, Any]] = {}  # with the engine's programs
        self._lock, self._queue = Lock(), RunQueue()
        self._process = os.getpid()
        self._tracing = Tracing()

    def register(self, name: str, *, pkg: CompiledPackage | None = None, **source: Any) -> None:
        """Gives a program a name: a package, or sources, compiled now; see pto.compile.

        A program of the same name is replaced; its runs that were submitted are not affected.
        """
        self._check_usable()
        source = without_published_keywords("register", source)
        refuse_unknown("register", source.keys() - {*_COMPILED}, ("pkg", *_COMPILED))
        check_program_name(name)
        if pkg is None:
            if not source.get("orch") and not source.get("orch_source"):
                raise InvalidType(
                    f"register: {name!r} has neither orch nor pkg",
                    "a program is an orchestration with its kernels, or a package of both",
                    "pass orch= and kernels=, or pkg=pto.compile(...)",
                )
            pkg = compile(self.platform, name=name, **source)
        elif source:
            raise InvalidType(
                f"register: {name!r} has pkg and {', '.join(source)}",
                "a package holds its orchestration and kernels already",
                "pass pkg alone",
            )
        self._check_package(name, pkg)
        program = pkg.program()
        with self._lock:
            self._packages[name] = pkg, program
        self._tracing.add_program(name, [pkg.origin])

    def run(self, name: str, args: Sequence[Arg] = (), deadline: float | None = None) -> None:
        """Runs a program and waits; this thread works too. Raises the first cause of a failure.

        `deadline`: seconds after which no further task begins, and the run fails. Code that has not
        returned 50 ms later is abandoned: it goes on and may still write to the run's arrays. With
        a deadline this thread only waits, and Ctrl-C ends the run as the deadline does.
        """
        self._queue.execute(name, self._prepared(name, args, deadline))

    def submit(self, name: str, args: Sequence[Arg] = (), deadline: float | None = None) -> Run:
        """Queues a run; its arrays belong to it until it has ended."""
        run = Run(name, self._prepared(name, args, deadline), self._queue)
        self._queue.submit(run)
        return run

    def capture(self, name: str, args: Sequence[Arg] = ()) -> CapturedGraph:
        """The program's tasks on these arguments, to be replayed; runs nothing.

        An orchestration that waits for elements cannot be captured: RuntimeError.
        """
        package, program, _ = self._found(name, args)

        def read(again: Sequence[Arg]) -> list:
            checked = _checked_args(again)
            package.check(name, checked)
            return [arg.as_core() for arg in checked]

        return CapturedGraph(
            name, program, read, self._queue.execute, args, self._workers, self._tracing
        )

    def check(self, name: str, args: Sequence[Arg] = ()) -> CheckReport:
        """Runs a program's tasks one after another, and says what another order would break.

        Races where no_dep or manual submissions leave out an edge, writes that were not declared,
        explicit edges that nothing needs. It compares all memory after each task: slow.
        """
        _, program, given = self._found(name, args)
        reports: list[CheckReport] = []
        self._queue.execute(name, lambda: self._check(name, program, given, reports.append))
        return reports[0]

    def _check(
        self, name: str, program: Any, args: list[Arg], keep: Callable[[CheckReport], None]
    ) -> tuple[Report, None]:
        found = checked(name, _core.check_chip(program, [arg.as_core() for arg in args]))
        keep(found)
        report = Report(tasks=found.tasks, edges=found.edges, skipped=0, unknown_overlaps=0)
        return report, None

    def simulate(
        self, name: str, args: Sequence[Arg] = (), *, cores: int | Sequence[int]
    ) -> SimulatedRun | Scaling:
        """Runs a program once, on one core, and predicts its time on others: 1 to 1024.

        Several numbers give a table. The engine's own scheduling runs in virtual time, with the
        kernels' times of the run; cores that share memory and caches may be slower.
        """
        checked_cores(cores)
        _, program, given = self._found(name, args)
        core = [arg.as_core() for arg in given]

        def run() -> dict:
            return _core.run_chip(program, core, 1, self._window, trace_level=3)

        return simulated(name, run, self._queue.execute, cores)

    def close(self) -> None:
        """Ends runs that have not begun, waits for what has; may be called again."""
        if os.getpid() == self._process:
            self._queue.close()
        with self._lock:
            self._packages.clear()

    def __repr__(self) -> str:
        return f"<Runtime level='chip' platform={self.platform!r} device={self.device}>"

    def _check_package(self, name: str, pkg: Any) -> None:
        if not isinstance(pkg, CompiledPackage):
            raise InvalidType(
                f"register: {name!r}: pkg is of type {type(pkg).__name__}",
                "a program comes from a CompiledPackage",
                "pass what pto.compile() or CompiledPackage.load() returned",
            )
        check_platform_of(pkg, self.platform, repr(name))

    def _found(self, name: str, args: Sequence[Arg]) -> tuple[CompiledPackage, Any, list[Arg]]:
        self._check_usable()
        with self._lock:
            package, program = registered(self._packages, name)
        args = _checked_args(args)
        package.check(name, args)
        return package, program, args

    def _prepared(self, name: str, args: Sequence[Arg], deadline: float | None) -> Callable:
        _, program, given = self._found(name, args)
        core = [arg.as_core() for arg in given]
        seconds, trace = checked_deadline(deadline), self._tracing.request()

        if self._checker:
            return lambda: self._check(name, program, given, CheckReport.raise_faults)

        def work() -> tuple[Report, None]:
            counts = self._tracing.keep(name, lambda: _core.run_chip(
                program, core, self._workers, self._window, seconds, trace.path, trace.level
            ), trace)  # fmt: skip
            return Report(**counts), None

        return work


def _checked_args(args: Any) -> list[Arg]:
    if isinstance(args, Arg | dict | str) or not hasattr(args, "__iter__"):
        raise InvalidType(
            f"args is of type {type(args).__name__}",
            "level chip takes a list of Arg, in the order that the orchestration counts",
            "pass [pto.Arg.input(x), pto.Arg.output(y)]",
        )
    args = list(args)
    for place, arg in enumerate(args):
        check_arg(f"args[{place}]", arg)
    return args


def checked_deadline(deadline: float | None) -> float:
    """The deadline in seconds, 0 for none."""
    if deadline is None:
        return 0.0
    is_number = isinstance(deadline, Real) and not isinstance(deadline, bool)
    if not is_number or not 0 < deadline < _DEADLINE_MOST_S:
        raise InvalidValue(
            f"deadline is {deadline!r:.60}", "a deadline counts seconds from the start of the run",
            f"pass a number above 0 and below {_DEADLINE_MOST_S:g}, or None for no deadline",
        )  # fmt: skip
    return float(deadline)


def _check_queues(workers: int, window: int) -> None:
    """Refuses a window whose queues are too large: each worker's holds all tasks once a worker."""
    needed = window * (512 + 8 * workers * workers)
    if needed > _QUEUES_MOST:
        raise InvalidValue(
            f"Runtime: {workers} workers and a window of {window} tasks",
            f"their queues would take {needed >> 30} GiB, at most {_QUEUES_MOST >> 30}",
            "pass fewer workers, as many as there are cores, or a smaller window",
        )


def _check_number(name: str, value: Any, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise InvalidValue(
            f"Runtime: {name} is {value!r:.60}", f"{name} is a whole number from {least} to {most}",
            "pass an int in that range",
        )  # fmt: skip
