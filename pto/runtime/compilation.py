# SPDX-License-Identifier: Apache-2.0
"""compile(): an orchestration and several kernels, all in C++, become a CompiledPackage.

Each different source is compiled once, several at a time, through the compiler's cache on disk: its
key covers the text with all its own headers, flags, compiler, target and ABI version.
"""

import os
import re
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pto import _core
from pto.config import config
from pto.errors import InvalidType, InvalidValue
from pto.runtime.arguments import ParamType
from pto.runtime.package import Code, CompiledPackage, Kernel, Parameter
from pto.runtime.sources import SourceText, read_source

PLATFORMS = ("cpu", "a2a3sim", "a5sim")
CORE_TYPES = ("aic", "aiv", "mix")
_HARDWARE = ("a2a3", "a5")
_FIELDS = ("source", "core_type", "func_id", "name", "symbol")
_ORCHESTRATE = "pto_orchestrate"
_SLOT_KERNEL = "kernel_entry"


@dataclass(frozen=True)
class KernelSource:
    """A kernel to compile. `source`: a path or C++ text; `func_id`: its place in the list if None.

    `symbol` may be left out where the source has one PTO_KERNEL, or defines kernel_entry; `name`
    is the symbol then.
    """

    source: str | os.PathLike
    core_type: str = "aiv"
    func_id: int | None = None
    name: str = ""
    symbol: str = ""


Kernels = Sequence[KernelSource | dict]


def compile(
    platform: str = "cpu",
    orch: str | os.PathLike = "",
    kernels: Kernels | None = None,
    *,
    orch_func: str = "",
    include_dirs: Iterable[str | os.PathLike] = (),
    flags: Iterable[str] = (),
    cache_dir: str | os.PathLike | None = None,
    signature: Sequence[str | ParamType] | None = None,
    name: str = "",
    orch_source: str | os.PathLike = "",
    kernel_sources: Kernels | None = None,
) -> CompiledPackage:
    """Compiles an orchestration and its kernels.

    `orch_func`: the orchestration's function, pto_orchestrate unless given. `flags`: -DX=1, -UX and
    -Ifolder. `signature`: what run() must be given, such as ["input float32", "output", "scalar
    int64"]. `orch_source` and `kernel_sources` are other spellings of `orch` and `kernels`.
    """
    check_platform(platform)
    orch = _either("orch", orch, "orch_source", orch_source)
    chosen = _either("kernels", kernels, "kernel_sources", kernel_sources)
    defines, folders = _split_flags(flags)
    is_one = isinstance(include_dirs, str | os.PathLike)
    folders = [*([include_dirs] if is_one else include_dirs), *folders]
    head = _with_defines(read_source(orch, folders, name or "orchestration"), defines)
    listed = _listed_kernels(chosen if chosen is not None else [])
    texts = [_with_defines(read_source(k.source, folders, k.name or f"kernel_{i}"), defines)
             for i, k in enumerate(listed)]  # fmt: skip
    symbols = [_symbol_of(k, text) for k, text in zip(listed, texts, strict=True)]
    function = _orchestration_of(head, orch_func)
    expected = _parsed_signature(signature)
    units: dict[SourceText, list[str]] = {}
    for text, symbol in zip(texts, symbols, strict=True):
        functions = units.setdefault(text, [])
        if symbol not in functions:
            functions.append(symbol)
    with _cache_directory(cache_dir):
        head_code, codes = _compile_all(head, function, units)
    made = [
        Kernel(k.name or symbol, i if k.func_id is None else k.func_id, k.core_type, symbol,
               codes[text])
        for i, (k, text, symbol) in enumerate(zip(listed, texts, symbols, strict=True))
    ]  # fmt: skip
    _check_names(made)
    return CompiledPackage(
        name or head.name, platform, head_code.functions.target, function, head_code,
        tuple(made), expected,
    )  # fmt: skip


def check_platform(platform: str) -> None:
    """Raises ValueError for a platform that this machine does not have."""
    if platform in PLATFORMS:
        return
    supported = ", ".join(repr(name) for name in PLATFORMS)
    if platform in _HARDWARE:
        raise InvalidValue(
            f"platform {platform!r} names hardware that this machine does not have",
            "tasks run on the CPU's cores here",
            f"take {platform + 'sim'!r}, the same programs on the CPU, or 'cpu'",
        )
    raise InvalidValue(
        f"unknown platform {platform!r}", f"supported: {supported}", "take one of these"
    )


# --- what the caller gave ------------------------------------------------------------------------


def _either(name: str, value: Any, spelling: str, other: Any) -> Any:
    if other is None or other == "":
        return value
    if value is not None and value != "":
        raise InvalidType(
            f"both {name}= and {spelling}= are given", "they are spellings of one argument",
            f"pass {name}= alone",
        )  # fmt: skip
    return other


def _split_flags(flags: Iterable[str]) -> tuple[str, list[str]]:
    """-D and -U as directives, which are then part of the text; the folders of -I."""
    if isinstance(flags, str):
        flags = flags.split()
    lines, folders = [], []
    for flag in flags:
        kind, rest = flag[:2], flag[2:]
        name, _, value = rest.partition("=")
        if kind == "-I" and rest:
            folders.append(rest)
        elif kind in ("-D", "-U") and re.match(r"[A-Za-z_]\w*(\([\w, .]*\))?$", name):
            value = value if "=" in rest else "1"
            lines.append(f"#define {name} {value}\n" if kind == "-D" else f"#undef {name}\n")
        else:
            raise InvalidValue(
                f"flags: {flag!r}",
                "level, target and optimisation are chosen by the compiler part; a caller's are "
                "-DNAME, -DNAME=VALUE, -UNAME, -IFOLDER",
                "leave it out, or set config.target and config.cxx",
            )
    return "".join(lines), folders


