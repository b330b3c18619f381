# SPDX-License-Identifier: Apache-2.0
"""Whatever lies in the cache folder, a call gives the right result: damaged, foreign, swapped and
linked entries, folders that cannot be used, and many processes and threads at once."""

import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import pytest

PROGRAM = textwrap.dedent("""
    import sys, threading
    import numpy as np, pto

    def check(factor):
        scaled = pto.jit(lambda x: x * factor + 1)
        x = np.arange(5, dtype="f4")
        assert np.array_equal(scaled(x), x * factor + 1), factor

    threads = [threading.Thread(target=check, args=(int(n),)) for n in sys.argv[1:]]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print(len(threads))
""")


def start(folder, *factors):
    program = folder / "program.py"
    if not program.exists():  # another child may read it now
        program.write_text(PROGRAM)
    env = {**os.environ, "PTO_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, program, *map(str, factors)]
    return subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(folder, *factors):
    child = start(folder, *factors)
    out, error = child.communicate(timeout=300)
    assert (child.returncode, out.strip()) == (0, str(len(factors))), error
    assert "Traceback" not in error, error


def cut(entry, other, rng):
    os.truncate(entry, rng.randrange(entry.stat().st_size))


def flip(entry, other, rng):
    content = bytearray(entry.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    entry.write_bytes(content)


def fill(entry, other, rng):
    entry.write_bytes(rng.randbytes(rng.choice([0, 1, 80, 9000])))


def append(entry, other, rng):
    with open(entry, "ab") as file:
        file.write(rng.randbytes(rng.randrange(1, 200)))


def swap(entry, other, rng):
    shutil.copy(other, entry)


def link(entry, other, rng):
    entry.unlink()
    entry.symlink_to(rng.choice([other, "/nonexistent", "/dev/null", "/dev/zero", entry]))


def link_hard(entry, other, rng):
    entry.unlink()
    os.link(other, entry)


def replace_by_folder(entry, other, rng):
    entry.unlink()
    (entry / "inside").mkdir(parents=True)


def replace_by_pipe(entry, other, rng):
    entry.unlink()
    os.mkfifo(entry)


def open_to_others(entry, other, rng):
    swap(entry, other, rng)
    entry.chmod(rng.choice([0o666, 0o664, 0o646]))


def give_away(entry, other, rng):
    if os.geteuid() == 0:
        swap(entry, other, rng)
        os.chown(entry, 4321, -1)


def block_lock(entry, other, rng):
    entry.unlink()
    lock = entry.with_suffix(".lock")
    if rng.random() < 0.5:
        lock.mkdir()
    else:
        lock.write_bytes(rng.randbytes(40))


def spoil_notes(entry, other, rng):
    entry.unlink()
    for note in entry.parent.glob("*.txt"):
        note.write_bytes(rng.choice([b"", b"gcc", b"gcc x", b"clang \n\n", rng.randbytes(5000)]))


def leave_work(entry, other, rng):
    entry.unlink()
    for name in ("work-abc", "x.tmp", "work-", "swept.txt.1-0.tmp"):
        (entry.parent / name).write_bytes(b"left")


def link_folder(entry, other, rng):
    folder = entry.parent
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(folder.with_name(rng.choice(["elsewhere", "nowhere"])))


HOSTILE = [
    *(cut, flip, fill, append, swap, link, link_hard, replace_by_folder, replace_by_pipe),
    *(open_to_others, give_away, block_lock, spoil_notes, leave_work, link_folder),
]


def test_no_content_of_the_cache_folder_changes_a_result(tmp_path, deep):
    for i, spoil in enumerate(HOSTILE * 5 if deep else [flip]):
        folder = tmp_path / f"{i}"
        folder.mkdir()
        run(folder, 2)
        (entry,) = (folder / "cache").glob("*.so")
        other = folder / "other.so"
        run(folder, 3)
        next(file for file in (folder / "cache").glob("*.so") if file != entry).rename(other)
        spoil(entry, other, random.Random(i))
        run(folder, 2)
        run(folder, 2, 3)


def test_a_folder_that_cannot_be_written_is_no_hindrance(tmp_path, deep):
    if not deep or os.geteuid() != 0:
        pytest.skip("deep, and it mounts a folder")
    cache = tmp_path / "cache"
    for i, content in enumerate([[], [2], [2, 3]]):
        cache.mkdir(exist_ok=True)
        if content:
            run(tmp_path, *content)
        (tmp_path / "program.py").write_text(PROGRAM)
        mount = f"mount --bind {cache} {cache} && mount -o remount,bind,ro {cache}"
        script = f"{mount} || exit 9; {sys.executable} {tmp_path}/program.py 2 {i + 4}"
        command, env = ["unshare", "--mount", "sh", "-c", script], {**os.environ}
        env["PTO_CACHE_DIR"] = str(cache)
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        if done.returncode == 9:
            pytest.skip("this system lets nobody here mount a folder")
        assert (done.returncode, done.stdout.strip()) == (0, "2"), done.stderr
        assert done.stderr.count("cannot be used (Read-only file system)") == 1, done.stderr


def test_processes_and_threads_compile_the_same_kernels_at_once(tmp_path, deep):
    for round_ in range(17 if deep else 1):
        rng = random.Random(round_)
        folder = tmp_path / f"{round_}"
        folder.mkdir()
        factors = range(2, 2 + rng.choice([2, 3]))
        children = [start(folder, *rng.sample(factors, len(factors)), 2) for _ in range(4)]
        killed = children[0] if round_ % 2 == 0 else None
        if killed:  # somewhere in the middle
            time.sleep(rng.random())
            killed.send_signal(rng.choice([signal.SIGKILL, signal.SIGTERM]))
        for child in children:
            out, error = child.communicate(timeout=600)
            if child is not killed:
                assert (child.returncode, out.strip()) == (0, str(len(factors) + 1)), error
        run(folder, *factors)
        left = {file.suffix for file in (folder / "cache").iterdir() if file.is_file()}
        assert left <= ({".so", ".txt", ".lock", ".tmp"} if killed else {".so", ".txt"}), left
