# SPDX-License-Identifier: Apache-2.0
"""Level "host": several devices, a worker process each; a Python function orchestrates them.

    rt = pto.Runtime(level="host", platform="cpu", devices=[0, 1, 2, 3])
    rt.register("pipeline", orch=my_orch, kernels={"compute": package})
    rt.run("pipeline", args={"input": data})
    rt.close()

    def my_orch(ctx, args):
        h = ctx.alloc((1024,), "float32")
        ctx.submit(0, "compute", [pto.Arg.input(args["input"]), pto.Arg.output(h)])

A task goes to its worker as soon as its predecessors are done, while the function goes on. A kernel
is a package of pto.compile(), or a Python function, which runs in a Python process of its device.
`memory` bounds the bytes of all tensors. A worker that dies fails its task and is replaced; workers
end with this process, however it ends. Any thread may call all functions.
"""

import atexit
import inspect
import os
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pto import _core
from pto.errors import Failure, InvalidType, InvalidValue, MissingFile
from pto.tasks.arguments import TensorHandle
from pto.tasks.chip import checked_deadline
from pto.tasks.compilation import check_platform
from pto.tasks.host_context import AwaitedTaskFailed, Context, HostKernel
from pto.tasks.host_graph import HostGraph
from pto.tasks.memory_limit import memory_limit
from pto.tasks.package import CompiledPackage
from pto.tasks.python_tasks import pickled
from pto.tasks.run import HostReport, Run, RunQueue, Work
from pto.tasks.runtime import (
    Runtime,
    check_platform_of,
    check_program_name,
    refuse_fork,
    refuse_unknown,
    registered,
)
from pto.tasks.shared import PrivateCopies, SharedMemory
from pto.tasks.tracing import Tracing
from pto.tasks.turn import RunStopped, Turn

_OPTIONS = {"platform": "cpu", "devices": (0,), "memory": None, "threads": 0}
_WORKER = Path(__file__).parent.parent / "lib" / "pto_worker"
_DEVICES_MOST = 256
_open: "weakref.WeakSet[HostRuntime]" = weakref.WeakSet()


