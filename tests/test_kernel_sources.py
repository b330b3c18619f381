# SPDX-License-Identifier: Apache-2.0
"""cpp_kernel: text in the place of a file, own headers, folders, definitions, the checked build."""

import numpy as np
import pytest

import pto
from pto import cpp_kernel, op
from pto.errors import InvalidType, InvalidValue, MissingFile

TEXT = """
#include "pto/operators/kernel_arguments.hpp"
#include "own.hpp"

extern "C" int32_t added(const pto_args* args) {
  const pto::KernelArguments in(args);
  for (int64_t i = 0; i < in.tensor(0).sizes[0]; ++i)
    in.data<PTO_TYPE_0>(1)[i] = in.data<const PTO_TYPE_0>(0)[i] + OWN * FACTOR;
  return 0;
}
"""
X = np.arange(4.0)


def operator(name, source, **options):
    class Added:
        kernel = cpp_kernel(source, "added", **options)

        def infer(x):
            return x.like()

    return op(f"sources_{name}(Tensor x) -> Tensor")(Added)


@pytest.fixture
def headers(tmp_path):
    folder = tmp_path / "include"
    folder.mkdir()
    (folder / "own.hpp").write_text("#pragma once\n#define OWN 10\n")
    return folder


def test_text_own_headers_folders_and_definitions(headers):
    added = operator("text", TEXT, include_dirs=[headers], flags=["-DFACTOR=2"])
    assert np.array_equal(added(X), X + 20)
    by_flag = operator("flag", TEXT, flags=f"-I{headers} -DFACTOR -UOTHER")
    assert np.array_equal(by_flag(X), X + 10)


def test_a_header_that_changed_is_compiled_anew(headers):
    before = operator("before", TEXT, include_dirs=[headers], flags=["-DFACTOR=1"])
    assert np.array_equal(before(X), X + 10)
    (headers / "own.hpp").write_text("#define OWN 30\n")
    after = operator("after", TEXT, include_dirs=[headers], flags=["-DFACTOR=1"])
    assert np.array_equal(after(X), X + 30) and np.array_equal(before(X), X + 10)


def test_headers_lie_beside_a_file(headers):
    path = headers / "added.cpp"
    path.write_text(TEXT)
    assert np.array_equal(operator("file", str(path), flags=["-DFACTOR=3"])(X), X + 30)
    assert np.array_equal(operator("path", path, flags=["-DFACTOR=3"])(X), X + 30)


def test_one_folder_needs_no_list(headers):
    for name, folder in (("one", headers), ("one_text", str(headers))):
        added = operator(name, TEXT, include_dirs=folder, flags="-DFACTOR=2")
        assert np.array_equal(added(X), X + 20)


@pytest.mark.parametrize("options, text", [
    ({"include_dirs": 3}, "include_dirs has 3"), ({"include_dirs": b"x"}, "include_dirs has b'x'"),
    ({"include_dirs": [None]}, "include_dirs has None"), ({"include_dirs": ""}, "include_dirs has"),
    ({"flags": 3}, "flags has 3"), ({"flags": [3]}, "flags has 3"), ({"flags": b"-D"}, "flags has"),
])  # fmt: skip
def test_folders_and_flags_are_texts_or_paths(options, text):
    with pytest.raises(InvalidType, match=f"{text}.*\n.*\n  fix: pass "):
        cpp_kernel(TEXT, "added", **options)


def test_an_error_does_not_repeat_the_text(tmp_path):
    folder = operator("short", TEXT, include_dirs=tmp_path / "none")
    with pytest.raises(pto.Error, match="include_dirs: .*none is no folder") as raised:
        folder(X)
    assert "pass folders that exist" in str(raised.value) and "int32_t" not in str(raised.value)
    (tmp_path / "latin.cpp").write_bytes(b"// \xff\n")
    with pytest.raises(pto.Error, match="cannot be read.*\n.*\n  fix: check what the path names"):
        operator("latin", tmp_path / "latin.cpp")(X)


CHECKED = """
#include "pto/pto-inst.hpp"
extern "C" int32_t added(const pto_args* args) {
  pto::Tile<pto::TileType::Vec, float, 1, 64> a, b;
  pto::TADD(a, b, b);
  return 0;
}
"""


def test_the_checked_build_finds_a_tile_that_nobody_wrote():
    checked = operator("checked", CHECKED, flags=["-DPTO_CHECKED"])
    with pytest.raises(pto.Error, match="TADD .* was never written"):
        checked(X)


def test_what_is_wrong_is_said(headers, tmp_path):
    with pytest.raises(InvalidValue, match="flags: '-O3'"):
        cpp_kernel(TEXT, "added", flags=["-O3"])
    with pytest.raises(InvalidValue, match="-std=c\\+\\+20"):
        cpp_kernel(TEXT, "added", flags=["-std=c++20"])
    missing = operator("missing", str(tmp_path / "none.cpp"))
    with pytest.raises((MissingFile, pto.Error), match="its kernel cannot be read: .*none.cpp"):
        missing(X)
    folder = operator("folder", TEXT, include_dirs=[tmp_path / "none"])
    with pytest.raises((MissingFile, pto.Error), match="its kernel cannot be read: include_dirs"):
        folder(X)
    wrong = operator("wrong", TEXT.replace("OWN *", "OWN +* 1 ="), include_dirs=[headers])
    with pytest.raises(pto.Error, match=r"sources_wrong.cpp:8:.*error: "):
        wrong(X)
    for source in (3, None, b"x.cpp", [TEXT]):
        with pytest.raises(InvalidType, match="cpp_kernel: the source is .*\n.*\n  fix: pass the"):
            cpp_kernel(source, "added")
    for name in (3, "", "a b", None):
        with pytest.raises(InvalidType, match="cpp_kernel: the function is"):
            cpp_kernel(TEXT, name)
