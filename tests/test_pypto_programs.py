# SPDX-License-Identifier: Apache-2.0
"""compat/pypto: programs as models of the public package write them."""

import importlib

import pytest
import torch
from pypto_package import loaded
from test_pypto_spelling import DEVICES

import pto

ROUTER = """
import pypto

ROWS = 4


@pypto.frontend.jit(runtime_options={"stitch_function_max_num": 128})
def route(logits: pypto.Tensor([pypto.DYNAMIC, ...], pypto.DT_FP32),
          bias: pypto.Tensor([], pypto.DT_BF16),
          weights: pypto.Tensor([pypto.DYNAMIC, ...], pypto.DT_FP32),
          chosen: pypto.Tensor([pypto.DYNAMIC, ...], pypto.DT_INT32),
          settings: dict, renormalise=True):
    batch, experts = logits.shape
    groups, each = settings["groups"], experts // settings["groups"]
    pypto.set_vec_tile_shapes(experts)
    row = pypto.reshape(bias, [1, experts], inplace=True)
    for i in pypto.loop((batch + ROWS - 1) // ROWS, name="ROWS", idx_name="i"):
        n = (batch - i * ROWS).min(ROWS)
        part = pypto.view(logits, [ROWS, experts], [i * ROWS, 0], valid_shape=[n, experts])
        pypto.set_vec_tile_shapes(1, experts)
        scores = pypto.sigmoid(part)
        shifted = pypto.add(scores, pypto.cast(row, scores.dtype))
        best = pypto.amax(pypto.reshape(shifted, [ROWS, groups, each],
                                        valid_shape=[(batch - i * ROWS).min(ROWS), groups, each]),
                          -1, False)
        _, found = pypto.topk(best, settings["kept"], -1, True)
        mask = pypto.full([ROWS, groups], 0.0, best.dtype, valid_shape=[n, groups])
        mask = pypto.unsqueeze(pypto.scatter_(mask, 1, found, 1.0), -1)
        mask = pypto.expand_clone(mask, [ROWS, groups, each], valid_shape=[n, groups, each])
        mask = pypto.reshape(mask, [ROWS, experts], valid_shape=[n, experts])
        shifted = pypto.where(pypto.logical_not(mask), 0.0, shifted)
        _, places = pypto.topk(shifted, chosen.shape[1], -1, True)
        picked = pypto.gather(scores, 1, places)
        if pypto.symbolic_scalar(renormalise):
            picked = pypto.div(picked, pypto.sum(picked, -1, True))
        weights[i * ROWS:, 0:] = picked
        chosen[i * ROWS:, 0:] = places
"""
STATIC = """
import pypto


@pypto.frontend.jit
def halves(x: pypto.Tensor([pypto.DYNAMIC, ...], pypto.DT_FP32), out: pypto.Tensor()):
    middle = x.shape[1] // 2
    parts = [x[:, k * middle : k * middle + middle] for k in range(x.shape[1] // middle)]
    out[:] = pypto.concat(tensors=parts[::-1], dim=-1)
"""


def by_torch(logits, bias, groups, kept, k):
    scores = logits.sigmoid()
    shifted = scores + bias.float()
    found = shifted.view(len(logits), groups, -1).amax(-1).topk(kept)[1]
    mask = torch.zeros(len(logits), groups).scatter_(1, found, 1)
    mask = mask[..., None].expand(-1, -1, logits.shape[1] // groups).reshape(logits.shape)
    places = shifted.masked_fill(mask == 0, 0).topk(k)[1]
    picked = scores.gather(1, places)
    return picked / picked.sum(-1, keepdim=True), places.int()


@pytest.mark.filterwarnings("ignore:pypto. the setting:RuntimeWarning")
@pytest.mark.parametrize("device", DEVICES)
def test_the_router_of_a_mixture_of_experts_runs(pypto, device, tmp_path):
    program = loaded(tmp_path, ROUTER)
    torch.manual_seed(0)
    for rows in (1, 4, 7):
        logits, bias = torch.randn(rows, 32), torch.rand(32).bfloat16()
        wanted = by_torch(logits, bias, 8, 3, 5)
        out = [torch.empty_like(one, device=device) for one in wanted]
        program.route(logits.to(device), bias.to(device), *out, {"groups": 8, "kept": 3})
        torch.testing.assert_close([one.cpu() for one in out], [*wanted], rtol=1e-5, atol=1e-6)


def test_sizes_that_are_not_dynamic_are_numbers_while_tracing(pypto, tmp_path):
    program = loaded(tmp_path, STATIC)
    for shape in ((3, 4), (2, 4), (2, 6)):
        x = torch.randn(shape)
        program.halves(x, out := torch.empty_like(x))
        assert torch.equal(out, torch.cat(x.chunk(2, -1)[::-1], -1))


def test_a_name_that_no_argument_has_is_told_with_those_that_it_has(pypto, tmp_path):
    text = "import pypto\n@pypto.jit\ndef f(a):\n    return pypto.{}\n"
    program = loaded(tmp_path, text.format("amax(input=a, axes=0)"))
    with pytest.raises(TypeError, match="program_of_a_user.py:4: amax has no argument axes\n"
                                        ".*it takes x, dim, keepdim"):  # fmt: skip
        program.f(torch.ones(2, 2))
    program = loaded(tmp_path, text.format("view(a, dtype=pypto.DT_INT32)"))
    with pytest.raises(pto.Error, match="py:4: view of f32 as i32\n"):
        program.f(torch.ones(2, 2))
    program = loaded(tmp_path, text.format("quantize(a, a[0], pypto.DT_INT8, 2)"))
    with pytest.raises(pto.Error, match="py:4: scales along axis 2 of .*\n.*each row"):
        program.f(torch.ones(2, 2))


@pytest.mark.skipif("npu" not in DEVICES, reason="the npu device is not built")
def test_formats_of_torch_npu_are_hints(pypto):
    torch_npu = importlib.import_module("torch_npu")
    x = torch.ones(2, 2).npu()
    torch_npu.npu.config.allow_internal_format = True
    assert torch_npu.npu_format_cast(x, torch_npu.Format.FRACTAL_NZ) is x
    assert torch_npu.npu_format_cast_(x, 29) is x
    assert torch_npu.get_npu_format(x) == torch_npu.Format.ND == 2
