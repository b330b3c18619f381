# SPDX-License-Identifier: Apache-2.0
"""pto.locks: a child of fork() takes every lock that another thread of its parent held."""

import os
import re
import threading
from pathlib import Path

import children

import pto.locks
from pto.locks import Lock
from pto.side_by_side import side_by_side

PTO = Path(pto.locks.__file__).parent
BEGIN = """
import os, signal, threading, numpy as np, pto
from pto import locks

def child_s(code):
    if (child := os.fork()) == 0:
        signal.alarm(60)  # ends a child that waits
        code()
        os._exit(0)
    return os.waitpid(child, 0)[1]
"""
HELD = """
import torch, pto.torch, pto.graphs.program, pto.language.jit_operator
from pto.aten.enabling import Enabled
from pto.language.tuned import Store

@pto.jit
def tripled(x): return x * 3

def work():
    @pto.op("locks_doubled(Tensor x) -> Tensor")
    class Doubled(pto.Definition):
        def build(x): return x * 2
    assert Doubled(np.ones(3, np.float32)).tolist() == [2, 2, 2]
    tripled(torch.ones(3, requires_grad=True)).sum().backward()
    Store("tuned.json").put("key", {"options": {"merge": 2}})
    Enabled([]).off()
    runtime.close()

def hold():
    for one in held:
        one.__enter__()
    are_held.set()
    is_over.wait()

runtime = pto.Runtime(level="chip")
held, are_held, is_over = list(locks._locks), threading.Event(), threading.Event()
thread = threading.Thread(target=hold)
thread.start()
are_held.wait()
print(len(held) >= 8, child_s(work))
is_over.set()
"""
WRITES = """
from pto.language import tuned

def write_when_forked(*arguments):
    begins.set()
    is_forked.wait()
    write_whole(*arguments)

def put(name): tuned.Store("tuned.json").put(name, {"options": {"merge": 2}})

def put_in_child():
    tuned.write_whole = write_whole
    put("child's")

write_whole, tuned.write_whole = tuned.write_whole, write_when_forked
begins, is_forked = threading.Event(), threading.Event()
thread = threading.Thread(target=put, args=("parent's",))
thread.start()
begins.wait()
os.register_at_fork(after_in_parent=is_forked.set)
print(child_s(put_in_child))
thread.join()
names = "parent's", "child's"
print([tuned.Store("tuned.json").get(name) for name in names])
"""

COMPUTES = """
import torch, pto.torch
from pto.adapters.torch.compile import values

def compute_when_forked(sizes):
    begins.set()
    is_forked.wait()
    return ()

def compute_in_child():
    values.expressions = tuple
    assert values.Promise(torch.ones(2, 3)).shape == (2, 3)

values.expressions = compute_when_forked
begins, is_forked = threading.Event(), threading.Event()
thread = threading.Thread(target=lambda: values.Promise(torch.ones(1)).shape)
thread.start()
begins.wait()
print(child_s(compute_in_child))
is_forked.set()
"""

ASKS = """
import time

@pto.jit
def tripled(x): return x * 3

def work(): assert tripled(np.ones(3, np.float32)).tolist() == [3, 3, 3]

thread = threading.Thread(target=work)
thread.start()
while not os.path.exists("asked"):
    time.sleep(0.01)
print(child_s(work))
os.mkdir("answered")
thread.join()
"""


def test_a_child_compiles_while_a_thread_of_its_parent_asks_the_compiler_who_it_is(tmp_path):
    cxx = tmp_path / "g++"
    waits = f"mkdir {tmp_path}/asked && while [ ! -e {tmp_path}/answered ]; do sleep 0.05; done"
    cxx.write_text(f'#!/bin/sh\ncase "$*" in *-dM*) {waits};; esac 2> /dev/null\nexec g++ "$@"\n')
    cxx.chmod(0o755)
    done = children.run("-c", BEGIN + ASKS, cwd=tmp_path, env={
        **os.environ, "PYTHONPATH": str(PTO.parent), "PTO_CXX": str(cxx),
        "PTO_CACHE_DIR": str(tmp_path / "cache")})  # fmt: skip
    assert done.stdout == "0\n", done.stderr


def test_a_child_defines_compiles_and_calls_while_a_thread_of_its_parent_holds_all(tmp_path):
    done = children.run("-c", BEGIN + HELD, cwd=tmp_path, env={
        **os.environ, "PYTHONPATH": str(PTO.parent)})  # fmt: skip
    assert done.stdout == "True 0\n", done.stderr


def test_a_child_writes_a_file_of_options_that_a_thread_of_its_parent_was_writing(tmp_path):
    done = children.run("-c", BEGIN + WRITES, cwd=tmp_path, env={
        **os.environ, "PYTHONPATH": str(PTO.parent)})  # fmt: skip
    assert done.stdout == "0\n[{'merge': 2}, {'merge': 2}]\n", done.stderr


def test_a_child_computes_a_property_that_a_thread_of_its_parent_was_computing(tmp_path):
    done = children.run("-c", BEGIN + COMPUTES, cwd=tmp_path, env={
        **os.environ, "PYTHONPATH": str(PTO.parent)})  # fmt: skip
    assert done.stdout == "0\n", done.stderr


def test_a_lock_that_the_forking_thread_holds_stays_its_own():
    lock = Lock()
    with lock:
        child = os.fork()
        if child == 0:
            try:
                with lock:  # again
                    pass
                was_held = not is_free(lock)
            except BaseException:  # noqa: BLE001 the child must not go on as a test
                os._exit(2)
            lock.__exit__()
            os._exit(0 if was_held and is_free(lock) else 1)
        assert os.waitpid(child, 0)[1] == 0 and not is_free(lock)
    assert is_free(lock)


def is_free(lock: Lock) -> bool:
    """Whether another thread can take it."""
    found: list[bool] = []

    def attempt() -> None:
        if lock._lock.acquire(blocking=False):
            lock._lock.release()
            found.append(True)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return bool(found)


def test_modules_have_no_other_locks():
    for path in PTO.rglob("*.py"):
        other = re.search(r"^\w+.*= threading\.\w*(Lock|Condition)\(", path.read_text(), re.M)
        assert other is None, f"{path.relative_to(PTO)}: {other[0]}: write pto.locks.Lock()"


def test_no_property_has_a_lock():
    for path in PTO.rglob("*.py"):
        found = re.search(r"^ +@(functools\.)?cached_property", path.read_text(), re.M)
        assert found is None, f"{path.relative_to(PTO)}: write @kept, which has no lock"


def test_compilations_go_on_where_the_system_has_no_more_threads(monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert side_by_side([lambda: 1, lambda: 2]) == [1, 2]
