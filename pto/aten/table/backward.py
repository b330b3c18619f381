# SPDX-License-Identifier: Apache-2.0
"""Rows of the operators that PyTorch's gradients of other rows call."""

import math
from typing import Any

import numpy as np

from pto import language as tile
from pto.aten.records import library
from pto.aten.rows import FLOATS, row
from pto.aten.table.norms import by_first_axis, unless_by_channel, unless_shaped
from pto.aten.table.sizes import unequal
from pto.formulas import gradients as f
from pto.formulas.positions import part
from pto.language.types import wide
from pto.ops.activation import gelu_slope, silu_slope

_GRADIENT: dict[str, Any] = {"in_place": False, "ulp": 8, "is_sum": True}
_PICKED: dict[str, Any] = {"in_place": False, "ulp": 0}


@row("threshold_backward", **_PICKED)
def threshold_backward(grad_output, self, threshold):
    return tile.where(wide(self) <= threshold, 0.0, grad_output)


@row("hardtanh_backward", **_PICKED)
def hardtanh_backward(grad_output, self, min_val, max_val):
    return tile.where((self > min_val) & (self < max_val), grad_output, 0.0)


@row("hardshrink_backward", **_PICKED)
def hardshrink_backward(grad_out, self, lambd):
    return tile.where((self < -lambd) | (self > lambd), grad_out, 0.0)


@row("softshrink_backward", **_PICKED)
def softshrink_backward(grad_output, self, lambd):
    return tile.where((self < -lambd) | (self > lambd), grad_output, 0.0)


@row("sigmoid_backward", **_GRADIENT)
def sigmoid_backward(grad_output, output):
    return grad_output * (1 - output) * output


@row("tanh_backward", **_GRADIENT)
def tanh_backward(grad_output, output):
    return grad_output * (1 - output * output)


@row("gelu_backward", **_GRADIENT)
def gelu_backward(grad_output, self, approximate="none"):
    return grad_output * gelu_slope(self, approximate)


@row("silu_backward", **_GRADIENT)
def silu_backward(grad_output, self):
    return grad_output * silu_slope(self)


@row("elu_backward", **_GRADIENT,
     unless=lambda v: "the result does not tell the sign of self, an error of ATen's"
     if v["is_result"] and v["alpha"] < 0 else None)  # fmt: skip
def elu_backward(grad_output, alpha, scale, input_scale, is_result, self_or_result):
    return f.elu(grad_output, self_or_result, alpha, scale, input_scale, is_result)


@row("leaky_relu_backward", **_GRADIENT)
def leaky_relu_backward(grad_output, self, negative_slope, self_is_result):
    return tile.where(self > 0, grad_output, grad_output * negative_slope)


@row("hardsigmoid_backward", types=FLOATS[:3], **_GRADIENT)  # ATen has 1/6 in f32
def hardsigmoid_backward(grad_output, self):
    return tile.where((self > -3) & (self < 3), grad_output * (1 / 6), 0.0)


@row("hardswish_backward", **_GRADIENT)
def hardswish_backward(grad_output, self):
    between = grad_output * (self / 3 + 0.5)
    return tile.where(self <= -3, 0.0, tile.where(self >= 3, grad_output, between))


@row("mish_backward", **_GRADIENT)
def mish_backward(grad_output, self):
    return f.mish(grad_output, self)


@row("softplus_backward", **_GRADIENT)
def softplus_backward(grad_output, self, beta, threshold):
    slope = grad_output * tile.sigmoid(self * beta)
    return tile.where(self * beta > threshold, grad_output, slope)


def _log_sigmoid_sample(tensor, rows, columns):
    x = tensor(rows, columns)
    kept = np.exp(-abs(x.astype(np.float64))).astype(x.dtype)
    return {"grad_output": tensor(rows, columns), "self": x, "buffer": kept}


@row("log_sigmoid_backward", **_GRADIENT, ignored=("buffer",), sample=_log_sigmoid_sample)
def log_sigmoid_backward(grad_output, self):
    return grad_output * tile.sigmoid(-self)


@row("logit_backward", **_GRADIENT)
def logit_backward(grad_output, self, eps=None):
    slope = grad_output / (self * (1 - self))
    if eps is None or eps < 0:
        return tile.where((self < 0) | (self > 1), math.nan, slope)
    return tile.where((self < eps) | (self > 1 - eps), 0.0, slope)


