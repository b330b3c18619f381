# SPDX-License-Identifier: Apache-2.0
"""python -m pto: how a command ends that is interrupted, or whose output cannot be written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = [("machine",), ("adapters",), ("config", "--cxxflags"), ("--help",)]


def run(*words, **options):
    """Runs a command whose errors are kept, with the environment that is named."""
    settings = {name: options.pop(name) for name in [*options] if name.startswith("PYTHON")}
    env = {**os.environ, "PYTHONPATH": str(ROOT), **settings}
    words = [sys.executable, "-m", "pto", *words]
    return subprocess.run(words, env=env, stderr=subprocess.PIPE, text=True, **options)


def skip_slow(words, unbuffered, deep):
    if not deep and words == ("adapters",) and unbuffered:
        pytest.skip("it imports every framework: ./dev test --deep")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_full_device_is_an_error(words, unbuffered, deep):
    skip_slow(words, unbuffered, deep)
    with open("/dev/full", "w") as full:
        done = run(*words, stdout=full, PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 1
    assert done.stderr.startswith("error: the output cannot be ") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", COMMANDS[:-1], ids=" ".join)
def test_a_closed_pipe_ends_a_command_quietly(words, unbuffered, deep):
    skip_slow(words, unbuffered, deep)
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as pipe:
        done = run(*words, stdout=pipe, PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (141, "")


def test_letters_that_the_output_has_not_are_escaped(tmp_path):
    options = {"stdout": subprocess.PIPE, "cwd": tmp_path, "PYTHONIOENCODING": "ascii"}
    done = run("package", "ü.pto", "gelu(f32[4])", **options)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("\\xfc.pto: 1 func")


@pytest.mark.parametrize("name", ["package", "studio"])
def test_an_interrupted_command_ends_as_tools_of_unix_do(tmp_path, name):
    (tmp_path / "mine.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    words = {"package": ("f.pto", "f(f32[4])", "--of", "mine.py"), "studio": ("mine.py:f(1)",)}
    done = run(name, *words[name], cwd=tmp_path)
    assert (done.returncode, done.stderr) == (130, "")
