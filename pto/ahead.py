# SPDX-License-Identifier: Apache-2.0
"""python -m pto package --library: builds kernels of pto.ops ahead, where a compiler is.

    python -m pto package --library --targets avx2,avx512     # into this installation
    python -m pto package --library --into openpto.whl        # and into the wheel it came from

Thread safety: one process at a time.
"""

import argparse
import base64
import contextlib
import hashlib
import os
import re
import time
import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pto import container, ops
from pto.config import config
from pto.errors import Error, Failure, InvalidValue
from pto.language import prebuilt
from pto.language.call_texts import expanded, runs_of
from pto.language.library import targets_of
from pto.side_by_side import side_by_side

LIST = Path(ops.__file__).parent / "library.txt"
MOST_KERNELS, MOST_BYTES = 300, 15_000_000
FOLDER, MEMBER = "pto/", "pto/lib/kernels.pto"
_COMMAND = "package --library"


def build(arguments: argparse.Namespace) -> str:
    """Builds what a list names; says how many kernels there are, and their size."""
    began = time.perf_counter()
    path = Path(arguments.list) if arguments.list else LIST
    file = Path(arguments.file) if arguments.file else prebuilt.PATH
    calls, targets = calls_of(path), targets_of(arguments.targets or "avx2,avx512")
    if len(calls) * len(targets) > MOST_KERNELS:
        raise _too_many(f"{path} names {len(calls)} calls for {len(targets)} targets")
    about = {"target": ",".join(targets), "calls": calls, **prebuilt.contents()}
    wheel = Wheel(arguments.into, about) if arguments.into else None
    codes = prebuilt.build(
        runs_of(calls, [ops]), targets,
        lambda run, every: side_by_side([partial(run, one) for one in every]),
    )  # fmt: skip
    if len(codes) > MOST_KERNELS:
        raise _too_many(f"{path} makes {len(codes)} kernels")
    content = prebuilt.content_of(codes, about)
    size = sum(map(len, content))
    if size > MOST_BYTES:
        raise _too_many(f"the kernels of {path} have {size} bytes")
    container.save(file, content)
    if wheel:
        wheel.add(b"".join(prebuilt.content_of(codes, {**about, "built_ns": None})))
    spent = time.perf_counter() - began
    return f"{file}: {len(codes)} kernels, {size / 1e6:.1f} MB, {spent:.0f} s"


def calls_of(path: Path) -> list[str]:
    """The calls of a list; one that names none is refused."""
    try:
        calls = expanded(path.read_text().splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(f"{_COMMAND}: {path} cannot be read", container.reason(error),
                           "pass a file with a call on each line") from None  # fmt: skip
    if not calls:
        raise InvalidValue(f"{_COMMAND}: {path} names no call",
                           "a file without kernels is of no use",
                           "write calls such as gelu(f32[:, :]), one on each line")  # fmt: skip
    return calls


def _too_many(what: str) -> InvalidValue:
    why = f"a wheel carries at most {MOST_KERNELS} kernels in {MOST_BYTES} bytes"
    return InvalidValue(f"{_COMMAND}: {what}", why, "take calls out of the list")


class Wheel:
    """A wheel of this installation, which kernels can be put into."""

    def __init__(self, path: str, about: dict[str, Any]):
        self.path, self.record = Path(path), ""
        if config.target:
            raise self._refused("a target is set, and a wheel serves all CPUs", "unset PTO_TARGET")
        with self._opened() as wheel:
            names = set(wheel.namelist())
            self.record = next((n for n in names if re.fullmatch(r"openpto-[^/]*/RECORD", n)), "")
            if not self.record:
                raise self._refused("it has no RECORD of openpto, its list of files")
            for name, wanted in [*about["libraries"].items(), *about["files"].items()]:
                found = wheel.read(FOLDER + name) if FOLDER + name in names else b""
                is_library = isinstance(wanted, str)
                if (prebuilt.identity(found) if is_library else prebuilt.facts(found)) != wanted:
                    raise self._refused(f"its {FOLDER}{name} is not that of this installation")

    def add(self, kernels: bytes) -> None:
        """Puts kernels behind all other files: they are written last when it is installed."""
        new = self.path.with_suffix(".new")
        digest = base64.urlsafe_b64encode(hashlib.sha256(kernels).digest()).rstrip(b"=").decode()
        try:
            with self._opened() as old, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as made:
                for one in old.infolist():
                    data = old.read(one)
                    if one.filename == self.record:
                        lines = [line for line in data.decode().splitlines()
                                 if not line.startswith(MEMBER + ",")]  # fmt: skip
                        lines.append(f"{MEMBER},sha256={digest},{len(kernels)}")
                        data = ("\n".join(lines) + "\n").encode()
                    if one.filename != MEMBER:
                        made.writestr(one, data)
                made.writestr(MEMBER, kernels)
            os.replace(new, self.path)
        finally:
            new.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[zipfile.ZipFile]:
        try:
            with zipfile.ZipFile(self.path) as wheel:
                yield wheel
        except Error:
            raise
        except (OSError, EOFError, RuntimeError, ValueError, zipfile.BadZipFile,
                zlib.error) as error:  # none, damaged, encrypted; a full disk  # fmt: skip
            raise self._refused(f"it cannot be changed: {container.reason(error)}") from None

    def _refused(self, why: str, fix: str = "pass the wheel that is installed here") -> Failure:
        return Failure(f"{_COMMAND} --into {self.path}: it is left as it was", why, fix)
