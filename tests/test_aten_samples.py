# SPDX-License-Identifier: Apache-2.0
"""Every overload that PyTorch's own samples reach: slot 8 has the bits of PyTorch's call.

A sample is called with tensors and with NumPy arrays; what it returns and what it writes are
compared. None is skipped: a sample that differs, or that NumPy cannot hold, stands in a table of
reasons; one that stands there and does not differ fails. Each overload of a required name has a
sample that PyTorch runs, or a line in WITHOUT_SAMPLE.
"""

import functools
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from aten_samples import samples
from aten_samples_by_hand import by_hand
from aten_samples_by_overload import by_overload
from torch.utils import _pytree

import pto.aten
from pto.adapters.torch.aten import arrays
from pto.aten import surface
from pto.aten.face import Overload
from pto.errors import Error

pytest.importorskip("expecttest", reason="PyTorch's own samples use it: pip install expecttest")
SEED = 20261126
NAMES = (Path(__file__).parent / "aten_names.txt").read_text().split()
# Overloads of required names without a sample.
WITHOUT_SAMPLE = dict.fromkeys(
    ("hspmm", "hspmm.out", "_conv_depthwise2d", "_conv_depthwise2d.out", "batch_norm_elemt",
     "batch_norm_elemt.out", "mkldnn_adaptive_avg_pool2d", "mkldnn_adaptive_avg_pool2d.out",
     "cudnn_convolution", "cudnn_convolution.out", "mm.dtype", "mm.dtype_out", "bmm.dtype",
     "bmm.dtype_out", "addmm.dtype", "addmm.dtype_out", "baddbmm.dtype", "baddbmm.dtype_out"),
    "PyTorch has no kernel of it for dense tensors of the CPU",
)  # fmt: skip
MEMORY = "its elements are what memory held"
SPARSE = "the result is sparse, which NumPy cannot hold"
SPARSE_GIVEN = "it takes a sparse tensor, which NumPy cannot hold"
SIZES = "it gives its tensor other sizes, which an array of NumPy keeps"
TORCH_REASONS = {
    **dict.fromkeys(
        ("empty_like", "new_empty", "new_empty_strided", "empty_strided", "empty_permuted",
         "_ctc_loss", "_ctc_loss.Tensor", "_ctc_loss.out", "_ctc_loss.Tensor_out", "empty"),
        MEMORY,
    ),
}  # fmt: skip
NUMPY_REASONS = {
    **TORCH_REASONS,
    **dict.fromkeys(("to_sparse", "to_sparse.sparse_dim", "_to_sparse", "_to_sparse.sparse_dim"),
                    SPARSE),
    **dict.fromkeys(
        ("sspaddmm", "sspaddmm.out", "sparse_sampled_addmm", "sparse_sampled_addmm.out",
         "sparse_mask", "sparse_mask.out", "_sparse_mm_reduce_impl",
         "_sparse_mm_reduce_impl_backward"), SPARSE_GIVEN,
    ),
    **dict.fromkeys(
        ("resize_as_", "resize_", "squeeze_", "squeeze_.dim", "squeeze_.dims", "transpose_", "t_",
         "as_strided_", "unsqueeze_", "swapdims_", "swapaxes_", "detach_", "set_", "addbmm_",
         "set_.source_Tensor", "set_.source_Tensor_storage_offset", "set_.source_Storage",
         "set_.source_Storage_storage_offset"),
        SIZES,
    ),
    "chalf": "the result is complex32, which NumPy has not",
}  # fmt: skip


def bits(value):
    """Types, sizes and bytes of all tensors in a value, other values as they are."""

    def one(x):
        if isinstance(x, torch.Generator):
            x = x.get_state()
        if not isinstance(x, torch.Tensor):
            return repr(x)
        x = x.detach()
        x = x.int_repr() if x.is_quantized else x
        x = x.to_dense() if x.layout is not torch.strided else x
        x = x.clone() if x._is_zerotensor() else x.resolve_conj().resolve_neg()
        held = x.contiguous().view(-1).view(torch.uint8).numpy().tobytes() if x.numel() else b""
        return x.dtype, tuple(x.shape), held

    return [one(leaf) for leaf in _pytree.tree_leaves(value)]


def outcome(call, values):
    """What a call returns and what it has written, as bits; or its error."""
    torch.manual_seed(3)
    try:
        made = call(**values)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        return error
    as_tensors = _pytree.tree_map_only(np.ndarray, arrays.tensor, (made, values))
    return bits(as_tensors)


