# SPDX-License-Identifier: Apache-2.0
"""The npu device and its process: loading by itself, other backends, checked mode, fork, exit."""

import os
import pathlib
import signal
import subprocess
import sys

import children
import pytest

import pto.torch  # noqa: F401 makes the device where it is built
from pto.adapters.torch import activation

pytestmark = pytest.mark.skipif(not activation.is_active(), reason="the npu device is not built")

ROOT = str(pathlib.Path(__file__).resolve().parent.parent)
BUILD = "python -m pto adapters build torch"


def run(program: str, path: pathlib.Path | None = None, **environment: str):
    """A process of its own where the import of torch finds something on the path."""
    if path is None:
        return children.run("-c", program, env={**os.environ, "PYTHONPATH": ROOT, **environment})
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([ROOT, str(path)]), **environment},
    )  # fmt: skip


@pytest.fixture
def entry_point(tmp_path) -> pathlib.Path:
    """A folder for the path with an installed package's entry point of the adapter."""
    folder = tmp_path / "site"
    (folder / "openpto_test-1.dist-info").mkdir(parents=True)
    (folder / "openpto_test-1.dist-info/METADATA").write_text("Name: openpto_test\nVersion: 1\n")
    project = (pathlib.Path(ROOT) / "pyproject.toml").read_text()
    [line] = [x for x in project.splitlines() if "torch_autoload" in x]
    (folder / "openpto_test-1.dist-info/entry_points.txt").write_text(
        "[torch.backends]\n" + line.replace('"', "") + "\n"
    )
    return folder


def test_import_torch_alone_makes_the_device(entry_point):
    done = run("import torch; print(torch.ones(2, device='npu').device)", entry_point)
    assert (done.stdout, done.stderr) == ("npu:0\n", "")


def test_loading_by_itself_never_compiles_but_prints_the_command(entry_point, tmp_path):
    done = run("import torch; print(torch.ones(1))", entry_point, PTO_CACHE_DIR=str(tmp_path))
    assert done.stdout == "tensor([1.])\n" and done.stderr.endswith(BUILD + "\n")
    assert not (tmp_path / "torch").exists()


def test_asking_for_a_device_that_is_not_built_names_the_command(tmp_path):
    done = run("import torch, pto.torch.npu", PTO_CACHE_DIR=str(tmp_path))
    assert done.returncode == 1
    assert "Failure: the npu device is not built for this PyTorch" in done.stderr
    assert f"fix: {BUILD}" in done.stderr


def test_an_installed_torch_npu_keeps_its_device_and_is_named(entry_point):
    (entry_point / "torch_npu.py").write_text("")
    done = run("import torch, pto.torch; print(torch.ops.pto.gelu(torch.ones(1)))", entry_point)
    assert done.returncode == 0, done.stderr
    assert "no npu device of its own: torch_npu is installed" in done.stderr
    done = run("import torch, pto.torch.npu", entry_point)
    assert "the npu device cannot be used: torch_npu is installed and provides" in done.stderr
    assert "fix: uninstall the other" in done.stderr


def test_another_name_of_the_extra_backend_is_refused():
    program = "import torch; torch.utils.rename_privateuse1_backend('other'); import pto.torch.npu"
    done = run(program)
    assert "the device other has PyTorch's extra backend" in done.stderr


def test_the_number_of_devices_is_a_variable():
    program = "import torch, pto.torch; print(torch.npu.device_count())"
    assert run(program, PTO_NPU_DEVICES="5").stdout == "5\n"
    done = run(program, PTO_NPU_DEVICES="many")
    assert done.returncode == 1 and 'PTO_NPU_DEVICES is "many"' in done.stderr


