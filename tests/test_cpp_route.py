# SPDX-License-Identifier: Apache-2.0
"""C++ kernels in the public style, built from a clean folder with what `pto config` prints."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import children
import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples/01_add_kernel"
SOURCES = ROOT / "tests/cpp_route"
LENGTHS = ["1", "7", "4095", "4096", "4097", str(24 * 4096 + 13), "300001"]
ADDRESS = ["-fsanitize=address", "-fno-omit-frame-pointer"]


def run(*command: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, cwd=cwd,
        env={**os.environ, **environment},
    )  # fmt: skip


def config(option: str, folder: Path, **environment: str) -> list[str]:
    done = run(sys.executable, "-m", "pto", "config", option, cwd=folder, **environment)
    assert done.returncode == 0, done.stderr
    return shlex.split(done.stdout)


def build(folder: Path, source: Path, *flags: str, compiler: str = "g++") -> Path:
    program = folder / "program"
    done = run(
        compiler, "-O2", "-Wall", "-Wextra", "-Werror",
        *config("--cxxflags", folder, PTO_CXX=compiler),
        f"-I{EXAMPLE}", *flags, source, "-o", program, *config("--ldflags", folder), cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return program


def check_sums(done: subprocess.CompletedProcess) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [f"length {n}: every sum is right" for n in LENGTHS]


@pytest.mark.parametrize("compiler", ["g++", "clang++-14"])
def test_the_plain_program_adds_odd_lengths(compiler, tmp_path):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    check_sums(
        run(build(tmp_path, EXAMPLE / "main.cpp", compiler=compiler), *LENGTHS, cwd=tmp_path)
    )


@pytest.mark.parametrize("target", [[], ["-DPTO_PORTABLE"]], ids=["", "portable"])
@pytest.mark.parametrize("level", ["-O2", "-O3"])
def test_tiles_of_two_types_share_memory(level, target, tmp_path):
    done = run(build(tmp_path, SOURCES / "shared_memory.cpp", level, *target), cwd=tmp_path)
    assert done.stdout == "41800000 41800000 3f800000\n", done.stderr


def test_the_plain_program_is_clean_under_the_address_sanitizer(tmp_path):
    check_sums(run(build(tmp_path, EXAMPLE / "main.cpp", *ADDRESS), *LENGTHS, cwd=tmp_path))


def test_without_flags_the_portable_instructions_say_so_and_add_the_same(tmp_path):
    command = ["g++", "-O1", "-std=c++17", f"-I{ROOT}", EXAMPLE / "main.cpp", "-o", "program"]
    done = run(*command, *config("--ldflags", tmp_path), cwd=tmp_path)
    assert done.returncode == 0 and done.stderr.count("portable instructions") == 1, done.stderr
    check_sums(run(tmp_path / "program", *LENGTHS, cwd=tmp_path))


def test_the_address_sanitizer_sees_the_end_of_the_allocator_s_arrays(tmp_path):
    done = run(build(tmp_path, SOURCES / "beyond_the_end.cpp", *ADDRESS), cwd=tmp_path)
    assert "use-after-poison" in done.stderr


def test_the_kernel_never_touches_the_page_behind_its_arrays(tmp_path):
    check_sums(run(build(tmp_path, SOURCES / "guard_page.cpp"), *LENGTHS, cwd=tmp_path))


@pytest.mark.parametrize("flags", [[], ADDRESS, ["-DPTO_PORTABLE", "-O3"]], ids=str)
def test_tiles_larger_than_their_arrays_compile_without_a_warning(flags, tmp_path):
    done = run(build(tmp_path, SOURCES / "small_arrays.cpp", *flags), cwd=tmp_path)
    assert done.stdout == "every sum is right\n", done.stderr


@pytest.mark.parametrize("flags", [[], ["-fsanitize=undefined"]], ids=str)
def test_what_compilers_misread_is_written_so_that_they_do_not(flags, tmp_path):
    done = run(build(tmp_path, SOURCES / "compilers.cpp", *flags), cwd=tmp_path)
    assert done.returncode == 0 and done.stdout + done.stderr == ""


def test_a_slot_kernel_with_a_number_before_a_tensor_does_not_compile(tmp_path):
    source = tmp_path / "order.cpp"
    source.write_text(
        "#include <pto/pto-inst.hpp>\nvoid kernel_entry(int64_t*) {}\n"
        "int main() { float x[1]; return EXEC_KERNEL_CMD(kernel_entry, 1, 5, x); }\n"
    )
    done = run("g++", *config("--cxxflags", tmp_path), "-c", source, cwd=tmp_path)
    assert done.returncode == 1
    assert "tensors and pointers in the first slots and numbers after them" in done.stderr


@pytest.mark.skipif(not shutil.which("gdb"), reason="gdb is not installed")
def test_gdb_prints_tiles_of_every_layout(tmp_path):
    program = build(tmp_path, SOURCES / "tiles_in_gdb.cpp", "-O0", "-g")
    commands = [f"source {config('--gdb', tmp_path)[0]}", "break stop", "run", "up"]
    commands += [f"print {name}" for name in ("tile", "boxed", "bytes", "large")]
    done = run("gdb", "-q", "-batch", "-nx", *[f"-ex={c}" for c in commands], program, cwd=tmp_path)
    for line in (
        "Tile float 16 x 64 at Vec, valid 16 x 60",
        "  [1]  64 65 66 67 ... 120 121 122 123",
        "Tile half 16 x 32 at Mat, valid 3 x 20",
        "  [2]  64.5 65.5 66.5 67.5 ... 80.5 81.5 82.5 83.5",
        "  [0]  -3 -2 -1 0 ... 25 26 27 28",
        "  [127]  -8128 -8129 -8130 -8131 ... -8188 -8189 -8190 -8191",
    ):
        assert line in done.stdout, done.stdout + done.stderr


def test_config_prints_one_line_and_refuses_no_option(tmp_path):
    assert config("--version", tmp_path)[0].count(".") == 2
    standard, include, one_rounding, *_ = config("--cxxflags", tmp_path)
    assert (standard, include) == ("-std=c++17", f"-I{ROOT}")
    assert one_rounding == "-ffp-contract=off"  # g++ fuses TMUL with TADD without it
    assert run(sys.executable, "-m", "pto", "config", cwd=tmp_path).returncode == 2


def test_kernels_of_g_plus_plus_keep_the_zeros_of_their_constants(tmp_path):
    moves = ["-mmove-max=128", "-mstore-max=128"]
    flags = config("--cxxflags", tmp_path, PTO_CXX="g++", PTO_TARGET="avx2")
    assert flags[-2:] == moves
    assert moves[0] not in config("--cxxflags", tmp_path, PTO_CXX="g++", PTO_TARGET="portable")


def test_config_follows_the_target_of_the_environment_and_refuses_an_unknown_one(tmp_path):
    command = [sys.executable, "-m", "pto", "config", "--cxxflags"]
    portable = run(*command, cwd=tmp_path, PTO_TARGET="portable").stdout
    assert "-mavx" not in portable and "-DPTO_PORTABLE" in portable
    done = run(*command, cwd=tmp_path, PTO_TARGET="sse9")
    assert done.returncode == 1
    assert 'PTO_TARGET is "sse9"' in done.stderr and "fix: " in done.stderr


def test_machine_prints_features_and_cut_offs(tmp_path):
    done = run(sys.executable, "-m", "pto", "machine", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for line in ("cpu: ", "target: ", "cores: ", "stream from: "):
        assert line in done.stdout


@pytest.fixture(scope="module")
def extension(tmp_path_factory) -> Path:
    """A clean folder with the example's PyTorch extension, built by its setup.py."""
    folder = tmp_path_factory.mktemp("extension")
    for name in ("setup.py", "extension.cpp", "my_add_kernel.hpp"):
        shutil.copy(EXAMPLE / name, folder)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # ninja
    done = run(sys.executable, "setup.py", "build_ext", "--inplace", cwd=folder, PATH=path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder


ADD = """
import torch, add_kernel
add = torch.ops.pto_example.add
"""


def test_the_torch_extension_adds_tensors_of_odd_lengths(extension):
    done = children.run(
        "-c", ADD + f"""
for n in [0, {", ".join(LENGTHS)}]:
    x, y = torch.randn(n), torch.randn(n)
    assert torch.equal(add(x, y), x + y), n
x = torch.randn(300, 50)
assert torch.equal(add(x[7:100], x[8:101]), x[7:100] + x[8:101])      # overlapping views
assert add(torch.tensor(2.0), torch.tensor(3.0)).item() == 5
print("every sum is right")
""", cwd=extension,
    )  # fmt: skip
    assert done.stdout == "every sum is right\n", done.stderr


REFUSED = {
    "torch.ones(8, 8).t()": "has sizes [8, 8] and strides [1, 8]",
    "torch.ones(8)[::2]": "has sizes [4] and strides [2]",
    "torch.ones(8, dtype=torch.float64)": "the type given is f64 tensor, but the parameter is",
    "torch.ones(8, dtype=torch.bfloat16)": "the type given is bf16 tensor, but the parameter is",
}


@pytest.fixture(scope="module")
def refusals(extension) -> dict[str, str]:
    """The error of add(x, x) for each x of REFUSED."""
    program = (
        ADD
        + f"""
import json
errors = {{}}
for x in {list(REFUSED)}:
    try:
        add(eval(x), eval(x))
    except RuntimeError as error:
        errors[x] = str(error)
print(json.dumps(errors))
"""
    )
    done = children.run("-c", program, cwd=extension)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("x", REFUSED)
def test_the_torch_extension_refuses_what_the_kernel_cannot_read(refusals, x):
    assert refusals[x].startswith("MyAddKernel: argument")
    assert REFUSED[x] in refusals[x] and "fix: " in refusals[x]
