# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends the loops of a compiled program, on all its threads, with Python's own exception."""

import children
import pytest

PROGRAMS = """
import pto

@pto.jit
def in_order(x, n, out):
    total = 0
    for i in pto.loop(n[0]):
        total = total + x[i % 3]
    out[0] = total

@pto.jit
def repeated(x, n, out):
    k, total = n[0], 0
    while k > 0:
        for i in pto.loop(n[0]):
            total = total + x[i % 3]
        k = k - 1
    out[0] = total

@pto.jit
def side_by_side(x, n, out):
    for j in pto.loop(out.shape[0]):
        total = 0
        for i in pto.loop(n[0]):
            total = total + x[(i + j) % 3]
        out[j] = total

@pto.jit
def with_kernels(x, n, out):
    for i in pto.loop(n[0]):
        out[:] = out + x[i % 3]
"""
RUN = """
import os, signal, subprocess, sys, time
name, size, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
sys.path.insert(0, sys.argv[4])
import numpy as np
import programs

x, out = np.array([1, 2, 3]), np.zeros(size, "i8")
long, short = np.array([10**12]), np.array([2])
if kind == "torch":
    import torch
    x, out, long, short = map(torch.from_numpy, (x, out, long, short))
run = getattr(programs, name)
run(x, short, out)
subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -INT {os.getpid()}"])
begin = time.monotonic()
try:
    run(x, long, out)
    print("it came to its end")
except KeyboardInterrupt:
    print("KeyboardInterrupt", time.monotonic() - begin < 20)
run(x, short, out)  # the next call is not affected
if name != "with_kernels":
    print(out[0].item())
"""


@pytest.mark.parametrize(
    ("name", "size", "kind"),
    [("in_order", 1, "numpy"), ("repeated", 1, "numpy"), ("side_by_side", 5, "numpy"),
     ("side_by_side", 20000, "numpy"), ("side_by_side", 20000, "torch"),
     ("with_kernels", 50, "numpy"), ("with_kernels", 50000, "torch")],
)  # fmt: skip
def test_ctrl_c_ends_a_program(name, size, kind, tmp_path):
    (tmp_path / "programs.py").write_text(PROGRAMS)
    done = children.run("-c", RUN, name, str(size), kind, tmp_path)
    assert done.returncode == 0, done.stderr
    wanted = {"repeated": ["6"], "with_kernels": []}.get(name, ["3"])
    assert done.stdout.split("\n")[:-1] == ["KeyboardInterrupt True", *wanted]


LIVES_ON = """
import os, signal, subprocess, sys, threading, time
sys.path.insert(0, sys.argv[1])
import numpy as np
import programs

x, out = np.array([1, 2, 3]), np.zeros(20000, "i8")  # so large that Python's lock is released
programs.in_order(x, np.array([2]), out)
heard = []
signal.signal(signal.SIGINT, lambda *_: heard.append(time.monotonic()))
subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -INT {os.getpid()}"])
begin = time.monotonic()
programs.in_order(x, np.array([15 * 10**8]), out)
print("heard early", heard[0] - begin < (time.monotonic() - begin) / 2, out[0])

ended = []
def beside():
    programs.in_order(x, np.array([15 * 10**8]), out.copy())
    ended.append(True)
signal.signal(signal.SIGINT, signal.default_int_handler)
other = threading.Thread(target=beside)
other.start()
subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -INT {os.getpid()}"])
try:
    programs.in_order(x, np.array([10**12]), out)
except KeyboardInterrupt:
    print("beside", ended)
    other.join()
    print("beside", ended)
"""


def test_a_handler_that_raises_nothing_and_other_threads_let_programs_go_on(tmp_path):
    (tmp_path / "programs.py").write_text(PROGRAMS)
    done = children.run("-c", LIVES_ON, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == [
        "heard early True 3000000000", "beside []", "beside [True]",
    ]  # fmt: skip


INTERPRETED = """
import os, subprocess, time
import numpy as np
import pto

@pto.jit
def f(x):
    return pto.FUNCTION

x = np.ones((1200, 1200), "f4")
begin = time.monotonic()
subprocess.Popen(["sh", "-c", f"sleep 0.6; kill -INT {os.getpid()}"])
try:
    if STEPS:
        pto.config.interpret = True
        f(x)
    else:
        pto.interpret(f.trace(x), x)
    print("it came to its end")
except KeyboardInterrupt:
    print("KeyboardInterrupt", time.monotonic() - begin)
"""


@pytest.mark.parametrize("steps", [True, False])
def test_ctrl_c_ends_the_interpreter_inside_of_one_operation(steps):
    code = INTERPRETED.replace("FUNCTION", "matmul(x, x)").replace("STEPS", str(steps))
    done = children.run("-c", code)
    assert done.returncode == 0, done.stderr
    word, seconds = done.stdout.split()
    assert word == "KeyboardInterrupt" and float(seconds) < 8  # the product takes 30