def _halved_sample(tensor, rows, columns):
    return {"grad_output": tensor(rows, columns // 2), "self": tensor(rows, columns), "dim": -1}


def _unless_halved(values):
    d, x, dim = (values[name] for name in ("grad_output", "self", "dim"))
    shape, wanted = list(library().shape(d)), list(library().shape(x))
    if not wanted or not -len(wanted) <= dim < len(wanted) or wanted[dim] % 2:
        return "self has no such axis with two halves"
    wanted[dim] //= 2
    return None if shape == wanted else "grad_output has not half of self's size"


@row("glu_backward", **_GRADIENT, unless=_unless_halved, sample=_halved_sample)
def glu_backward(grad_output, self, dim):
    axis = dim % self.ndim
    half = self.shape[axis] // 2
    share = tile.sigmoid(part(self, axis, half, half))
    slope = share * (1 - share) * part(self, axis, 0, half)
    return tile.concat([grad_output * share, grad_output * slope], axis)


def _unless_type(values):
    given = str(values["input_dtype"]).removeprefix("torch.")
    if given != library().dense_type(values["output"]):
        return f"its result is {given}"
    rank = len(library().shape(values["output"]))
    if len(library().shape(values["grad_output"])) != rank:
        return "grad_output and output have not one rank"
    pairs = [(("grad_output", axis), ("output", axis)) for axis in range(rank)]
    return unequal(values, *pairs)


def _softmax_sample(tensor, rows, columns):
    shares = abs(tensor(rows, columns)) / columns
    return {"grad_output": tensor(rows, columns), "output": shares, "dim": -1,
            "input_dtype": tensor.dtype}  # fmt: skip


_SOFTMAX = {**_GRADIENT, "ignored": ("input_dtype",), "unless": _unless_type,
            "sample": _softmax_sample}  # fmt: skip


@row("_softmax_backward_data", **_SOFTMAX)
def softmax_backward(grad_output, output, dim):
    return f.softmax(grad_output, output, dim)


@row("_log_softmax_backward_data", **_SOFTMAX)
def log_softmax_backward(grad_output, output, dim):
    return f.log_softmax(grad_output, output, dim)


def _unless_whole(values):
    return None if all(values["output_mask"]) else "output_mask leaves a result out"


def _layer_sample(tensor, rows, columns):
    return {"grad_out": tensor(rows, columns), "input": tensor(rows, columns),
            "normalized_shape": [columns], "mean": tensor(rows, 1), "rstd": tensor(rows, 1),
            "weight": tensor(columns), "bias": tensor(columns),
            "output_mask": [True] * 3}  # fmt: skip


_NORM: dict[str, Any] = {**_GRADIENT, "ulp": 128, "results": ("", "", "")}


@row("native_layer_norm_backward", **_NORM, ignored=("output_mask",), given=by_first_axis,
     unless=lambda v: unless_shaped(v) or _unless_whole(v), sample=_layer_sample)  # fmt: skip
def layer_norm_backward(grad_out, input, first, mean, rstd, weight):
    return f.layer_norm(grad_out, input, first, mean, rstd, weight)


def _group_sample(tensor, rows, columns):
    channels, size = 8, columns // 8
    return {"grad_out": tensor(rows, channels, size), "input": tensor(rows, channels, size),
            "mean": tensor(rows, 4), "rstd": tensor(rows, 4), "weight": tensor(channels),
            "N": rows, "C": channels, "HxW": size, "group": 4,
            "output_mask": [True] * 3}  # fmt: skip


def _unless_grouped(values):
    n, channels, groups = (values[name] for name in ("N", "C", "group"))
    shapes = [library().shape(values[one]) for one in ("grad_out", "input", "mean", "rstd")]
    fits = shapes[0] == shapes[1] and shapes[0][:2] == (n, channels) and not channels % groups
    fits = fits and shapes[2] == shapes[3] == (n, groups) and len(shapes[0]) > 2
    vector = values.get("weight")  # without it ATen has no gradient of it
    fits = fits and vector is not None and library().shape(vector) == (channels,)
    if not fits or 0 in shapes[0]:
        return "the shapes do not fit"
    return _unless_whole(values)


@row("native_group_norm_backward", **_NORM, ignored=("N", "C", "HxW", "output_mask"),
     unless=_unless_grouped, sample=_group_sample)  # fmt: skip
def group_norm_backward(grad_out, input, mean, rstd, weight, group):
    return f.group_norm(grad_out, input, mean, rstd, weight, group)


def _batch_sample(tensor, rows, columns):
    channels, size = 8, columns // 8
    return {"grad_out": tensor(rows, channels, size), "input": tensor(rows, channels, size),
            "weight": tensor(channels), "running_mean": tensor(channels),
            "running_var": abs(tensor(channels)) + 1, "save_mean": tensor(channels),
            "save_invstd": tensor(channels), "train": True, "eps": 1e-5,
            "output_mask": [True] * 3}  # fmt: skip


def _unless_batched(values):
    if library().shape(values["grad_out"]) != library().shape(values["input"]):
        return "grad_out has other sizes than input"
    if not all(values["output_mask"]) or 0 in library().shape(values["input"]):
        return "output_mask leaves a result out, or there are no elements"
    names = ("save_mean", "save_invstd") if values["train"] else ("running_mean", "running_var")
    return unless_by_channel(values, *names, False)


@row("native_batch_norm_backward", **_NORM, ignored=("output_mask",), unless=_unless_batched,
     sample=_batch_sample)  # fmt: skip
def batch_norm_backward(
    grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps
):
    if train:
        return f.batch_norm(grad_out, input, weight, save_mean, save_invstd, True)
    inverse = tile.rsqrt(running_var + eps)
    return f.batch_norm(grad_out, input, weight, running_mean, inverse, False)


def _unless_counted(values):
    if values["scale_grad_by_freq"] or values["padding_idx"] >= 0:
        return "it has no formula for padding_idx and scale_grad_by_freq"
    ranks = [len(library().shape(values[name])) for name in ("indices", "grad_output")]
    if ranks != [1, 2]:
        return "indices is no vector, or grad_output no matrix"
    return unequal(values, (("grad_output", 0), ("indices", 0)))


def _embedding_sample(tensor, rows, columns):
    return {"grad_output": tensor(rows, columns), "num_weights": 64, "padding_idx": -1,
            "indices": tensor(rows, dtype="int64", high=64), "scale_grad_by_freq": False,
            }  # fmt: skip


@row("embedding_dense_backward", types=FLOATS, **_GRADIENT,
     others={"indices": ("int64",)}, ignored=("padding_idx", "scale_grad_by_freq"),
     unless=_unless_counted, sample=_embedding_sample)  # fmt: skip
def embedding_dense_backward(grad_output, indices, num_weights):
    zeros = tile.zeros([num_weights, grad_output.shape[1]], grad_output.dtype)
    return tile.index_add(zeros, 0, indices, grad_output)
