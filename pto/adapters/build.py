# SPDX-License-Identifier: Apache-2.0
"""Builds the parts of adapters that need the headers of the installed framework.

    part = Part(framework="torch", name="node", title="the PyTorch gradients", ...)
    build(part)     # python -m pto adapters build torch
    load(part)      # the library, or None where it has to be built first

A library lies in the cache folder under a key of everything that it depends on: the framework's
version and build, its C++ ABI, the compiler, the sources and our headers that they include.
compiler/build.hpp builds it, as it builds kernels. Thread safety: threads and processes may build
one part at once; each gets a whole library.
"""

import ctypes
import os
import pathlib
from dataclasses import dataclass

from pto import _core
from pto.errors import Failure

LIBRARIES = pathlib.Path(_core.__file__).parent / "lib"  # the folder of the prebuilt libraries


@dataclass(frozen=True)
class Part:
    """One library and all that it is made from."""

    framework: str  # the folder of the cache, and the name in the command that builds it
    name: str  # first word of the file's name
    title: str  # "the PyTorch gradients", for messages
    without: str  # "without it gradients go through Python"
    version: str  # of the framework
    identity: tuple[str, ...]  # what else of the framework counts: its build, its C++ ABI
    sources: tuple[pathlib.Path, ...]
    options: tuple[str, ...]  # language level, definitions: they count
    folders: tuple[str, ...]  # -I and -isystem; where things lie does not count
    links: tuple[str, ...]  # -L and -l
    is_apart: bool = False  # the compiler takes each source by itself: more time, less memory

    @property
    def full_name(self) -> str:
        return f"{self.name} {self.version}"


def cache_folder(name: str) -> pathlib.Path:
    """A folder of the cache, which may not exist yet."""
    return pathlib.Path(_core.cache_directory()) / name


def _build_of(part: Part) -> _core.ExtensionBuild:
    return _core.ExtensionBuild(
        part.full_name, [*map(os.fspath, part.sources)], [part.version, *part.identity],
        part.options, part.folders, part.links, str(cache_folder(part.framework)), part.is_apart,
    )  # fmt: skip


def path(part: Part) -> pathlib.Path:
    """Where the library lies, or will. Raises Failure without a compiler, which is in the key."""
    return pathlib.Path(_build_of(part).path)


def built(part: Part) -> pathlib.Path | None:
    """The library, if it was built for this framework and these sources, else None.

    Raises Failure for a damaged file.
    """
    try:
        library = _build_of(part)
    except Failure:  # no compiler
        return None
    target = pathlib.Path(library.path)
    if library.is_there:
        return target
    if not target.exists():  # asked last: another process may remove it at any time
        return None
    raise _damaged(part, target, "the file is not as it was built")


def load(part: Part) -> ctypes.CDLL | None:
    """The library, loaded, if it was built, else None. Raises Failure if it cannot be loaded."""
    target = built(part)
    if target is None:
        return None
    try:
        return ctypes.CDLL(str(target))
    except OSError as error:
        if not target.exists():
            return None
        raise _damaged(part, target, str(error)) from None


def _damaged(part: Part, target: pathlib.Path, reason: str) -> Failure:
    return Failure(
        f"{part.title} cannot be loaded: {reason}",
        f"the file was built for version {part.version} but is damaged",
        f"remove {target} and run: python -m pto adapters build {part.framework}",
    )


def build(part: Part, force: bool = False) -> pathlib.Path:
    """Builds the library unless it is there. Returns its path.

    Raises Failure, with the name of the log, where the compiler fails or is missing.
    """
    try:
        return pathlib.Path(_build_of(part).run(again=force))
    except Failure as error:
        raise Failure(
            f"building {part.title}: {error.what.removeprefix(part.full_name + ': ')}",
            error.why,
            f"{error.fix}; {part.without}",
        ) from None
