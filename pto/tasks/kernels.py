# SPDX-License-Identifier: Apache-2.0
"""Kernels that compile() is given: checks their fields, and finds the text and function of each.

    for kernel in read_kernels([{"source": "add.cpp"}], include_dirs=[], defines=""):
        kernel.source, kernel.text, kernel.function

Invariant: only the compiler can still refuse a kernel that comes out.
"""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from pto import build_config
from pto.errors import InvalidType, InvalidValue
from pto.sources import SourceText, read_source
from pto.tasks.chips import CORE_TYPES, chip_defines, core_defines
from pto.tasks.precompiled import PRECOMPILED_FIELDS, adapter_of, is_object
from pto.tasks.spellings import without_published_keywords

_SLOT_KERNEL = "kernel_entry"
_DESCRIPTORS = "enter_tensor_slots"  # of compat/tensor.h
_DESCRIPTOR_KERNEL = "pto_enter_kernel_entry"
_DESCRIPTOR_ADAPTER = f"""
extern "C" __attribute__((visibility("default")))
int32_t {_DESCRIPTOR_KERNEL}(const pto_args* args) {{
  return pto::compat::{_DESCRIPTORS}({_SLOT_KERNEL}, args);
}}
"""
# Sources for the public simulator write its names without `pto::`.
_SIMULATED = """#ifdef __CPU_SIM
#include <pto/common/cpu_stub.hpp>
#endif
"""


@dataclass(frozen=True)
class KernelSource:
    """A kernel. `source`: a path or C++ text; `func_id`: its place in the list if None.

    `symbol` may be left out where the source has one PTO_KERNEL, or defines kernel_entry; `name`
    is the symbol then, or the source's name where that is kernel_entry. `include_dirs`: folders of
    its headers, before those of compile(). A source that ends in .o
    or .so was compiled by any compiler: it needs `symbol` and `tensor_args`, and the other fields
    are for such alone (precompiled.py).
    """

    source: str | os.PathLike
    core_type: str = "aiv"
    func_id: int | None = None
    name: str = ""
    symbol: str = ""
    include_dirs: Sequence[str | os.PathLike] = ()
    tensor_args: Sequence[dict] | None = None
    scalars: Sequence[str | dict] | None = None
    tiling: bytes | str | os.PathLike | None = None
    workspace: int = 0
    has_workspace: bool | None = None
    compiler: str = ""
    ascendc_symbol: str = ""


_TOLD_BY_TASKS = {"signature": "a submission tells what its task reads and writes"}
_FIELDS = tuple(field.name for field in fields(KernelSource))
Kernels = Sequence[KernelSource | dict]


@dataclass(frozen=True)
class ReadKernel:
    """A kernel as it is compiled: `function` is defined by `text`.

    `has_descriptors`: it is of the public form, with tensors as descriptors (compat/tensor.h).
    """

    source: KernelSource
    text: SourceText
    function: str
    name: str
    func_id: int
    has_descriptors: bool = False

    @property
    def part(self) -> tuple[str, Any, str, str]:
        """The kernel as origin_of() takes it, with the function that its author wrote."""
        function = _SLOT_KERNEL if self.has_descriptors else self.function
        return self.name, self.source.source, self.text.name, function


def read_kernels(
    kernels: Any, include_dirs: Sequence, defines: str, platform: str = "cpu", standard: str = ""
) -> list[ReadKernel]:
    """All kernels. `defines`: lines in front of each C++ text, behind those of its core;
    `standard`: the language level, "" for C++17, and C++20 for the public form.
    """
    found = []
    for place, kernel in enumerate(_listed(kernels)):
        func_id = place if kernel.func_id is None else kernel.func_id
        if is_object(kernel.source):
            function, text = adapter_of(kernel, place)
            found.append(ReadKernel(kernel, text, function, kernel.name or text.name, func_id))
            continue
        _check_fields(place, kernel)
        own = kernel.include_dirs
        own = [own] if isinstance(own, str | os.PathLike) else own
        folders = [*own, *include_dirs, build_config.compat_dir()]
        core = core_defines(kernel.core_type) + chip_defines(platform, kernel.core_type)
        front = core + defines + (_SIMULATED if "#define __CPU_SIM " in defines else "")
        text = read_source(kernel.source, folders, kernel.name or f"kernel_{place}", front)
        function = _symbol_of(kernel, text)
        level = standard or ("c++20" if function == _SLOT_KERNEL else "c++17")
        text = replace(text, standard=level)
        name = kernel.name or (text.name if function == _SLOT_KERNEL else function)
        has_descriptors = function == _SLOT_KERNEL and text.defines(_DESCRIPTORS)
        if has_descriptors:
            function, text = _DESCRIPTOR_KERNEL, replace(text, text=text.text + _DESCRIPTOR_ADAPTER)
        found.append(ReadKernel(kernel, text, function, name, func_id, has_descriptors))
    return _told_apart(found)


