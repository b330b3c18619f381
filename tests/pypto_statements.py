# SPDX-License-Identifier: Apache-2.0
"""The rows of compat/pypto that are programs with statements; see pypto_rows.py."""

import pypto
import torch
from pypto_rows import F, row


@row("loop", lambda a, **_: a.flip(0) * 2)
def loops(a):
    out = pypto.zeros(a.shape)
    for n in pypto.loop(0, a.shape[0], 1, name="ROWS", idx_name="n", submit_before_loop=True):
        out[a.shape[0] - 1 - n] = a[n] * 2
    return out


@row("loop_unroll", lambda a, **_: a.sum(0))
def unrolled(a):
    total = pypto.zeros([4])
    for n, k in pypto.loop_unroll(a.shape[0], unroll_list=[2]):
        total = total + pypto.sum(a[n : n + k], 0)
    return total


@row("is_loop_begin", lambda a, **_: a + torch.tensor([[1.0], [0], [0]]))
@row("is_loop_end", lambda a, **_: a + torch.tensor([[1.0], [0], [0]]))
@row("cond", lambda a, **_: a + torch.tensor([[1.0], [0], [0]]))
def edges(a):
    out = pypto.zeros(a.shape)
    for n in pypto.loop(a.shape[0]):
        part = a[n]
        if pypto.cond(pypto.is_loop_begin(n)):
            part = part + 1
        if pypto.cond(pypto.is_loop_end(n)):
            part = part * 1
        out[n] = part
    return out


@row("symbolic_scalar", lambda a, **_: a[:1] * 3)
@row("SymbolicScalar", lambda a, **_: a[:1] * 3)
def numbers(a, k):
    n = pypto.symbolic_scalar(k[0])
    least, most = (n * 5).min(a.shape[0]).as_variable(), n.max(1) / 2
    assert isinstance(n, pypto.SymbolicScalar)
    return pypto.view(a, [1, 4], [k[1], 0], [most, 4])[:1] * least


@row("assemble", lambda a, b, **_: torch.cat([b[:, :1], a[:, :3]], 1))
@row("tensor", lambda a, b, **_: torch.cat([b[:, :1], a[:, :3]], 1))
@row("Tensor", lambda a, b, **_: torch.cat([b[:, :1], a[:, :3]], 1))
def assembled(a, b):
    out = pypto.tensor([3, 4], pypto.DT_FP32, "out", format=pypto.TileOpFormat.TILEOP_NZ)
    pypto.assemble(b[:, :1], [0, 0], out)
    pypto.assemble(a[:, :3], [0, 1], out)
    assert isinstance(out, pypto.Tensor)
    return out * 1


@row("assemble", lambda a, b, **_: torch.cat([b[:, :1], a[:, :3]], 1))
def assembled_at_once(a, b):
    out = pypto.tensor(shape=[3, 4], dtype=pypto.DT_FP32)
    pypto.assemble([(b[:, :1], [0, 0]), (a[:, :3], [0, 1])], out, parallel=True)
    return out * 1


@row("slice assignment", lambda a, b, **_: torch.cat([F.pad(b[:1], (0, 1)), F.pad(a, (1, 0))]))
@row("Tensor.move", lambda a, b, **_: torch.cat([F.pad(b[:1], (0, 1)), F.pad(a, (1, 0))]))
def moved(a, b):
    out, copy = pypto.zeros([4, 5]), pypto.tensor()
    out[1:, 1:] = a
    out[...] = b[:1]
    copy[:] = out
    last = pypto.zeros([4, 5])
    last.move(copy)
    return last


@row("scatter_", lambda a, b, k, **_: a.scatter(0, k[None, :], b[:1, :2]))
def scattered(a, b, k):
    out = pypto.clone(a)
    pypto.scatter_(out, 0, k[None, :], b[:1, :2])
    return out


@row("scatter_add_", lambda a, b, k, **_: a.scatter_add(0, k[None, :], b[:1, :2]))
def scattered_on(a, b, k):
    out = pypto.clone(a)
    out.scatter_add_(0, k[None, :], b[:1, :2])
    return out


