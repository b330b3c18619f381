# SPDX-License-Identifier: Apache-2.0
"""OpenPTO: write a tile kernel once; run it fast on every core and in every framework.

`pto.jit` compiles a Python function over torch tensors or NumPy arrays; the operations inside it
are `pto.exp`, `pto.sum`, `pto.where` and their like, and Python's operators. `pto.ops` is the
operator library, `pto.models` has operators of real models, and `pto.torch` and its siblings put
them into a framework. `pto.Runtime` runs dependent C++ kernels as tasks on all cores. `pto.load`
reads what was saved. Adapters, runtime, `pto.ops` and `pto.models` load at first use.
"""

import importlib
import sys
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any

from pto import _core  # noqa: F401
from pto.config import config
from pto.errors import Error, unknown_attribute
from pto.language import *  # noqa: F403
from pto.language import __all__ as _language
from pto.language.adapters import load_with
from pto.language.tensor import other_name
from pto.memory import memory, repack

if TYPE_CHECKING:  # loaded at its first use
    from pto.container import load  # noqa: F401
    from pto.language.definition import Definition  # noqa: F401
    from pto.language.gradient import GradientContext  # noqa: F401
    from pto.language.health import Health, health  # noqa: F401
    from pto.language.library import package  # noqa: F401
    from pto.language.native_kernel import cpp_kernel  # noqa: F401
    from pto.language.op import op  # noqa: F401
    from pto.language.pictures import Graph  # noqa: F401
    from pto.language.tile_operation import tile_op  # noqa: F401
    from pto.language.tune import Tuned, tune  # noqa: F401
    from pto.language.verify import verify  # noqa: F401
    from pto.ops.packed_weight import PackedWeight, pack_weight  # noqa: F401
    from pto.tasks import (  # noqa: F401
        Arg,
        CompiledPackage,
        KernelSource,
        ParamType,
        Runtime,
        TensorHandle,
        compile,
    )
    from pto.tasks.host_context import Context  # noqa: F401
    from pto.tile_offsets import TileLayout, tile_layout  # noqa: F401

__version__ = "0.2.0"
__all__ = ["Error", "config", "memory", "repack", *_language]

_ADAPTERS = ("torch", "tensorflow", "jax", "onnxruntime", "mindspore")
_RUNTIME = ("Arg", "CompiledPackage", "KernelSource", "ParamType", "Runtime", "TensorHandle",
            "compile")  # fmt: skip
_LATER = {
    "Context": "pto.tasks.host_context",
    "Definition": "pto.language.definition",
    "GradientContext": "pto.language.gradient",
    "Graph": "pto.language.pictures",
    "Health": "pto.language.health",
    "PackedWeight": "pto.ops.packed_weight",
    "TileLayout": "pto.tile_offsets",
    "Tuned": "pto.language.tune",
    "cpp_kernel": "pto.language.native_kernel",
    "health": "pto.language.health",
    "load": "pto.container",
    "pack_weight": "pto.ops.packed_weight",
    "package": "pto.language.library",
    "tile_layout": "pto.tile_offsets",
    "tile_op": "pto.language.tile_operation",
    "tune": "pto.language.tune",
    "verify": "pto.language.verify",
}


class _Finder:
    """Makes `import pto.torch` load pto.adapters.torch, and `import pto.op` find the decorator."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        parent, _, child = name.rpartition(".")
        if parent != __name__:
            return None
        if child == "op":
            return ModuleSpec(name, _Finder)
        if child not in _ADAPTERS:
            return None
        from importlib.util import find_spec

        real = find_spec(f"pto.adapters.{child}")
        return real and ModuleSpec(name, _Finder, origin=real.origin)

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        return None

    @staticmethod
    def exec_module(module: Any) -> None:
        child = module.__name__.rpartition(".")[2]
        found = __getattr__("op") if child == "op" else None
        sys.modules[module.__name__] = found or importlib.import_module(f"pto.adapters.{child}")


sys.meta_path.insert(0, _Finder)
load_with(lambda part: importlib.import_module(f"pto.adapters.{part}"))


def __getattr__(name: str) -> Any:
    if name == "op":
        return importlib.import_module("pto.language.op").op
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    if name in _RUNTIME:
        return getattr(importlib.import_module("pto.tasks"), name)
    if name in _ADAPTERS or name in ("aten", "comm", "models", "ops", "testing"):
        return importlib.import_module(f"{__name__}.{name}")
    raise unknown_attribute("pto", name, __dir__(), other_name(name))


def __dir__() -> list[str]:
    return sorted({*__all__, *_ADAPTERS, *_RUNTIME, *_LATER, "aten", "comm", "models", "op", "ops",
                   "testing"})  # fmt: skip
