# SPDX-License-Identifier: Apache-2.0
"""Packages: the one format of the files that pto saves: functions, programs of tasks, weights.

    save("w.pto", content_of("weight", {"name": "w"}, [array]))
    package = opened(Path("w.pto").read_bytes(), "w.pto")   # .kind, .header, .payload
    pto.load("w.pto")                                       # the object that the file holds

A file holds a magic text, version and length of the header, the header as JSON, the payload, and
the SHA-256 of all before. The header begins with the kind of the file, which C reads there, too
(pto/launch/package.cpp); without one it is a program of tasks. The digest detects damage, not
forgery, and a program is native code: load only what you would run.
Thread safety: any thread; a file that is replaced is read as it was or as it is.
"""

import contextlib
import hashlib
import importlib
import json
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pto.errors import Error, Failure, InvalidType, InvalidValue, MissingFile
from pto.language.location import describe, user_line
from pto.whole_files import write_whole

MAGIC, VERSION, PREFIX, DIGEST_BYTES = b"OpenPTO package\n", 1, struct.Struct("<16sIQ"), 32
READERS = {  # by kind: what it is called, and who reads it with from_package(package)
    "program": ("a jitted function", "pto.language.package", "PackagedFunction"),
    "functions": ("functions and operators", "pto.language.library", "PackagedLibrary"),
    "tasks": ("a program of tasks", "pto.tasks.package", "CompiledPackage"),
    "weight": ("a packed weight", "pto.ops.packed_weight", "PackedWeight"),
    "kernels": ("kernels of pto.ops", "pto.language.prebuilt", "KernelFile"),
    "model": ("a model of PyTorch", "pto.adapters.torch.packaged_model", "PackagedModel"),
}


@dataclass(frozen=True)
class Package:
    """A file that is whole; `shown` names it in messages."""

    kind: str
    header: dict[str, Any]
    payload: memoryview
    shown: str

    def check_kind(self, wanted: str) -> None:
        if self.kind != wanted:
            refuse(self.shown, f"holds {called(self.kind)}, not {called(wanted)}",
                   f"its header says {self.kind!r}",
                   "call pto.load(path), which reads every kind")  # fmt: skip

    def refuse(self, what: str, why: str, fix: str) -> NoReturn:
        refuse(self.shown, what, why, fix)


def content_of(kind: str, header: dict[str, Any], pieces: Sequence[Any]) -> list[Any]:
    """The content of a file, in buffers one after another."""
    text = json.dumps({"kind": kind, **header}).encode()
    whole = [PREFIX.pack(MAGIC, VERSION, len(text)), text, *pieces]
    digest = hashlib.sha256()
    for piece in whole:
        digest.update(piece)
    return [*whole, digest.digest()]


def save(path: str | os.PathLike, content: Sequence[Any]) -> None:
    """Writes a file; one of that name is replaced as a whole."""
    path = path_of(path, "save")
    if not path.name:
        refuse(str(path), "is no name of a file", "a package is one file", "pass its path")
    try:
        write_whole(path, content)
    except (OSError, ValueError) as error:  # a folder, a full disk; a NUL in the name
        raise Failure(
            f"the package {path!s} cannot be written", reason(error),
            "check the path, and the room on its disk", user_line(),
        ) from error  # fmt: skip


def read(path: str | os.PathLike) -> Package:
    """Reads a file that save() wrote; InvalidValue where it is none, or damaged."""
    path = path_of(path, "load")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise MissingFile(
            f"the package {path} does not exist", "load() reads what save() wrote",
            "check the path",
        ) from None  # fmt: skip
    except (OSError, ValueError) as error:  # a folder, no permission; a NUL in the name
        raise Failure(
            f"the package {path!s} cannot be read", reason(error), "check the path"
        ) from error
    return opened(content, path.name)


def is_package(path: str | os.PathLike) -> bool:
    """Whether a file begins as one that save() wrote."""
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):  # no such file; a NUL in the name
        return False


