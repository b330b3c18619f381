# SPDX-License-Identifier: Apache-2.0
"""Arguments of runs and sources of programs: what is taken, and what is said of the rest."""

import array
import ctypes
import re

import ml_dtypes
import numpy as np
import pytest
import torch

import pto
from pto.sources import read_source


def test_param_types_have_the_numbers_that_users_know():
    assert [int(p) for p in pto.ParamType] == [0, 1, 2, 3]
    assert [p.name for p in pto.ParamType] == ["SCALAR", "INPUT", "OUTPUT", "INOUT"]


@pytest.mark.parametrize("value, number, dtype", [
    (3, 3, "int64"),
    (True, 1, "int64"),
    (-(2**63), -(2**63), "int64"),
    (0.1, 0.1, "float64"),
    (np.int8(-3), -3, "int64"),
    (np.uint64(7), 7, "int64"),
    (np.float32(0.1), float(np.float32(0.1)), "float32"),
    (np.float64(0.1), 0.1, "float64"),
    (ml_dtypes.bfloat16(1.5), 1.5, "bfloat16"),
    (torch.tensor(0.25), 0.25, "float32"),
    (ctypes.c_int64(-3), -3, "int64"),
    (ctypes.c_uint32(2**32 - 1), 2**32 - 1, "int64"),
    (ctypes.c_bool(True), 1, "int64"),
    (ctypes.c_float(0.1), float(np.float32(0.1)), "float32"),
    (ctypes.c_double(0.1), 0.1, "float64"),
])  # fmt: skip
def test_a_scalar_keeps_its_type(value, number, dtype):
    arg = pto.Arg.scalar(value)
    assert (arg.data, type(arg.data), arg.dtype) == (number, type(number), dtype)
    assert arg.type == pto.ParamType.SCALAR


def test_a_chosen_type_rounds_to_nearest_as_numpy_does():
    values = (
        np.random.default_rng(0).standard_normal(500) * 10.0 ** np.arange(-45, 38).repeat(7)[:500]
    )
    for value in [*values.tolist(), 0.0, -0.0, 1e-46, float("inf"), float("-inf")]:
        got = pto.Arg.scalar(value, dtype="float32").data
        assert np.float32(value) == got and np.signbit(got) == np.signbit(value)
    for value in values.astype(np.float32).tolist():  # exact in float32, so NumPy rounds once too
        got = pto.Arg.scalar(value, dtype="bfloat16").data
        assert float(ml_dtypes.bfloat16(value)) == got
    assert np.isnan(pto.Arg.scalar(float("nan"), dtype="bfloat16").data)


@pytest.mark.parametrize("value, dtype, text", [
    (2**63, "", "an int64 lies between"),
    (np.uint64(2**63), "", "an int64 lies between"),
    (2.5, "int64", "it is not whole"),
    (float("nan"), "int64", "it is not whole"),
    (2**53 + 1, "float64", "the nearest number of that type is another one"),
    (2**24 + 1, "float32", "the nearest number of that type is another one"),
    (257, "bfloat16", "the nearest number of that type is another one"),
    (10**400, "float64", "it is too large"),
    (1e39, "float32", "it is too large"),
])  # fmt: skip
def test_a_scalar_is_never_truncated(value, dtype, text):
    with pytest.raises(pto.Error, match=text) as raised:
        pto.Arg.scalar(value, dtype=dtype)
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize("value, dtype, text", [
    ("3", "", r"Arg.scalar: '3' \(str\)"),
    (np.float16(1), "", "Arg.scalar: a numpy.float16"),
    (np.ones(3), "", "Arg.scalar: a numpy.ndarray"),
    (ctypes.c_char(b"3"), "", "Arg.scalar: a ctypes.c_char"),
    (3j, "", "Arg.scalar: a builtins.complex"),
    (3, "float16", "unknown dtype 'float16'\n.*\n.*int64, float32, float64, bfloat16"),
])  # fmt: skip
def test_what_is_no_scalar_is_a_type_error(value, dtype, text):
    with pytest.raises(pto.Error, match=text) as raised:
        pto.Arg.scalar(value, dtype=dtype)
    assert isinstance(raised.value, TypeError)


