# SPDX-License-Identifier: Apache-2.0
"""Paths whose bytes are no UTF-8 are those of any other file."""

import os

import numpy as np
import pytest

import pto

X = np.ones((2, 3), "f4")
NAME = "caf\udce9"  # as os.fsdecode() gives the byte 0xe9


@pytest.fixture
def folder(tmp_path, monkeypatch):
    made = os.path.join(tmp_path, NAME)
    os.mkdir(made)
    monkeypatch.setenv("PTO_CACHE_DIR", os.path.join(made, "cache"))
    return made


def test_a_cache_a_trace_and_a_package_may_lie_there(folder):
    jit = pto.jit(lambda x: x * 3 + 7.5)
    assert jit.trace(os.path.join(folder, f"{NAME}.json"), X)[0, 0] == 10.5
    path = os.path.join(folder, f"{NAME}.pto")
    jit.package(path, (X,))
    assert pto.load(path)(X)[0, 0] == 10.5
    assert sorted(map(os.fsencode, os.listdir(folder)))[:2] == [b"cache", b"caf\xe9.json"]


def test_a_nul_in_the_path_of_a_trace_is_told():
    with pytest.raises(pto.Error, match="has a NUL in it"):
        pto.jit(lambda x: x + 1).trace("a\0b.json", X)
