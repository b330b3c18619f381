# SPDX-License-Identifier: Apache-2.0
"""C++ extensions for tests: built once for their sources, and kept in the build folder."""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from pto import build_config

ROOT = Path(__file__).resolve().parent.parent
HEADERS = ("compat/**/*.h", "compat/**/*.hpp", "pto/*.h*", "pto/abi/*.h", "pto/operators/*.h*",
           "pto/isa/**/*.h*", "pto/base/*.hpp", "pto/launch/*.hpp")  # fmt: skip
SOURCES = {".cpp", ".hpp", ".h"}
IS_DEEP = os.environ.get("PTO_DEEP") == "1"


def _key(sources: list[Path], *parts: str) -> str:
    headers = [file for pattern in HEADERS for file in sorted(ROOT.glob(pattern))]
    digest = hashlib.sha256("\0".join([sys.version, *parts]).encode())
    for file in [*sources, *headers]:
        digest.update(f"\0{file.name}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:24]


def kept(name: str, sources: list[Path], build: Callable[[Path], None], *parts: str) -> Path:
    """NAME.so that `build(folder)` makes, or made before for the same sources, headers, parts."""
    folder = ROOT / "build/extensions" / f"{name}_{_key(sources, *parts)}"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        target = folder / f"{name}.so"
        if not target.exists():
            build(folder)
            assert target.exists(), f"the build made {sorted(p.name for p in folder.iterdir())}"
    return target


# Runs a setup.py whose extension is one file, which includes its sources: they share PyTorch's
# headers, ten seconds a file; -O0 halves the rest. The setup.py says all else.
JOINED = """
import pathlib, runpy, sys
from torch.utils import cpp_extension

def joined(name, sources, **more):
    file = pathlib.Path(sys.argv.pop(1), name + ".cpp")
    file.write_text("".join(f'#include "{pathlib.Path(s).resolve()}"\\n' for s in sources))
    more["extra_compile_args"] = [*more.get("extra_compile_args", []), "-O0"]
    return made(name, [str(file)], **more)

made, cpp_extension.CppExtension = cpp_extension.CppExtension, joined
runpy.run_path("setup.py")
"""


def from_setup(folder: Path, name: str) -> Path:
    """NAME.so as `python setup.py build_ext` in this folder makes it; in the quick run from its
    sources as one file, not optimised."""
    import torch

    def build(target: Path) -> None:
        setup = ["-c", JOINED, target] if not IS_DEEP else ["setup.py"]
        command = [sys.executable, *setup, "build_ext", "--build-lib", target,
                   "--build-temp", target / "objects"]  # fmt: skip
        paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        run = subprocess.run(
            [str(part) for part in command], cwd=folder, text=True, capture_output=True,
            env={**os.environ, "PYTHONPATH": paths},
        )  # fmt: skip
        assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
        shutil.rmtree(target / "objects", ignore_errors=True)

    sources = [file for file in sorted(folder.glob("*.*")) if file.suffix in SOURCES]
    return kept(name, sources, build, torch.__version__, str(IS_DEEP))


def from_source(source: Path, *flags: str) -> Path:
    """NAME.so of one file that includes PyTorch's headers and compat/."""
    import torch
    from torch.utils import cpp_extension

    if IS_DEEP:
        flags = ("-DPTO_DEEP", *flags)

    def build(target: Path) -> None:
        includes = [f"-isystem{folder}" for folder in cpp_extension.include_paths()]
        libraries = [f"-L{folder}" for folder in cpp_extension.library_paths()]
        command = [
            *("g++", "-std=c++20", "-O1", "-g0", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"),
            *("-DPTO_PORTABLE", f"-I{ROOT / 'compat'}", f"-I{ROOT}", *includes, *flags, source),
            *("-o", target / f"{source.stem}.so", *libraries, "-ltorch_cpu", "-ltorch", "-lc10"),
            *build_config.ldflags(),
        ]
        run = subprocess.run([str(part) for part in command], text=True, capture_output=True)
        assert run.returncode == 0, run.stderr[-4000:]

    return kept(source.stem, [source], build, torch.__version__, *flags)


def module(name: str, file: Path) -> ModuleType:
    """A Python file as a module of this name."""
    spec = importlib.util.spec_from_file_location(name, file)
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made
