# SPDX-License-Identifier: Apache-2.0
"""Packages in C: what runs there, and which calls and files are refused, as in Python."""

import ctypes
import hashlib
import re
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from package_cases import program, same, save_all

import pto
from pto import build_config, container

ROOT = Path(__file__).resolve().parent.parent


def number_of(name, header):
    return re.search(rf"{name} = (\d+)", (ROOT / header).read_text())[1]


SEALS = number_of("kSealVersion", "pto/launch/sealed.hpp")
PROGRAMS = number_of("PTO_PROGRAM_VERSION", "pto/abi/program.h")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of the packages."""
    folder = tmp_path_factory.mktemp("packages")
    save_all(folder)
    return folder


def test_a_c_program_runs_a_package_without_python_and_compiler(saved, tmp_path):
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{build_config.include_dir()}",
               ROOT / "tests/cpp_route/package.c", "-o", tmp_path / "run", "-pthread",
               *build_config.ldflags()]  # fmt: skip
    subprocess.run(command, check=True)
    env = {"PATH": "", "PTO_CACHE_DIR": str(tmp_path / "none")}
    done = subprocess.run([tmp_path / "run", saved / "program.pto"], env=env,
                          capture_output=True, text=True)  # fmt: skip
    first, second, *described = done.stdout.splitlines()
    assert done.returncode == 0 and first == second, done.stderr
    x = (np.arange(12, dtype=np.float32) / np.float32(7)).reshape(3, 4)
    out = np.array([1, 2, 3], np.float32)
    returned = program(x, np.array([4, 1, 3]), out, 0.25)
    wanted = [float(one) for array in (out, *returned) for one in array.reshape(-1)]
    assert [float.fromhex(one) for one in first.split()] == wanted
    assert described == list(pto.load(saved / "program.pto").variants)
    assert done.stderr.startswith("program.pto: no variant serves the call ()\n  why: ")
    assert described[0] in done.stderr
    done = subprocess.run([tmp_path / "run", "none.pto"], env=env, capture_output=True, text=True)
    assert done.returncode == 1 and "the package none.pto cannot be read" in done.stderr


def library():
    """libpto for calls of its C functions."""
    found = ctypes.CDLL(str(Path(build_config.library_dir()) / "libpto.so"))
    found.pto_program_open.restype = ctypes.c_void_p
    found.pto_last_error.restype = ctypes.c_char_p
    return found


class Tensor(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("sizes", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("rank", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("flags", ctypes.c_uint32), ("extent", ctypes.c_int64))  # fmt: skip


class Args(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("n_tensors", ctypes.c_int32),
                ("tensors", ctypes.POINTER(Tensor)), ("n_scalars", ctypes.c_int32),
                ("flags", ctypes.c_uint32), ("scalars", ctypes.POINTER(ctypes.c_double)),
                ("rest", ctypes.c_uint64 * 4))  # fmt: skip


def described(array, **changes):
    """An array as C describes it."""
    rank = array.ndim
    sizes = (ctypes.c_int64 * rank)(*array.shape)
    strides = (ctypes.c_int64 * rank)(*(step // array.itemsize for step in array.strides))
    one = Tensor(array.ctypes.data, sizes, strides, rank, 0 if array.dtype.kind == "i" else 2,
                 8 * array.itemsize, 1, 0, -1)  # fmt: skip
    for name, value in changes.items():
        setattr(one, name, value)
    return one


def run_in_c(path, tensors, factor=0.25, version=1):
    """The code of pto_program_run, and the text of its error."""
    found = library()
    program = ctypes.c_void_p(found.pto_program_open(str(path).encode()))
    args = Args(version, len(tensors), (Tensor * len(tensors))(*tensors), 1, 0,
                (ctypes.c_double * 1)(factor))  # fmt: skip
    code = found.pto_program_run(program, ctypes.byref(args))
    found.pto_program_close(program)
    return code, found.pto_last_error().decode() if code else ""


def test_c_takes_tensors_with_gaps_and_leaves_what_lies_between(saved):
    x = np.asfortranarray(np.random.default_rng(3).standard_normal((3, 4)).astype(np.float32))
    lengths, room = np.array([9, 4, 9, 1, 9, 3])[1::2], np.full((3, 2), 5, np.float32)
    products, longest = np.zeros((6, 6), np.float32)[::2, ::2], np.zeros(4, np.float32)
    arrays = [x, lengths, room[:, 0], products, longest]
    code, text = run_in_c(saved / "program.pto", [*map(described, arrays)])
    assert code == 0, text
    returned = program(x.copy("C"), lengths.copy(), out := np.full(3, 5, np.float32), 0.25)
    same([products.copy(), longest, room[:, 0].copy()], [*returned, out])
    assert (room[:, 1] == 5).all()


@pytest.mark.parametrize("place, change, text", [
    (2, {"flags": 2}, r"tensor 2, f32\[3\], is read-only"),
    (2, {"bits": 16}, "no variant serves the call"),
    (2, {"code": 9}, "tensor 2 has the type code 9, 32 bits, 1 lanes"),
    (2, {"rank": 99}, "tensor 2 has 99 axes"),
    (1, {"sizes": None}, "tensor 1 has 1 axes, but its sizes are null"),
    (1, {"sizes": (ctypes.c_int64 * 1)(-3)}, "tensor 1 has the size -3 on axis 0"),
    (0, {"data": None}, r"tensor 0, f32\[3, 4\], has no memory"),
    (4, {"rank": 2}, r"tensor 4, f32\[4, .*\], is to hold f32\[4\]"),
    (3, "x", r"tensor 3, f32\[3, 3\], shares memory with tensor 0"),
    (4, {"strides": (ctypes.c_int64 * 1)(0)}, "tensor 4, .* has elements that share memory"),
    (None, {}, "arguments are of version 9 of the ABI"),
])  # fmt: skip
def test_c_is_told_what_a_call_has_wrong(saved, place, change, text):
    arrays = [np.ones((3, 4), np.float32), np.array([4, 1, 3]), np.ones(3, np.float32),
              np.zeros((3, 3), np.float32), np.zeros(4, np.float32)]  # fmt: skip
    tensors = [*map(described, arrays)]
    if change == "x":
        change = {"data": arrays[0].ctypes.data}
    if change.get("rank") == 2:
        change = {"rank": 2, "sizes": (ctypes.c_int64 * 2)(4, 1), "strides": None}
    if place is not None:
        tensors[place] = described(arrays[place], **change)
    code, said = run_in_c(saved / "program.pto", tensors, version=9 if place is None else 1)
    assert code != 0 and re.search(text, said), said
    assert (arrays[2] == 1).all()


def test_c_is_told_what_is_null(saved):
    found, args = library(), Args(1)
    path = str(saved / "program.pto").encode()
    program = ctypes.c_void_p(found.pto_program_open(path))
    calls = [
        (found.pto_program_open, None, "the path"),
        (found.pto_program_open_function, path, None, "the name of the function"),
        (found.pto_program_run, None, ctypes.byref(args), "the program"),
        (found.pto_program_run, program, None, "args"),
        (found.pto_program_results, None, ctypes.byref(args), None, 0, "the program"),
        (found.pto_program_describe, None, "the program"),
    ]
    for function, *arguments, what in calls:
        function(*arguments)
        text = found.pto_last_error().decode()
        assert re.match(rf"pto_program_\w+: {what} is null\n  why: .*\n  fix: pass its", text), text
    found.pto_program_close(program)


def test_each_call_that_c_may_make_stands_on_a_line_of_its_own(saved):
    code, said = run_in_c(saved / "program.pto", [])
    _, why, *lines, fix = said.splitlines()
    assert code and len(lines) == len(pto.load(saved / "program.pto").variants) > 1
    assert all(line.startswith("    program(") for line in lines) and fix.startswith("  fix: ")


def sealed_again(content, change):
    """A package with another payload and a digest that fits."""
    payload = bytearray(container.opened(content, "").payload)
    before = content[: len(content) - len(payload) - 32]
    change(payload)
    whole = before + bytes(payload)
    return whole + hashlib.sha256(whole).digest()


def for_avx512(payload):
    at = 3 * 8 + 8 + struct.unpack_from("<Q", payload, 24)[0]  # behind versions and machine
    payload[at : at + 8] = struct.pack("<Q", 2)


def of_version(payload):
    payload[8] = 7


SPOILT = [
    (lambda c: b"", "is no package"),
    (lambda c: b"\x7fELF and so on, which is not ours", "is no package"),
    (lambda c: c[:20], "was truncated or altered\n.*20 bytes"),
    (lambda c: c[:-5], "was truncated or altered\n.*SHA-256"),
    (lambda c: c[:900] + bytes([c[900] ^ 4]) + c[901:], "was truncated or altered"),
    (lambda c: c[:16] + b"\2" + c[17:], "has version 2 of the format\n.*reads version 1"),
    (lambda c: c[:16] + b"\0" + c[17:], "has version 0 of the format\n.*reads version 1"),
    (
        lambda c: sealed_again(c, of_version),
        f"holds a program of version {SEALS}.7.{PROGRAMS}\n.*runs version {SEALS}.1.{PROGRAMS}",
    ),
    (lambda c: sealed_again(c, for_avx512), "needs avx512\n.*no more than "),
    (lambda c: sealed_again(c, lambda p: p.pop()), "holds a program that pto did not write"),
]


@pytest.mark.parametrize("spoil, text", SPOILT)
def test_a_file_that_cannot_be_run_is_refused_in_python_and_in_c(saved, tmp_path, spoil, text):
    if text.startswith("needs avx512") and "avx512" in pto._core.describe_machine():
        pytest.skip("this CPU has every target")
    path = tmp_path / "spoilt.pto"
    path.write_bytes(spoil((saved / "program.pto").read_bytes()))
    with pytest.raises(ValueError, match="spoilt.pto " + text):
        pto.load(path)
    found = library()
    assert found.pto_program_open(str(path).encode()) is None
    assert re.match("spoilt.pto " + text, found.pto_last_error().decode())
