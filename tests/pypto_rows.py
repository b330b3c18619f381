# SPDX-License-Identifier: Apache-2.0
"""One row for each public name of compat/pypto: a program that uses it, and what PyTorch gives.

    name | the program, over the tensors below | the same in torch     # EXPRESSIONS
    name | an expression outside of a program | what it is                # VALUES
    @row("loop", lambda a, b, **_: ...)                # a program with statements, as a decorator

Names with a dot are methods, Tensor.move, or members of a namespace, experimental.gather_in_ub.
Imported once pypto can be.
"""

import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pypto
import torch

F = torch.nn.functional
_A = torch.linspace(-2, 2.5, 12).reshape(3, 4)
TENSORS = {
    "a": _A,
    "b": torch.linspace(3, -1.3, 12).reshape(3, 4),
    "p": _A.abs() + 0.25,
    "u": _A / 3,
    "i": torch.arange(-6, 6, dtype=torch.int32).reshape(3, 4),
    "j": torch.arange(12, dtype=torch.int32).reshape(3, 4) % 5 + 1,
    "k": torch.tensor([2, 0]),
    "m": _A > 0.3,
    "w": torch.linspace(-1, 1, 20).reshape(4, 5),
    "q": torch.arange(-6, 6, dtype=torch.int8).reshape(3, 4),
}
ALIKE = {  # names that torch has, too, by what both are given
    "a": "abs neg exp2 expm1 square sign sin cos tan atan sinh cosh tanh asinh erf floor ceil "
    "trunc frac isnan isinf isfinite nan_to_num relu sigmoid round erfc exp sum mean prod amax "
    "amin var std count_nonzero flatten clone tril triu",
    "u": "asin acos atanh",
    "p": "log log1p log2 log10 sqrt rsqrt reciprocal",
    "m": "logical_not any all",
    "i": "bitwise_not",
    "a, b": "add sub mul div remainder fmod floor_divide maximum minimum atan2 logaddexp hypot eq "
    "ne lt le gt ge greater",
    "p, b": "pow",
    "m, ~m": "logical_and logical_or",
    "i, j": "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift",
    "a, -1": "logsumexp softmax log_softmax cumsum cumprod",
    "a, 0.5": "lerp_",
    "a, -1, 1": "clip clamp",
    "a, 1": "unsqueeze",
    "a[:, None], 1": "squeeze",
    "a, 0, 1": "transpose",
    "a, (1, 0)": "permute",
    "a, (0,)": "flip",
    "a, m, 2.0": "masked_fill",
    "a, b, 0.25": "lerp",
    "a, 1, k": "index_select",
}  # fmt: skip
NEURAL = "relu6 leaky_relu elu gelu silu softplus mish hardswish hardsigmoid logsigmoid"
EXPRESSIONS = """
acosh | pypto.acosh(p + 1) | torch.acosh(p + 1)
prelu | pypto.prelu(a, b) | torch.where(a >= 0, a, a * b)
lrelu | pypto.lrelu(a, 0.25) | F.leaky_relu(a, 0.25)
expand_exp_dif | pypto.expand_exp_dif(a, b) | (a - b).exp()
floor_div | pypto.floor_div(a, b) | torch.floor_divide(a, b)
ceil_div | pypto.ceil_div(i, j) | torch.ceil(i / j).int()
ceildiv | a * pypto.ceildiv(a.shape[0], 2) | a * 2
min | a * pypto.min(a.shape[0], 2) | a * 2
max | a * pypto.max(a.shape[1], 2) | a * 4
sum | a.sum(-1, keepdim=True) | a.sum(-1, keepdim=True)
sum | pypto.sum(dim=-1, input=i) | i.sum(-1, dtype=torch.int32)
prod | pypto.prod(j, -1, True) | j.prod(-1, True, dtype=torch.int32)
logical_not | pypto.logical_not(a) | a == 0
logical_not | pypto.logical_not(i) | i == 0
logical_and | pypto.logical_and(i, a) | (i != 0) & (a != 0)
logical_or | pypto.logical_or(input=i, other=m) | torch.logical_or(i, m)
where | pypto.where(condition=m, input=a, other=0.0) | torch.where(m, a, 0.0)
where | pypto.where(m, a, b) | torch.where(m, a, b)
add | pypto.add(input_tensor=a, other=b) | a + b
rms_norm | pypto.rms_norm(a, gamma=b[0], epsilon=1e-3) | F.rms_norm(a, (4,), b[0], eps=1e-3)
round | pypto.round(a, decimals=1) | torch.round(a, decimals=1)
rms_norm | pypto.rms_norm(a) | F.rms_norm(a, (4,), eps=1e-6)
layer_norm | pypto.layer_norm(a) | F.layer_norm(a, (4,))
online_softmax | pypto.online_softmax(a, pypto.full([3, 1], -1e30), pypto.zeros([3, 1]))[3] | \
(a - a.amax(-1, True)).exp().sum(-1, True)
axpy_ | pypto.axpy_(pypto.clone(a), b, 3.0) | a + 3 * b
PrecisionType | pypto.exp(a, pypto.PrecisionType.HIGH_PRECISION) | a.exp()
PrecisionType | pypto.div(a, b, precision_type=pypto.PrecisionType.INTRINSIC) | a / b
cast | pypto.cast(a, pypto.DT_INT32, pypto.CastMode.CAST_FLOOR) | a.floor().int()
CastMode | pypto.cast(a, pypto.DT_INT32, pypto.CastMode.CAST_CEIL) | a.ceil().int()
SaturationMode | pypto.cast(a * 100, pypto.DT_INT8, satmode=pypto.SaturationMode.ON) | \
(a * 100).clamp(-128, 127).to(torch.int8)
DataType | pypto.cast(a, pypto.DataType.DT_FP16) | a.half()
DT_BOOL | pypto.cast(i, pypto.DT_BOOL) | i.bool()
DT_INT8 | pypto.cast(i, pypto.DT_INT8) | i.to(torch.int8)
DT_INT16 | pypto.cast(i, pypto.DT_INT16) | i.to(torch.int16)
DT_INT32 | pypto.cast(i, pypto.DT_INT32) + 1 | i + 1
DT_INT64 | pypto.cast(i, pypto.DT_INT64) | i.long()
DT_UINT8 | pypto.cast(j, pypto.DT_UINT8) | j.to(torch.uint8)
DT_UINT16 | pypto.cast(pypto.cast(j, pypto.DT_UINT16), pypto.DT_INT64) | j.long()
DT_UINT32 | pypto.cast(pypto.cast(j, pypto.DT_UINT32), pypto.DT_INT64) | j.long()
DT_UINT64 | pypto.cast(pypto.cast(j, pypto.DT_UINT64), pypto.DT_INT64) | j.long()
DT_FP16 | pypto.cast(a, pypto.DT_FP16) | a.half()
DT_BF16 | pypto.cast(a, pypto.DT_BF16) | a.bfloat16()
DT_FP32 | pypto.cast(i, pypto.DT_FP32) | i.float()
DT_DOUBLE | pypto.cast(a, pypto.DT_DOUBLE) | a.double()
--- shapes
view | pypto.view(a, [2, 2], [1, 1]) | a[1:3, 1:3]
view | pypto.view(a, [2, 3], [1, 2], valid_shape=[2, 2]) | a[1:3, 2:4]
Tensor.view | a.view([2, 2], [1, 1]) | a[1:3, 1:3]
Tensor.view | a.view([2, 3], [1, 2], valid_shape=[2, 2]) * 1 | a[1:3, 2:4]
Tensor.valid_shape | a.view([2, 3], [1, 2], valid_shape=[2, 2]) * \
a.view([2, 3], [1, 2], valid_shape=[2, 2]).valid_shape[1] | a[1:3, 2:4] * 2
reshape | pypto.reshape(a, [6, 2], inplace=True) + 1 | a.reshape(6, 2) + 1
reshape | pypto.reshape(a, [2, 6], valid_shape=[1, 6]) | a.reshape(2, 6)[:1]
concat | pypto.concat([a, b], 1) | torch.cat([a, b], 1)
expand_clone | pypto.expand_clone(a[:, :1], [3, 4]) | a[:, :1].expand(3, 4)
expand_clone | pypto.expand_clone(a[:, :1], [3, 4], valid_shape=[3, 2]) | a[:, :1].expand(3, 2)
fillpad | pypto.fillpad(pypto.view(a, [2, 3], [1, 2], valid_shape=[1, 2]), "constant", 7.0) | \
F.pad(a[1:2, 2:4], (0, 1, 0, 1), value=7.0)
pad | pypto.pad(a, [0, 2, 0, 1], "constant", 3.0) | F.pad(a, (0, 2, 0, 1), value=3.0)
full | pypto.full([2, 3], 1.5, pypto.DT_FP32) | torch.full((2, 3), 1.5)
full | pypto.full([2, 3], 2.0, pypto.DT_FP16, valid_shape=[2, 2]) | torch.full((2, 2), 2.0).half()
zeros | pypto.zeros([2, 3], pypto.DT_INT32) | torch.zeros(2, 3, dtype=torch.int32)
zeros | pypto.zeros(2, 3, dtype=pypto.DT_FP16) | torch.zeros(2, 3).half()
ones | pypto.ones([2, 3]) | torch.ones(2, 3)
ones | pypto.ones(3) | torch.ones(3)
reshape | pypto.reshape(input=a, shape=[2, 6]) | a.reshape(2, 6)
permute | pypto.permute(a, dims=[1, 0]) | a.T
view | pypto.view(a, [2, 2]) | a[:2, :2]
arange | pypto.arange(1, 9, 2) | torch.arange(1, 9, 2, dtype=torch.int32)
arange | pypto.arange(4.0) | torch.arange(4.0)
eye | pypto.eye(3) | torch.eye(3)
one_hot | pypto.one_hot(k, 4) | F.one_hot(k, 4)
Tensor.transpose | a.transpose(0, 1) | a.T
SymInt | a * pypto.SymInt(2) | a * 2
slices | a[1:, :2] + a[1:, 2:] | a[1:, :2] + a[1:, 2:]
--- positions
gather | pypto.gather(a, 1, pypto.cast(j - 1, pypto.DT_INT64) // 2) | \
a.gather(1, (j - 1).long() // 2)
take_along_dim | pypto.take_along_dim(a, k[None, :], 1) | a.take_along_dim(k[None, :], 1)
scatter | pypto.scatter(a, 0, k[None, :], b[:1, :2]) | a.scatter(0, k[None, :], b[:1, :2])
scatter | pypto.scatter(a, 0, k[None, :], b[:1, :2], reduce="add") | \
a.scatter(0, k[None, :], b[:1, :2], reduce="add")
scatter_add | pypto.scatter_add(a, 0, k[None, :], b[:1, :2]) | \
a.scatter_add(0, k[None, :], b[:1, :2])
scatter_update | pypto.scatter_update(a, -2, k, b[:2]) | a.index_copy(0, k, b[:2])
index_add | pypto.index_add(a, 0, k, b[:2]) | a.index_add(0, k, b[:2])
index_add | pypto.index_add(a, 0, index=k, source=b[:2]) | a.index_add(0, k, b[:2])
sort | pypto.sort(a, 1, True)[0] | a.sort(1, True)[0]
topk | pypto.topk(b, 2, -1, True)[0] | b.topk(2)[0]
topk | pypto.topk(b, 2, largest=False)[1] | b.topk(2, largest=False)[1].int()
argmax | pypto.argmax(b) | b.argmax(-1).int()
argmin | pypto.argmin(input=a, dim=0, keepdim=True) | a.argmin(0, True).int()
argsort | pypto.argsort(b, None, True) | b.argsort(-1, True).int()
cummax | pypto.cummax(b, 1) | b.cummax(1)[0]
cummin | pypto.cummin(a, 1) | a.cummin(1)[0]
experimental.gather_in_ub | pypto.experimental.gather_in_ub(w, k[None, :], \
pypto.cast(j[:1, :2], pypto.DT_INT64) - 1, 2, -2) | w[[2, 0]]
experimental.gather_in_l1 | pypto.experimental.gather_in_l1(w, k[None, :], \
pypto.cast(j[:1, :2], pypto.DT_INT64) - 1, 2, 3, is_b_matrix=True, is_trans=True) | w[[2, 0], :3]
--- products
matmul | pypto.matmul(a, w, pypto.DT_FP32) | a @ w
matmul | pypto.matmul(w, a, pypto.DT_FP32, a_trans=True, b_trans=True, c_matrix_nz=True) | w.T @ a.T
matmul | pypto.matmul(q, q, pypto.DT_INT32, b_trans=True) | q.int() @ q.int().T
matmul | pypto.matmul(q, q, pypto.DT_FP16, b_trans=True, extend_params={"scale": 0.5}) | \
((q.int() @ q.int().T) * 0.5).half()
matmul | pypto.matmul(a, w, pypto.DT_FP32, extend_params={"bias_tensor": w[0]}) | a @ w + w[0]
matmul | pypto.matmul(a, w, pypto.DT_FP32, extend_params={"scale_tensor": w[0]}) | (a @ w) * w[0]
ReLuType | pypto.matmul(a, w, pypto.DT_FP32, \
extend_params={"relu_type": pypto.ReLuType.RELU}) | (a @ w).relu()
TransMode | pypto.matmul(a, w, pypto.DT_FP32, \
extend_params={"trans_mode": pypto.TransMode.CAST_RINT}) | a @ w
Tensor.matmul | a @ w | a @ w
scaled_mm | pypto.scaled_mm(q, q.transpose(0, 1), pypto.ones([3, 2]), pypto.ones([2, 3])) | \
(q.float() @ q.float().T)
quantize | pypto.quantize(a, p[:, 0] * 99, pypto.DT_INT8, -1) | \
(a * p[:, :1] * 99).round().clamp(-128, 127).to(torch.int8)
quantize | pypto.quantize(a, p[0] * 99, pypto.DT_UINT8, 0, p[1]) | \
(a * p[0] * 99 + p[1]).round().clamp(0, 255).to(torch.uint8)
dequantize | pypto.dequantize(q, p[:, 0], pypto.DT_FP32, -1, b[:, 0]) | (q + b[:, :1]) * p[:, :1]
dequantize | pypto.dequantize(q, p[0], pypto.DT_FP32, -2) | q * p[0]
experimental.transposed_batchmatmul | pypto.experimental.transposed_batchmatmul(\
pypto.cast(a[:, None], pypto.DT_FP16), pypto.cast(w[None], pypto.DT_FP16), pypto.DT_FP32) | \
(a.half().float() @ w.half().float())[:, None]
from_torch | pypto.from_torch(a) + 1 | a + 1
"""
VALUES = """
bytes_of | pypto.bytes_of(pypto.DT_BF16) | 2
RunMode | [pypto.RunMode.NPU, pypto.RunMode.SIM] | [0, 1]
TileOpFormat | pypto.TileOpFormat.TILEOP_NZ.name | "TILEOP_NZ"
CachePolicy | pypto.CachePolicy.NONE_CACHEABLE.name | "NONE_CACHEABLE"
platform | pypto.platform.npuarch == "DAV_3510" | False
get_vec_tile_shapes | pypto.get_vec_tile_shapes() | []
get_cube_tile_shapes | pypto.get_cube_tile_shapes() | []
device_synchronize | pypto.device_synchronize() | None
experimental | hasattr(pypto.experimental, "gather_in_ub") | True
frontend | hasattr(pypto.frontend, "jit") | True
"""


