# SPDX-License-Identifier: Apache-2.0
"""Kernels of another compiler: makes an adapter's text from an object and a declaration.

    {"source": "add.o", "symbol": "add", "tensor_args": [{"name": "x", "direction": "input"}, ...],
     "scalars": ["int64"], "workspace": 4096, "tiling": b"..."}

The C symbol gets a pointer for each tensor in the order of declaration, the scalars as their C
types, a pointer to the workspace if one is declared, and one to the tiling if it is given; its
result is ignored. The adapter checks each call (pto/tasks/precompiled.h). A .o is linked with the
adapter, a .so becomes part of it and is loaded with it.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pto import _core
from pto.errors import Failure, InvalidType, InvalidValue, MissingFile
from pto.sources import SourceText
from pto.tasks.elf import ElfObject, read_object

PRECOMPILED_FIELDS = ("tensor_args", "scalars", "tiling", "workspace", "has_workspace", "compiler",
                      "ascendc_symbol")  # fmt: skip
_DIRECTIONS = {"input": "kInput", "output": "kOutput", "inout": "kInout"}
_DTYPES = {row.numpy: (row.code, 8 * row.bytes) for row in _core.dtypes()}
_SCALARS = {"int32": "int32_t", "uint32": "uint32_t", "int64": "int64_t", "float32": "float",
            "float64": "double"}  # fmt: skip
_PREFIX = "pto_adapt_"


def is_object(source: Any) -> bool:
    """Says whether a source is the path of a compiled object."""
    if not isinstance(source, str | os.PathLike) or "\n" in str(source):
        return False
    return re.search(r"\.(o|so(\.\d+)*)$", os.fspath(source)) is not None


def adapter_of(kernel: Any, place: int) -> tuple[str, SourceText]:
    """The function that the engine calls, and the text that defines it; `kernel`: KernelSource."""
    where = f"kernels[{place}]"
    symbol = _symbol(where, kernel)
    tensors = [
        _tensor(f"{where}: tensor_args[{i}]", one)
        for i, one in enumerate(_listed(where, "tensor_args", kernel.tensor_args))
    ]
    scalars = [_scalar(f"{where}: scalars[{i}]", one, i)
               for i, one in enumerate(_listed(where, "scalars", kernel.scalars))]  # fmt: skip
    workspace = _workspace(where, kernel)
    tiling = None if kernel.tiling is None else _tiling(where, kernel.tiling)
    found = read_object(kernel.source)
    _check_symbol(found, symbol)
    function = _PREFIX + symbol
    text = _adapter_text(found, symbol, tensors, scalars, workspace, tiling)
    return function, SourceText(symbol, text, found.content)


def explain_link(error: Failure, name: str) -> None:
    """Raises an error of its own where the linker missed functions that an object needs."""
    missing = re.findall(r"undefined (?:reference to|symbol:?) [`']?([^\s',;]+)", error.what)
    if missing:
        raise Failure(
            f"the object of {name} needs {', '.join(dict.fromkeys(missing))}",
            "neither it nor libpto, the C or the C++ library defines that",
            "link in what defines it: ld -r -o all.o kernel.o other.o, or pass a .so",
        ) from error
    if ".o: relocation" in error.what or "recompile with -fPIC" in error.what:
        raise Failure(
            f"the object of {name} cannot be put into a shared object",
            "its code holds absolute addresses",
            "compile it with -fPIC",
        ) from error


# --- the declaration -----------------------------------------------------------------------------


def _symbol(where: str, kernel: Any) -> str:
    if kernel.compiler not in ("", "ascendc"):
        raise InvalidValue(
            f"{where}: compiler is {kernel.compiler!r}", "an object may come from any compiler; "
            "only 'ascendc' may be named", "leave compiler out",
        )  # fmt: skip
    if kernel.symbol and kernel.ascendc_symbol and kernel.symbol != kernel.ascendc_symbol:
        raise InvalidType(
            f"{where}: symbol {kernel.symbol!r} and ascendc_symbol {kernel.ascendc_symbol!r}",
            "both are names of the same function", "pass symbol alone",
        )  # fmt: skip
    symbol = kernel.symbol or kernel.ascendc_symbol
    if not _is_name(symbol):
        raise InvalidValue(
            f"{where}: {'symbol is ' + repr(symbol) if symbol else 'no symbol'}",
            "an object may define many functions; symbol is the C name of the kernel",
            'say which: {"source": "add.o", "symbol": "add", ...}',
        )
    return symbol


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and name.isidentifier() and name.isascii()


def _listed(where: str, field: str, given: Any) -> list:
    if given is None and field == "scalars":
        return []
    if given is None:
        raise InvalidType(
            f"{where}: a compiled object without tensor_args",
            "an object does not say what its functions take",
            'declare it: "tensor_args": [{"name": "x", "direction": "input"}, ...]',
        )
    if isinstance(given, dict | str | bytes) or not isinstance(given, Iterable):
        raise InvalidType(
            f"{where}: {field} is of type {type(given).__name__}",
            f"{field} lists the function's parameters in order", "pass a list",
        )  # fmt: skip
    return list(given)


def _fields(where: str, given: Any, known: tuple[str, ...]) -> dict:
    if not isinstance(given, dict):
        raise InvalidType(
            f"{where} is of type {type(given).__name__}", "a dict describes a parameter",
            f"pass a dict with the keys {', '.join(known)}",
        )  # fmt: skip
    unknown = [key for key in given if key not in known]
    if unknown:
        raise InvalidType(
            f"{where}: unknown key {unknown[0]!r}", "unknown keys are not ignored",
            f"use the keys {', '.join(known)}",
        )  # fmt: skip
    if not _is_name(given.get("name")):
        raise InvalidValue(
            f"{where}: its name is {given.get('name', '')!r}", "errors name what does not fit",
            'give it a name of letters and digits: "name": "x"',
        )  # fmt: skip
    return given


def _tensor(where: str, given: Any) -> str:
    given = _fields(where, given, ("name", "direction", "dtype"))
    direction, dtype = given.get("direction"), given.get("dtype", "")
    if direction not in _DIRECTIONS:
        raise InvalidValue(
            f"{where}, {given['name']}: direction is {direction!r}",
            "the direction says whether the kernel reads or writes the tensor",
            f"pass one of {', '.join(_DIRECTIONS)}",
        )  # fmt: skip
    if dtype and dtype not in _DTYPES:
        raise InvalidValue(
            f"{where}, {given['name']}: unknown dtype {dtype!r}",
            "pto compares the dtype with that of the tensor in each call",
            f"pass one of {', '.join(_DTYPES)}, or leave it out to skip the check",
        )
    code, bits = _DTYPES.get(dtype, (0, 0))
    return f'{{"{given["name"]}", {_DIRECTIONS[direction]}, "{dtype}", {code}, {bits}}}'


def _scalar(where: str, given: Any, place: int) -> tuple[str, str]:
    """The scalar's name and type."""
    if isinstance(given, str):
        given = {"name": f"s{place}", "dtype": given}
    given = _fields(where, given, ("name", "dtype"))
    if given.get("dtype") not in _SCALARS:
        raise InvalidValue(
            f"{where}: unknown dtype {given.get('dtype')!r}",
            "a scalar has the type of the function's parameter",
            f"pass one of {', '.join(_SCALARS)}",
        )  # fmt: skip
    return given["name"], given["dtype"]