def opened(content: bytes, shown: str) -> Package:
    """A package of the content of its file."""
    if content[:16] != MAGIC[: len(content)] or not content:
        refuse(
            shown,
            "is no package",
            "its first bytes are others",
            "pass a file that pto.package() or save() wrote",
        )
    broken = "was truncated or altered"
    if len(content) < PREFIX.size + DIGEST_BYTES:
        refuse(shown, broken, f"it has {len(content)} bytes", "save it again")
    _, version, length = PREFIX.unpack_from(content)
    if version != VERSION:
        refuse(shown, f"has version {version} of the format", f"this pto reads version {VERSION}",
               "make and save it with this version")  # fmt: skip
    whole = memoryview(content)
    if hashlib.sha256(whole[:-DIGEST_BYTES]).digest() != content[-DIGEST_BYTES:]:
        refuse(shown, broken, "its SHA-256 does not fit its content", "save or copy it again")
    with checked_header(shown):
        header = json.loads(content[PREFIX.size : PREFIX.size + length])
        kind = header.get("kind", "program")
        if kind == "program" and "orch_func" in header:
            kind = "tasks"  # saved before jitted functions were
        return Package(kind, header, whole[PREFIX.size + length : -DIGEST_BYTES], shown)


@contextlib.contextmanager
def checked_header(shown: str) -> Iterator[None]:
    """Refuses a package whose header is read inside and has other fields than save() writes."""
    try:
        yield
    except Error:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError,
            ValueError):  # fmt: skip
        refuse(shown, "has a header that save() did not write",
               "its SHA-256 fits, but its fields have other contents",
               "save it again")  # fmt: skip


def load(path: str | os.PathLike) -> Any:
    """The object that a file holds: a PackagedFunction, a PackagedLibrary, a PackedWeight ..."""
    package = read(path)
    if not isinstance(package.kind, str) or package.kind not in READERS:
        known = ", ".join(READERS)
        package.refuse(f"holds {package.kind!r:.60}", f"this pto reads {known}",
                       "load it with the version that saved it")  # fmt: skip
    _, module, name = READERS[package.kind]
    try:
        reader = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        package.refuse(f"holds {called(package.kind)}", f"{error.name} is not installed",
                       f"pip install {error.name}")  # fmt: skip
    return reader.from_package(package)


def described(path: str | os.PathLike) -> str:
    """Lists the header of a file, a line each; also of one that this machine cannot use."""
    package = read(path)
    lines = [f"{package.shown}: {called(package.kind)}, {len(package.payload)} bytes"]
    for name, value in package.header.items():
        if name == "functions":
            lines += [f"  {v['name']}" for one in value for v in one["variants"]]
        elif name != "kind" and value not in (None, "", []):
            lines.append(f"  {name}: {text(value)}")
    return "\n".join(lines)


def refuse(shown: str, what: str, why: str, fix: str) -> NoReturn:
    raise InvalidValue(f"{shown} {what}", why, fix)


def text(value: Any) -> str:
    """A value of a header on one line: the names of a list, the length of a table."""
    if isinstance(value, dict):
        return str(len(value))
    if isinstance(value, list):
        return ", ".join(str(v.get("name", v)) if isinstance(v, dict) else text(v) for v in value)
    return str(value)


def called(kind: Any) -> str:
    """The name of a kind in messages."""
    return READERS[kind][0] if isinstance(kind, str) and kind in READERS else repr(kind)[:60]


def reason(error: Exception) -> str:
    """The text of an error of a file, without its path, which may be that of a temporary one."""
    return getattr(error, "strerror", None) or str(error)


def path_of(path: Any, function: str) -> Path:
    """A path that a `function` was given."""
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise InvalidType(
            f"{function}: the path is {describe(path)}", "a file has a name", "pass its path"
        )
    return Path(path)