class Row(NamedTuple):
    """A name, its program over some of TENSORS by their names, and the same in torch."""

    name: str
    group: str
    program: Callable
    want: Callable  # of all TENSORS

    @property
    def names(self) -> list[str]:
        return [*inspect.signature(inspect.unwrap(self.program)).parameters]

    def run(self, tensors: dict[str, Any]) -> Any:
        return self.program(**{name: tensors[name] for name in self.names})


def _rows() -> list[Row]:
    found = []
    for given, names in ALIKE.items():
        found += [f"{name} | pypto.{name}({given}) | torch.{name}({given})"
                  for name in names.split() if not name.endswith("_")]  # fmt: skip
    found += [f"{name} | pypto.{name}(a) | F.{name}(a)" for name in NEURAL.split()]
    group, rows = "elements", []
    for line in (*found, *EXPRESSIONS.strip().split("\n")):
        if line.startswith("---"):
            group = line.strip("- ")
            continue
        name, program, want = (part.strip() for part in line.split(" | "))
        used = [one for one in TENSORS if re.search(rf"\b{one}\b", program)]
        given = f"lambda {', '.join(used)}: {program}", f"lambda {', '.join(TENSORS)}: {want}"
        rows.append(Row(name, group, *map(eval, given)))  # the texts above
    return rows


ROWS: list[Row] = _rows()


def row(name: str, want: Callable, group: str = "statements") -> Callable:
    """Makes a row of a function with statements."""

    def made(program: Callable) -> Callable:
        ROWS.append(Row(name, group, pypto.jit(program), want))
        return program

    return made


def values() -> list[tuple[str, Any, Any]]:
    """(name, what pypto says, what it should be) of what has a value outside of a program."""
    lines = (line.split(" | ") for line in VALUES.strip().split("\n"))
    return [(name.strip(), eval(text), eval(want)) for name, text, want in lines]  # noqa: S307
