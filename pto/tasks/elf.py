# SPDX-License-Identifier: Apache-2.0
"""ELF files of any compiler: of which kind an object is, and which symbols it defines.

    found = read_object("add.o")        # raises if this machine cannot run it
    found.is_shared, "add" in found.symbols, found.content

Invariant: `content` holds the bytes that were inspected; nothing is loaded.
"""

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from pto import _core
from pto.errors import Failure, InvalidValue, MissingFile, working_folder_name

_RELOCATABLE, _SHARED = 1, 3
_SYMBOL_TABLE, _DYNAMIC_SYMBOLS = 2, 11
_MACHINES = {3: "x86", 40: "Arm", 62: "x86-64", 183: "AArch64", 190: "CUDA", 224: "AMD GPU",
             243: "RISC-V", 0x1029: "Ascend"}  # fmt: skip
_HEADER = struct.Struct("<HHIQQQIHHHHHH")  # from byte 16 on
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")


@dataclass(frozen=True)
class ElfObject:
    """A relocatable or shared object for this machine."""

    path: Path
    content: bytes
    is_shared: bool
    symbols: frozenset[str]  # defined for other objects


def read_object(path: str | os.PathLike) -> ElfObject:
    """Reads the object; MissingFile, Failure or InvalidValue if none can run here."""
    path = Path(path).expanduser()
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise MissingFile(
            f"the object {path} does not exist",
            "a source that ends in .o or .so is a compiled one",
            f"check it; the working folder is {working_folder_name()}",
        ) from None  # fmt: skip
    except (OSError, ValueError) as error:  # a NUL in the name
        raise Failure(
            f"the object {path} cannot be read: {error}", "pto puts its bytes into the package",
            "check what the path names",
        ) from None  # fmt: skip
    kind = _checked_kind(path, content)
    try:
        symbols = _defined_symbols(content, _DYNAMIC_SYMBOLS if kind == _SHARED else _SYMBOL_TABLE)
    except (struct.error, IndexError, OverflowError, ValueError):
        _refuse(path, "is damaged: its tables lie outside the file", "an object is read as a whole",
                "build or copy it again")  # fmt: skip
    return ElfObject(path, content, kind == _SHARED, symbols)


def _checked_kind(path: Path, content: bytes) -> int:
    if content[:4] != b"\x7fELF" or len(content) < 64:
        _refuse(path, "is no ELF object", f"it begins with {content[:4]!r}",
                "pass a .o or .so that a compiler made for this system")  # fmt: skip
    kind, machine = struct.unpack_from("<HH", content, 16)
    with open(_core.__file__, "rb") as own_file:
        own = own_file.read(20)
    if content[4:6] != own[4:6] or content[18:20] != own[18:20]:
        own_machine = struct.unpack_from("<H", own, 18)[0]
        _refuse(path, f"holds code for {_machine(machine)}",
                f"this machine is {_machine(own_machine)}", "compile it for this one")  # fmt: skip
    if kind not in (_RELOCATABLE, _SHARED):
        _refuse(path, f"is an ELF file of type {kind}", "a program or a core file has no kernels",
                "pass what the compiler wrote with -c or -shared")  # fmt: skip
    return kind


def _machine(number: int) -> str:
    return _MACHINES.get(number, f"machine {number}")


def _defined_symbols(content: bytes, wanted: int) -> frozenset[str]:
    header = _HEADER.unpack_from(content, 16)
    start, size, count = header[5], header[10], header[11]
    sections = [_SECTION.unpack_from(content, start + i * size) for i in range(count)]
    found = set()
    for section in sections:
        if section[1] != wanted:
            continue
        names = sections[section[6]][4]
        for place in range(section[4], section[4] + section[5], _SYMBOL.size):
            name, info, _, home, _, _ = _SYMBOL.unpack_from(content, place)
            if home != 0 and info >> 4 in (1, 2):  # defined, global or weak
                end = content.index(b"\0", names + name)
                found.add(content[names + name : end].decode(errors="replace"))
    return frozenset(found)


def _refuse(path: Path, what: str, why: str, fix: str) -> None:
    raise InvalidValue(f"{path} {what}", why, fix)
