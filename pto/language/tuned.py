# SPDX-License-Identifier: Apache-2.0
"""Options that nobody wrote into a program: what a tuner found for it, kept in files.

    graph = with_choices(jit, graph)     # nodes get the hints that their lines do not set
    Store(path).put(key_of(graph), {"options": {"merge": 4}})

A file is JSON: for each kind of CPU (its name, features, cores and caches) and each program (its
text without line numbers) the options and the times that were measured. The first file is
tuned.json in the folder of compiled kernels; config.tuned names others, which are only read.

Invariant: a hint of the user stands; a damaged or missing file counts as an empty one, with a
warning. Thread safety: any thread and process; the last of two that write one program stays.
"""

import fcntl
import hashlib
import json
import os
import re
import warnings
from pathlib import Path
from typing import Any, NoReturn

from pto import _core
from pto.config import config
from pto.errors import Failure
from pto.language.location import user_line
from pto.language.tile_hints import option
from pto.locks import Lock
from pto.whole_files import write_whole

FORMAT = 1
_read: dict[str, tuple[tuple, dict]] = {}  # path -> (what stat says, entries)
_lock = Lock()


def with_choices(jit: Any, graph: _core.Graph) -> _core.Graph:
    """The graph with the options that were chosen for it."""
    chosen = options_for(graph) if jit.chosen is None else jit.chosen
    return graph.with_hints(hints_of(chosen)) if chosen else graph


def hints_of(options: dict[str, Any]) -> list[tuple[str, list[int], str]]:
    """Options as hints of nodes."""
    return [(name, [], value) if isinstance(value, str) else (name, [int(value)], "")
            for name, value in sorted(options.items())]  # fmt: skip


def options_for(graph: _core.Graph) -> dict[str, Any]:
    """The options that a tuner found for a program on this CPU; {} where nobody asked one."""
    paths = [one for one in files() if _is_there(one)]
    if not paths:
        return {}
    key = key_of(graph)
    for path in paths:
        found = Store(path).get(key)
        if found is not None:
            return found
    return {}


def files() -> list[str]:
    """The files that are read: this machine's own, then those of config.tuned."""
    return [own_file(), *(one for one in config.tuned.split(os.pathsep) if one)]


def _is_there(path: str) -> bool:
    """Says whether a file can be looked up; warns of one that the user has named."""
    if os.path.exists(path):
        return True
    if path != own_file():
        text = (f"config.tuned names {path!r}, and there is no such file"
                "\n  why: options that pto.tune() found elsewhere are read from the files that it "
                f"names, {os.pathsep!r} between them"
                "\n  fix: correct the path, or PTO_TUNED, which gives its first value")  # fmt: skip
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    return False


def own_file() -> str:
    """The path of this machine's file, which need not be there."""
    return os.path.join(_core.cache_directory(), "tuned.json")


def key_of(graph: _core.Graph) -> str:
    """A digest of the text of a program, without the lines that it comes from."""
    text = re.sub(r' @ "[^"]*":\d+', "", str(graph))
    return hashlib.sha256(text.encode()).hexdigest()


def cpu_kind() -> str:
    """The text that two machines share where a tuned program is as fast on both."""
    about = dict(line.split(": ", 1) for line in _core.describe_machine().splitlines())
    names = ("cpu", "flags", "cores", "L1d", "L2", "last level cache")
    return "; ".join(f"{name} {about.get(name, '')}" for name in names)


class Store:
    """The options in one file."""

    def __init__(self, path: str):
        self.given, self.path = path, os.path.abspath(path)

    def check_writable(self) -> None:
        """Makes the folder and the lock of the file; raises Failure where put() would fail, but
        for a disk that is full by then."""
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            if os.path.isdir(self.path):
                raise IsADirectoryError("it is a folder")
            with open(self.path + ".lock", "a"):
                pass
        except (OSError, ValueError) as error:  # a file for a folder, no right; a NUL in the name
            self._refuse(error)

    def _refuse(self, error: Exception) -> NoReturn:
        raise Failure(
            f"tune: what a search finds cannot be written to {self.given}", str(error),
            "pass path= a file in a folder that takes files, or set PTO_CACHE_DIR to one",
            user_line(),
        ) from error  # fmt: skip

    def get(self, key: str) -> dict[str, Any] | None:
        """The options of a program; {} where the defaults won, None where it was not tuned."""
        entry = self._entries().get(cpu_kind(), {}).get(key)
        return None if entry is None else entry["options"]

    def put(self, key: str, entry: dict[str, Any]) -> None:
        """Adds or replaces one entry; a reader sees the file before or after that."""
        self.check_writable()
        with _lock, open(self.path + ".lock", "w") as guard:
            fcntl.flock(guard, fcntl.LOCK_EX)
            try:
                entries = self._entries()
                entries = {kind: dict(some) for kind, some in entries.items()}
                entries.setdefault(cpu_kind(), {})[key] = entry
                text = json.dumps({"format": FORMAT, "entries": entries}, indent=1, sort_keys=True)
                write_whole(Path(self.path), [text.encode()])
            except OSError as error:  # no room
                self._refuse(error)
            finally:  # closing the file does not: a child that was forked meanwhile has it open too
                fcntl.flock(guard, fcntl.LOCK_UN)

    def _entries(self) -> dict[str, dict[str, dict]]:
        try:
            about = os.stat(self.path)
        except OSError:
            return {}
        state = about.st_mtime_ns, about.st_size, about.st_ino
        known = _read.get(self.path)
        if known is not None and known[0] == state:
            return known[1]
        entries = self._parsed()
        _read[self.path] = state, entries
        return entries

    def _parsed(self) -> dict[str, dict[str, dict]]:
        try:
            with open(self.path, encoding="utf-8") as file:
                found = json.load(file)
            if found["format"] != FORMAT:
                raise ValueError(f"its format is {found['format']!r}, and this pto reads {FORMAT}")
            for some in found["entries"].values():
                for entry in some.values():
                    for name, value in entry["options"].items():
                        option(name, value)
            return found["entries"]
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            what = getattr(error, "what", error)
            text = (f"pto.tune: {self.path} is not read: {type(error).__name__}: {what}\n"
                    "  why: it holds what a tuner found, as JSON, and this is damaged or of another"
                    " version\n  fix: remove it, and tune again")  # fmt: skip
            warnings.warn(text, RuntimeWarning, stacklevel=2)
            return {}


def form_of(jit: Any, **changes: Any) -> Any:
    """A jitted function or program that compiles its own kernels, with other settings."""
    if jit.compiled is not jit:  # a program
        return jit.with_compiled(form_of(jit.compiled, **changes))
    made = type(jit)(jit.__wrapped__, jit.constants, jit.autocast, jit.short_writes)
    kept = ("rewritten", "kinds", "constant_parameters", "fuse", "chosen")
    made.__dict__.update({name: getattr(jit, name) for name in kept} | changes)
    return made
