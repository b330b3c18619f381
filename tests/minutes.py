# SPDX-License-Identifier: Apache-2.0
"""Where the minutes of ./dev test go, by folder: seconds that ninja, ctest and pytest noted.

    minutes = Minutes();  minutes.built(log, start);  minutes.ran(junit);  print(minutes.table())

A folder's seconds are those of its compilations, links and tests one after another, so on several
cores the sum is larger than the time that went by. pytest's part is added when it ends
(conftest.py), because its closing line stays the last one.
"""

import json
import re
import xml.etree.ElementTree as xml
from collections import defaultdict
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
VARIABLE = "PTO_MINUTES"  # the environment's: the file in which pytest finds what was noted before
SOURCE = re.compile(r"\.dir/(?P<source>.*)\.o$")
UNITY = re.compile(r"\.dir/Unity/unity_(?P<folder>pto\..*)_cxx\.cxx\.o$")  # a folder's


def folder_of(output: str) -> str:
    """The folder of a source from its object: pto/isa, with " tests" where it is a test."""
    if unity := UNITY.search(output):
        return "/".join(unity["folder"].split(".")[:2])
    found = SOURCE.search(output)
    if not found or not found["source"].startswith("pto/"):
        return "links and others"
    source = PurePosixPath(found["source"])
    return "/".join(source.parts[:2]) + (" tests" if source.stem.endswith("_test") else "")


def subject_of(file: str) -> str:
    """The subject of a Python test from its file: tests/test_jit_*, tests/errors."""
    path = PurePosixPath(file)
    if len(path.parts) > 2:
        return str(path.parent)
    word = path.stem.removeprefix("test_").split("_")[0]
    return f"tests/test_{word}*"


class Minutes:
    def __init__(self) -> None:
        self.seconds: dict[str, dict[str, float]] = {}

    def add(self, folder: str, kind: str, seconds: float) -> None:
        row = self.seconds.setdefault(folder, {})
        row[kind] = row.get(kind, 0) + seconds

    def built(self, log: Path, start: int) -> None:
        """The steps that ninja appended to its log behind this byte, where a line began.

        It writes an old log anew, shorter: then all its steps count.
        """
        steps, text = {}, log.read_text()
        is_appended = text[:start].endswith("\n") and len(text) >= start
        for line in text[start if is_appended else 0 :].splitlines():
            parts = line.split("\t")
            if len(parts) == 5:
                steps[parts[3]] = (int(parts[1]) - int(parts[0])) / 1000
        for output, seconds in steps.items():
            self.add(folder_of(output), "build", seconds)

    def ran(self, junit: Path) -> None:
        """The programs that ctest ran, from the file that it writes."""
        for case in xml.parse(junit).iter("testcase"):
            self.add(f"C++ tests of {case.get('name')}", "run", float(case.get("time") or 0))

    def tested(self, reports: list) -> None:
        """The tests that pytest ran, from its reports: setup, call and teardown."""
        files = defaultdict(float)
        for report in reports:
            files[report.nodeid.split("::")[0]] += getattr(report, "duration", 0)
        for file, seconds in files.items():
            self.add(subject_of(file), "run", seconds)

    def table(self, least: float = 3) -> str:
        """Minutes, the longest first; what takes less than `least` seconds is one row."""
        kinds = ("build", "run")
        total = {f: sum(row.values()) for f, row in self.seconds.items()}
        long = sorted((f for f in total if total[f] >= least), key=total.get, reverse=True)
        rows = [(f, *(self.seconds[f].get(k, 0) for k in kinds)) for f in long]
        for name, chosen in (("less", set(total) - set(long)), ("sum", set(total))):
            parts = (sum(self.seconds[f].get(k, 0) for f in chosen) for k in kinds)
            rows.append((name, *parts))
        width = max(len(row[0]) for row in rows)
        lines = [f"{'minutes':{width}}  {'build':>6}  {'run':>6}"]
        lines += [f"{name:{width}}  {b / 60:6.1f}  {r / 60:6.1f}" for name, b, r in rows]
        return "\n".join(lines)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self.seconds))

    @classmethod
    def read(cls, path: Path) -> "Minutes":
        found = cls()
        found.seconds = json.loads(path.read_text())
        return found
