# SPDX-License-Identifier: Apache-2.0
"""CompiledPackage: an orchestration and its kernels, compiled; it runs without a compiler.

    package = pto.compile(platform="cpu", orch="orch.cpp", kernels=[{"source": "add.cpp"}])
    package.save("add.pto")
    rt.register("add", pkg=pto.CompiledPackage.load("add.pto"))

The file is of kind "tasks" (pto/container.py); its payload are the shared objects. Packages are
immutable; threads may share them.
"""

import os
import platform as host
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pto import _core, container
from pto.container import Package
from pto.errors import InvalidType
from pto.tasks.arguments import Arg, ParamType
from pto.tasks.origin import Origin

ABI_VERSIONS = (1, 3)  # PTO_ABI_VERSION, PTO_RUNTIME_ABI_VERSION
TARGETS = ("portable", "avx2", "avx512")  # each runs where a later one does


@dataclass(frozen=True)
class Code:
    """The functions of one source. `object` has its bytes if it was loaded, not compiled here."""

    functions: Any  # _core.CompiledFunctions
    object: bytes | None = None


@dataclass(frozen=True)
class PackedKernel:
    """A kernel of a package: the names that submit() knows, and its function."""

    name: str
    func_id: int
    core_type: str
    symbol: str
    code: Code

    @property
    def names(self) -> tuple[str, str]:
        return self.name, str(self.func_id)


@dataclass(frozen=True)
class Parameter:
    """The argument that an orchestration expects at one place; dtype "" means any."""

    type: ParamType
    dtype: str = ""

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.dtype}".rstrip()


