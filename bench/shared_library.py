# SPDX-License-Identifier: Apache-2.0
"""C++ of the benches, compiled for this machine when they start, once per content.

In use:

    library = ctypes.CDLL(str(compiled("reference.cpp")))
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
FLAGS = ["-std=c++17", "-O3", "-march=native", "-fPIC", "-shared", "-fvisibility=hidden"]


def compiled(name: str, *flags: str) -> Path:
    """Compiles bench/<name>; returns the shared library."""
    cxx = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if not cxx:
        raise RuntimeError(
            "the benches need a C++ compiler: neither g++ nor clang++ is on the PATH;"
            " install g++ or set CXX"
        )
    source, flags = FOLDER / name, [*FLAGS, *map(str, flags)]
    headers = [path.read_text() for path in sorted(FOLDER.glob("*.hpp"))]
    cpu = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    features = next((line for line in cpu.splitlines() if line.startswith("flags")), "")
    parts = [source.read_text(), *headers, cxx, features, *flags]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    folder = Path(tempfile.gettempdir()) / f"openpto-bench-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    library = folder / f"{source.stem}-{key[:16]}.so"
    if not library.exists():
        partial = library.with_suffix(f".{os.getpid()}")
        subprocess.run([cxx, *flags, str(source), "-o", str(partial)], check=True)
        partial.rename(library)
    return library
