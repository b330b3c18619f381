# SPDX-License-Identifier: Apache-2.0
"""npu tensors between processes: refused, since their memory belongs to one.

A copy instead would let two processes believe that they train one model.
"""

import multiprocessing.reduction
import threading
from collections.abc import Callable
from typing import Any

import torch
from pto.errors import Failure
from torch.multiprocessing import reductions

_FEEDER = "QueueFeederThread"  # writes what multiprocessing's queues were given


def register() -> None:
    """Teaches multiprocessing to refuse storages of npu devices."""
    multiprocessing.reduction.register(torch.UntypedStorage, _reduce)


def _reduce(storage: torch.UntypedStorage) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """How the storage is pickled; raises for npu memory, here or where the queue is read.

    An error in a queue's own thread would only be printed, and its reader would wait for ever.
    """
    if storage.device.type != "npu":
        return reductions.reduce_storage(storage)
    if threading.current_thread().name.startswith(_FEEDER):
        return _refuse, (str(storage.device),)
    _refuse(str(storage.device))


def _refuse(device: str) -> Any:
    raise Failure(
        f"a tensor on {device} was sent to another process",
        "memory of an npu device belongs to one process",
        "send x.cpu(), and move it there: a DataLoader's workers return cpu tensors, and the loop "
        "that takes a batch calls batch.npu()",
    )