@dataclass(frozen=True)
class CompiledPackage:
    """Everything for one run: orchestration, kernels, signature (None: unchecked), target.

    Without an orchestration it is its only kernel, for level host.
    """

    name: str
    platform: str
    target: str
    orch_func: str
    orchestration: Code | None
    kernels: tuple[PackedKernel, ...]
    signature: tuple[Parameter, ...] | None = None
    origin: Origin = field(default=Origin(), compare=False, repr=False)  # a loaded one knows none

    def program(self) -> Any:
        """The program as the engine runs it."""
        if self.orchestration is None:
            raise InvalidType(
                f"the package {self.name!r} has no orchestration", "level chip runs one",
                "compile it with orch=, or run it at level host",
            )  # fmt: skip
        kernels = [(list(kernel.names), kernel.code.functions, kernel.symbol)
                   for kernel in self.kernels]  # fmt: skip
        return _core.ChipProgram(self.orchestration.functions, kernels)

    def check(self, name: str, args: Sequence[Arg]) -> None:
        """Raises TypeError where the arguments do not fit the signature."""
        if self.signature is None:
            return
        wanted = ", ".join(map(str, self.signature))
        if len(args) != len(self.signature):
            raise InvalidType(
                f"{name!r} got {len(args)} arguments, its signature has {len(self.signature)}",
                f"it takes ({wanted})",
                "pass one Arg for each",
            )
        for place, (arg, parameter) in enumerate(zip(args, self.signature, strict=True)):
            got = Parameter(arg.type, arg.dtype)
            if got.type != parameter.type or parameter.dtype not in ("", got.dtype):
                raise InvalidType(
                    f"{name!r}: argument {place} is '{got}', its signature says '{parameter}'",
                    f"it takes ({wanted})",
                    "pass what it takes; nothing is converted",
                )

    def save(self, path: str | os.PathLike) -> None:
        """Writes the package; a file of that name is replaced as a whole."""
        container.save(path, self._content())

    @staticmethod
    def load(path: str | os.PathLike) -> "CompiledPackage":
        """Reads a saved package; InvalidValue where this machine or version cannot run it."""
        return CompiledPackage.from_package(container.read(path))

    def to_bytes(self) -> bytes:
        """The content of the file that save() writes."""
        return b"".join(self._content())

    def _content(self) -> list[bytes]:
        codes = list(
            dict.fromkeys([*filter(None, [self.orchestration]), *(k.code for k in self.kernels)])
        )
        objects = [code.object or code.functions.object for code in codes]
        header = {
            "abi": ABI_VERSIONS, "machine": host.machine(), "target": self.target,
            "name": self.name, "platform": self.platform, "orch_func": self.orch_func,
            "signature": self.signature and [[int(p.type), p.dtype] for p in self.signature],
            "kernels": [{"name": k.name, "func_id": k.func_id, "core_type": k.core_type,
                         "symbol": k.symbol, "code": codes.index(k.code)} for k in self.kernels],
            "codes": [{"name": c.functions.name, "functions": list(c.functions.functions),
                       "bytes": len(o)} for c, o in zip(codes, objects, strict=True)],
        }  # fmt: skip
        return container.content_of("tasks", header, objects)

    @staticmethod
    def from_bytes(content: bytes, shown: str = "the package") -> "CompiledPackage":
        """A package of the content of its file."""
        return CompiledPackage.from_package(container.opened(content, shown))

    @staticmethod
    def from_package(package: Package) -> "CompiledPackage":
        package.check_kind("tasks")
        with container.checked_header(package.shown):
            _check_machine(package)
            return CompiledPackage._from_header(package.header, bytes(package.payload))

    @staticmethod
    def _from_header(header: dict, objects: bytes) -> "CompiledPackage":
        codes, offset = [], 0
        sizes = [code["bytes"] for code in header["codes"]]
        if sum(sizes) != len(objects) or min(sizes, default=0) < 0:
            raise ValueError("the objects have other sizes than the header says")
        texts = [header[name] for name in ("name", "platform", "target", "orch_func")]
        texts += [kernel[name] for kernel in header["kernels"]
                  for name in ("name", "core_type", "symbol")]  # fmt: skip
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("a name is no text")
        for code in header["codes"]:
            piece = objects[offset : offset + code["bytes"]]
            offset += code["bytes"]
            loaded = _core.load_functions(code["name"], piece, code["functions"])
            codes.append(Code(loaded, piece))
        kernels = [PackedKernel(**{**kernel, "code": codes[kernel["code"]]})
                   for kernel in header["kernels"]]  # fmt: skip
        signature = header["signature"]
        if signature is not None:
            signature = tuple(Parameter(ParamType(kind), dtype) for kind, dtype in signature)
        return CompiledPackage(
            header["name"], header["platform"], header["target"], header["orch_func"],
            codes[0] if header["orch_func"] else None, tuple(kernels), signature,
        )  # fmt: skip

    def __reduce__(self) -> tuple:
        raise InvalidType(
            f"the package {self.name!r} cannot be pickled",
            "unpickling runs whatever a file says; packages have a checked format of their own",
            "use save() and load(), or to_bytes() and from_bytes()",
        )


def _check_machine(package: Package) -> None:
    """Refuses what cannot be run here."""
    header, own = package.header, machine_target()
    if tuple(header["abi"]) != ABI_VERSIONS:
        package.refuse(f"is for version {tuple(header['abi'])} of the kernel and runtime ABI",
                       f"this pto has {ABI_VERSIONS}", "compile it with this version")  # fmt: skip
    if header["machine"] != host.machine():
        package.refuse(f"holds code for {header['machine']}", f"this CPU is a {host.machine()}",
                       "compile it on such a machine")  # fmt: skip
    if TARGETS.index(header["target"]) > TARGETS.index(own):
        package.refuse(f"needs {header['target']}", f"this CPU has no more than {own}",
                       f"compile it with PTO_TARGET={own}")  # fmt: skip


def machine_target() -> str:
    """The best target of this CPU: portable, avx2 or avx512."""
    lines = dict(line.split(": ", 1) for line in _core.describe_machine().splitlines())
    chosen, _, best = lines["target"].partition(" (the CPU has ")  # PTO_TARGET may ask for less
    return best.rstrip(")") or chosen
