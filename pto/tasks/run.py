# SPDX-License-Identifier: Apache-2.0
"""Run: one execution of a registered program; RunQueue: the order in which runs take turns.

    run = rt.submit("add", args)        # returns at once
    run.wait(0.5) or run.cancel()
    run.result()                        # raises what the run raised
    run.report                          # Report(tasks=500, edges=499, skipped=0, ...)

Runs of one runtime happen one after another in the order of their submission. Any thread may call
all functions.
"""

import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

from pto.errors import Failure, InvalidValue


@dataclass(frozen=True)
class Report:
    """Counts of one run; `unknown_overlaps`: pairs of views that count as overlapping, unproven."""

    tasks: int
    edges: int
    skipped: int
    unknown_overlaps: int


@dataclass(frozen=True)
class HostReport:
    """Counts of one run at level host; bytes were copied for arrays that are not shared."""

    tasks: int
    edges: int
    unknown_overlaps: int
    replaced_workers: int
    copied_in: int
    copied_out: int


# The work of a run returns its report and the value that its orchestration returned.
Work = Callable[[], tuple[Report | HostReport, Any]]


class Run:
    """One execution; made by Runtime.submit()."""

    def __init__(self, name: str, work: Work, queue: "RunQueue") -> None:
        self.name = name
        self.report: Any = (
            None  # Report at level chip, HostReport at level host; None until it ends
        )
        self._value: Any = None
        self._work, self._queue = work, queue
        self._has_ended = threading.Event()
        self._error: BaseException | None = None
        self.stop: Callable[[], bool] | None = None

    @property
    def done(self) -> bool:
        """Says whether it has ended, in whichever way."""
        return self._has_ended.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it has ended, at most `timeout` seconds; whether it has."""
        seconds = _checked_timeout(timeout)
        if not self.done:
            refuse_fork(self._queue.process)
            if seconds is None:
                self._queue.check_may_wait()
        return self._has_ended.wait(seconds)

    def result(self, timeout: float | None = None) -> Any:
        """Waits and returns what the orchestration returned.

        Raises what the run raised, and TimeoutError if it has not ended by then.
        """
        if not self.wait(timeout):
            raise TimeoutError(f"run {self.name!r} has not ended after {timeout} s")
        if self._error is None:
            return self._value
        try:
            raise self._error
        finally:
            del self  # the error holds this frame, and a circle would keep the run's tensors

    def cancel(self) -> bool:
        """Takes it out of the queue, or stops a begun run if its level can (host).

        Returns False if it goes on or has ended; otherwise result() raises.
        """
        if self.done:
            return False
        refuse_fork(self._queue.process)
        if self._queue.cancel(self):
            return True
        return not self.done and self.stop is not None and self.stop()

    def __repr__(self) -> str:
        state = "under way" if not self.done else "failed" if self._error else "done"
        return f"<Run {self.name!r}: {state}>"

    def perform(self) -> None:
        """Does the work; an error is kept for result()."""
        try:
            self.report, self._value = self._work()
        except BaseException as error:  # noqa: BLE001 raised again by result()
            self._error = error
            del self  # as in result()

    def end(self, error: BaseException | None = None) -> None:
        self._error = error or self._error
        del self._work  # releases the arrays too
        self._has_ended.set()


class RunQueue:
    """Lets runs happen one after another; a thread of its own performs those nobody waits for.

    The thread lives while such runs are queued, and is no daemon: the interpreter ends after them.
    """

    def __init__(self) -> None:
        self.process = os.getpid()
        self._lock = threading.RLock()  # entered by no Python code, which a handler could interrupt
        self._changed = threading.Condition(self._lock)
        self._runs: deque[Run] = deque()
        self._background: set[Run] = set()
        self._active: Run | RunQueue | None = None  # the queue itself: a run that never waited
        self._performer = 0  # the thread that performs the active run
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def execute(self, name: str, work: Work) -> Any:
        """Does the work on the calling thread when its turn comes; returns its value."""
        is_alone, thread = False, threading.get_ident()
        try:  # from the beginning: a signal handler may raise anywhere
            with self._lock:
                self.check_open()
                self.check_may_wait()
                is_alone = not self._runs and self._active is None
                if is_alone:
                    self._performer = thread
                    self._active = self
            if is_alone:
                return work()[1]
        finally:
            if is_alone and self._performer == thread:
                self._active, self._performer = None, 0  # before calls, which handlers interrupt
                with self._lock:
                    self._changed.notify_all()
        run = Run(name, work, self)
        self._execute_later(run)
        try:
            return run.result()
        finally:
            del run  # as in Run.result(), here and below

    def _execute_later(self, run: Run) -> None:
        self._enter(run)
        try:
            with self._changed:
                self._changed.wait_for(lambda run=run: run.done or self._is_next(run))
                if run.done:
                    return
                self._active = run
        except BaseException as error:
            self._leave(run, error)
            raise
        self._perform(run)
        del run

    def submit(self, run: Run) -> None:
        """Performs the run on the queue's thread when its turn comes."""
        with self._changed:
            self._enter(run)
            self._background.add(run)
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._drain, name="pto-runs")
            try:
                thread.start()
            except BaseException as error:
                self._leave(run, error)
                raise
            self._thread = thread

    def cancel(self, run: Run) -> bool:
        error = Failure(f"run {run.name!r} was cancelled", "cancel() came before its turn")
        with self._changed:
            if run not in self._runs or run is self._active:
                return False
            self._leave(run, error)
            return True

    def close(self, stop: Callable[[], object] | None = None) -> None:
        """Ends runs that have not begun, waits for the others, refuses new ones. May come again.

        `stop` ends the active run, which gets 0.1 s to end by itself.
        """
        with self._changed:
            self.check_may_wait()
            self._is_closed = True
            for run in [r for r in self._runs if r is not self._active]:
                self._leave(run, closed_error(f"run {run.name!r} has not begun"))
            while not self._changed.wait_for(
                lambda: not self._runs and self._active is None, 0.1 if stop else None
            ):
                stop()

    def check_open(self) -> None:
        if self._is_closed:
            raise closed_error("nothing runs on it any more")

    def check_may_wait(self) -> None:
        """Raises Failure in an orchestration of the active run, which ends only after this call."""
        if self._performer == threading.get_ident():
            raise Failure(
                "an orchestration waits for another run of its runtime, or closes it",
                "runs of a runtime take turns, so the other begins when this one has ended",
                "call the other orchestration as a function, or wait when run() has returned",
            )

    def _enter(self, run: Run) -> None:
        with self._changed:
            self.check_open()
            self._runs.append(run)

    def _leave(self, run: Run, error: BaseException | None = None) -> None:
        with self._changed:
            self._runs.remove(run)
            self._background.discard(run)
            if self._active is run:
                self._active, self._performer = None, 0
            run.end(error)
            self._changed.notify_all()

    def _is_next(self, run: Run) -> bool:
        return self._active is None and self._runs[0] is run

    def _perform(self, run: Run) -> None:
        self._performer = threading.get_ident()
        try:
            run.perform()
        finally:
            self._leave(run)
            del run

    def _drain(self) -> None:
        while True:
            with self._changed:
                run = next((r for r in self._runs if r in self._background), None)
                if run is None:
                    self._thread = None
                    return
                self._changed.wait_for(lambda run=run: run.done or self._is_next(run))
                if run.done:
                    continue
                self._active = run
            self._perform(run)


def _checked_timeout(timeout: Any) -> float | None:
    if timeout is None:
        return None
    is_number = isinstance(timeout, Real) and not isinstance(timeout, bool)
    if not is_number or timeout != timeout:
        raise InvalidValue(
            f"timeout is {timeout!r:.60}",
            "a timeout counts seconds",
            "pass a number, or None to wait for ever",
        )
    return float(min(max(timeout, 0), threading.TIMEOUT_MAX))


def refuse_fork(process: int) -> None:
    """Raises Failure in a process that was forked from the one that made the runtime."""
    if os.getpid() != process:
        raise Failure(
            "the runtime belongs to the process that made it",
            "this process was forked from it, without its threads and workers",
            "make a Runtime in this process",
        )


def closed_error(what: str) -> Failure:
    return Failure(f"the runtime is closed: {what}", "close() was called", "make a new Runtime")