READS = "import ctypes; print(ctypes.string_at(x.data_ptr(), 4))"
MODEL = """
m = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.GELU(), torch.nn.LayerNorm(6)).npu()
o = torch.optim.AdamW(m.parameters())
x = torch.randn(2, 2, 8, 8, device="npu")
m(x).square().mean().backward()
o.step()
y = torch.sort(x.flatten())[0].resize_(7, 100)[:2].cpu()
z = torch.randn(1 << 22, device="npu")
print((z + z).sum().item() == 2 * z.sum().item())
print(x[0, 0, 0, 0].item() == x.cpu()[0, 0, 0, 0].item())
print(torch.equal(torch.ops.pto.gelu(z).cpu(), torch.ops.pto.gelu(z.cpu())))
"""


def test_in_checked_mode_what_reads_device_memory_without_a_copy_crashes():
    begin = "import torch, pto.torch; x = torch.ones(4, device='npu')\n"
    assert run(begin + READS).stdout == "b'\\x00\\x00\\x80?'\n"
    done = run(begin + READS, PTO_NPU_CHECKED="1")
    assert done.returncode == -signal.SIGSEGV and done.stdout == ""


def test_in_checked_mode_programs_that_copy_run():
    done = run("import torch, pto.torch\n" + MODEL, PTO_NPU_CHECKED="1")
    assert done.stdout == "True\n" * 3, done.stderr


def test_a_child_of_fork_has_streams_of_its_own():
    program = """
import os, torch, pto.torch
torch.set_num_threads(1)
x = torch.ones(1 << 22, device="npu")
for _ in range(50):
    x.add_(1)
pid = os.fork()
y = torch.ones(1 << 22, device="npu")
for _ in range(20):
    y.add_(1)
assert y.sum().item() == 21 * (1 << 22)
if pid == 0:
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
print(x[0].item())
"""
    assert run(program).stdout == "51.0\n"


def test_a_child_of_fork_sees_what_was_pending_done():
    program = """
import os, torch, pto.torch
torch.set_num_threads(1)
x, y = torch.ones(1 << 22, device="npu"), torch.ones(1 << 22, device="npu:1")
side = torch.npu.Stream(device="npu:1")
side.wait_stream(torch.npu.current_stream("npu:1"))  # which fills y
with torch.npu.stream(side):
    for _ in range(30):
        x.add_(1), y.add_(2)
pid = os.fork()
seen = x[0].item(), y[-1].item(), x.sum().item() / (1 << 22)
if pid == 0:
    os._exit(0 if seen == (31, 61, 31) else 1)
print(os.waitpid(pid, 0)[1], seen)
"""
    assert run(program).stdout == "0 (31.0, 61.0, 31.0)\n"


SENDS = """
import torch, pto.torch
import torch.multiprocessing as mp

class Data(torch.utils.data.Dataset):
    def __init__(self, device): self.device = device
    def __len__(self): return 4
    def __getitem__(self, i): return torch.full((3,), float(i), device="npu").to(self.device)

def work(x): print(x)

def batches(device):
    loader = torch.utils.data.DataLoader(Data(device), batch_size=2, num_workers=1)
    return [batch.npu().sum().item() for batch in loader]

if __name__ == "__main__":
    for send in (
        lambda: batches("npu"),
        lambda: mp.get_context("spawn").Process(target=work, args=(torch.ones(2).npu(),)).start(),
        lambda: mp.get_context("fork").SimpleQueue().put(torch.ones(2, device="npu")),
    ):
        try:
            print(send())
        except RuntimeError as error:
            print(str(error).splitlines()[0])
    print(batches("cpu"))
"""


def test_npu_tensors_that_are_sent_to_another_process_are_refused_and_nobody_waits():
    done = run(SENDS)
    refused = "a tensor on npu:0 was sent to another process\n"
    assert done.stdout == refused * 3 + "[3.0, 15.0]\n", done.stderr


def test_a_process_that_ends_with_pending_kernels_does_not_hang():
    program = """
import torch, pto.torch
x = torch.ones(1 << 22, device="npu")
for stream in [torch.npu.Stream() for _ in range(4)]:
    with torch.npu.stream(stream):
        for _ in range(20):
            x.add_(1)
print("end")
"""
    done = run(program)
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