@row("index_add_", lambda a, b, k, **_: a.index_add(0, k, b[:2], alpha=2))
def added(a, b, k):
    out = pypto.clone(a)
    pypto.index_add_(out, 0, k, b[:2], alpha=2)
    return out


@row("function", lambda a, **_: a * 3)
def named(a):
    out = pypto.zeros(a.shape)
    with pypto.function("TRIPLE", [a], [out]):
        out[:] = a * 3
    return out


@row("options", lambda a, w, **_: (a * 2) @ w)
@row("set_options", lambda a, w, **_: (a * 2) @ w)
@row("set_pass_options", lambda a, w, **_: (a * 2) @ w)
@row("set_vec_tile_shapes", lambda a, w, **_: (a * 2) @ w)
@row("set_cube_tile_shapes", lambda a, w, **_: (a * 2) @ w)
@row("set_semantic_label", lambda a, w, **_: (a * 2) @ w)
@row("get_vec_tile_shapes", lambda a, w, **_: (a * 2) @ w)
@row("get_cube_tile_shapes", lambda a, w, **_: (a * 2) @ w)
def hinted(a, w):
    pypto.set_vec_tile_shapes(2, 4)
    pypto.set_semantic_label("outside")
    tiles = [[16, 16], [32, 32], [16, 16]]
    with pypto.options("inside", vec_tile_shapes=[1, 4], cube_tile_shapes=[*tiles, True]):
        assert pypto.get_vec_tile_shapes() == [1, 4]
        assert pypto.get_cube_tile_shapes() == tiles
        a = a * 2
        pypto.set_options(vec_tile_shapes=[3, 4])
    assert pypto.get_vec_tile_shapes() == [2, 4] and pypto.get_cube_tile_shapes() != tiles
    pypto.set_cube_tile_shapes([16, 16], [16, 16], [32, 32], enable_split_k=True)
    pypto.set_pass_options(sg_set_scope=1)
    return a @ w


@row("set_matrix_size", lambda a, **_: a)
@row("set_host_options", lambda a, **_: a)
@row("set_codegen_options", lambda a, **_: a)
@row("set_runtime_options", lambda a, **_: a)
@row("set_verify_options", lambda a, **_: a)
@row("set_debug_options", lambda a, **_: a)
@row("experimental.set_operation_options", lambda a, **_: a)
def accepted(a):
    pypto.set_matrix_size([16, 16, 16])
    for setter in (pypto.set_host_options, pypto.set_codegen_options, pypto.set_runtime_options,
                   pypto.set_verify_options, pypto.set_debug_options):  # fmt: skip
        setter(unknown=1)
    pypto.experimental.set_operation_options(combine_axis=True)
    return a * 1


def _annotated(a: pypto.Tensor[[pypto.DYNAMIC, 4], pypto.DT_FP32], out: pypto.Tensor()):
    pypto.set_vec_tile_shapes(1, 4)
    out[:] = a + 1


def _static(a: pypto.Tensor([pypto.STATIC, pypto.DYN], pypto.DT_FP32, format="ND"),
            out: pypto.Tensor([], pypto.DT_FP32)):  # fmt: skip
    out[:] = a + a.shape[0] - 2


@pypto.frontend.function
def _helper(a, out):
    for n in pypto.loop(a.shape[0]):
        out[n] = a[n] + 1


def _calling(a: pypto.tensor(), out: pypto.tensor()):
    _helper(a, out)


PROGRAMS = {  # each makes a + 1 of a
    "jit": pypto.jit(_annotated),
    "frontend.jit": pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.SIM})(_annotated),
    "DYNAMIC": pypto.frontend.jit()(_annotated),
    "DYN": pypto.frontend.jit(_static),
    "STATIC": pypto.jit(debug_options={"runtime_debug_mode": 1})(_static),
    "frontend.function": pypto.jit(pass_options={"a": 1}, host_options={"b": 2})(_calling),
}
