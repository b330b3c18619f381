# SPDX-License-Identifier: Apache-2.0
"""Builds the parts of `python -m pto adapters build torch`: gradients and autocast in C++, the npu
device, calls that go straight to a kernel, and ATen's calls for C++.

They take a minute on two cores. Errors: Failure where the compiler fails or is missing.
"""

import ctypes
import dataclasses
import os
import pathlib
import sysconfig
from collections.abc import Sequence

import torch
from pto.adapters import build as library
from pto.errors import Failure
from pto.whole_files import write_whole

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
_CALLS = ("direct_call", "object_owner", "tensor_reader", "strided_view", "dtypes", "aten_call",
          "aten_front")  # fmt: skip
DIRECT = dataclasses.replace(
    NODE,
    name="direct",
    title="direct calls from Python",
    without="without it a call takes about a microsecond more",
    sources=tuple(_HERE / f"{name}.cpp" for name in _CALLS),
    identity=(*NODE.identity, sysconfig.get_config_var("SOABI")),
    folders=(*NODE.folders, f"-isystem{_PYTHON}"),
    links=(*NODE.links, "-ltorch_python"),
)
_FUNCTIONS = "pto/aten/functions.hpp"
_FRONTS = tuple(_HERE / f"aten/{name}.cpp" for name in ("fronts", "front_arguments"))
# With each file apart at most 600 MB.
_SMALL = ("-O1", "--param", "ggc-min-heapsize=380000", "--param", "ggc-min-expand=8")


def aten() -> library.Part:
    """The part with ATen's calls, whose thunks are written for the PyTorch that is installed."""
    from pto.adapters.torch.aten.generate import thunks_text

    ours = sorted(one for one in (_HERE / "aten").glob("*.cpp") if one not in _FRONTS)
    return dataclasses.replace(
        NODE,
        name="aten",
        title="ATen's calls for C++",
        without="without it pto/aten.hpp reaches no operator",
        sources=(_together("calls", ours), _written("thunks", thunks_text())),
        options=(*NODE.options, *_SMALL),
        is_apart=True,
    )


def fronts() -> library.Part:
    """The part with fronts before PyTorch's kernels, whose table is written likewise."""
    from pto.adapters.torch.aten.generate import fronts_text

    return dataclasses.replace(
        NODE,
        name="fronts",
        title="the fronts of ATen's kernels",
        without="without it pto.aten.enable() has nothing to put before them",
        sources=(_together("front_calls", _FRONTS), _written("fronts", fronts_text())),
        options=(*NODE.options, *_SMALL),
        is_apart=True,
    )


def _together(name: str, files: Sequence[pathlib.Path]) -> pathlib.Path:
    """A source of these files, whose headers the compiler then reads once."""
    names = (f'#include "pto/adapters/torch/aten/{one.name}"\n' for one in files)
    return _written(name, "".join(names))


def _written(name: str, text: str) -> pathlib.Path:
    """A source with this text, for the PyTorch that is installed."""
    path = library.cache_folder("torch") / f"aten_{name}_{torch.version.git_version}.cpp"
    _write(path, text)
    return path


def _write(path: pathlib.Path, text: str) -> None:
    """Replaces a file unless it has this text."""
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, [text.encode()])


def build_aten(force: bool = False) -> pathlib.Path:
    """Builds the part for C++ programs and returns the link to it that pto/aten.hpp looks for,
    which is named by the build id of PyTorch's library.

    It also writes pto/aten/functions.hpp and the classes of compat/infini.
    """
    from pto.adapters.torch.aten.generate import functions_text
    from pto.aten import infini_headers

    identity = (torch.__version__, str(torch.version.git_version))
    _write(_include_folder() / _FUNCTIONS, functions_text())
    infini_headers.write(_include_folder(), _HOME / "lib", identity)
    target = library.build(aten(), force)
    build_id = ctypes.CDLL(str(target)).pto_aten_build_id
    build_id.restype = ctypes.c_char_p
    link = target.parent / f"aten-{build_id().decode()}.so"
    new = link.with_suffix(f".{os.getpid()}")
    new.symlink_to(target.name)
    new.replace(link)
    return link


def _include_folder() -> pathlib.Path:
    return library.cache_folder("torch") / f"aten_include_{torch.version.git_version}"


def aten_include() -> pathlib.Path:
    """The include folder of the headers written for the installed PyTorch; Failure without them."""
    folder = _include_folder()
    missing = [one for one in (_FUNCTIONS, "infini/ops.h") if not (folder / one).exists()]
    if missing:
        raise Failure(
            f"{missing[0]} is not in {folder}",
            "it is written for the PyTorch that is installed",
            "run: python -m pto adapters build torch",
        )
    return folder


def path() -> pathlib.Path:
    """Where the library for this PyTorch lies, or will."""
    return library.path(NODE)


def built() -> pathlib.Path | None:
    """The library, if it was built for this PyTorch and these sources."""
    return library.built(NODE)


def build(force: bool = False) -> pathlib.Path:
    """Builds all parts unless they are there, and returns their folder.

    It leaves out direct calls where Python's headers are not installed.
    """
    library.build(NODE, force)
    if pathlib.Path(_PYTHON, "Python.h").exists():
        library.build(DIRECT, force)
    build_aten(force)
    library.build(fronts(), force)
    return library.build(NPU, force).parent
