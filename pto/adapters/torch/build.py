# SPDX-License-Identifier: Apache-2.0
"""Builds node.cpp, gradients in C++, for the installed version of PyTorch.

    python -m pto adapters build torch

The library lies in the cache folder under a key of everything that it depends on: PyTorch's version
and build, its C++ ABI, the compiler, the sources. Building is safe while others do the same; a
build that fails is loud and names its log.
"""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterator

import torch
from pto import _core
from pto.config import config
from pto.errors import Failure

_HERE = pathlib.Path(__file__).resolve().parent
_PACKAGE = pathlib.Path(_core.__file__).parent
_SOURCES = (_HERE / "node.cpp", _HERE.parents[1] / "op" / "operator.h")


def _folder() -> pathlib.Path:
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(config.cache_dir or pathlib.Path(home) / "openpto") / "torch"


def _compiler() -> str | None:
    for name in (os.environ.get("PTO_CXX"), os.environ.get("CXX"), "g++", "c++", "clang++"):
        if name and (found := shutil.which(name)):
            return found
    return None


def _key() -> str:
    """Names the library; the compiler is known by its path, size and date."""
    compiler = _compiler()
    stat = os.stat(compiler) if compiler else None
    parts = [
        torch.__version__,
        str(torch.version.git_version),
        str(torch.compiled_with_cxx11_abi()),
        str(compiler),
        f"{stat.st_size} {stat.st_mtime_ns}" if stat else "",
        *(source.read_text() for source in _SOURCES),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def path() -> pathlib.Path:
    """Where the library for this PyTorch lies, or will."""
    return _folder() / f"node_{torch.__version__.replace('+', '_')}_{_key()}.so"


def built() -> pathlib.Path | None:
    """The library, if it was built for this PyTorch and these sources."""
    return path() if path().exists() else None


@contextlib.contextmanager
def _locked(folder: pathlib.Path) -> Iterator[None]:
    with open(folder / "build.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _command(compiler: str, output: pathlib.Path) -> list[str]:
    home = pathlib.Path(torch.__file__).parent
    includes = [home / "include", home / "include/torch/csrc/api/include"]
    abi = int(torch.compiled_with_cxx11_abi())
    return [
        compiler,
        *("-std=c++20", "-O2", "-fPIC", "-shared", f"-D_GLIBCXX_USE_CXX11_ABI={abi}"),
        *(f"-isystem{folder}" for folder in includes),
        f"-I{_HERE.parents[2]}",
        str(_SOURCES[0]),
        *("-o", str(output), f"-L{home / 'lib'}", "-ltorch_cpu", "-lc10"),
        *(f"-L{_PACKAGE / 'lib'}", "-lpto"),
    ]


def build(force: bool = False) -> pathlib.Path:
    """Builds the library unless it is there; takes some ten seconds. Returns its path.

    Raises Failure, with the name of the log, where the compiler fails or is missing.
    """
    target = path()
    if target.exists() and not force:
        return target
    compiler = _compiler()
    if compiler is None:
        raise Failure(
            "no C++ compiler was found to build the PyTorch gradients",
            "they are built on this machine, for the installed PyTorch",
            "install g++ 12 or clang 14, or set PTO_CXX; without it gradients go through Python",
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.parent):
        if not target.exists() or force:
            _compile(compiler, target)
    return target


def _compile(compiler: str, target: pathlib.Path) -> None:
    partial = target.with_suffix(f".{os.getpid()}.part")
    log = target.with_suffix(".log")
    done = subprocess.run(_command(compiler, partial), capture_output=True, text=True)
    log.write_text(" ".join(done.args) + "\n" + done.stdout + done.stderr)
    if done.returncode:
        partial.unlink(missing_ok=True)
        first = next((x for x in done.stderr.splitlines() if "error" in x), "no message")
        raise Failure(
            f"building the PyTorch gradients failed with code {done.returncode}: {first}",
            f"the whole output stands in {log}",
            "mend what it names; until then gradients go through Python",
        )
    partial.replace(target)
