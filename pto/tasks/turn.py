# SPDX-License-Identifier: Apache-2.0
"""Turn: one run at level host, which its deadline or Run.cancel() may stop.

    turn = Turn(engine, seconds=2.0)
    with turn.of(engine.begin(...)):     # raises RunCancelled where cancel() came before
        orch(context, args)              # is left by a RunStopped if it goes on
    turn.cancel()                        # False where the run has ended

Invariant: it stops its own run, and never the one that follows. Thread safety: any thread.
"""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pto.errors import Failure


class RunStopped(Failure):
    """Raised inside an orchestration that goes on when its run was stopped."""

    text = ("the run was stopped", "it has an end", "let this exception pass")

    def __init__(self) -> None:
        super().__init__(*self.text)


class DeadlinePassed(RunStopped):
    text = ("the run's deadline has passed", "the caller gave run() a deadline",
            "let this exception pass, or call run() with a longer deadline")  # fmt: skip


class RunCancelled(RunStopped):
    text = ("the run was cancelled", "the caller called cancel()", "let this exception pass")


class Turn:
    """`seconds`: of the deadline, 0 for none."""

    def __init__(self, engine: Any, seconds: float) -> None:
        self.seconds, self._engine = seconds, engine
        self._lock = threading.RLock()  # a signal handler may call cancel() in cancel()
        self._stopped_by: type[RunStopped] | None = None
        self._number = 0  # of the engine's run, 0 before it
        self._thread = 0  # which orchestrates, 0 before and behind that

    @contextmanager
    def of(self, number: int) -> Iterator[None]:
        """The time of the orchestration in the engine's run of this number."""
        timer = (
            threading.Timer(self.seconds, self._leave, [DeadlinePassed]) if self.seconds else None
        )
        if timer is not None:
            timer.daemon = True
            timer.start()  # first: CPython might raise in a thread that this one starts
        try:
            with self._lock:
                self._number = number
                if self._stopped_by is not None:
                    raise self._stopped_by
                self._thread = threading.get_ident()
            yield
        finally:
            with self._lock:
                self._thread = 0
            if timer is not None:
                timer.cancel()

    def cancel(self) -> bool:
        """Stops the run, or keeps it from beginning."""
        with self._lock:
            has_begun = self._number != 0
            if has_begun and not self._engine.stop("it was cancelled", True, self._number):
                return False
            self._leave(RunCancelled)
            return True

    def why(self, raised: RunStopped) -> str:
        """The reason that the engine is told where this ended the orchestration."""
        is_late = isinstance(raised, DeadlinePassed)
        return f"its deadline of {self.seconds:g} s has passed" if is_late else "it was cancelled"

    def _leave(self, error: type[RunStopped]) -> None:
        """Raises the error, once, in the orchestrating thread, or where that begins."""
        with self._lock:
            self._stopped_by = self._stopped_by or error
            thread, self._thread = self._thread, 0
            if thread:
                raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
                raise_in(ctypes.c_ulong(thread), ctypes.py_object(error))
