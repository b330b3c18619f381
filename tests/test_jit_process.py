# SPDX-License-Identifier: Apache-2.0
"""Tests that need a process of their own: the import, the disk cache, broken compilers, Ctrl-C."""

import os
import runpy
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import children
import pytest

PROGRAM = textwrap.dedent("""
    import numpy as np, pto

    @pto.jit
    def scaled(x):
        return x * 3 + 1

    print(scaled(np.ones(5, "f4")).tolist())
""")
RESULT = "[4.0, 4.0, 4.0, 4.0, 4.0]"


def python(code, tmp_path, cwd=None, **environment):
    """A child with a cache of its own; returns (exit code, stdout, stderr)."""
    env = {**os.environ, "PTO_CACHE_DIR": str(tmp_path / "cache"), **environment}
    file = tmp_path / "program.py"
    file.write_text(code)
    done = subprocess.run([sys.executable, file], env=env, capture_output=True, text=True, cwd=cwd)
    return done.returncode, done.stdout.strip(), done.stderr


def compiler(tmp_path, body):
    """A stand-in for g++ that says its version; `body` is what it does when it shall compile."""
    path = tmp_path / "g++"
    path.write_text(
        "#!/bin/sh\n"
        f'echo "$*" >> "{tmp_path}/calls"\n'
        'case "$*" in *-dM*) exec g++ "$@";; esac\n' + body + "\n"
    )
    path.chmod(0o755)
    return str(path)


def calls(tmp_path):
    return [line for line in (tmp_path / "calls").read_text().splitlines()]


def test_import_loads_neither_a_framework_nor_numpy(tmp_path):
    code = (
        "import sys, pto\n"
        "loaded = {'torch', 'numpy', 'jax', 'tensorflow', 'inspect', 'dataclasses'}\n"
        "print(sorted(loaded & set(sys.modules)))"
    )
    assert python(code, tmp_path)[:2] == (0, "[]")


def test_parts_are_loaded_at_their_first_use():
    code = (
        "import sys, pto\n"
        "assert not {'pto.ops', 'pto.language.op', 'pto.adapters.torch'} & set(sys.modules)\n"
        "import pto.torch as one\n"
        "assert pto.torch is one and sys.modules['pto.adapters.torch'] is one\n"
        "assert pto.ops is sys.modules['pto.ops']\n"
        "from pto import op\n"
        "assert callable(op) and op is pto.op and {'op', 'ops', 'jit', 'torch'} <= set(dir(pto))\n"
        "try:\n    pto.nothing\nexcept AttributeError as e:\n    print(e)"
    )
    done = children.run("-c", code)
    assert done.returncode == 0 and done.stdout.startswith("pto has no nothing\n"), done.stderr


def test_a_second_process_runs_no_compiler(tmp_path):
    cxx = compiler(tmp_path, 'exec g++ "$@"')
    assert python(PROGRAM, tmp_path, PTO_CXX=cxx)[:2] == (0, RESULT)
    before = calls(tmp_path)
    assert python(PROGRAM, tmp_path, PTO_CXX=cxx)[:2] == (0, RESULT)
    assert calls(tmp_path) == before


def test_the_name_of_an_operator_does_not_depend_on_the_process(tmp_path):
    """Each one has an order of its own for the words of a set."""
    program = """
import pto, torch

@pto.jit
def signed(x, mode="one"):
    return x if mode in {"one", "two", "three", "four", "five", "six", "seven", "eight"} else -x

name = str(signed.operator(torch.ones(2)))
print(name)
"""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    there = python(program, tmp_path, PYTHONHASHSEED=seed)[1]
    here = runpy.run_path(str(tmp_path / "program.py"), run_name="__main__")["name"]
    assert here == there and "pto_jit.signed_" in here


LISTED = PROGRAM + 'import os\nprint(os.listdir(os.environ["PTO_CACHE_DIR"]))\n'


