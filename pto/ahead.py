# SPDX-License-Identifier: Apache-2.0
"""python -m pto package --library: builds kernels of pto.ops ahead, where a compiler is.

    python -m pto package --library --targets avx2,avx512     # into this installation
    python -m pto package --library --into openpto.whl        # and into the wheel it came from

Thread safety: one process at a time.
"""

import argparse
import base64
import hashlib
import os
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pto import ops
from pto.config import config
from pto.errors import Failure, InvalidValue
from pto.language import prebuilt
from pto.language.call_texts import expanded, runs_of
from pto.language.library import targets_of

LIST = Path(ops.__file__).parent / "library.txt"
MOST_KERNELS = 300
MEMBER = "pto/lib/kernels.pto"


def build(arguments: argparse.Namespace) -> str:
    """Builds what a list names; says how many kernels there are, and their size."""
    began = time.perf_counter()
    path = Path(arguments.list) if arguments.list else LIST
    try:
        calls = expanded(path.read_text().splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(f"package --library: {path} cannot be read", str(error),
                           "pass a file with a call on each line") from None  # fmt: skip
    targets = targets_of(arguments.targets or "avx2,avx512")
    if len(calls) * len(targets) > MOST_KERNELS:
        raise InvalidValue(
            f"package --library: {path.name} names {len(calls)} calls for {len(targets)} targets",
            f"a wheel carries at most {MOST_KERNELS} kernels", "take some out",
        )  # fmt: skip
    runs = runs_of(calls, [ops])
    file = Path(arguments.file) if arguments.file else prebuilt.PATH
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 4)) as pool:
        count = prebuilt.build(runs, file, targets, pool.map)
    if arguments.into:
        put_into_wheel(file, Path(arguments.into))
    size = file.stat().st_size / 1e6
    return f"{file}: {count} kernels, {size:.1f} MB, {time.perf_counter() - began:.0f} s"


def put_into_wheel(file: Path, wheel: Path) -> None:
    """Adds the kernels to a wheel, and to its list of files."""
    if config.target:
        raise InvalidValue("package --library --into: a target is set",
                           "a wheel serves all CPUs", "unset PTO_TARGET")  # fmt: skip
    new, content = wheel.with_suffix(".new"), file.read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    try:
        with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as made:
            for one in old.infolist():
                data = old.read(one)
                if one.filename.endswith(".dist-info/RECORD"):
                    lines = [line for line in data.decode().splitlines()
                             if not line.startswith(MEMBER + ",")]  # fmt: skip
                    lines.append(f"{MEMBER},sha256={digest},{len(content)}")
                    data = ("\n".join(lines) + "\n").encode()
                if one.filename != MEMBER:
                    made.writestr(one, data)
            made.writestr(MEMBER, content)
        os.replace(new, wheel)
    except (OSError, zipfile.BadZipFile) as error:
        raise Failure(f"package --library --into {wheel}: it cannot be changed", str(error),
                      "pass the wheel that is installed here") from None  # fmt: skip
    finally:
        new.unlink(missing_ok=True)