def differs(sample, as_numpy):
    """Why a sample has not the outcome of PyTorch's own call; None: it has."""
    want = outcome(sample.record.handle, sample.copies())
    given = sample.copies()
    if as_numpy:
        try:
            given = _pytree.tree_map_only(torch.Tensor, lambda t: arrays.array(t, "numpy"), given)
        except Error as error:
            return f"no array of NumPy: {error}"
    call = functools.partial(Overload(sample.record), slot=8)
    got = outcome(call, given)
    if isinstance(want, Exception) and isinstance(got, Error):
        builtin = (IndexError, TypeError, ValueError, RuntimeError)
        same = any(isinstance(want, one) and isinstance(got, one) for one in builtin)
        return None if same or as_numpy else f"{want!r} became {got!r}"
    if isinstance(want, Exception) or isinstance(got, Exception):
        return f"{want!r:.300} became {got!r:.300}"
    return None if want == got else "other bits"


@pytest.fixture(scope="module")
def chosen(deep):
    return samples(SEED, 1 if deep else 10)


@pytest.mark.parametrize("as_numpy", [False, True])
def test_slot_8_has_the_bits_of_pytorchs_call(chosen, as_numpy, deep):
    reasons = NUMPY_REASONS if as_numpy else TORCH_REASONS
    passed, wrong, listed = 0, [], Counter()
    differing, required = set(), Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in chosen:
            name, found = sample.record.full_name, differs(sample, as_numpy)
            required[name in reasons] += sample.record.name in NAMES
            listed[name] += name in reasons
            if found:
                differing.add(name)
            if found and name not in reasons:
                wrong.append(f"{name}: {found}")
            passed += not found
    assert not wrong, "\n".join(wrong)
    assert passed > (4000 if deep else 150), passed
    assert required[True] < 0.02 * required.total(), required
    if deep:
        stale = {name for name, n in listed.items() if n} - differing
        stale -= {name for name, reason in reasons.items() if reason == MEMORY}
        assert not stale, f"these pass, take them out of the table: {stale}"


def base_of(name):
    """The name without the underscore of a form in place."""
    return name.removesuffix("_") if not name.endswith("__") else name


def required_records():
    """Overloads of required names; of one in place also the forms with `out` of its base name."""
    found = surface.records_of(NAMES).values()
    return {record.full_name: record for records in found for record in records}


def active_slots():
    """The slots of each overload in the surface that the package has as data."""
    return {
        name if variant == "default" else f"{name}.{variant}": one["slots"].keys()
        for name, about in surface.recorded().items()
        for variant, one in about["overloads"].items()
        if one["slots"]
    }


def test_each_overload_of_a_required_name_has_a_sample_that_runs_or_a_reason(chosen, deep):
    records = required_records()
    kernels = {name for name in WITHOUT_SAMPLE if records[name].cpu}
    assert not kernels, f"these have a kernel, give them samples: {kernels}"
    ran = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in chosen:
            name = sample.record.full_name
            if name in records and name not in ran:
                made = outcome(sample.record.handle, sample.copies())
                ran |= set() if isinstance(made, Exception) else {name}
    assert ran and not ran & WITHOUT_SAMPLE.keys(), "these run, take them out of the table"
    if deep:
        missing = (records.keys() | active_slots().keys()) - ran - WITHOUT_SAMPLE.keys()
        assert not missing, f"write calls of these in aten_samples_by_overload.py: {missing}"


def test_calls_by_hand_are_those_of_required_names():
    by_name = Counter(name for name, _, _ in by_hand(SEED, 1))
    assert by_name.keys() <= {*NAMES} and len(by_name) <= 40 and {*by_name.values()} == {3}
    overloads = Counter(name for name, _, _ in by_overload(SEED, 1))
    known = {*NAMES, *map(base_of, NAMES)}
    assert {name.partition(".")[0] for name in overloads} <= known
    assert min(overloads.values()) > 1


@pytest.mark.parametrize("as_numpy", [False, True])
def test_a_number_stands_for_a_list_of_one_length(as_numpy):
    image, weight = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3)
    for name, args, same in (
        ("conv2d", (image, weight, None, 2, 1), (image, weight, None, [2, 2], [1, 1])),
        ("adaptive_avg_pool2d", (image, 1), (image, [1, 1])),
        ("upsample_nearest2d", (image, 16), (image, [16, 16])),
        ("max_pool2d", (image, 2), (image, [2, 2])),
        ("sum", (image, 1), (image, [1])),
        ("roll", (image, 3), (image, [3])),
    ):
        given = [arrays.array(x, "numpy") if as_numpy and isinstance(x, torch.Tensor) else x
                 for x in args]  # fmt: skip
        got = getattr(pto.aten, name)(*given)
        want = getattr(torch.ops.aten, name)(*same)
        assert bits(arrays.tensor(got)) == bits(want), name
