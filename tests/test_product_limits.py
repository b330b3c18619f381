# SPDX-License-Identifier: Apache-2.0
"""Products where memory ends, in forked processes, and beyond 2^31 elements."""

import os
import re

import children
import pytest
import torch

import pto.torch  # noqa: F401 registers torch.ops.pto

OPS = torch.ops.pto

WITHOUT_MEMORY = """
import resource
import numpy as np, torch
import pto, pto.torch

x, weight = torch.randn(20, 6000), torch.randn(6000, 6000)
want = x @ weight.t()
a, b = np.ones((2000, 64), "f4"), np.ones((64, 200000), "f4")
calls = {
    "numpy": lambda: pto.ops.matmul(a, b),
    "torch": lambda: torch.ops.pto.matmul(torch.from_numpy(a), torch.from_numpy(b)),
    "packed": lambda: pto.pack_weight(weight.numpy(), "linear"),
}
pto.ops.matmul(a[:2], b[:, :2]), torch.ops.pto.linear(x[:2], weight[:2])  # loads the kernels
pages = int(open("/proc/self/statm").read().split()[0])
# Less than the 64 MB that glibc takes for the heap of a thread, which would be all that is left.
resource.setrlimit(resource.RLIMIT_AS, ((pages * 4096) + (48 << 20),) * 2)
for name, call in calls.items():
    try:
        call()
        print(name, "found memory")
    except (MemoryError, RuntimeError) as error:
        print(name, "needs" in str(error) or "no memory" in str(error) or "Unable" in str(error))
for _ in range(4):  # the weight is seen again, and there is no room for a packed copy
    assert torch.allclose(torch.ops.pto.linear(x, weight), want, rtol=1e-4, atol=1e-2)
print("weights", pto.memory()["packed_weights"])
"""


def test_a_product_that_finds_no_memory_says_so_and_one_without_a_packed_copy_runs():
    done = children.run("-c", WITHOUT_MEMORY)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == ["numpy True", "torch True", "packed True", "weights 0"]


SUMS_WITHOUT_MEMORY = """
import resource
import numpy as np
import pto

a, b = np.ones((1024, 64), "f2"), np.ones((64, 1024), "f2")
pto.ops.gemm(a[:2], b[:, :2], alpha=0.5)  # loads the kernel
pto.ops.matmul(a, b)  # leaves the memory of a result, which the next one takes
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * 4096,) * 2)
try:
    print(pto.ops.gemm(a, b, alpha=0.5)[0, 0])
except (MemoryError, RuntimeError) as error:
    print(error)
"""


def test_sums_of_f16_that_find_no_memory_fail_the_product():
    done = children.run("-c", SUMS_WITHOUT_MEMORY, env=os.environ | {"PTO_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert "no memory for a part of the result" in done.stdout


PROGRAM_WITHOUT_MEMORY = """
import numpy as np
import pto

@pto.jit
def wide(a, b, out):
    out[:] = pto.matmul(a, b, pto.i64)

@pto.jit
def kept(a, b, out):
    out[:] = pto.cast(a, pto.i64) @ pto.cast(b, pto.i64)

@pto.jit
def ordered(a, b, out):
    out[0] = pto.sort(a.reshape(a.shape[0] * a.shape[1])).values[:2]
"""
WITH_TOO_FEW_BYTES = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import programs, pto

a, b, out = np.ones((2000, 6000), "i2"), np.ones((6000, 2), "i2"), np.zeros((2000, 2), "i8")
calls = {"wide": (a, b, out), "kept": (a, b, out), "ordered": (a, b, out.astype("i2"))}
for name, (x, y, to) in calls.items():
    getattr(programs, name)(x[:2, :8], y[:8], to[:2])
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, ((pages * 4096) + (32 << 20),) * 2)
for name, arguments in calls.items():
    try:
        getattr(programs, name)(*arguments)
    except RuntimeError as error:
        print(str(error).replace("\\n", " "))
"""
LEAST = {"wide": (7, 32 << 20), "kept": (11, 32 << 20), "ordered": (15, 96 << 20)}


def test_a_program_without_memory_says_how_many_bytes_it_wanted_and_where(tmp_path):
    (tmp_path / "programs.py").write_text(PROGRAM_WITHOUT_MEMORY)
    done = children.run(
        "-c", WITH_TOO_FEW_BYTES, tmp_path, env=os.environ | {"PTO_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done.stdout
    for said, (name, (line, bytes_least)) in zip(lines, LEAST.items(), strict=True):
        told = re.fullmatch(
            rf"{name}: .*programs\.py:{line}: there is no memory for a value of (\d+) bytes +"
            "why: the host could not allocate it +fix: .*",
            said,
        )
        assert told and int(told[1]) >= bytes_least, said


IN_A_FORK = """
import os
import torch
import pto, pto.torch

x, weight = torch.randn(7, 300), torch.randn(500, 300)
def is_right():
    return torch.equal(torch.ops.pto.linear(x, weight), torch.ops.pto.matmul(x, weight.t()))
for _ in range(4):
    assert is_right()
packed = pto.pack_weight(weight, "linear")
a, b = (t.numpy() for t in (torch.randn(200, 300), torch.randn(300, 200)))
product = pto.ops.matmul(a, b)
assert pto.memory()["packed_weights"] > 0
for _ in range(3):
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)  # as in a worker of a DataLoader: OpenMP's threads stay behind
        ok = (pto.ops.matmul(a, b) == product).all()  # our own threads do not
        ok = ok and is_right()
        ok = ok and torch.equal(pto.ops.linear(x, packed), torch.ops.pto.linear(x, weight))
        weight.mul_(2)
        ok = ok and all(is_right() for _ in range(4))
        os._exit(0 if ok else 1)
    assert is_right()  # beside the child
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    assert is_right()
print("done")
"""


def test_forked_processes_share_a_packed_weight_until_one_changes_it():
    done = children.run("-c", IN_A_FORK)
    assert done.stdout == "done\n", done.stderr


@pytest.fixture
def large(deep):
    if not deep:
        pytest.skip("takes gigabytes: ./dev test --deep")


def test_a_weight_of_more_than_2_31_elements_is_read_everywhere(large):
    depth, cols = 2050, (1 << 20) + 3
    weight = torch.empty(cols, depth, dtype=torch.int8).random_(-128, 128)
    assert weight.numel() > 2**31
    a = torch.randint(-128, 128, (2, depth), dtype=torch.int8)
    x, scale = torch.randn(2, depth), torch.rand(cols)
    integers, floats = (
        OPS.matmul_i32(a, weight, transpose_b=True),
        OPS.linear_int8(x, weight, scale),
    )
    for first in (0, 2**31 // depth - 40, cols - 80):
        some = slice(first, first + 80)
        part = weight[some].double()
        assert torch.equal(integers[:, some].double(), a.double() @ part.t())
        want = (x.double() @ part.t()) * scale[some].double()
        torch.testing.assert_close(floats[:, some].double(), want, rtol=1e-4, atol=1e-2)


def test_a_result_of_more_than_2_31_elements_is_written_everywhere(large):
    rows = 46400
    a, b = (torch.randn(rows, 8, dtype=torch.bfloat16) for _ in range(2))
    got = OPS.matmul(a, b, transpose_b=True)
    assert got.numel() > 2**31
    for first in (0, 2**31 // rows - 1, rows - 3):
        want = (a[first : first + 3].double() @ b.double().t()).bfloat16()
        torch.testing.assert_close(got[first : first + 3], want, rtol=1e-2, atol=1e-2)
