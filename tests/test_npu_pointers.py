# SPDX-License-Identifier: Apache-2.0
"""Raw pointers of npu tensors in launches: where their memory ends, and in whose order they run."""

import ctypes
import os
import pathlib
import subprocess
import sys

import children
import pytest
import torch

import pto.torch  # noqa: F401 makes the device where it is built
from pto import build_config
from pto.adapters.torch import activation

pytestmark = pytest.mark.skipif(not activation.is_active(), reason="the npu device is not built")

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "tests/cpp_route/raw_pointers.cpp"
SHAPES = [(100, 100), (1, 7), (1,), (16, 256), (4097,)]


def build(folder: pathlib.Path, *flags: str) -> pathlib.Path:
    library = folder / "raw_pointers.so"
    subprocess.run(
        ["g++", *build_config.cxxflags(), "-O1", "-shared", "-fPIC", *flags, str(SOURCE), "-o",
         str(library), *build_config.ldflags()],
        check=True,
    )  # fmt: skip
    return library


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> pathlib.Path:
    return build(tmp_path_factory.mktemp("raw_pointers"))


class Kernels:
    """The library's functions on tensors."""

    def __init__(self, library: pathlib.Path):
        self.loaded = ctypes.CDLL(str(library))
        self.loaded.extent.restype = ctypes.c_int64
        self.last_error = ctypes.CDLL(str(_core_library())).pto_last_error
        self.last_error.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        if getattr(self.loaded, name)(*arguments) != 0:
            raise RuntimeError(self.last_error().decode())

    def extent(self, address: int) -> int:
        return self.loaded.extent(ctypes.c_void_p(address))

    def add(self, x, y, out=None, blocks=24, stream=None, name="add_raw"):
        out = torch.full_like(x, -1) if out is None else out
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (out, x, y)]
        more = [blocks, ctypes.c_void_p(stream)] if name == "add_raw" else []
        self.call(name, *pointers, ctypes.c_int64(x.numel()), *more)
        return out


def _core_library() -> pathlib.Path:
    return pathlib.Path(build_config.library_dir()) / "libpto.so"


@pytest.fixture(scope="module")
def kernels(library) -> Kernels:
    return Kernels(library)


