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
import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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


def _folder(part: Part) -> pathlib.Path:
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(config.cache_dir or pathlib.Path(home) / "openpto") / part.framework


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


def _options(part: Part, compiler: str) -> list[str]:
    return [compiler, "-O2", "-fPIC", *part.options, *part.folders, f"-I{ROOT}"]


def _command(part: Part, compiler: str, inputs: list[str], output: pathlib.Path) -> list[str]:
    """The library from its sources, or from their objects."""
    ours = [f"-L{LIBRARIES}", "-lpto"]
    return [
        *(*_options(part, compiler), "-shared", *inputs),
        *("-o", str(output), *part.links, *ours),
    ]


def _compile(part: Part, compiler: str, target: pathlib.Path) -> None:
    partial = target.with_suffix(".part")
    log = target.with_suffix(".log")
    run = functools.partial(subprocess.run, capture_output=True, text=True)
    try:
        inputs, done = [str(source) for source in part.sources], []
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as threads:
            if len(inputs) > 1:  # all cores, one source each
                objects = [f"{folder}/{source.stem}.o" for source in part.sources]
                pairs = zip(inputs, objects, strict=True)
                options = _options(part, compiler)
                done = list(threads.map(run, [[*options, "-c", i, "-o", o] for i, o in pairs]))
                inputs = objects
            if not any(one.returncode for one in done):
                done.append(run(_command(part, compiler, inputs, partial)))
        log.write_text("".join(f"{' '.join(x.args)}\n{x.stdout}{x.stderr}" for x in done))
        if failed := next((one for one in done if one.returncode), None):
            lines = failed.stderr.splitlines()
            first = next((x for x in lines if "error" in x), "no message")
            raise Failure(
                f"building {part.title} failed with code {failed.returncode}: {first}",
                f"the whole output stands in {log}",
                f"mend what it names; {part.without}",
            )
        content = partial.read_bytes()
        with open(partial, "ab") as file:
            file.write(_seal(target, content))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
