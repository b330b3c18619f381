# SPDX-License-Identifier: Apache-2.0
"""The JAX adapter: every operator of the registry is pto.jax.NAME.

    import jax, pto.jax
    y = pto.jax.gelu(x, approximate="tanh")

Each is jitted, and takes part in jit, grad, vmap, shard_map, scan, checkpoint and export. Gradients
are those of reverse mode; forward mode raises JAX's TypeError. Float attributes may be traced, all
others are static. Importing it raises Failure where its prebuilt library is missing. Thread safety:
any thread may call.
"""

import ctypes
import importlib
import sys
from typing import Any

import jax
from pto import _core
from pto.adapters.build import LIBRARIES
from pto.adapters.jax.function import make
from pto.adapters.jax.site import TARGET
from pto.adapters.record import on_operator
from pto.errors import Failure, unknown_attribute

__all__ = ["TARGET", "call", "describe"]

_places: dict[str, int] = {}  # indices of the operators, by name


def _register() -> None:
    """Gives XLA the handler of the prebuilt library."""
    path = LIBRARIES / "libpto_jax.so"
    try:
        library = ctypes.CDLL(str(path))
        stages = {"instantiate": "pto_jax_instantiate", "execute": "pto_jax_call"}
        handler = {stage: jax.ffi.pycapsule(library[name]) for stage, name in stages.items()}
    except (OSError, AttributeError) as error:
        raise Failure(
            f"the JAX adapter cannot be loaded: {error}",
            f"its library should lie at {path}",
            "build or install the project again",
        ) from None
    jax.ffi.register_ffi_target(TARGET, handler, platform="cpu")


def describe() -> str:
    """One line: the version served."""
    return f"JAX {jax.__version__}, {len(_places)} operators, prebuilt"


def _announce(index: int) -> None:
    _places[_core.operator_record(index)["name"]] = index


def __getattr__(name: str) -> Any:
    if name not in _places:
        raise unknown_attribute("pto.jax", name, __dir__())
    function = globals()[name] = make(_places[name])
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *_places})


def call(name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """pto.jax.NAME(*args, **kwargs)."""
    return getattr(sys.modules[__name__], name)(*args, **kwargs)


_register()
importlib.import_module("pto.ops")  # the operator library defines itself
importlib.import_module("pto.models")
on_operator(_announce)
sys.modules.setdefault("pto.jax", sys.modules[__name__])
