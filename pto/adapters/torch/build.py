# SPDX-License-Identifier: Apache-2.0
"""Builds what needs the headers of the installed PyTorch: gradients in C++, and the npu device.

    python -m pto adapters build torch

The libraries lie in the cache folder, each under a key of everything that it depends on: PyTorch's
version and build, its C++ ABI, the compiler, the sources. Building is safe while others do the
same; a build that fails is loud and names its log.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from pto import _core
from pto.config import config
from pto.errors import Failure

_HERE = pathlib.Path(__file__).resolve().parent
_ROOT = _HERE.parents[2]
_PACKAGE = pathlib.Path(_core.__file__).parent


@dataclass(frozen=True)
class Library:
    """A shared library of the installed PyTorch's version."""

    name: str
    purpose: str  # as errors name it
    without: str  # what happens where it is missing
    sources: tuple[pathlib.Path, ...]
    headers: tuple[pathlib.Path, ...]


GRADIENTS = Library(
    "node", "the PyTorch gradients", "without it gradients go through Python",
    (_HERE / "node.cpp",), (_ROOT / "pto/op/operator.h",),
)  # fmt: skip
NPU = Library(
    "npu", "the npu device of PyTorch", "without it there is no npu device",
    tuple(sorted((_HERE / "npu").glob("*.cpp"))), tuple(sorted((_HERE / "npu").glob("*.hpp"))),
)  # fmt: skip


def _folder() -> pathlib.Path:
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(config.cache_dir or pathlib.Path(home) / "openpto") / "torch"


def _compiler() -> str | None:
    for name in (os.environ.get("PTO_CXX"), os.environ.get("CXX"), "g++", "c++", "clang++"):
        if name and (found := shutil.which(name)):
            return found
    return None


def _key(library: Library) -> str:
    """Names the library; the compiler is known by its path, size and date."""
    compiler = _compiler()
    stat = os.stat(compiler) if compiler else None
    parts = [
        torch.__version__,
        str(torch.version.git_version),
        str(torch.compiled_with_cxx11_abi()),
        str(compiler),
        f"{stat.st_size} {stat.st_mtime_ns}" if stat else "",
        *(source.read_text() for source in library.sources + library.headers),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def path(library: Library = GRADIENTS) -> pathlib.Path:
    """Where the library for this PyTorch lies, or will."""
    version = torch.__version__.replace("+", "_")
    return _folder() / f"{library.name}_{version}_{_key(library)}.so"


def built(library: Library = GRADIENTS) -> pathlib.Path | None:
    """The library, if it was built for this PyTorch and these sources."""
    found = path(library)
    return found if found.exists() else None


@contextlib.contextmanager
def _locked(folder: pathlib.Path) -> Iterator[None]:
    with open(folder / "build.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _compile_command(compiler: str, source: pathlib.Path, output: pathlib.Path) -> list[str]:
    include = pathlib.Path(torch.__file__).parent / "include"
    abi = int(torch.compiled_with_cxx11_abi())
    return [
        compiler,
        *("-std=c++20", "-O2", "-fPIC", f"-D_GLIBCXX_USE_CXX11_ABI={abi}"),
        *(f"-isystem{folder}" for folder in (include, include / "torch/csrc/api/include")),
        *(f"-I{_ROOT}", "-c", str(source), "-o", str(output)),
    ]


def _link_command(compiler: str, objects: list[pathlib.Path], output: pathlib.Path) -> list[str]:
    return [
        *(compiler, "-shared", *map(str, objects), "-o", str(output)),
        *(f"-L{pathlib.Path(torch.__file__).parent / 'lib'}", "-ltorch_cpu", "-lc10"),
        *(f"-L{_PACKAGE / 'lib'}", "-lpto"),
    ]


def build(force: bool = False) -> pathlib.Path:
    """Builds the libraries that are not there; takes about a minute. Returns their folder.

    Raises Failure, with the name of the log, where the compiler fails or is missing.
    """
    for library in (GRADIENTS, NPU):
        target = path(library)
        if target.exists() and not force:
            continue
        compiler = _compiler()
        if compiler is None:
            raise Failure(
                f"no C++ compiler was found to build {library.purpose}",
                "it is built on this machine, for the installed PyTorch",
                f"install g++ 12 or clang 14, or set PTO_CXX; {library.without}",
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.parent):
            if not target.exists() or force:
                _compile(library, compiler, target)
    return _folder()


def _compile(library: Library, compiler: str, target: pathlib.Path) -> None:
    partial = target.with_suffix(f".{os.getpid()}.part")
    with tempfile.TemporaryDirectory() as folder:
        objects = [pathlib.Path(folder) / f"{source.stem}.o" for source in library.sources]
        commands = [
            _compile_command(compiler, source, output)
            for source, output in zip(library.sources, objects, strict=True)
        ]
        run = functools.partial(subprocess.run, capture_output=True, text=True)
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            done = list(threads.map(run, commands))
        if not any(one.returncode for one in done):
            done.append(run(_link_command(compiler, objects, partial)))
    log = target.with_suffix(".log")
    log.write_text("".join(" ".join(x.args) + "\n" + x.stdout + x.stderr for x in done))
    failed = next((one for one in done if one.returncode), None)
    if failed:
        partial.unlink(missing_ok=True)
        first = next((x for x in failed.stderr.splitlines() if "error" in x), "no message")
        raise Failure(
            f"building {library.purpose} failed with code {failed.returncode}: {first}",
            f"the whole output stands in {log}",
            f"mend what it names; {library.without}",
        )
    partial.replace(target)
