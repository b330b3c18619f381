# SPDX-License-Identifier: Apache-2.0
"""compat/pypto: the public package's names are functions of the language, on request only."""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest

import pto
from pto import build_config

PROGRAM = """
import pypto

BATCH = pypto.frontend.dynamic("batch")


@pypto.frontend.function
def scores(x):
    return pypto.cast(x, pypto.DT_FP32, pypto.CastMode.CAST_NONE) * 2


@pypto.frontend.jit(runtime_options={"device": 0})
def largest(x: pypto.Tensor([BATCH, 64], pypto.DT_FP32), out: pypto.Tensor(),
            places: pypto.Tensor([..., 2], pypto.DT_INT64)):
    n = pypto.symbolic_scalar(x.shape[0])
    pypto.set_vec_tile_shapes(1, 64)
    pypto.set_cube_tile_shapes([16, 16], [64, 64], [16, 16])
    for i in pypto.loop(0, n, 1, name="LOOP", idx_name="i"):
        row = pypto.view(x, [1, 64], [i, 0])
        tile = pypto.tensor([1, 64], pypto.DT_FP32, "tile")
        tile[:] = scores(row)
        if pypto.cond(pypto.is_loop_begin(i)):
            tile[:] = tile + 1
        values, found = pypto.topk(tile, 2, -1, True)
        product = pypto.matmul(tile, row, pypto.DT_FP32, b_trans=True)
        pypto.assemble(pypto.concat([values, product], 1), [i, 0], out)
        pypto.assemble(found, [i, 0], places)


@pypto.jit
def halves(x, out):
    for i, k in pypto.loop_unroll(0, x.shape[0], 1, unroll_list=[4, 2]):
        part = pypto.view(x, [k, 64], [i, 0])
        out[i : i + k] = pypto.div(part, pypto.full([k, 64], 2.0, pypto.DT_FP32))
"""


@pytest.fixture
def pypto(monkeypatch):
    monkeypatch.syspath_prepend(build_config.compat_dir())
    yield importlib.import_module("pypto")
    for name in ("pypto", "pypto.frontend"):
        sys.modules.pop(name, None)


def test_programs_with_the_public_names_run(pypto, tmp_path):
    path = tmp_path / "public_names.py"
    path.write_text(PROGRAM)
    spec = importlib.util.spec_from_file_location("public_names", path)
    module = importlib.util.module_from_spec(spec)
    with pytest.warns(RuntimeWarning, match="the setting runtime_options has no meaning"):
        spec.loader.exec_module(module)
    x = np.random.default_rng(0).permutation(5 * 64).reshape(5, 64).astype(np.float32)
    out, places = np.zeros((5, 3), np.float32), np.zeros((5, 2), np.int64)
    module.largest(x, out, places)
    tile = x * 2
    tile[0] += 1
    want = np.argsort(-tile, -1)[:, :2]
    np.testing.assert_array_equal(places, want)
    np.testing.assert_array_equal(out[:, :2], np.take_along_axis(tile, want, -1))
    np.testing.assert_allclose(out[:, 2], (tile * x).sum(-1), rtol=1e-6)
    module.halves(x, y := np.zeros_like(x))
    np.testing.assert_array_equal(y, x / 2)
    with pytest.raises(pto.Error, match="x has 3 axes"):
        module.largest(x[None], out, places)


def test_every_name_of_the_table_is_one_of_the_language(pypto):
    """Equal names are equal objects, and an unknown one says what is near."""
    for name in pypto._SAME.split():
        assert name == "CastMode" or getattr(pypto, name) is getattr(pto, name), name
    for name, ours in pypto._TYPES.items():
        assert getattr(pypto, name) is getattr(pto, ours) is getattr(pypto.DataType, name)
    assert pypto.CastMode.CAST_RINT is pto.CastMode.RINT
    with pytest.raises(AttributeError, match="pypto has no set_vec_tile_shape here"):
        _ = pypto.set_vec_tile_shape


def test_nothing_imports_it_by_default():
    text = "import pto, importlib.util\nassert importlib.util.find_spec('pypto') is None"
    subprocess.run([sys.executable, "-c", text], check=True)