def _workspace(where: str, kernel: Any) -> int | None:
    """The workspace's bytes, 0 for a null pointer; None: the function has no such parameter."""
    count, wanted = kernel.workspace, kernel.has_workspace
    if type(count) is not int or count < 0:
        raise InvalidValue(
            f"{where}: workspace is {count!r}", "workspace counts bytes", "pass an int from 0 on"
        )
    if wanted is False and count:
        raise InvalidType(
            f"{where}: has_workspace is False, but workspace is {count}",
            "a workspace needs a parameter of the function", "pass workspace alone",
        )  # fmt: skip
    return count if wanted or count else None


def _tiling(where: str, given: Any) -> bytes:
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    if not isinstance(given, str | os.PathLike):
        raise InvalidType(
            f"{where}: tiling is of type {type(given).__name__}",
            "tiling is constant data for the function",
            "pass bytes, or the path of a file that holds them",
        )
    path = Path(given).expanduser()
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # a NUL in the name
        kind = MissingFile if isinstance(error, FileNotFoundError) else Failure
        raise kind(
            f"{where}: the tiling {path} cannot be read: {error}",
            "pto puts the bytes of the file into the package", "correct the path, or pass bytes",
        ) from None  # fmt: skip


def _check_symbol(found: ElfObject, symbol: str) -> None:
    if symbol in found.symbols:
        return
    mangled = any(re.match(rf"_Z{len(symbol)}{symbol}(?!\w*::)", name) for name in found.symbols)
    known = sorted(name for name in found.symbols if not name.startswith("_"))[:8]
    raise InvalidValue(
        f"{found.path} defines no {symbol}",
        f"it defines {', '.join(known) or 'nothing for others'}"
        + (f", and {symbol} as a C++ function" if mangled else ""),
        'declare it extern "C" where it is defined, and visible' if mangled
        else f"pass the name of a function that it defines, or compile {symbol} into the object",
    )  # fmt: skip


