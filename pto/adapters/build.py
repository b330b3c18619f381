# SPDX-License-Identifier: Apache-2.0
"""Builds the parts of adapters that need the headers of the installed framework.

    part = Part(framework="torch", name="node", title="the PyTorch gradients", ...)
    build(part)     # python -m pto adapters build torch
    load(part)      # the library, or None where it has to be built first

A library lies in the cache folder under a key of everything that it depends on: the framework's
version and build, its C++ ABI, the compiler, the sources and our headers that they include. It ends
in a digest of itself, so that a truncated or changed file is never loaded. Building is safe while
others do the same; a build that fails is loud and names its log.
"""

import contextlib
import ctypes
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from pto import _core
from pto.config import config
from pto.errors import Failure

ROOT = pathlib.Path(__file__).resolve().parents[2]  # of #include "pto/..."
LIBRARIES = pathlib.Path(_core.__file__).parent / "lib"  # what is prebuilt
_OURS = re.compile(r'^\s*#\s*include\s+"(pto/[^"]+)"', re.MULTILINE)
_SEAL = b"pto-sealed:"


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


def cache_folder(name: str) -> pathlib.Path:
    """A folder of the cache, which may not exist yet."""
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(config.cache_dir or pathlib.Path(home) / "openpto") / name


def _folder(part: Part) -> pathlib.Path:
    return cache_folder(part.framework)


def _compiler() -> str | None:
    for name in (os.environ.get("PTO_CXX"), os.environ.get("CXX"), "g++", "c++", "clang++"):
        if name and (found := shutil.which(name)):
            return found
    return None


def _texts(sources: tuple[pathlib.Path, ...]) -> Iterator[str]:
    """The sources and every header of ours that they include, each once."""
    waiting, seen = list(sources), set(sources)
    while waiting:
        text = waiting.pop().read_text()
        yield text
        found = {ROOT / name for name in _OURS.findall(text)} - seen
        seen |= found
        waiting += sorted(found)


def _key(part: Part) -> str:
    """Names the library; the compiler is known by its path, size and date."""
    compiler = _compiler()
    stat = os.stat(compiler) if compiler else None
    parts = [
        part.version,
        *part.identity,
        *part.options,
        str(compiler),
        f"{stat.st_size} {stat.st_mtime_ns}" if stat else "",
        *_texts(part.sources),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def path(part: Part) -> pathlib.Path:
    """Where the library lies, or will."""
    version = re.sub(r"[^\w.]", "_", part.version)
    return _folder(part) / f"{part.name}_{version}_{_key(part)}.so"


def _seal(target: pathlib.Path, content: bytes) -> bytes:
    return _SEAL + hashlib.sha256(target.name.encode() + b"\0" + content).digest()


def _verifies(target: pathlib.Path) -> bool:
    try:
        owner, content = target.stat().st_uid, target.read_bytes()
    except OSError:
        return False
    size = len(_SEAL) + hashlib.sha256().digest_size
    return owner in (0, os.geteuid()) and content[-size:] == _seal(target, content[:-size])


def built(part: Part) -> pathlib.Path | None:
    """The library, if it was built for this framework and these sources; Failure if damaged."""
    target = path(part)
    if not target.exists():
        return None
    if not _verifies(target):
        raise _damaged(part, target, "the file is not as it was built")
    return target


def load(part: Part) -> ctypes.CDLL | None:
    """The library, loaded, if it was built; Failure if it cannot be loaded."""
    target = built(part)
    if target is None:
        return None
    try:
        return ctypes.CDLL(str(target))
    except OSError as error:
        raise _damaged(part, target, str(error)) from None


def _damaged(part: Part, target: pathlib.Path, reason: str) -> Failure:
    return Failure(
        f"{part.title} cannot be loaded: {reason}",
        f"the file was built for version {part.version} but is damaged",
        f"remove {target} and run: python -m pto adapters build {part.framework}",
    )


@contextlib.contextmanager
def _locked(folder: pathlib.Path) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / "build.lock", "w")  # noqa: SIM115
    except OSError as error:
        raise Failure(
            f"the cache folder cannot be written: {error}",
            "adapters' libraries are built there, once for all processes",
            "make it writable, or set PTO_CACHE_DIR to another folder",
        ) from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(part: Part, force: bool = False) -> pathlib.Path:
    """Builds the library unless it is there. Returns its path.

    Raises Failure, with the name of the log, where the compiler fails or is missing.
    """
    target = path(part)
    if not force and _verifies(target):
        return target
    compiler = _compiler()
    if compiler is None:
        raise Failure(
            f"no C++ compiler was found to build {part.title}",
            f"they are built on this machine, for the installed version, {part.version}",
            f"install g++ 12 or clang 14, or set PTO_CXX; {part.without}",
        )
    with _locked(target.parent):
        for left in target.parent.glob("*.part"):  # of a process that was killed
            left.unlink()
        if force or not _verifies(target):
            _compile(part, compiler, target)
    return target


def _command(part: Part, compiler: str, output: pathlib.Path) -> list[str]:
    """The library from C++ text of the standard input."""
    return [
        *(compiler, "-O2", "-fPIC", *part.options, *part.folders, f"-I{ROOT}"),
        *("-shared", "-x", "c++", "-", "-x", "none"),
        *("-o", str(output), *part.links, f"-L{LIBRARIES}", "-lpto"),
    ]


def _compile(part: Part, compiler: str, target: pathlib.Path) -> None:
    """All sources as one: a framework's headers cost more than they do, and are read once."""
    partial = target.with_suffix(".part")
    log = target.with_suffix(".log")
    try:
        together = "".join(f'#include "{source}"\n' for source in part.sources)
        done = subprocess.run(
            _command(part, compiler, partial), input=together, capture_output=True, text=True
        )
        log.write_text(f"{' '.join(done.args)}\n{together}{done.stdout}{done.stderr}")
        if done.returncode:
            lines = done.stderr.splitlines()
            first = next((x for x in lines if "error" in x), "no message")
            raise Failure(
                f"building {part.title} failed with code {done.returncode}: {first}",
                f"the whole output stands in {log}",
                f"mend what it names; {part.without}",
            )
        content = partial.read_bytes()
        with open(partial, "ab") as file:
            file.write(_seal(target, content))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
