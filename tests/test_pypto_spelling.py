# SPDX-License-Identifier: Apache-2.0
"""compat/pypto: the public package's names are functions of the language, on request only."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from pypto_package import loaded

import pto
from pto.adapters.torch import activation

PROGRAM = """
import pypto

BATCH = pypto.frontend.dynamic("batch")


@pypto.frontend.function
def scores(x):
    return pypto.cast(x, pypto.DT_FP32, pypto.CastMode.CAST_NONE) * 2


@pypto.frontend.jit(runtime_options={"device": 0})
def largest(x: pypto.Tensor([BATCH, 64], pypto.DT_FP32), out: pypto.Tensor(),
            places: pypto.Tensor([pypto.DYN, 2], pypto.DT_INT32)):
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


def test_programs_with_the_public_names_run(pypto, tmp_path):
    path = tmp_path / "public_names.py"
    path.write_text(PROGRAM)
    spec = importlib.util.spec_from_file_location("public_names", path)
    module = importlib.util.module_from_spec(spec)
    with pytest.warns(RuntimeWarning, match="the setting runtime_options has no meaning"):
        spec.loader.exec_module(module)
    x = np.random.default_rng(0).permutation(5 * 64).reshape(5, 64).astype(np.float32)
    out, places = np.zeros((5, 3), np.float32), np.zeros((5, 2), np.int32)
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
    """An unknown name says what is near."""
    for name in pypto._SAME.split():
        assert getattr(pypto, name) is getattr(pto, name), name
    for name in (*pypto._BY_NAME.split(), *pypto._PRECISE.split()):
        assert getattr(pypto, name).__wrapped__ is getattr(pto, name), name
    for name, ours in pypto._TYPES.items():
        assert getattr(pypto, name) is getattr(pto, ours) is getattr(pypto.DataType, name)
    assert pypto.CastMode.CAST_RINT is pto.CastMode.RINT
    with pytest.raises(AttributeError, match="pypto has no set_vec_tile_shape here"):
        _ = pypto.set_vec_tile_shape


NAMES = Path(__file__).with_name("pypto_names.txt").read_text().splitlines()[1:]
PAGE = (Path(__file__).parents[1] / "docs/pypto.md").read_text()


