# SPDX-License-Identifier: Apache-2.0
"""Says what another build system needs to compile a C++ kernel against this project.

    g++ $(python -m pto config --cxxflags) add.cpp $(python -m pto config --ldflags)

Works in a checkout and in an installed wheel: both have the headers in pto/, inside the include
folder, and the runtime library in pto/lib.
"""

from pathlib import Path

import pto
from pto import _core
from pto.errors import Failure

PACKAGE = Path(__file__).resolve().parent
LIBRARY = "libpto.so"


def version() -> str:
    """The version of the project, three numbers."""
    return pto.__version__


def include_dir() -> str:
    """The folder that `#include <pto/pto-inst.hpp>` is relative to."""
    return str(PACKAGE.parent)


def compat_dir() -> str:
    """The include folder of the public library's spellings, for its sources as they are."""
    installed = PACKAGE / "compat"
    return str(installed if installed.is_dir() else PACKAGE.parent / "compat")


def library_dir() -> str:
    """The folder of libpto.so."""
    folder = PACKAGE / "lib"
    if not (folder / LIBRARY).exists():
        raise Failure(
            f"{LIBRARY} is not in {folder}",
            "kernels link the runtime library, and this checkout has not built it",
            "run ./dev build",
        )
    return str(folder)


def target_flags() -> list[str]:
    """The compiler flags of this machine's instructions, or of PTO_TARGET's."""
    return _core.target_flags().split() or ["-DPTO_PORTABLE"]  # chosen, so no word of warning


def cxxflags() -> list[str]:
    """Language level, include folder, one rounding for each instruction, target; for the compiler
    that PTO_CXX names."""
    moves = _core.move_flags().split()
    return ["-std=c++17", f"-I{include_dir()}", "-ffp-contract=off", *target_flags(), *moves]


def cflags() -> list[str]:
    """The include folder, for C programs that call libpto."""
    return [f"-I{include_dir()}"]


def cmake_dir() -> str:
    """The folder of ptoConfig.cmake, for find_package(pto), and of pto.pc."""
    return str(PACKAGE / "cmake")


def ldflags() -> list[str]:
    """Library folder, library, and where the program finds it when it runs."""
    return [f"-L{library_dir()}", "-lpto", f"-Wl,-rpath,{library_dir()}"]


def gdb_script() -> str:
    """The script that makes gdb print tiles: (gdb) source PATH."""
    return str(PACKAGE / "isa/gdb_printer.py")