class HostRuntime(Runtime):
    """`memory`: bytes of all tensors; `threads`: of each worker, 0 for its share of the cores."""

    level = "host"

    def __init__(self, level: str = "host", **options: Any) -> None:
        refuse_unknown("Runtime(level='host')", options.keys() - _OPTIONS.keys(), _OPTIONS)
        chosen = {**_OPTIONS, **options}
        check_platform(chosen["platform"])
        self.platform, self.devices = chosen["platform"], _checked_devices(chosen["devices"])
        memory = chosen["memory"] if chosen["memory"] is not None else _default_memory()
        threads = chosen["threads"]
        for name, value, least, most in (("memory", memory, 1, 62), ("threads", threads, 0, 30)):
            if type(value) is not int or not least <= value <= 1 << most:
                raise InvalidValue(
                    f"Runtime: {name} is {value!r:.60}",
                    f"{name} is an int from {least} to 2**{most}",
                    "pass one of those, or leave it out",
                )
        if not _WORKER.is_file():
            raise MissingFile(
                f"the worker's program {_WORKER.name} is missing",
                "each device is a process of its own",
                "install the package again, or run ./dev build",
            )
        self._process, self._lock, self._queue = os.getpid(), threading.Lock(), RunQueue()
        python = [sys.executable, "-m", "pto.tasks.python_tasks"]
        self._engine = _core.HostEngine(self.devices, [os.fspath(_WORKER)], python, memory, threads)
        self._memory = SharedMemory(self._engine)
        self._programs: dict[str, tuple[Callable, dict[str, HostKernel]]] = {}
        self._collectives: dict[str, HostKernel] = {}
        self._tracing = Tracing()
        self._turn: Turn | None = None  # of the last run
        _open.add(self)

    def register(
        self, name: str, *, orch: Callable, kernels: Mapping[str, CompiledPackage | Callable] = {}
    ) -> None:  # noqa: B006 never changed
        """Gives an orchestration a name; `kernels` are known to it alone.

        A program of the same name is replaced; its runs that were submitted are not affected.
        """
        self._check_usable()
        check_program_name(name)
        if not callable(orch):
            raise InvalidType(
                f"register: {name!r}: orch is of type {type(orch).__name__}",
                "at level host a Python function orchestrates: orch(ctx, args)",
                "pass the function; a C++ orchestration is part of a package in kernels",
            )
        if not isinstance(kernels, Mapping):
            raise InvalidType(
                f"register: {name!r}: kernels is of type {type(kernels).__name__}",
                "at level host each kernel has a name",
                'pass {"compute": pto.compile(...)}',
            )
        _refuse_unrun(name, orch)
        loaded = {key: self._kernel(name, key, value) for key, value in kernels.items()}
        with self._lock:
            self._programs[name] = orch, loaded
        self._tracing.add_program(name, [one.origin for one in loaded.values()])

    def alloc(self, shape: Sequence[int], dtype: Any = "float32") -> TensorHandle:
        """A tensor of zeros in shared memory; runs take it, and its views, without a copy."""
        self._check_usable()
        return self._memory.alloc(shape, dtype)

    def run(self, name: str, args: Any = None, deadline: float | None = None) -> Any:
        """Runs an orchestration, waits for its tasks, and returns what it returned.

        `deadline`: seconds after which workers that still run are killed, and the run fails.
        """
        return self._queue.execute(name, self._work(name, args, deadline)[0])

    def submit(self, name: str, args: Any = None, deadline: float | None = None) -> Run:
        """Queues a run; its arrays belong to it until it has ended."""
        work, turn = self._work(name, args, deadline)
        run = Run(name, work, self._queue)
        run.stop = turn.cancel
        self._queue.submit(run)
        return run

    def capture(self, name: str, args: Any = None) -> HostGraph:
        """The orchestration's tasks on these arguments, to be replayed; runs nothing.

        An orchestration that waits cannot be captured: RuntimeError.
        """
        self._check_usable()
        return HostGraph(self, name, *self._found(name), args)

    def workers(self) -> dict[int, int]:
        """The process of each device."""
        self._check_usable()
        return {self.devices[place]: pid for place, pid, _ in self._engine.workers()
                if place < len(self.devices)}  # fmt: skip

    def close(self) -> None:
        """Ends runs that have not begun, waits for what has, ends the workers; may come again."""
        self._close()

    def _close(self, stop: Callable[[], object] | None = None) -> None:
        if os.getpid() != self._process:
            return
        self._queue.close(stop)
        with self._lock:
            self._programs.clear()
            self._memory.closed = True
        self.end_failed_run()
        self._engine.close()
        _open.discard(self)

    def __repr__(self) -> str:
        return f"<Runtime level='host' platform={self.platform!r} devices={list(self.devices)}>"

    def collective(self, name: str) -> HostKernel:
        """A built-in collective as a kernel: copy, sum, product, min, max."""
        with self._lock:
            if name not in self._collectives:
                program = self._engine.add_collective(name)
                self._collectives[name] = HostKernel(self._engine, f"comm.{name}", program)
            return self._collectives[name]

    def work_of_replay(
        self, name: str, replay: Callable[[Callable, Callable], None], deadline: float | None
    ) -> Work:
        """The work of a run that calls replay(begin, end) with functions that begin and end the
        engine's run."""
        self._check_usable()
        seconds = checked_deadline(deadline)

        def work() -> tuple[None, None]:
            trace = self._tracing.request()
            replay(lambda: self._begin(seconds, trace),
                   lambda: self._tracing.keep(name, self._engine.end, trace))  # fmt: skip
            return None, None

        return work

    def execute(self, name: str, work: Work) -> Any:
        """Does the work in its turn among the runs."""
        return self._queue.execute(name, work)

    def _begin(self, seconds: float, trace: Any) -> int:
        self.end_failed_run()
        return self._engine.begin(seconds, trace.path, trace.level)

    def end_failed_run(self) -> None:
        """Ends the engine's run if an error came before its end, such as one of a signal handler:
        that may come anywhere, so each run and close() begin so."""
        if self._engine.is_running:
            self._engine.stop("it was interrupted", True)
            with suppress(Failure):
                self._engine.end()

    def _stop_run(self) -> None:
        if not (self._turn and self._turn.cancel()) and self._engine.is_running:
            self._engine.stop("the process ends", True)

    def _kernel(self, program: str, name: str, kernel: Any) -> HostKernel:
        if not isinstance(name, str) or not name:
            raise InvalidType(
                f"register: {program!r}: a kernel has the name {name!r}",
            "the name of a kernel is a str that is not empty",
                "pass a str",
            )  # fmt: skip
        if isinstance(kernel, CompiledPackage):
            check_platform_of(kernel, self.platform, f"{program!r}: kernel {name!r}")
            number = self._added(kernel, name)
            return HostKernel(self._engine, name, number, package=kernel)
        if callable(kernel):
            number = self._engine.add_python(name, pickled(name, kernel))
            return HostKernel(self._engine, name, number)
        raise InvalidType(
            f"register: {program!r}: kernel {name!r} is of type {type(kernel).__name__}",
            "a kernel is a CompiledPackage, or a Python function",
            "pass what pto.compile() returned",
        )

    def _added(self, package: CompiledPackage, name: str) -> int:
        if package.orchestration is not None:
            return self._engine.add_program(package.program(), name)
        (only,) = package.kernels
        return self._engine.add_kernel(only.code.functions, only.symbol)

    def _work(self, name: str, args: Any, deadline: float | None) -> tuple[Work, Turn]:
        self._check_usable()
        found = self._found(name)
        turn = Turn(self._engine, checked_deadline(deadline))
        return lambda: self._orchestrate(name, *found, args, turn), turn

    def _found(self, name: str) -> tuple[Callable, dict[str, HostKernel]]:
        with self._lock:
            return registered(self._programs, name)

    def _orchestrate(
        self, name: str, orch: Callable, kernels: dict, args: Any, turn: Turn
    ) -> tuple[HostReport, Any]:
        trace = self._tracing.request()
        copies = PrivateCopies(self._memory)
        self._turn = turn
        number = self._begin(turn.seconds, trace)
        context = Context(self, self._engine, kernels, copies)
        raised = value = counts = None
        try:
            with turn.of(number):
                value = orch(context, args)
        except BaseException as error:  # noqa: BLE001 raised again below
            raised = error
        refuse_fork(self._process)  # the orchestration may have returned in a child, too
        if raised is not None:
            why = f"its orchestration raised {type(raised).__name__}: {_text_of(raised)}"
            if isinstance(raised, RunStopped):  # the engine may not have noticed yet
                why = turn.why(raised)
            self._engine.stop(why, False)
        context.end()
        while counts is None:
            try:
                counts = self._tracing.keep(name, self._engine.end, trace)
            except Failure as failure:
                counts = {}
                if raised is None or isinstance(raised, RunStopped | AwaitedTaskFailed):
                    raised = failure
            except BaseException as interrupt:  # noqa: BLE001 the run still has to end
                raised = raised or interrupt
                counts = None if self._engine.is_running else {}
        copies.copy_back()
        if raised is not None:
            try:
                raise raised
            finally:
                del (
                    raised
                )  # else it holds this frame, which holds it, and the run's tensors with it
        return HostReport(**counts, copied_in=copies.copied_in, copied_out=copies.copied_out), value