@pytest.mark.parametrize("value, dtype, size", [
    (np.zeros((3, 4), np.float32), "float32", 48),
    (np.zeros((4, 4), ml_dtypes.bfloat16).T, "bfloat16", 32),
    (torch.zeros(3, dtype=torch.int16), "int16", 6),
    (array.array("d", [1, 2]), "float64", 16),
    (bytearray(5), "uint8", 5),
    (pto.TensorHandle((3, 5), "bfloat16"), "bfloat16", 30),
])  # fmt: skip
def test_arrays_of_every_library_are_taken(value, dtype, size):
    for make in (pto.Arg.input, pto.Arg.output, pto.Arg.inout):
        arg = make(value)
        assert (arg.data is value, arg.dtype, arg.size) == (True, dtype, size)
        assert dtype in repr(arg) and arg.type.name.lower() in repr(arg)


@pytest.mark.parametrize("value, text", [
    ([1, 2], "Arg.input: a builtins.list"),
    (3, r"Arg.input: 3 \(int\)"),
    (None, r"Arg.input: None \(NoneType\)"),
    ("x", r"Arg.input: 'x' \(str\)"),
    (torch.ones(2, requires_grad=True), "requires grad\n.*\n.*x.detach"),
    (torch.ones(2, device="meta"), "a tensor on device meta"),
    (np.array([None]), "an array of Python objects"),
    (np.zeros(3, ">f4"), "elements of type >f4\n.*byte order.*\n.*x.astype"),
    (np.zeros(3, "M8[s]"), "elements of type datetime64"),
    (np.zeros(3, [("a", "f4")]), r"elements of type \[\('a', '<f4'\)\]"),
    (np.array(["ab"]), "elements of type <U2"),
    (np.zeros(3, np.longdouble), "elements of type float128"),
    (np.zeros(3, ml_dtypes.float8_e5m2), "elements of type float8_e5m2"),
    (memoryview(b"ab").cast("c"), r"elements of type \|S1"),
    (torch.zeros(3, 3).to_sparse(), "a tensor of layout torch.sparse_coo\n.*\n.*x.to_dense"),
    (torch.zeros(3, dtype=torch.cfloat).conj(), "conjugates or negates.*\n.*\n.*resolve_conj"),
    (torch.zeros(3, dtype=torch.cfloat).conj().imag, "conjugates or negates.*\n.*\n.*resolve_neg"),
])  # fmt: skip
def test_what_is_no_array_is_refused(value, text):
    with pytest.raises(pto.Error, match=text):
        pto.Arg.input(value)


def test_an_unknown_kind_of_argument_is_a_value_error():
    with pytest.raises(ValueError, match="7"):
        pto.Arg(7, np.ones(3))


def test_a_handle_names_a_tensor():
    x = np.arange(12.0).reshape(3, 4)
    handle, other = pto.TensorHandle.of(x), pto.TensorHandle((2, 3), "int64")
    assert handle.id != other.id and handle.shape == (3, 4) and handle.nbytes == 96
    assert np.shares_memory(handle.numpy(), x)
    view = handle[1:, ::2]
    assert view.id == handle.id and view.shape == (2, 2) and np.shares_memory(view.numpy(), x)
    assert torch.equal(torch.from_numpy(handle.numpy()), torch.from_numpy(x))
    assert (other.shape, other.dtype, other.nbytes) == ((2, 3), "int64", 48)
    assert repr(other) == f"<TensorHandle {other.id}: int64[2, 3]>"


def test_a_handle_without_memory_says_so():
    handle = pto.TensorHandle((2, 3))
    for use in (handle.numpy, lambda: handle[0], pto.Arg.input(handle).as_core):
        with pytest.raises(ValueError, match=r"float32\[2, 3\], has no memory behind it"):
            use()
    with pytest.raises(TypeError, match="unknown element type 'half precision'"):
        pto.TensorHandle((2,), "half precision")


# --- sources -------------------------------------------------------------------------------------