# --- the adapter ---------------------------------------------------------------------------------


def _adapter_text(
    found: ElfObject,
    symbol: str,
    tensors: list[str],
    scalars: list[tuple[str, str]],
    workspace: int | None,
    tiling: bytes | None,
) -> str:
    types = ["void*"] * len(tensors) + [_SCALARS[dtype] for _, dtype in scalars]
    values = [f"args->tensors[{i}].data" for i in range(len(tensors))]
    values += [f"s{i}" for i in range(len(scalars))]
    reads, data = [], ""
    for i, (_, dtype) in enumerate(scalars):
        reads.append(
            f"  {_SCALARS[dtype]} s{i};\n"
            f"  if (const int32_t code = scalar(declared, args, {i}, &s{i})) return code;\n"
        )
    if workspace is not None:
        types.append("void*")
        values.append("room" if workspace else "nullptr")
    if workspace:
        reads.append(
            f"  void* const room = workspace(declared, args, {workspace});\n"
            "  if (room == nullptr) return 1;\n"
        )
    if tiling is not None:
        types.append("const void*")
        values.append("tiling")
        numbers = ", ".join(map(str, tiling)) or "0"
        data = f"alignas(64) const unsigned char tiling[] = {{{numbers}}};\n"
    listed = ", ".join(f'{{"{name}", "{dtype}"}}' for name, dtype in scalars)
    signature = f"({', '.join(types)})"
    reached = _loaded(symbol, signature) if found.is_shared else _linked(symbol, signature)
    return (
        '#include "pto/tasks/precompiled.h"\n'
        "namespace {\nusing namespace pto::precompiled;\n"
        f'const Declaration declared{{"{symbol}", {{{", ".join(tensors)}}}, {{{listed}}}}};\n'
        f"{data}}}\n{reached}"
        'extern "C" __attribute__((visibility("protected")))\n'
        f"int32_t {_PREFIX}{symbol}(const pto_args* args);\n"
        f"static const Exported exported({_PREFIX}{symbol}, declared);\n"
        f"int32_t {_PREFIX}{symbol}(const pto_args* args) {{\n"
        "  if (const int32_t code = check(declared, args)) return code;\n"
        f"{''.join(reads)}  function({', '.join(values)});\n  return 0;\n}}\n"
    )


def _linked(symbol: str, signature: str) -> str:
    """A declaration by assembler name, since the symbol may be a keyword of C++."""
    return f'extern "C" void function{signature} __asm__("{symbol}");\n'


def _loaded(symbol: str, signature: str) -> str:
    return (
        '__asm__(".pushsection .rodata\\n.balign 64\\npto_object_begin:\\n"\n'
        '        ".incbin \\"precompiled.so\\"\\npto_object_end:\\n.popsection\\n");\n'
        'extern "C" __attribute__((visibility("hidden"))) const char pto_object_begin[], '
        "pto_object_end[];\n"
        f'static const SharedObject object(pto_object_begin, pto_object_end, "{symbol}");\n'
        f"static const auto function = reinterpret_cast<void (*){signature}>(object.function());\n"
        'extern "C" __attribute__((visibility("default"))) const char* pto_not_loaded() {\n'
        "  return object.text();\n}\n"
    )
