# SPDX-License-Identifier: Apache-2.0
"""Each C++ source compiles alone, as in a wheel; builds of tests take a folder's together."""

import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ONE_OF = 30  # sources: of so many, the quick form takes one


def commands(build: Path) -> dict[Path, str]:
    """The command that checks a source, by source."""
    options = ["-DPTO_UNITY=OFF", "-DPTO_TESTS=OFF", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
               "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON",
               f"-DPython_EXECUTABLE={sys.executable}"]  # fmt: skip
    configure = ["cmake", "-S", str(ROOT), "-B", str(build), "-G", "Ninja", *options]
    done = subprocess.run(configure, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    listed = json.loads((build / "compile_commands.json").read_text())
    found = {Path(one["file"]): one["command"].partition(" -o ")[0] for one in listed}
    ours = {one: text for one, text in found.items() if one.is_relative_to(ROOT / "pto")}
    return {one: f"{text} -fsyntax-only {shlex.quote(str(one))}" for one, text in ours.items()}


def test_each_source_compiles_alone(tmp_path, deep):
    found = commands(tmp_path)
    assert len(found) > 200
    chosen = {s: found[s] for s in sorted(found)[:: 1 if deep else ONE_OF]}

    def compiled(source: Path) -> str:
        done = subprocess.run(chosen[source], shell=True, cwd=tmp_path, capture_output=True,
                              text=True)  # fmt: skip
        return "" if done.returncode == 0 else f"{source.relative_to(ROOT)}\n{done.stderr}"

    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        wrong = [text for text in threads.map(compiled, chosen) if text]
    assert not wrong, "\n".join(wrong)