def _told_apart(kernels: list[ReadKernel]) -> list[ReadKernel]:
    """Kernels of the public form whose files have one name get their func_id behind it."""
    count = Counter(kernel.name for kernel in kernels)
    public = (_SLOT_KERNEL, _DESCRIPTOR_KERNEL)
    return [
        replace(kernel, name=f"{kernel.name}_{kernel.func_id}")
        if count[kernel.name] > 1 and kernel.function in public and not kernel.source.name
        else kernel
        for kernel in kernels
    ]


def _listed(kernels: Any) -> list[KernelSource]:
    if isinstance(kernels, dict | str | bytes) or not isinstance(kernels, Iterable):
        raise InvalidType(
            f"kernels is of type {type(kernels).__name__}",
            "kernels is a list with one dict for each kernel",
            'pass [{"source": "add.cpp", "core_type": "aiv", "func_id": 0}]',
        )
    return [_kernel(place, kernel) for place, kernel in enumerate(kernels)]


def _kernel(place: int, given: Any) -> KernelSource:
    if isinstance(given, dict):
        given = without_published_keywords(f"kernels[{place}]", given, _TOLD_BY_TASKS)
        unknown = [key for key in given if key not in _FIELDS]
        if unknown or "source" not in given:
            problem = f"unknown key {unknown[0]!r}" if unknown else "no 'source'"
            raise InvalidType(
                f"kernels[{place}]: {problem}",
                "a kernel needs its source and may have other keys",
                f"use the keys {', '.join(_FIELDS)}",
            )
        given = KernelSource(**given)
    if not isinstance(given, KernelSource):
        raise InvalidType(
            f"kernels[{place}] is of type {type(given).__name__}",
            "a kernel is a dict or a KernelSource",
            'pass {"source": "add.cpp"}',
        )
    if given.core_type not in CORE_TYPES:
        raise InvalidValue(
            f"kernels[{place}]: core_type is {given.core_type!r}",
            "the core type says which cores of a chip run the kernel",
            f"pass one of {', '.join(CORE_TYPES)}",
        )
    if given.func_id is not None and (type(given.func_id) is not int or given.func_id < 0):
        raise InvalidValue(
            f"kernels[{place}]: func_id is {given.func_id!r}",
            "submit() may name a kernel by its func_id, an int of at least 0",
            "pass such an int, or leave func_id out: it is then the place in the list",
        )
    return given


def _check_fields(place: int, kernel: KernelSource) -> None:
    for name in PRECOMPILED_FIELDS:
        if getattr(kernel, name) not in (None, "", 0, False):
            raise InvalidType(
                f"kernels[{place}]: a C++ source has {name}",
                f"{name} describes an object of another compiler; a C++ source declares itself "
                "what its kernel takes",
                f"leave it out, or pass the .o or .so: source is {kernel.source!r:.60}",
            )


def _symbol_of(kernel: KernelSource, text: SourceText) -> str:
    if kernel.symbol:
        return identifier(kernel.symbol, f"kernel {text.name}: symbol")
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
        "pto runs 'symbol', else the only PTO_KERNEL of the source, else kernel_entry",
        'say which: {"source": ..., "symbol": ...}',
    )


def identifier(name: Any, place: str) -> str:
    """The name, where a function may have it; `place` is for the error."""
    if isinstance(name, str) and name.isidentifier() and name.isascii():
        return name
    raise InvalidValue(
        f"{place} is {name!r}",
        "a kernel is a function with C linkage and has its name",
        'write the name alone, such as "add"',
    )
