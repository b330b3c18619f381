# SPDX-License-Identifier: Apache-2.0
"""Kernels of pto.ops that were built ahead: a file beside libpto, which a release's wheel carries.

    python -m pto package --library                  # builds what pto/ops/library.txt lists
    code = find(key)                                 # a kernel of an operator, or None

The file is of kind "kernels" (pto/container.py); its payload are the codes. Its header has (place,
size, SHA-256) by key, and (size, SHA-256) of each file that decides what kernels do: the version,
the operators, the language, the headers, the libraries. Where one of these is another now, the file
is left alone, and so is a damaged kernel: kernels are compiled as without it.

A source is read again only if it may have been written since: later than `built_ns`, or, as a
wheel's files are written when it is installed, later than the file of kernels, which comes last.

Thread safety: any thread.
"""

import hashlib
import json
import os
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from pto import _core
from pto.locks import Lock

PACKAGE = Path(__file__).resolve().parent.parent
PATH = PACKAGE / "lib" / "kernels.pto"
# The first bytes of a container. The first call of a process has no time to import its module.
_MAGIC, _VERSION, _HEAD = b"OpenPTO package\n", 1, struct.Struct("<16sIQ")
_ROOMS = ("abi", "isa", "language", "operators", "ops")
_ENDS = (".py", ".hpp", ".h", ".def")
_BUILD_ID = b"\4\0\0\0\x14\0\0\0\3\0\0\0GNU\0"  # sizes and kind of the ELF note; 20 bytes follow
_lock = Lock()


def sources() -> Iterator[str]:
    """The files that decide kernels, from PACKAGE: version, headers, the language, the operators.

    C++ sources of operators are none of these: the keys of their kernels have their text.
    """
    yield from ("__init__.py", "pto-inst.hpp")
    folders = [*_ROOMS]
    for folder in folders:
        inside = sorted(os.listdir(PACKAGE / folder))
        yield from (f"{folder}/{name}" for name in inside if name.endswith(_ENDS))
        inner = [f"{folder}/{name}" for name in inside if "." not in name and name[0] != "_"]
        folders += [one for one in inner if os.path.isdir(PACKAGE / one)]


def libraries() -> tuple[str, str]:
    """The libraries that decide kernels, from PACKAGE."""
    return "lib/libpto.so", os.path.basename(_core.__file__)


def identity(first: bytes) -> str:
    """The ID that the linker gave a library; the digest of these bytes where it gave none."""
    place = first.find(_BUILD_ID, 0, 4096) + len(_BUILD_ID)
    return first[place : place + 20].hex() if place >= len(_BUILD_ID) else _digest(first)


def facts(text: bytes) -> list[Any]:
    """Size and digest of a source."""
    return [len(text), _digest(text)]


def contents() -> dict[str, Any]:
    """The time, (size, SHA-256) of each source, the identity of each library."""
    built = time.time_ns()
    files = {name: facts((PACKAGE / name).read_bytes()) for name in sources()}
    own = {name: identity((PACKAGE / name).read_bytes()) for name in libraries()}
    return {"built_ns": built, "files": files, "libraries": own}


def is_current(header: dict[str, Any], written: int) -> bool:
    """Says whether what decides kernels is as the header of a file says, which was written then."""
    for name, wanted in header["libraries"].items():
        with open(PACKAGE / name, "rb") as file:
            first = file.read(4096)
            if identity(first) != wanted and identity(first + file.read()) != wanted:
                return False
    folder, built = f"{PACKAGE}{os.sep}", header["built_ns"]
    for name, (size, digest) in header["files"].items():
        now = os.stat(folder + name)
        if now.st_size != size:
            return False
        # A wheel is verified when the kernels are put into it, and its installation changes ctime.
        is_old = max(now.st_mtime_ns, now.st_ctime_ns) < built if built else (
            now.st_mtime_ns <= written)  # fmt: skip
        if not is_old and _digest((PACKAGE / name).read_bytes()) != digest:
            return False
    return True


def _digest(*pieces: bytes) -> str:
    digest = hashlib.sha256()
    for one in pieces:
        digest.update(one)
    return digest.hexdigest()


class KernelFile:
    """The index of a file, and its codes, which are read one by one."""

    def __init__(self, path: Path):
        self.path, self.index, self.start = path, {}, 0
        try:
            with open(path, "rb") as file:
                magic, version, length = _HEAD.unpack(file.read(_HEAD.size))
                about = os.fstat(file.fileno())
                is_ours = (magic, version) == (_MAGIC, _VERSION) and length < about.st_size
                header = json.loads(file.read(length)) if is_ours else {}
            if header.get("kind") == "kernels" and is_current(header, about.st_mtime_ns):
                self.index, self.start = dict(header["index"]), _HEAD.size + length
        except (OSError, ValueError, LookupError, AttributeError, TypeError, struct.error):
            return  # none, or damaged

    @staticmethod
    def from_package(package: Any) -> NoReturn:
        """Says what a file is that pto.load() was given."""
        package.refuse("holds kernels of pto.ops, and no function",
                       f"pto.ops takes those of its installation, which lie in {PATH}",
                       "call pto.ops; python -m pto package FILE lists the calls")  # fmt: skip

    def find(self, key: str) -> bytes | None:
        """The code of a kernel, if it is there, whole."""
        if key not in self.index:
            return None
        try:
            place, size, digest = self.index[key]
            with open(self.path, "rb") as file:
                file.seek(self.start + place)
                code = file.read(size)
        except (OSError, ValueError, TypeError):
            return None  # damaged, or no longer there
        return code if _digest(key.encode(), code) == digest else None


_opened: KernelFile | None = None


def find(key: str) -> bytes | None:
    """The code of a kernel in the installed file."""
    global _opened
    if _opened is None:
        with _lock:
            _opened = _opened or KernelFile(PATH)
    return _opened.find(key) if _opened.index else None


def build(
    calls: Iterable[Callable[[], Any]], targets: tuple[str, ...], run: Any = map
) -> dict[str, bytes]:
    """The kernels that these calls of operators make, by key.

    `run(function, calls)` makes the calls, perhaps several at a time.
    """
    global _opened
    codes: dict[str, bytes] = {}
    with _lock:
        _opened = KernelFile(Path())  # each kernel is made anew
    _core.keep_kernels(codes.__setitem__, targets)
    try:
        for _ in run(lambda call: call(), calls):
            pass
    finally:
        _core.keep_kernels(None, ())
        _opened = None
    return dict(sorted(codes.items()))


def content_of(codes: dict[str, bytes], about: dict[str, Any]) -> list[bytes]:
    """The content of a file of kernels, whose header has `about`, too: contents() and more."""
    index, place = {}, 0
    for key, code in codes.items():
        index[key] = (place, len(code), _digest(key.encode(), code))
        place += len(code)
    from pto import container  # its import takes as long as a first call

    return container.content_of("kernels", {**about, "index": index}, [*codes.values()])