def _refuse_unrun(name: str, orch: Callable) -> None:
    """Raises InvalidType for an orchestration whose call only makes what nobody runs."""
    for kind, is_kind in (("a coroutine", inspect.iscoroutinefunction),
                          ("a generator", inspect.isgeneratorfunction),
                          ("an async generator", inspect.isasyncgenfunction)):  # fmt: skip
        if is_kind(orch) or is_kind(type(orch).__call__):
            raise InvalidType(
                f"register: {name!r}: a call of orch returns {kind}, which nobody runs",
                "an orchestration has submitted its tasks when it returns",
                "define it by def instead of async def, and without yield",
            )


def _text_of(error: BaseException) -> str:
    """An exception's text, as far as the engine's UTF-8 can hold it; user code makes the text."""
    try:
        return str(error).encode(errors="replace").decode()
    except Exception as failure:  # noqa: BLE001 whatever its __str__ raises
        return f"(its text cannot be had: {type(failure).__name__})"


def _checked_devices(devices: Any) -> list[int]:
    fix = "pass ids, such as devices=[0, 1]"
    if isinstance(devices, int) or not hasattr(devices, "__iter__"):
        raise InvalidType(f"Runtime: devices is {devices!r}", "devices is a list of ids", fix)
    devices = list(devices)
    if any(type(d) is not int or not 0 <= d < 2**31 for d in devices):
        raise InvalidType(f"Runtime: devices is {devices!r}", "ids are numbers from 0 on", fix)
    if len(set(devices)) != len(devices) or not 0 < len(devices) <= _DEVICES_MOST:
        raise InvalidValue(
            f"Runtime: devices is {devices!r}",
            f"a runtime has 1 to {_DEVICES_MOST} different devices", fix,
        )  # fmt: skip
    return devices


def _default_memory() -> int:
    """Half of what this process may use; the rest is for other uses meanwhile."""
    return max(memory_limit() // 2, 1)


@atexit.register
def _close_all() -> None:
    """A run that is still under way is one of a daemon thread: the process does not wait for it."""
    for runtime in list(_open):
        runtime._close(stop=runtime._stop_run)
