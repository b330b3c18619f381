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
    with pytest.raises((InvalidType, TypeError)):
        cpp_kernel(3, "added")
