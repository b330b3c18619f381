# SPDX-License-Identifier: Apache-2.0
"""Lock: what one thread holds at a time, also in a child of fork().

    _lock = Lock()
    with _lock: ...

A child has only the thread that forked: no other thread of its parent could release a lock there.
So the child gets a new one in the place of each that such a thread holds. What the thread was
changing stays as far as it came: whoever takes the lock in the child may find that.

Thread safety: any thread; one that holds a lock may take it again.
"""

import os
import threading
import weakref

_locks: weakref.WeakSet["Lock"] = weakref.WeakSet()


class Lock:
    """A lock as a context manager."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Replaces what another thread holds."""
        if self._lock.acquire(blocking=False):  # free, or this thread's, which releases it itself
            self._lock.release()
        else:
            self._lock = threading.RLock()


def _renew_in_child() -> None:
    for one in _locks:
        one.renew()


os.register_at_fork(after_in_child=_renew_in_child)