def write(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def tokens(text):
    return " ".join(re.sub(r"#line[^\n]*\n|\s+", " ", text).split())


def test_headers_are_put_in_place_and_lines_stay_right(tmp_path):
    write(tmp_path, a_cpp='int before;\n#include "sub/b.h"\nint after;\n#include <vector>\n',
          sub__b_h='#include "c.h"\nint b;\n', sub__c_h="int c;")  # fmt: skip
    source = read_source(tmp_path / "a.cpp")
    assert source.name == "a"
    assert tokens(source.text) == "int before; int c; int b; int after; #include <vector>"
    assert '#line 1 "sub/b.h"' in source.text and '#line 3 "a.cpp"\nint after' in source.text


def test_a_header_that_changes_changes_the_text(tmp_path):
    write(tmp_path, a_cpp='#include "b.h"\n', b_h="int b = 1;")
    first = read_source(tmp_path / "a.cpp")
    write(tmp_path, b_h="int b = 2;")
    assert read_source(tmp_path / "a.cpp") != first


def test_guarded_headers_stand_in_the_text_once(tmp_path):
    write(tmp_path, a_cpp='#include "b.h"\n#include "c.h"\n#include "d.def"\n#include "d.def"\n',
          b_h='#pragma once\n#include "c.h"\nint b;', d_def="X(1)",
          c_h='#ifndef C\n#define C\n#include "b.h"\nint c;\n#endif')  # fmt: skip
    text = read_source(tmp_path / "a.cpp").text
    assert (text.count("int b;"), text.count("int c;"), text.count("X(1)")) == (1, 1, 2)


def test_a_header_behind_a_condition_is_still_there_later(tmp_path):
    write(
        tmp_path,
        a_cpp='#if 0\n#include "b.h"\n#endif\n#include "b.h"\n',
        b_h="#pragma once\nint b;",
    )
    text = read_source(tmp_path / "a.cpp").text
    assert text.count("int b;") == 2 and text.count("#ifndef PTO_ONCE_0_b_h") == 2


def test_what_stands_in_comments_and_literals_is_no_include(tmp_path):
    text = """// #include "b.h"
/*
#include "b.h"
*/
const char* s = R"(
#include "b.h"
)"; int n = 1'000; // it's "quoted
PTO_KERNEL(one, One) // PTO_KERNEL(two, Two)
"""
    write(tmp_path, a_cpp=text, b_h="int wrong;")
    source = read_source(tmp_path / "a.cpp")
    assert "wrong" not in source.text and source.exported_kernels() == ["one"]


def test_include_folders_serve_both_forms(tmp_path):
    write(tmp_path, a_cpp='#include <b.h>\n#include "c.h"\n', lib__b_h="int b;", lib__c_h="int c;")
    assert tokens(read_source(tmp_path / "a.cpp", [tmp_path / "lib"]).text) == "int b; int c;"
    assert "<b.h>" in read_source(tmp_path / "a.cpp").text
    with pytest.raises(FileNotFoundError, match="include_dirs: .*none is no folder"):
        read_source(tmp_path / "a.cpp", [tmp_path / "none"])


def test_a_header_that_includes_itself_is_refused(tmp_path):
    write(tmp_path, a_cpp='#include "b.h"\n', b_h='#include "b.h"\n')
    with pytest.raises(ValueError, match="b.h includes itself"):
        read_source(tmp_path / "a.cpp")


@pytest.mark.parametrize("source, kind, text", [
    ("none.cpp", FileNotFoundError, "the source none.cpp does not exist"),
    ("", TypeError, "a source is ''"),
    (3, TypeError, "a source is 3"),
    ("kernel.o", ValueError, "kernel.o is a compiled object"),
    ("a\0b.cpp", RuntimeError, "cannot be read: embedded null byte"),
])  # fmt: skip
def test_what_is_no_source_is_refused(source, kind, text):
    with pytest.raises(kind, match=text) as raised:
        read_source(source)
    assert isinstance(raised.value, pto.Error)


def test_a_source_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "a.cpp").write_bytes(b"\xff\xfe\n")
    with pytest.raises(RuntimeError, match="a.cpp cannot be read"):
        read_source(tmp_path / "a.cpp")


def test_a_handle_takes_the_id_and_the_bytes_that_it_is_given():
    handle = pto.TensorHandle(id=7, shape=(2, 3), dtype="float32", size=24)
    assert (handle.id, handle.size, handle.nbytes) == (7, 24, 24)
    with pytest.raises(ValueError, match=r"size=23 of float32\[2, 3\]\n(.|\n)*here 24"):
        pto.TensorHandle(id=7, shape=(2, 3), size=23)
