# SPDX-License-Identifier: Apache-2.0
"""Pages whose blocks of code are files: ```cpp or ```python blocks that begin with a file's name.

blocks(page)                       # {"gemm.cpp": [text, ...]}: a name may stand there twice
run_command(command, folder)       # a line of a ```sh block, with this Python
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(?:python|cpp)\n((?:#|//) (\S+)\n.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^```sh\n(.*)\n```$", re.MULTILINE)


def blocks(page):
    """The files of a page by name, in the order of the page; every block of code is one."""
    text = page.read_text()
    found = BLOCK.findall(text)
    assert len(found) == text.count("```python") + text.count("```cpp"), page
    named = {}
    for body, name in found:
        named.setdefault(name, []).append(body)
    return named


def commands(page):
    """The lines of its ```sh blocks."""
    return COMMAND.findall(page.read_text())


def run_command(command, folder):
    """Runs a command that a page shows; `python` in it is the Python of the tests."""
    python = shlex.quote(sys.executable)
    return run(["bash", "-c", command.replace("python -m", f"{python} -m")], folder)


def run(arguments, folder):
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(arguments, cwd=folder, text=True, capture_output=True,
                          env={**os.environ, "PYTHONPATH": paths})  # fmt: skip
