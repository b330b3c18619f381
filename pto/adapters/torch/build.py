# SPDX-License-Identifier: Apache-2.0
"""Builds what `python -m pto adapters build torch` builds: C++ gradients and autocast, the npu,
calls that go straight to a kernel, and ATen's calls for C++.

It takes a minute on two cores.
"""

import ctypes
import dataclasses
import os
import pathlib
import sysconfig

import torch
from pto.adapters import build as library

_HERE = pathlib.Path(__file__).resolve().parent
_HOME = pathlib.Path(torch.__file__).parent
_ABI = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"

NODE = library.Part(
    framework="torch",
    name="node",
    title="the PyTorch gradients",
    without="without it gradients go through Python",
    version=torch.__version__,
    identity=(str(torch.version.git_version),),
    sources=tuple(
        _HERE / f"{name}.cpp" for name in ("node", "autocast", "weight_owner", "scaled_dot_product")
    ),
    options=("-std=c++20", _ABI),
    folders=tuple(
        f"-isystem{_HOME / name}" for name in ("include", "include/torch/csrc/api/include")
    ),
    links=(f"-L{_HOME / 'lib'}", "-ltorch_cpu", "-lc10"),
)
NPU = dataclasses.replace(
    NODE,
    name="npu",
    title="the npu device of PyTorch",
    without="without it there is no npu device",
    sources=tuple(sorted((_HERE / "npu").glob("*.cpp"))),
)
_PYTHON = sysconfig.get_path("include")
DIRECT = dataclasses.replace(
    NODE,
    name="direct",
    title="direct calls from Python",
    without="without it a call takes about a microsecond more",
    sources=(_HERE / "direct_call.cpp", _HERE / "object_owner.cpp"),
    identity=(*NODE.identity, sysconfig.get_config_var("SOABI")),
    folders=(*NODE.folders, f"-isystem{_PYTHON}"),
    links=(*NODE.links, "-ltorch_python"),
)
ATEN = dataclasses.replace(
    NODE,
    name="aten",
    title="ATen's calls for C++",
    without="without it pto/aten.hpp reaches no operator",
    sources=tuple(sorted((_HERE / "aten").glob("*.cpp"))),
)


def build_aten(force: bool = False) -> pathlib.Path:
    """Builds the part for C++ programs, and links it where pto/aten.hpp looks for it: under the
    build id of PyTorch's library."""
    target = library.build(ATEN, force)
    build_id = ctypes.CDLL(str(target)).pto_aten_build_id
    build_id.restype = ctypes.c_char_p
    link = target.parent / f"aten-{build_id().decode()}.so"
    new = link.with_suffix(f".{os.getpid()}")
    new.symlink_to(target.name)
    new.replace(link)
    return link


def path() -> pathlib.Path:
    """Where the library for this PyTorch lies, or will."""
    return library.path(NODE)


def built() -> pathlib.Path | None:
    """The library, if it was built for this PyTorch and these sources."""
    return library.built(NODE)


def build(force: bool = False) -> pathlib.Path:
    """Builds all unless they are there; raises Failure where that cannot be done.

    Direct calls need Python's headers, which not every installation has: they are left out then.
    """
    library.build(NODE, force)
    if pathlib.Path(_PYTHON, "Python.h").exists():
        library.build(DIRECT, force)
    build_aten(force)
    return library.build(NPU, force).parent
