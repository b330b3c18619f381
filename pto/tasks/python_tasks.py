# SPDX-License-Identifier: Apache-2.0
"""Python functions as kernels of level host: how they travel, and the process that runs them.

    rt.register("p", orch=orch, kernels={"total": total})      # total(x, y, factor)

A process of its device finds the function by its module and name, as in multiprocessing's "spawn",
which imports a script's own module under the name __mp_main__. A lambda, a function within another
one, and what a notebook or a prompt defines have no such name: cloudpickle sends their code and the
values that they use, as they are when the function is registered. The function gets the tensors as
NumPy arrays over shared memory, then the scalars, and writes its outputs where they lie.
"""

import inspect
import io
import pickle
import sys
import traceback
from collections.abc import Callable
from multiprocessing import spawn

from pto.errors import InvalidType


def pickled(name: str, function: Callable) -> bytes:
    """Pickles what a worker needs to find the function, or the function itself."""
    about = spawn.get_preparation_data("pto-worker")
    about = {key: about[key] for key in about if key not in ("authkey", "start_method")}
    return pickle.dumps((about, _by_name(function) or _by_value(name, function)))


def _by_name(function: Callable) -> bytes | None:
    """None where another process would not find it."""
    try:
        made = pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    is_prompt = not hasattr(sys.modules["__main__"], "__file__")  # or a notebook
    return None if is_prompt and b"__main__" in made else made


def _by_value(name: str, function: Callable) -> bytes:
    fix = "define it with def at the top level of a module"
    try:
        import cloudpickle  # seldom needed, and not everywhere installed
    except ImportError:
        raise InvalidType(
            f"kernel {name!r} cannot reach another process",
            "no module there has it by its name; cloudpickle, which sends code, is not installed",
            f"{fix}, or run: pip install cloudpickle",
        ) from None
    try:
        return cloudpickle.dumps(function)
    except Exception as error:  # noqa: BLE001 whatever the values that it uses raise
        raise InvalidType(f"kernel {name!r} cannot reach another process: {error}",
                          "it is sent with the values that it uses", fix) from None  # fmt: skip


_is_prepared = False


def _load(payload: bytes) -> Callable[[list, list], str | None]:
    """The function, called with arrays and numbers; returns the text of what it raised, or None."""
    try:
        called = _found(payload)
    except BaseException as error:  # noqa: BLE001 importing a module runs a user's code
        failure = _text_of(error)
        return lambda arrays, numbers: failure

    def run(arrays: list, numbers: list) -> str | None:
        try:
            made = called(*arrays, *numbers)
            if inspect.isgenerator(made) or inspect.iscoroutine(made):
                raise TypeError(f"the kernel returned a {type(made).__name__}, which nobody runs")
        except BaseException as error:  # noqa: BLE001 a task fails with whatever it raised
            return _text_of(error)
        return None

    return run


def _found(payload: bytes) -> Callable:
    global _is_prepared
    about, function = pickle.load(io.BytesIO(payload))
    if not _is_prepared:
        spawn.prepare(about)
        _is_prepared = True
    return pickle.loads(function)


def _text_of(error: BaseException) -> str:
    """A traceback from the user's first frame on, as UTF-8 can hold it."""
    lines = traceback.format_exception(type(error), error, error.__traceback__.tb_next)
    text = "".join(lines).rstrip().replace("\0", r"\0")  # it travels as text of C
    return text.encode(errors="backslashreplace").decode()


if __name__ == "__main__":
    from pto import _core

    parent, mailbox_bytes, heap_bytes, _device, spin_us = map(int, sys.argv[1:])
    _core.serve_python(parent, mailbox_bytes, heap_bytes, spin_us, _load)
