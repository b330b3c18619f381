# SPDX-License-Identifier: Apache-2.0
"""Rows of softmax and of normalisations."""

from typing import Any

from pto import language as tile
from pto.aten.records import library
from pto.aten.rows import row
from pto.formulas import norms as f


def _unless_widened(values):
    return "it has no formula for half_to_float" if values.get("half_to_float") else None


_PLAIN: dict[str, Any] = {"widens": False, "ignored": ("half_to_float",),
                          "unless": _unless_widened, "in_place": False}  # fmt: skip


@row("softmax.int", "_softmax", ulp=8, **_PLAIN)
def softmax(self, dim):
    return tile.softmax(self, dim)


@row("log_softmax.int", "_log_softmax", ulp=4, is_sum=True, **_PLAIN)
def log_softmax(self, dim):
    return tile.log_softmax(self, dim)


_NORM: dict[str, Any] = {"ulp": 8, "is_sum": True, "in_place": False, "results": ("", "", "")}


def unless_shaped(values):
    """Leaves to ATen, which says what is wrong, a weight or bias of another shape."""
    wanted = tuple(values["normalized_shape"])
    shapes = [library().shape(values["input"])[-len(wanted) :]]
    shapes += [library().shape(values[n]) for n in ("weight", "bias") if values.get(n) is not None]
    return None if wanted and all(s == wanted for s in shapes) else "the shapes do not fit"


def by_first_axis(values):
    """The values with the first axis of a layer in the place of its shape."""
    rest = {n: v for n, v in values.items() if n != "normalized_shape"}
    first = len(library().shape(values["input"])) - len(values["normalized_shape"])
    return {**rest, "first": first}


def _layer_sample(tensor, rows, columns):
    return {"input": tensor(rows, columns), "normalized_shape": [columns], "eps": 1e-5,
            "weight": tensor(columns), "bias": tensor(columns)}  # fmt: skip


@row("native_layer_norm", **_NORM, unless=unless_shaped, given=by_first_axis,
     sample=_layer_sample)  # fmt: skip
def layer_norm(input, first, weight, bias, eps):
    return f.layer_norm(input, first, weight, bias, eps)


def _unless_grouped(values):
    shape = library().shape(values["input"])
    sizes = (values["N"], values["C"], values["group"])
    vectors = [library().shape(values[n]) for n in ("weight", "bias") if values.get(n) is not None]
    fits = shape[:2] == sizes[:2] and not shape[1] % sizes[2]
    return None if fits and all(v == shape[1:2] for v in vectors) else "the shapes do not fit"


def _group_sample(tensor, rows, columns):
    channels = 8
    return {"input": tensor(rows, channels, columns // channels), "weight": tensor(channels),
            "bias": tensor(channels), "N": rows, "C": channels, "HxW": columns // channels,
            "group": 4, "eps": 1e-5}  # fmt: skip


@row("native_group_norm", **_NORM, ignored=("N", "C", "HxW"), unless=_unless_grouped,
     sample=_group_sample)  # fmt: skip
def group_norm(input, weight, bias, group, eps):
    return f.group_norm(input, group, weight, bias, eps)


def unless_by_channel(values, mean, variance, training):
    """Why a batch norm is ATen's: statistics that are missing or change, shapes that do not fit."""
    shape = library().shape(values["input"])
    if len(shape) < 2:
        return "input has no channels"
    missing = [name for name in (mean, variance) if values.get(name) is None]
    if missing and not training:
        return f"it has no formula without {missing[0]}"
    names = ("weight", "bias", mean, variance)
    vectors = [library().shape(values[n]) for n in names if values.get(n) is not None]
    return None if all(v == shape[1:2] for v in vectors) else "the shapes do not fit"


def _unless_written(values):
    kept = [n for n in ("running_mean", "running_var") if values.get(n) is not None]
    if values["training"] and kept:
        return "it writes the running statistics"
    if values["training"] and 0 in library().shape(values["input"]):
        return "a batch without elements has no statistics"
    return unless_by_channel(values, "running_mean", "running_var", values["training"])


def _batch_sample(tensor, rows, columns):
    channels = 8
    made = {name: tensor(channels) for name in ("weight", "bias", "running_mean")}
    return {"input": tensor(rows, channels, columns // channels), **made,
            "running_var": abs(tensor(channels)) + 1, "training": False, "momentum": 0.1,
            "eps": 1e-5}  # fmt: skip


_BATCH = {**_NORM, "ignored": ("momentum",), "unless": _unless_written}


@row("native_batch_norm", **_BATCH, sample=_batch_sample)
def batch_norm(input, weight, bias, running_mean, running_var, training, eps):
    if training:
        return f.batch_norm_training(input, weight, bias, eps)[:3]
    made = f.batch_norm(input, weight, bias, running_mean, running_var, eps)
    return made, tile.zeros([0], input.dtype), tile.zeros([0], input.dtype)


def _training_sample(tensor, rows, columns):
    made = _batch_sample(tensor, rows, columns)
    rest = {n: v for n, v in made.items() if not n.startswith("running")}
    return {**rest, "training": True}


@row("_native_batch_norm_legit.no_stats", **_BATCH, sample=_training_sample)
def batch_norm_training(input, weight, bias, training, eps):
    return batch_norm(input, weight, bias, None, None, training, eps)