def on_a_disk(kilobytes, tmp_path, code, runs=1):
    """Runs the code as often as `runs` says, with the cache on a disk of that size."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "program.py").write_text(code)
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    mount = f"mount -t tmpfs -o size={kilobytes}k tmpfs {tmp_path}/cache"
    if subprocess.run([*namespace, "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("this system lets nobody here mount a small disk")
    script = "; ".join([f"{mount} || exit 9", *[f"{sys.executable} {tmp_path}/program.py"] * runs])
    env = {**os.environ, "PTO_CACHE_DIR": str(tmp_path / "cache")}
    return subprocess.run([*namespace, "sh", "-c", script], env=env, capture_output=True, text=True)


# The text, the object, the seal: another step meets the end of the disk at each size.
@pytest.mark.parametrize("kilobytes", [4, 8, 16, 24, 28, 32, 36, 4096])
def test_a_kernel_runs_although_the_disk_of_the_cache_is_full(kilobytes, tmp_path):
    done = on_a_disk(kilobytes, tmp_path, LISTED, runs=2)
    assert done.returncode == 0, done.stderr
    first, left, second, left_again = done.stdout.splitlines()
    assert first == second == RESULT and "work-" not in left + left_again
    warned = done.stderr.count(
        f"the cache folder {tmp_path}/cache cannot be used (No space left on device): "
        "kernels are compiled anew in every process; set PTO_CACHE_DIR to a folder that can be"
    )
    assert warned == 2 - 2 * left.count(".so"), done.stderr
    assert warned if kilobytes < 16 else not warned or kilobytes < 4096
    assert left_again.count(".so") == left.count(".so"), (
        "what was kept is whole, else there is none"
    )


def test_two_processes_that_compile_the_same_kernel_at_once_agree(tmp_path):
    cxx = compiler(tmp_path, 'sleep 0.3; exec g++ "$@"')
    env = {**os.environ, "PTO_CACHE_DIR": str(tmp_path / "cache"), "PTO_CXX": cxx}
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, tmp_path / "program.py"]
    both = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in "ab"]
    assert [child.communicate()[0].strip() for child in both] == [RESULT, RESULT]


@pytest.mark.parametrize(
    "body, texts",
    [
        ('echo "g++: fatal error: no cc1plus" >&2; exit 1', ["no cc1plus", "why:", "fix:"]),
        ("kill -9 $$", ["signal", "why:", "fix:"]),
    ],
)
def test_a_compiler_that_fails_is_told_with_its_text(tmp_path, body, texts):
    code, _, error = python(PROGRAM, tmp_path, PTO_CXX=compiler(tmp_path, body))
    assert code == 1 and "pto.errors.Failure" in error
    for text in texts:
        assert text in error, error


def test_no_compiler_is_told_with_the_fix(tmp_path):
    code, _, error = python(PROGRAM, tmp_path, PTO_CXX=str(tmp_path / "nothing"))
    assert code == 1 and "pto.errors." in error
    assert "nothing" in error and "fix:" in error


def test_a_cache_folder_that_cannot_be_used_is_no_hindrance(tmp_path):
    (tmp_path / "cache").write_text("a file, not a folder")
    assert python(PROGRAM, tmp_path)[:2] == (0, RESULT)


def test_a_cache_folder_may_look_like_an_option(tmp_path):
    assert python(PROGRAM, tmp_path, cwd=tmp_path, PTO_CACHE_DIR="-cache") == (0, RESULT, "")
    assert list((tmp_path / "-cache").glob("scaled-*.so"))


def test_a_deleted_working_folder_is_no_hindrance(tmp_path):
    leave = "import os\nos.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')\n"
    assert python(leave + PROGRAM, tmp_path, cwd=tmp_path) == (0, RESULT, "")
    wrong = leave + PROGRAM.replace("x * 3", "x * 'three'")
    code, _, error = python(wrong, tmp_path, cwd=tmp_path)
    assert code == 1 and f"{tmp_path}/program.py:8: mul" in error


def test_a_stopped_process_keeps_nobody_from_compiling(tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    first = f'mkdir "{tmp_path}/first" 2> /dev/null && while [ -e "{hold}" ]; do sleep 0.05; done'
    env = {"PTO_CXX": compiler(tmp_path, f'{first}; exec g++ "$@"')}
    (tmp_path / "stopped.py").write_text(PROGRAM)
    stopped = subprocess.Popen(
        [sys.executable, tmp_path / "stopped.py"], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PTO_CACHE_DIR": str(tmp_path / "cache"), **env},
    )  # fmt: skip
    while not (tmp_path / "first").exists():
        time.sleep(0.02)
    stopped.send_signal(signal.SIGSTOP)
    assert python(PROGRAM, tmp_path, **env)[:2] == (0, RESULT)
    stopped.send_signal(signal.SIGCONT)
    hold.unlink()
    assert stopped.communicate(timeout=60)[0].strip() == RESULT


def test_a_damaged_cache_entry_is_made_anew(tmp_path):
    assert python(PROGRAM, tmp_path)[:2] == (0, RESULT)
    for file in (tmp_path / "cache").rglob("*"):
        if file.is_file() and file.stat().st_size > 1000:
            file.write_bytes(file.read_bytes()[:700])
    assert python(PROGRAM, tmp_path)[:2] == (0, RESULT)


INTERRUPTED = textwrap.dedent("""
    import numpy as np, pto, sys, os

    kind, folder = sys.argv[1:]
    x = np.ones(5, "f4")

    @pto.jit
    def scaled(x):
        return x * 3 + 1

    @pto.op("interruption::scaled(Tensor x) -> Tensor")
    class Scaled:
        def build(x):
            return x * 3 + 1

    def of_torch():
        import torch, pto.torch
        return torch.ops.interruption.scaled(torch.from_numpy(x))

    def by_backend():
        import torch
        return torch.compile(lambda x: x * 3 + 1, backend="pto")(torch.from_numpy(x))

    def of_files():
        pto.compile(orch=folder + "/orchestrated.cpp",
                    kernels=[{"source": folder + "/kernels.cpp", "symbol": "add"}])
        return scaled(x)

    calls = {"function": lambda: scaled(x), "operator": lambda: Scaled(x), "torch": of_torch,
             "backend": by_backend, "files": of_files}
    print("ready", flush=True)
    try:
        try:
            calls[kind]()
        except Exception as error:
            print(type(error), flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    os.environ["PTO_CXX"] = "g++"
    print(calls[kind]().tolist())
""")


@pytest.mark.parametrize("kind", ["function", "operator", "torch", "backend", "files"])
def test_ctrl_c_stops_a_slow_compiler_and_the_next_call_compiles(kind, tmp_path):
    if kind in ("torch", "backend"):
        pytest.importorskip("torch")
    cxx = compiler(tmp_path, f'echo $$ >> "{tmp_path}/pids"; sleep 60 & wait')
    env = {**os.environ, "PTO_CACHE_DIR": str(tmp_path / "cache"), "PTO_CXX": cxx}
    (tmp_path / "program.py").write_text(INTERRUPTED)
    child = subprocess.Popen(
        [sys.executable, tmp_path / "program.py", kind, Path(__file__).parent / "host"], env=env,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout.readline().strip() == "ready"
    deadline = time.monotonic() + 60
    while not (tmp_path / "pids").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(1.5)  # by then the progress is shown
    child.send_signal(signal.SIGINT)
    began = time.monotonic()
    assert child.stdout.readline().strip() == "interrupted"
    assert time.monotonic() - began < 20  # the compiler would take 60 s
    assert child.communicate(timeout=120)[0].strip() == RESULT
    for pid in map(int, (tmp_path / "pids").read_text().split()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_the_compilers_of_a_cache_are_noted_in_a_folder_that_was_emptied_or_copied(tmp_path):
    code = """
import os, shutil, sys, numpy as np, pto
folder = os.environ["PTO_CACHE_DIR"]
x = np.ones(5, "f4")
pto.jit(lambda x: x + 1)(x)
shutil.rmtree(folder)
pto.jit(lambda x: x + 2)(x)
notes = [name for name in os.listdir(folder) if name.startswith("toolchain-")]
print(len(notes))
os.remove(os.path.join(folder, notes[0]))
pto.jit(lambda x: x + 2)(x)  # comes from the disk
print(len([name for name in os.listdir(folder) if name.startswith("toolchain-")]))
"""
    assert python(code, tmp_path)[:2] == (0, "1\n1")


def test_a_deleted_working_folder_is_no_matter(tmp_path):
    code = f"""
import os
os.mkdir({str(tmp_path / "gone")!r}), os.chdir({str(tmp_path / "gone")!r}), os.rmdir(os.getcwd())
{PROGRAM}
try:
    pto.jit(lambda x: x + "a")(np.ones(5, "f4"))
except pto.Error as error:
    print(error.location.rpartition(os.sep)[2])
try:
    pto.compile(platform="cpu", orch="nowhere.cpp", kernels=[])
except pto.Error as error:
    print(error.what, "|", error.fix)
"""
    code, out, err = python(code, tmp_path)
    assert code == 0, err
    assert out.splitlines()[0] == RESULT and "program.py:" in out
    assert "nowhere.cpp does not exist | check it; the working folder is deleted" in out


def test_a_child_of_fork_calls_while_the_parent_s_pool_is_busy(tmp_path):
    program = """
        import os, threading, numpy as np, pto
        @pto.jit
        def scaled(x): return x * 2 + 1
        x = np.ones(1 << 20, "f4")
        scaled(x)
        busy = True
        def work():
            while busy: scaled(x)
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads: thread.start()
        codes = []
        for _ in range(20):
            if (child := os.fork()) == 0:
                os._exit(0 if (scaled(x) == 3).all() and scaled(x[:9]).sum() == 27 else 1)
            codes.append(os.waitpid(child, 0)[1])
        busy = False
        for thread in threads: thread.join()
        print(codes)
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    done = subprocess.run([sys.executable, tmp_path / "program.py"], capture_output=True, text=True,
                          timeout=120)  # fmt: skip
    assert done.stdout == f"{[0] * 20}\n", done.stderr


def test_a_child_of_fork_calls_what_a_thread_of_its_parent_is_compiling(tmp_path):
    program = """
        import os, signal, threading, time, numpy as np, pto
        @pto.jit
        def scaled(x): return x * 2 + 1
        x = np.ones(9, "f4")
        thread = threading.Thread(target=lambda: scaled(x))
        thread.start()
        while not os.path.exists(os.environ["COMPILES"]): time.sleep(0.01)
        if (child := os.fork()) == 0:
            signal.alarm(60)
            os._exit(0 if scaled(x).sum() == 27 else 1)
        thread.join()
        print(os.waitpid(child, 0)[1], scaled(x).sum())
    """
    mark = tmp_path / "compiles"
    cxx = compiler(tmp_path, f'touch "{mark}"; sleep 1; exec g++ "$@"')
    done = python(textwrap.dedent(program), tmp_path, PTO_CXX=cxx, COMPILES=str(mark))
    assert done[:2] == (0, "0 27.0"), done


def test_the_command_line_describes_the_machine():
    done = subprocess.run(
        [sys.executable, "-m", "pto", "machine"], capture_output=True, text=True, check=True
    )
    assert "target: " in done.stdout and "cores: " in done.stdout


def test_the_stub_names_what_the_extension_has():
    import ast
    import pathlib

    from pto import _core

    stub = ast.parse((pathlib.Path(_core.__file__).parent / "_core.pyi").read_text())
    kinds = (ast.ClassDef, ast.FunctionDef)
    names = {node.name for node in stub.body if isinstance(node, kinds)}
    names |= {node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)}
    assert names == {name for name in dir(_core) if not name.startswith("_")}
