# SPDX-License-Identifier: Apache-2.0
"""compile(): turns an orchestration and its kernels, C++ or compiled objects, into a package.

    package = pto.compile(platform="cpu", orch="orch.cpp", kernels=[{"source": "add.cpp"}])

Each distinct source is compiled once, several at a time, through the compiler's cache on disk. The
cache key covers the text with all its own headers, an object's bytes, flags, compiler, target and
ABI version.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pto import _core, build_config
from pto.config import config
from pto.errors import Failure, InvalidType, InvalidValue
from pto.side_by_side import side_by_side
from pto.sources import SourceText, read_source, split_flags
from pto.tasks.arguments import ParamType
from pto.tasks.chips import chip_defines, explain_buffer
from pto.tasks.kernels import Kernels, ReadKernel, identifier, read_kernels
from pto.tasks.origin import origin_of
from pto.tasks.package import Code, CompiledPackage, PackedKernel, Parameter
from pto.tasks.precompiled import explain_link
from pto.tasks.spellings import with_published_keywords

PLATFORMS = ("cpu", "a2a3sim", "a5sim")
_HARDWARE = ("a2a3", "a5")
_RUNTIMES = ("", "tensormap_and_ringbuffer", "host_build_graph")
_ORCHESTRATE = "pto_orchestrate"
_PUBLIC_ORCHESTRATE = "aicpu_orchestration_entry"
_PUBLIC_CONFIG = "aicpu_orchestration_config"


@with_published_keywords
def compile(
    platform: str = "cpu",
    orch: str | os.PathLike | None = None,
    kernels: Kernels | None = None,
    *,
    orch_func: str = "",
    include_dirs: Iterable[str | os.PathLike] = (),
    flags: Iterable[str] = (),
    cache_dir: str | os.PathLike | None = None,
    signature: Sequence[str | ParamType] | None = None,
    name: str = "",
    runtime: str = "",
    orch_source: str | os.PathLike = "",
    kernel_sources: Kernels | None = None,
) -> CompiledPackage:
    """Compiles an orchestration and its kernels; or one kernel without orchestration, which level
    host runs as it is.

    `orch_func`: the orchestration's function; unless given pto_orchestrate, or
    aicpu_orchestration_entry where only that is defined. `flags`: -DX=1, -UX,
    -Ifolder and -std=c++20. `signature`: what run() must be given, such as ["input float32",
    "output", "scalar int64"]. `runtime`: the public runtime that a public orchestration was written
    for, "tensormap_and_ringbuffer" or "host_build_graph"; there is one engine, and the name decides
    only how sources for a5 spell a task's blocks. `orch_source` and `kernel_sources` are other
    spellings of `orch` and `kernels`; other keywords of the published API: spellings.py.
    """
    check_platform(platform)
    orch = _either("orch", orch, "orch_source", orch_source)
    chosen = _either("kernels", kernels, "kernel_sources", kernel_sources)
    defines, folders, standard = split_flags(flags)
    is_one = isinstance(include_dirs, str | os.PathLike)
    folders = [*([include_dirs] if is_one else include_dirs), *folders]
    head, function, entered = None, "", ""
    if orch is not None:
        head = read_source(orch, [*folders, build_config.compat_dir()], name or "orchestration")
        head = head.with_defines(chip_defines(platform, "mix") + _named(runtime) + defines)
        head = replace(head, standard=standard or "c++17")
        function = _orchestration_of(head, orch_func)
    listed = read_kernels(
        chosen if chosen is not None else [], folders, defines, platform, standard
    )
    if head is not None:
        head, entered = _entered(head, function, listed)
    elif len(listed) != 1:
        raise InvalidType(
            f"compile: {len(listed)} kernels and no orch",
            "an orchestration says which kernel runs on what; one kernel can do without",
            "pass orch=, or exactly one kernel",
        )
    expected = _parsed_signature(signature)
    units: dict[SourceText, list[ReadKernel]] = {}
    for kernel in listed:
        units.setdefault(kernel.text, []).append(kernel)
    folder = "" if cache_dir is None else str(Path(cache_dir).expanduser())
    head_code, codes = _compile_all(head, entered, units, platform, folder)
    made = [
        PackedKernel(k.name, k.func_id, k.source.core_type, k.function, codes[k.text])
        for k in listed
    ]
    _check_names(made)
    first = head_code or made[0].code
    own = [] if head is None else [("", orch, head.name, function)]
    return CompiledPackage(
        name or first.functions.name, platform, first.functions.target, function, head_code,
        tuple(made), expected, origin_of([*own, *(kernel.part for kernel in listed)]),
    )  # fmt: skip


def _named(runtime: str) -> str:
    """Lines in front of an orchestration, see compat/orchestration_task_args.h."""
    if not isinstance(runtime, str) or runtime not in _RUNTIMES:
        raise InvalidValue(
            f"compile: runtime={runtime!r:.60}",
            f"public orchestrations are written for one of {', '.join(map(repr, _RUNTIMES[1:]))}",
            "take one of these, or leave it out",
        )
    return "#define PTO_HOST_BUILD_GRAPH\n" if runtime == "host_build_graph" else ""


def check_platform(platform: str) -> None:
    """Raises ValueError for a platform that this machine does not have."""
    is_name = isinstance(platform, str)
    if is_name and platform in PLATFORMS:
        return
    supported = ", ".join(repr(name) for name in PLATFORMS)
    if is_name and platform in _HARDWARE:
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


def _orchestration_of(text: SourceText, orch_func: str) -> str:
    function = identifier(orch_func or _default_orchestration(text), "orch_func")
    if not text.defines(function):
        raise InvalidValue(
            f"the orchestration {text.name} does not define {function}",
            'it is extern "C" int32_t f(const pto_runtime_api*, const pto_args*), see '
            "pto/runtime.h, or void f(const ChipTaskArgs&), see orchestration_api.h",
            "define it, or name the function that does: orch_func=",
        )
    return function


def _entered(text: SourceText, function: str, kernels: list[ReadKernel]) -> tuple[SourceText, str]:
    """The text and the function that the engine calls; the public form gets an adapter."""
    if not text.takes(function, r"const\s+Chip(Storage)?TaskArgs\s*&"):
        return text, function
    config = f"&{_PUBLIC_CONFIG}" if text.defines(_PUBLIC_CONFIG) else "nullptr"
    raw = ", ".join(str(kernel.func_id) for kernel in kernels if kernel.has_descriptors)
    entered = f"pto_enter_{function}"
    adapter = (
        f'\nextern "C" __attribute__((visibility("default")))\n'
        f"int32_t {entered}(const pto_runtime_api* api, const pto_args* args) {{\n"
        f"  return pto::compat::enter(api, args, &{function}, {config}, {{{raw}}});\n}}\n"
    )
    return replace(text, text=text.text + adapter), entered


def _default_orchestration(text: SourceText) -> str:
    is_public = text.defines(_PUBLIC_ORCHESTRATE) and not text.defines(_ORCHESTRATE)
    return _PUBLIC_ORCHESTRATE if is_public else _ORCHESTRATE


def _check_names(kernels: list[PackedKernel]) -> None:
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


def _compile_all(
    head: SourceText, function: str, units: dict[SourceText, list[ReadKernel]], platform: str,
    folder: str,
) -> tuple[Code, dict]:  # fmt: skip
    """Compiles the orchestration and each source of kernels."""
    target = config.target

    def compile_head() -> Any:
        return _core.compile_functions(
            head.name,
            head.text,
            [function],
            target,
            True,
            standard=head.standard,
            cache_directory=folder,
        )

    jobs = [partial(_compile_kernels, text, kernels, target, platform, folder)
            for text, kernels in units.items()]  # fmt: skip
    head_code, *codes = [
        made and Code(made)
        for made in side_by_side([compile_head if head else lambda: None, *jobs], len(jobs) + 1)
    ]
    return head_code, dict(zip(units, codes, strict=True))


def _compile_kernels(
    source: SourceText, kernels: list[ReadKernel], target: str, platform: str, folder: str
) -> Any:
    """Compiles the functions of one source of kernels."""
    functions = list(dict.fromkeys(kernel.function for kernel in kernels))
    arguments = source.name, source.text, functions, target, False, source.object
    try:
        return _core.compile_functions(*arguments, standard=source.standard, cache_directory=folder)
    except Failure as error:
        names = ", ".join(kernel.name for kernel in kernels)
        explain_buffer(error, names, platform, kernels[0].source.core_type)
        if source.object:
            explain_link(error, source.name)
        raise