def test_a_pointer_is_bounded_by_the_bytes_that_its_tensor_asked_for(kernels):
    for bytes_ in (1, 4, 63, 64, 400, 4096, 1 << 20, (5 << 20) + 12):
        x = torch.empty(bytes_, dtype=torch.uint8, device="npu")
        start = x.data_ptr()
        assert kernels.extent(start) == bytes_ and kernels.extent(start + bytes_ - 1) == 1
        assert kernels.extent(start + bytes_) == kernels.extent(start - 1) == -1
        assert kernels.extent(x[bytes_ // 2 :].data_ptr()) == bytes_ - bytes_ // 2
        kept = x.view(-1)
        del x
        assert kernels.extent(start) == bytes_
        del kept
        assert kernels.extent(start) == -1
    x = torch.cumsum(torch.ones(5, device="npu"), 0)  # memory of a CPU kernel
    assert kernels.extent(x.data_ptr()) >= 20
    assert kernels.extent(torch.ones(3).data_ptr()) == -1


@pytest.mark.parametrize("shape", SHAPES)
def test_a_kernel_that_moves_whole_tiles_leaves_the_memory_behind_a_tensor_alone(kernels, shape):
    x, y = torch.randn(shape), torch.randn(shape)
    around = [torch.full((1 << 12,), 7.0, device="npu") for _ in range(8)]
    a, b = x.npu(), y.npu()
    more = [torch.full((1 << 12,), 7.0, device="npu") for _ in range(8)]
    for blocks in (1, 24):
        assert torch.equal(kernels.add(a, b, blocks=blocks).cpu(), x + y)
    assert all((t == 7).all() for t in around + more)


def test_a_pointer_into_a_tensor_is_bounded_by_its_end(kernels):
    base = torch.zeros(300, device="npu")
    x = torch.arange(100.0, device="npu")
    kernels.add(x, x, base[200:], blocks=1)
    assert torch.equal(base.cpu(), torch.cat([torch.zeros(200), 2 * torch.arange(100.0)]))


def test_a_launch_with_pointers_follows_what_is_pending_on_the_current_stream(kernels):
    x = torch.zeros(1 << 21, device="npu")
    for _ in range(20):
        x.add_(1)
    assert kernels.add(x, x)[5].item() == 40
    stream = torch.npu.Stream()
    stream.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(stream):
        for _ in range(20):
            x.add_(1)
        y = kernels.add(x, x)
        assert stream.query()  # who passes a pointer may free it: the call waits
        assert y[7].item() == 80


def test_a_launch_inside_a_kernel_is_part_of_it(kernels):
    x = torch.randn(100, 100)
    y = torch.zeros(1 << 21, device="npu").add_(1)  # so that something is pending
    assert torch.equal(kernels.add(x.npu(), x.npu(), name="add_nested").cpu(), x + x)
    assert y[0].item() == 1


def test_pointers_of_two_devices_are_refused(kernels):
    x = torch.ones(10, device="npu")
    with pytest.raises(RuntimeError, match="argument 2 is on device 1, but the first tensor is on"):
        kernels.add(x.to("npu:1"), x, x)


CHECKED = """
import sys
sys.path[:0] = [{here!r}]
import torch, test_npu_pointers as t
kernels = t.Kernels({library!r})
for shape in t.SHAPES:
    x, y = torch.randn(shape), torch.randn(shape)
    assert torch.equal(kernels.add(x.npu(), y.npu()).cpu(), x + y)
x = torch.ones(1, device="npu")
try:
    kernels.call("store_unknown", t.ctypes.c_void_p(x.data_ptr()))
    print("stored")
except RuntimeError as error:
    print(error)
"""


def run(program: str, library: pathlib.Path, **environment: str) -> subprocess.CompletedProcess:
    here = str(pathlib.Path(__file__).parent)
    words = ["-c", program.format(here=here, library=str(library))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    if "LD_PRELOAD" not in environment:
        return children.run(*words, env=environment)
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=300, env=environment
    )


def test_in_checked_mode_a_store_to_unknown_memory_is_refused_and_the_rest_runs(library):
    done = run(CHECKED, library, PTO_NPU_CHECKED="1")
    assert done.stdout == (
        "block 0: nothing is known about the memory of GlobalTensor(pointer)\n"
        "  why: the one-argument form ends where the memory of its pointer does, which is known of "
        "a tensor, of a raw pointer of an npu tensor and of aclrtMalloc's memory\n"
        "  fix: pass the tensor itself to the kernel, or give the view a count\n"
    ), done.stderr


SANITIZED = """
import sys
sys.path[:0] = [{here!r}]
import torch, test_npu_pointers as t
kernels = t.Kernels({library!r})
for shape in t.SHAPES:
    x, y = torch.randn(shape), torch.randn(shape)
    assert torch.equal(kernels.add(x.npu(), y.npu()).cpu(), x + y)
print("no finding", flush=True)
x = torch.ones(7, device="npu")
kernels.loaded.poke(t.ctypes.c_void_p(x.data_ptr() + 28))
"""


def test_the_address_sanitizer_finds_nothing_where_whole_tiles_are_moved(tmp_path):
    library = build(tmp_path, "-fsanitize=address", "-fno-omit-frame-pointer", "-g0")
    sanitizer = subprocess.run(
        ["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    done = run(SANITIZED, library, LD_PRELOAD=sanitizer, ASAN_OPTIONS="detect_leaks=0")
    assert done.stdout == "no finding\n", done.stderr[-3000:]
    assert "use-after-poison" in done.stderr  # it does look at npu memory
