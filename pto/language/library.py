# SPDX-License-Identifier: Apache-2.0
"""pto.package: functions, operators and C++ kernels in one file that runs without a compiler.

    pto.package({softmax: (x,), pto.ops.gelu: [(x,), (x64,)]}, "kernels.pto", "portable,avx2")
    kernels = pto.load("kernels.pto")           # perhaps in another process, on another CPU
    y = kernels.softmax(x)

The values of the mapping are examples of calls, as f.package() takes them (package.py): an array
stands for its element type, number of axes and sizes of 1, and other sizes are free; a type stands
for any size where it says none. A jitted function whose parameters are annotated with types needs
none; then a sequence of such functions will do. `targets` names the CPUs: portable, avx2, avx512. A
file holds the code for each, and the best that the CPU has is loaded.

The file is of kind "functions" (pto/container.py): its header has the record of each function that
a file of kind "program" has, and its payload their programs, one after another. C opens one by its
name: pto/abi/package.h.

Thread safety: a loaded file may be used from several threads.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pto import container
from pto.config import TARGETS, config
from pto.container import Package
from pto.errors import InvalidType, InvalidValue, UnknownAttribute, nearest
from pto.language.jit import Jit
from pto.language.location import describe, fail
from pto.language.op import Operator
from pto.language.package import (
    PackagedFunction,
    add_texts,
    calls_of,
    compiled,
    described,
    every_call,
)
from pto.language.packaged_operator import as_function, compiled_operator, every_call_of
from pto.language.tools import Tools

_KINDS = "a package holds functions under @pto.jit and operators under @op"


def package(
    callables: Mapping[Any, Any] | Sequence[Any], path: Any, targets: Any = "", texts: bool = False
) -> None:
    """Compiles functions for such calls and targets, and saves them; pto.load(path) reads them.

    One packed weight, or one program of tasks (pto.compile), is saved as it is.
    With `texts` the file also carries your lines, the stages of each program and its C++, which
    `python -m pto studio FILE` shows.

    Example:
        @pto.jit
        def double(x):
            return x + x

        pto.package({double: (x,)}, "double.pto")
        print(*pto.load("double.pto"))
    """
    path = container.path_of(path, "package")
    chosen = targets_of(targets)
    if (whole := _whole(callables)) is not None:
        if targets or texts:
            fail(f"package: {describe(whole)} is given, and targets or texts",
                 "it is saved as it was made", "leave them out")  # fmt: skip
        whole.save(path)
        return
    headers, payload, names = [], [], set()
    for function, examples in _pairs(callables):
        header, pieces = compiled_callable(function, examples, chosen, texts)
        if header["name"] in names:
            fail(f"package: two functions are called {header['name']}",
                 "a loaded file has each under its name",
                 "rename one, or save two files")  # fmt: skip
        names.add(header["name"])
        headers.append({**header, "bytes": sum(map(len, pieces))})
        payload += pieces
    content = {"names": sorted(names), "target": ",".join(chosen), "functions": headers}
    container.save(path, container.content_of("functions", content, payload))


def _whole(callables: Any) -> Any:
    """The packed weight or the program of tasks that is all of the callables, or None."""
    given = [*callables] if isinstance(callables, Mapping | list | tuple) else [callables]
    kinds = [(module, name) for _, module, name in container.READERS.values()]
    found = [one for one in given if hasattr(one, "save")
             and (type(one).__module__, type(one).__name__) in kinds]  # fmt: skip
    if found and len(given) > 1:
        fail(f"package: {describe(found[0])} is not alone",
             "a file holds functions, or one packed weight, or one program of tasks",
             "save it to a file of its own")  # fmt: skip
    return found[0] if found else None


def targets_of(targets: Any) -> tuple[str, ...]:
    """The names in "portable,avx2" or a sequence, the least first; "" is that of this process."""
    names = targets.split(",") if isinstance(targets, str) else targets
    if not isinstance(names, list | tuple) or not all(isinstance(one, str) for one in names):
        fail(f"package: targets is {describe(targets)}", "targets are names of instruction sets",
             'write "portable,avx2,avx512", or some of these', InvalidType)  # fmt: skip
    if targets == "":
        return (config.target,)
    if not names:
        fail("package: targets is empty", "code is for some instructions",
             'write "portable,avx2,avx512", or some of these; "" is this CPU')  # fmt: skip
    names = {one.strip() for one in names}
    if unknown := sorted(names - {*TARGETS[1:]}):
        raise InvalidValue(
            f"package: the target {unknown[0]!r} is unknown",
            "a target names the instructions that code may use",
            f"write some of {', '.join(TARGETS[1:])}",
        )
    return tuple(one for one in TARGETS if one in names)


def _pairs(callables: Any) -> list[tuple[Any, Any]]:
    """(function, examples) of each."""
    if isinstance(callables, Mapping):
        pairs = [*callables.items()]
    elif isinstance(callables, list | tuple):
        pairs = [(one, _annotated_example(one)) for one in callables]
    else:
        fail(f"package: the callables are {describe(callables)}", _KINDS,
             "pass {function: example of its arguments, ...}", InvalidType)  # fmt: skip
    if not pairs:
        fail("package: there are no callables", "a file without functions is of no use",
             "pass {function: example of its arguments, ...}")  # fmt: skip
    return pairs


def _annotated_example(function: Any) -> Any:
    """The call that the annotations of a function describe."""
    jit = getattr(function, "compiled", function)
    kinds, names = getattr(jit, "kinds", {}), getattr(jit, "parameters", None)
    defaults = len(getattr(jit, "defaults", ()))
    if names is None or any(name not in kinds for name in names[: len(names) - defaults]):
        name = getattr(function, "__name__", None) or describe(function)
        fail(f"package: {name} is given without an example",
             "element types and numbers of axes are known from an example, or from annotations of "
             "all parameters such as x: pto.Tensor[pto.DYN, 64, pto.f32]",
             "pass {function: example of its arguments, ...}", InvalidType)  # fmt: skip
    return tuple(kinds[name] for name in names if name in kinds)


def compiled_callable(
    function: Any, examples: Any, targets: tuple[str, ...], texts: bool = False
) -> tuple[dict, list[bytes]]:
    """The record of one function and its programs."""
    examples = examples if isinstance(examples, list) else [examples]
    if isinstance(function, Operator):
        jit = as_function(function)
        calls = every_call_of(function, jit, calls_of(function.name, examples))
        header, pieces = compiled_operator(function, calls, targets)
    elif isinstance(function, Tools):
        calls = calls_of(function.__name__, examples)
        jit = function.jit_of(calls)
        calls = every_call(jit, calls)
        header, pieces = compiled(jit, calls, targets)
    else:
        fail(f"package: one of the callables is {describe(function)}", _KINDS,
             "decorate it, or pass a member of pto.ops", InvalidType)  # fmt: skip
    if texts and isinstance(function, Operator) and not function.member("build"):
        _add_source(header, function, jit, calls)
    elif texts:
        add_texts(header, jit, calls, targets[-1])
    return header, pieces


def _add_source(header: dict, operator: Operator, jit: Jit, calls: list) -> None:
    """Adds to each variant the C++ of its kernel, which is written by hand."""
    from pto.language.program_page import packed  # seldom needed

    for variant, (args, kwargs) in zip(header["variants"], calls, strict=True):
        kinds = {one.name: one.about and one.about[0] for one in described(jit, args, kwargs)}
        _, text, _ = operator.source([kinds[a.name] for a in operator.tensors])
        variant["texts"] = packed(operator.name, {}, text, [])


class PackagedLibrary:
    """The functions of a file: library.softmax(x), library["softmax"]. load() makes it."""

    def __init__(self, package: Package):
        self._shown, self._made = package.shown, {}
        self._packages, start = {}, 0
        for header in package.header["functions"]:
            end = start + header["bytes"]
            piece = Package("program", header, package.payload[start:end], package.shown)
            self._packages[header["name"]], start = piece, end
        if start != len(package.payload):
            raise ValueError("the payload has other programs than the header")

    @staticmethod
    def from_package(package: Package) -> "PackagedLibrary":
        package.check_kind("functions")
        with container.checked_header(package.shown):
            return PackagedLibrary(package)

    def __getitem__(self, name: str) -> Any:
        if name not in self._packages:
            raise UnknownAttribute(
                f"{self._shown} has no function {name!r:.80}",
                nearest(str(name), self._packages),
                "call a function that it has",
            )
        if name not in self._made:
            self._made.setdefault(name, PackagedFunction.from_package(self._packages[name]))
        return self._made[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._packages)

    def __len__(self) -> int:
        return len(self._packages)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self._packages]

    def __repr__(self) -> str:
        return f"<pto package {self._shown}: {', '.join(self._packages)}>"