def _with_defines(source: SourceText, defines: str) -> SourceText:
    return SourceText(source.name, defines + source.text)


def _listed_kernels(kernels: Any) -> list[KernelSource]:
    if isinstance(kernels, dict | str | bytes) or not isinstance(kernels, Iterable):
        raise InvalidType(
            f"kernels is a {type(kernels).__name__}",
            "it is a list with one dict a kernel",
            'pass [{"source": "add.cpp", "core_type": "aiv", "func_id": 0}]',
        )
    return [_kernel(place, kernel) for place, kernel in enumerate(kernels)]


def _kernel(place: int, given: Any) -> KernelSource:
    if isinstance(given, dict):
        unknown = [key for key in given if key not in _FIELDS]
        if unknown or "source" not in given:
            problem = f"unknown key {unknown[0]!r}" if unknown else "no 'source'"
            raise InvalidType(
                f"kernels[{place}]: {problem}",
                f"a kernel's keys are {', '.join(_FIELDS)}; the source is needed",
                "take one of these",
            )
        given = KernelSource(**given)
    if not isinstance(given, KernelSource):
        raise InvalidType(
            f"kernels[{place}] is a {type(given).__name__}",
            "a kernel is a dict or a KernelSource",
            'pass {"source": "add.cpp"}',
        )
    if given.core_type not in CORE_TYPES:
        raise InvalidValue(
            f"kernels[{place}]: core_type {given.core_type!r}",
            f"a core type is one of {', '.join(CORE_TYPES)}",
            "take one of these",
        )
    if given.func_id is not None and (type(given.func_id) is not int or given.func_id < 0):
        raise InvalidValue(
            f"kernels[{place}]: func_id {given.func_id!r}",
            "it is a number from 0 on, by which submit() may name the kernel",
            "pass one, or leave it out: the place in the list",
        )
    return given


def _symbol_of(kernel: KernelSource, text: SourceText) -> str:
    if kernel.symbol:
        return _identifier(kernel.symbol, f"kernel {text.name}: symbol")
    found = text.exported_kernels()
    if len(found) == 1:
        return found[0]
    if kernel.name in found:
        return kernel.name
    if not found and text.defines(_SLOT_KERNEL):
        return _SLOT_KERNEL
    problem = f"exports {', '.join(found)}" if found else "has no PTO_KERNEL(name, function)"
    raise InvalidValue(
        f"the source {text.name} {problem}",
        "the kernel is 'symbol', else the one PTO_KERNEL of its source, else kernel_entry",
        'say which: {"source": ..., "symbol": ...}',
    )


def _orchestration_of(text: SourceText, orch_func: str) -> str:
    function = _identifier(orch_func or _ORCHESTRATE, "orch_func")
    if text.defines(function):
        return function
    raise InvalidValue(
        f"the orchestration {text.name} does not define {function}",
        'it is extern "C" int32_t f(const pto_runtime_api*, const pto_args*), see pto/runtime.h',
        "define it, or name the function that does: orch_func=",
    )


def _identifier(name: Any, place: str) -> str:
    if isinstance(name, str) and name.isidentifier() and name.isascii():
        return name
    raise InvalidValue(
        f"{place} is {name!r}",
        "it is the name of a function with C linkage",
        'write the name alone, such as "add"',
    )


def _check_names(kernels: list[Kernel]) -> None:
    owner: dict[str, int] = {}
    for place, kernel in enumerate(kernels):
        for name in kernel.names:
            if owner.setdefault(name, place) != place:
                raise InvalidValue(
                    f"kernels[{owner[name]}] and kernels[{place}] are both called {name!r}",
                    "submit() finds a kernel by its name, or by its func_id",
                    'give each its own "name" and "func_id"',
                )


def _parsed_signature(signature: Sequence[str | ParamType] | None) -> tuple | None:
    if signature is None:
        return None
    parsed = []
    for place, one in enumerate(signature):
        kind, _, dtype = one.partition(" ") if isinstance(one, str) else (one, "", "")
        try:
            kind = ParamType[kind.upper()] if isinstance(kind, str) else ParamType(kind)
        except (KeyError, ValueError):
            raise InvalidValue(
                f"signature[{place}]: {one!r}",
                "it is input, output, inout or scalar, and may name a type behind that",
                'write "input", "input float32", or pto.ParamType.INPUT',
            ) from None
        parsed.append(Parameter(kind, dtype.strip()))
    return tuple(parsed)


# --- compiling -----------------------------------------------------------------------------------


def _compile_all(head: SourceText, function: str, units: dict) -> tuple[Code, dict]:
    """The orchestration, and the code of each source of kernels."""
    target = config.target
    threads = min(len(units) + 1, os.cpu_count() or 1)
    with ThreadPoolExecutor(threads, "pto-compile") as pool:

        def start(source: SourceText, functions: list[str], is_head: bool) -> Future:
            arguments = source.name, source.text, functions, target, is_head
            return pool.submit(_core.compile_functions, *arguments)

        first = start(head, [function], True)
        others = {text: start(text, functions, False) for text, functions in units.items()}
        return Code(first.result()), {text: Code(job.result()) for text, job in others.items()}


_cache_lock = threading.Lock()


def _cache_directory(folder: str | os.PathLike | None) -> Any:
    return nullcontext() if folder is None else _other_cache(Path(folder).expanduser())


@contextmanager
def _other_cache(folder: Path) -> Any:
    """The compiler's cache is one setting of the process; a compilation elsewhere is harmless."""
    with _cache_lock:
        before, config.cache_dir = config.cache_dir, str(folder)
        try:
            yield
        finally:
            config.cache_dir = before
