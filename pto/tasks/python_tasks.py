# SPDX-License-Identifier: Apache-2.0
"""Python functions as kernels of level host: how they travel, and the process that runs them.

    rt.register("p", orch=orch, kernels={"total": total})      # total(x, y, factor)

The function is found by its module and name in a process of its device, as in multiprocessing's
"spawn"; a script's own module is imported there under the name __mp_main__. It gets the tensors as
NumPy arrays over shared memory, then the scalars, and writes its outputs where they lie.
"""

import io
import pickle
import sys
from collections.abc import Callable
from multiprocessing import spawn

from pto.errors import InvalidType


def pickled(name: str, function: Callable) -> bytes:
    """Pickles what a worker needs to find the function."""
    about = spawn.get_preparation_data("pto-worker")
    about = {key: about[key] for key in about if key not in ("authkey", "start_method")}
    try:
        return pickle.dumps((about, pickle.dumps(function)))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidType(
            f"kernel {name!r} cannot reach another process: {error}",
            "it is found there by its module and name",
            "define it with def at the top level of a module",
        ) from None


_is_prepared = False


def _load(payload: bytes) -> Callable[[list, list], None]:
    """The function, called with arrays and numbers."""
    global _is_prepared
    about, function = pickle.load(io.BytesIO(payload))
    if not _is_prepared:
        spawn.prepare(about)
        _is_prepared = True
    called = pickle.loads(function)

    return lambda arrays, numbers: called(*arrays, *numbers)


if __name__ == "__main__":
    from pto import _core

    parent, mailbox_bytes, heap_bytes, _device, spin_us = map(int, sys.argv[1:])
    _core.serve_python(parent, mailbox_bytes, heap_bytes, spin_us, _load)