def test_the_page_lists_exactly_the_public_names_that_are_not_there(pypto):
    homes = {
        "": pypto,
        "Tensor": pto.Tensor,
        "frontend": pypto.frontend,
        "experimental": pypto.experimental,
    }
    missing = {
        name for name in NAMES
        if not hasattr(homes.get(name.rpartition(".")[0]), name.rpartition(".")[2])
    }  # fmt: skip
    listed = re.search(r"^```names\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert listed and set(listed[1].split()) == missing


@pytest.mark.filterwarnings("ignore:pypto. the setting:RuntimeWarning")
def test_the_blocks_of_the_page_run(pypto, tmp_path):
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    loaded(tmp_path, block)


_EDGES = torch.tensor([-(2**31), -(2**31), 2**31 - 1, 7, -7, 5], dtype=torch.int32)
_BY = torch.tensor([2, 3, -(2**31), -2, 2, 5], dtype=torch.int32)
DEVICES = ["cpu", *(["npu"] if activation.is_active() else [])]
_A, _B = torch.linspace(-2, 2.5, 12).reshape(3, 4), torch.linspace(3, -1.3, 12).reshape(3, 4)
_I = torch.arange(-6, 6, dtype=torch.int32).reshape(3, 4)
EXPRESSIONS = {
    "erfc(a)": (torch.erfc(_A), (_A, _B)),
    "hypot(a, b)": (torch.hypot(_A, _B), (_A, _B)),
    "prelu(a, b)": (torch.where(_A >= 0, _A, _A * _B), (_A, _B)),
    "lrelu(a, 0.25)": (torch.nn.functional.leaky_relu(_A, 0.25), (_A, _B)),
    "expand_exp_dif(a, b)": ((_A - _B).exp(), (_A, _B)),
    "greater(a, b)": (_A > _B, (_A, _B)),
    "floor_div(a, b)": (torch.floor_divide(_A, _B), (_A, _B)),
    "ceil_div(a, b)": (torch.ceil(_I / (_I * 0 + 4)).int(), (_I, _I * 0 + 4)),
    "ceil_div(a, b) + 0": (
        torch.ceil(_EDGES.double() / _BY.double()).int(), (_EDGES, _BY)),
    "axpy_(a, b, 3.0)": (_A + 3 * _B, (_A, _B)),
    "round(a, decimals=1)": (torch.round(_A, decimals=1), (_A, _B)),
    "matmul(a, b, b_trans=True, extend_params={'bias_tensor': b[0, :3]})":
        (_A @ _B.T + _B[0, :3], (_A, _B)),
}  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
def test_names_for_an_expression_give_what_pytorch_gives(pypto, device, tmp_path):
    for text, (want, (a, b)) in EXPRESSIONS.items():
        program = loaded(tmp_path, f"import pypto\n@pypto.jit\ndef f(a, b, out):\n"
                         f"    out[:] = pypto.{text}\n")  # fmt: skip
        out = torch.empty_like(want, device=device)
        program.f(a.clone().to(device), b.to(device), out)
        torch.testing.assert_close(out.cpu(), want, rtol=1e-5, atol=1e-5, msg=text)


def test_what_a_chip_alone_understands_is_refused_or_named_at_the_users_line(pypto, tmp_path):
    text = "import pypto\n@pypto.jit\ndef f(a, out):\n    out[:] = pypto.matmul(a, a, {})\n"
    program = loaded(tmp_path, text.format("extend_params={'scaled': 2}"))
    with pytest.raises(pto.Error, match="program_of_a_user.py:4: .*extend_params has 'scaled'"):
        program.f(_A[:, :3].contiguous(), torch.empty(3, 3))
    for call in ('pad(a, [1, 1], "reflect")', 'fillpad(a, mode="edge")'):
        program = loaded(
            tmp_path, f"import pypto\n@pypto.jit\ndef f(a):\n    return pypto.{call}\n"
        )
        with pytest.raises(ValueError, match="program_of_a_user.py:4: .*pads with .(reflect|edge)"):
            program.f(_A)
    text = (
        "import pypto\n@pypto.jit\ndef f(a, k, b):\n    a[:] = pypto.scatter_update(a, {}, k, b)\n"
    )
    rows = torch.tensor([2, 0], dtype=torch.int32)
    with pytest.raises(ValueError, match="program_of_a_user.py:4: .*along axis 1 of"):
        loaded(tmp_path, text.format(1)).f(_A.clone(), rows, _B[:2])
    for dim in (0, -2):
        out = _A.clone()
        loaded(tmp_path, text.format(dim)).f(out, rows, _B[:2])
        assert torch.equal(out, _A.index_copy(0, rows.long(), _B[:2]))
    assert pypto.bytes_of(pypto.DT_BF16) == 2 and pypto.RunMode.SIM == 1
    with pypto.options(name="part"), pytest.warns(RuntimeWarning, match="setting matrix_size has"):
        pypto.set_matrix_size([1, 2, 3])


def test_nothing_imports_it_by_default():
    text = "import pto, importlib.util\nassert importlib.util.find_spec('pypto') is None"
    subprocess.run([sys.executable, "-c", text], check=True)


def test_settings_of_tasks_and_their_order_are_options_of_the_language(pypto, tmp_path):
    """They change no bit, and show in the plan of lines inside or behind them."""
    text = (
        "import pypto\n@pypto.jit\ndef f(a, out):\n    out[:] = pypto.exp(a) * 2\n"
        "@pypto.jit\ndef g(a, out):\n"
        "    with pypto.options(pass_options={'vec_nbuffer_setting': {-1: 4, 0: 9}}):\n"
        "        out[:] = pypto.exp(a) * 2\n"
        "@pypto.jit\ndef h(a, out):\n"
        "    pypto.set_pass_options(cube_l1_reuse_setting={0: 2, 3: 8})\n"
        "    pypto.set_runtime_options(device_sched_mode=1)\n"
        "    out[:] = pypto.exp(a) * 2\n"
    )
    program = loaded(tmp_path, text)
    found = {}
    for name in "fgh":
        function, out = getattr(program, name), torch.empty_like(_A)
        function(_A, out)
        choices = {c.what: c.value for c in function.explain(_A, out).choices if c.by == "user"}
        found[name] = out, choices
    assert found["f"][1] == {} and found["g"][1] == {"tiles_per_task": "4"}
    assert found["h"][1] == {"tiles_per_task": "8", "order": "depth"}
    assert all(torch.equal(found[name][0], found["f"][0]) for name in "gh")
