# SPDX-License-Identifier: Apache-2.0
"""Kernels of pto.ops that were built ahead: a file beside libpto, which a release's wheel carries.

    python -m pto package --library                  # builds what pto/ops/library.txt lists
    code = find(key)                                 # a kernel of an operator, or None

The file has a magic text, the length of its index, the index as JSON, and the codes. The index has
(place, size, SHA-256) by key, and a stamp of the installation: a file that was built for another
one, or that is damaged, is left alone, and kernels are compiled as without it.

Thread safety: any thread.
"""

import hashlib
import json
import os
import struct
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pto import _core

MAGIC = b"OpenPTO kernels\n"
PACKAGE = Path(__file__).resolve().parent.parent
PATH = PACKAGE / "lib" / "kernels.pto"
_FOLDERS = ("lib", "ops", "language", "isa/cpu")
_LIBRARIES = ("libpto.so", "pto_worker")
_HEAD = struct.Struct("<16sQ")
_lock = threading.Lock()


def stamp() -> str:
    """A digest of the names and sizes of what decides the kernels."""
    files = [one for folder in _FOLDERS for one in os.scandir(PACKAGE / folder)]
    ends = (".py", ".cpp", ".hpp", ".def")
    sizes = [
        f"{one.name} {one.stat().st_size}"
        for one in files
        if one.name.endswith(ends) or one.name in _LIBRARIES
    ]
    return hashlib.sha256("\n".join(sorted(sizes)).encode()).hexdigest()


class KernelFile:
    """The index of a file, and its codes, which are read one by one."""

    def __init__(self, path: Path):
        self.path, self.index, self.start = path, {}, 0
        try:
            with open(path, "rb") as file:
                magic, length = _HEAD.unpack(file.read(_HEAD.size))
                is_ours = magic == MAGIC and length < os.fstat(file.fileno()).st_size
                header = json.loads(file.read(length)) if is_ours else {}
            if header.get("stamp") == stamp():
                self.index, self.start = header["kernels"], _HEAD.size + length
        except (OSError, ValueError, LookupError, AttributeError, struct.error):
            return  # none, or damaged

    def find(self, key: str) -> bytes | None:
        """The code of a kernel, if it is there, whole."""
        if key not in self.index:
            return None
        place, size, digest = self.index[key]
        with open(self.path, "rb") as file:
            file.seek(self.start + place)
            code = file.read(size)
        return code if hashlib.sha256(code).hexdigest() == digest else None


_opened: KernelFile | None = None


def find(key: str) -> bytes | None:
    """The code of a kernel in the installed file."""
    global _opened
    if _opened is None:
        with _lock:
            _opened = _opened or KernelFile(PATH)
    return _opened.find(key) if _opened.index else None


def build(
    calls: Iterable[Callable[[], Any]], path: Path, targets: tuple[str, ...], run: Any = map
) -> int:
    """Writes the kernels that these calls of operators make; returns how many there are.

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
    index, place = {}, 0
    codes = dict(sorted(codes.items()))
    for key, code in codes.items():
        index[key] = (place, len(code), hashlib.sha256(code).hexdigest())
        place += len(code)
    header = json.dumps({"stamp": stamp(), "kernels": index}).encode()
    from pto import container  # reads packages: seldom needed

    container.save(path, [_HEAD.pack(MAGIC, len(header)), header, *codes.values()])
    return len(codes)
