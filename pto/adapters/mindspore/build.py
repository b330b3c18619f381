# SPDX-License-Identifier: Apache-2.0
"""Builds eager.cpp for `python -m pto adapters build mindspore`, in half a minute."""

import pathlib
import sysconfig

import mindspore
from pto.adapters import build as library

_HERE = pathlib.Path(__file__).resolve().parent
_HOME = pathlib.Path(mindspore.__file__).parent
_INCLUDES = (
    *(".", "include", "include/mindspore/include", "include/mindspore/ccsrc"),
    *("include/mindspore/ccsrc/include", "include/mindspore/core/include"),
    *("include/mindspore/core/mindrt", "include/mindspore/core/mindrt/include"),
    *("include/mindspore/ops", "include/mindspore/ops/include"),
    *("include/mindspore/ops/kernel/include", "include/third_party"),
    *("include/third_party/robin_hood_hashing", "include/third_party/securec/include"),
)
_PYTHON = sysconfig.get_path("include")

EAGER = library.Part(
    framework="mindspore",
    name="eager",
    title="the fast calls of MindSpore",
    without="without it calls outside graphs go through ops.Custom",
    version=mindspore.__version__,
    identity=(sysconfig.get_config_var("SOABI"),),
    sources=tuple(_HERE / name for name in ("eager.cpp", "request.cpp", "shapes.cpp")),
    options=("-std=c++17", "-D_GLIBCXX_USE_CXX11_ABI=0", "-DENABLE_FAST_HASH_TABLE=1", "-w"),
    folders=tuple(f"-isystem{folder}" for folder in (*(_HOME / i for i in _INCLUDES), _PYTHON)),
    links=(
        f"-L{_HOME / 'lib'}",
        *("-lmindspore_core", "-lmindspore_ms_backend"),
        *("-lmindspore_pynative", "-lmindspore_pyboost"),
    ),
)


def built() -> pathlib.Path | None:
    """The module, if it was built for this MindSpore and these sources."""
    return library.built(EAGER)


def build(force: bool = False) -> pathlib.Path:
    """Builds the module unless it is there; raises Failure where that cannot be done."""
    return library.build(EAGER, force)
