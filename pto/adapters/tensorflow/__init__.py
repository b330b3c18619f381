# SPDX-License-Identifier: Apache-2.0
"""The TensorFlow adapter: every operator of the registry is pto.tensorflow.NAME.

    import tensorflow as tf, pto.tensorflow
    pto.tensorflow.gelu(x, approximate="tanh")

Importing it registers definition, shape function, CPU kernel and gradient of all operators, also of
those that are defined later; a saved model that uses them needs only this import. `python -m pto
adapters build tensorflow` builds it for the installed TensorFlow; before that an import warns, and
a use raises Failure. Thread safety: any thread may call.
"""

import ctypes
import importlib
import sys
import warnings
from typing import Any

import tensorflow as tf
from pto.adapters import build as adapter_libraries
from pto.adapters.record import on_operator
from pto.adapters.tensorflow import build
from pto.adapters.tensorflow.function import function
from pto.adapters.tensorflow.gradient import register as register_gradient
from pto.adapters.tensorflow.node import TensorFlowNode
from pto.errors import Failure, unknown_attribute
from pto.locks import Lock

__all__ = ["call", "describe"]

_COMMAND = "python -m pto adapters build tensorflow"
_lock = Lock()
_nodes: dict[str, TensorFlowNode] = {}
_operators: ctypes.CDLL | None = None
_xla: ctypes.CDLL | None = None


def _not_built() -> Failure:
    return Failure(
        f"the TensorFlow adapter is not built for TensorFlow {tf.__version__}",
        "it needs the headers of the installed version, so it is built on this machine",
        f"run: {_COMMAND}",
    )


def check_version(built_for: str) -> None:
    """Refuses a library that was built for another TensorFlow: its memory layouts may differ."""
    if built_for != tf.__version__:
        raise Failure(
            f"the TensorFlow adapter was built for TensorFlow {built_for}, "
            f"this is {tf.__version__}",
            "a library for one version cannot be loaded into another",
            f"run: {_COMMAND}",
        )


def _load(part: adapter_libraries.Part) -> ctypes.CDLL | None:
    library = adapter_libraries.load(part)
    if library is not None:
        library.pto_tensorflow_version.restype = ctypes.c_char_p
        check_version(library.pto_tensorflow_version().decode())
    return library


def _check(error: bytes | None) -> None:
    if error:
        raise Failure(
            f"TensorFlow refused an operator: {error.decode()}",
            "its definition could not be registered",
            "correct the operator's schema",
        )


def _declare(index: int) -> None:
    assert _operators is not None
    _check(_operators.pto_tensorflow_register(index))
    if _xla is not None:
        _xla.pto_tensorflow_xla_register(index)
    node = TensorFlowNode(index)
    _nodes[node.record.name] = node
    register_gradient(node)
    if node.record.name in globals():  # a module of ours, which gives way
        globals()[node.record.name] = function(node)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    with _lock:
        if _operators is None and not _start():  # it may have been built since the import
            raise _not_built()
    if name not in _nodes:
        raise unknown_attribute("pto.tensorflow", name, __dir__())
    made = globals()[name] = function(_nodes[name])
    return made


def __dir__() -> list[str]:
    return sorted({*__all__, *_nodes})


def call(name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """pto.tensorflow.NAME(*args, **kwargs)."""
    return getattr(sys.modules[__name__], name)(*args, **kwargs)


def describe() -> str:
    """One line: the version served, and what is built."""
    if _operators is None:
        return f"TensorFlow {tf.__version__}, not built; to build it: {_COMMAND}"
    xla = "with jit_compile" if _xla else f"without jit_compile; for it: {_COMMAND} --xla"
    return f"TensorFlow {tf.__version__}, {len(_nodes)} operators, {xla}"


def _load_xla() -> ctypes.CDLL | None:
    """The part for jit_compile=True, or None where it is not built.

    It gives XLA the handler of all operators, which is the prebuilt one of JAX.
    """
    handler = adapter_libraries.LIBRARIES / "libpto_jax.so"
    library = _load(build.XLA) if handler.exists() else None
    if library is not None:
        use = library.pto_tensorflow_xla_use_handler
        use.argtypes, use.restype = [ctypes.c_void_p], ctypes.c_char_p
        _check(use(ctypes.cast(ctypes.CDLL(str(handler)).pto_xla_call, ctypes.c_void_p)))
        TensorFlowNode.compiles_for_xla = True
    return library


def _start() -> bool:
    """Loads what is built and declares all operators; False where nothing is built yet."""
    global _operators, _xla
    _operators = _load(build.OPERATORS)
    if _operators is None:
        return False
    _operators.pto_tensorflow_register.restype = ctypes.c_char_p
    _xla = _load_xla()
    importlib.import_module("pto.ops")  # the operator library defines itself
    importlib.import_module("pto.models")
    on_operator(_declare)
    return True


if not _start():
    warnings.warn(f"{_not_built().what}; run: {_COMMAND}", stacklevel=2)
sys.modules.setdefault("pto.tensorflow", sys.modules[__name__])
