# SPDX-License-Identifier: Apache-2.0
"""Every overload that PyTorch's own samples reach: slot 8 has the bits of PyTorch's call.

A sample is called with tensors and with NumPy arrays; what it returns and what it writes are
compared. A sample that differs stands in a table of reasons; one that stands there and does not
differ fails.
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
from torch.utils import _pytree

from pto.adapters.torch.aten import arrays
from pto.aten.face import Overload
from pto.errors import Error

pytest.importorskip("expecttest", reason="PyTorch's own samples use it: pip install expecttest")
SEED = 20261126
NAMES = (Path(__file__).parent / "aten_names.txt").read_text().split()
# Required names without a sample.
WITHOUT_SAMPLE = dict.fromkeys(
    ("hspmm", "_conv_depthwise2d", "batch_norm_elemt", "mkldnn_adaptive_avg_pool2d",
     "cudnn_convolution"), "PyTorch has no kernel of it for dense tensors of the CPU",
)  # fmt: skip
MEMORY = "its elements are what memory held"
SPARSE = "the result is sparse, which NumPy cannot hold"
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
        ("resize_as_", "resize_", "squeeze_", "squeeze_.dim", "squeeze_.dims", "transpose_", "t_",
         "as_strided_", "unsqueeze_", "swapdims_", "swapaxes_", "detach_", "set_", "addbmm_",
         "set_.source_Tensor"),
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


def has_numpy(values):
    leaves = [t for t in _pytree.tree_leaves(values) if isinstance(t, torch.Tensor)]
    return all(
        t.layout is torch.strided and not t.is_quantized and t.dtype is not torch.complex32
        and not t._is_zerotensor() and t.device.type == "cpu"
        for t in leaves
    )  # fmt: skip


def differs(sample, as_numpy):
    """Why a sample has not the outcome of PyTorch's own call; None: it has."""
    want = outcome(sample.record.handle, sample.copies())
    given = sample.copies()
    if as_numpy:
        given = _pytree.tree_map_only(torch.Tensor, lambda t: arrays.array(t, "numpy"), given)
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
    passed, wrong, listed = 0, [], {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in chosen:
            if as_numpy and not has_numpy(sample.values):
                continue
            name, found = sample.record.full_name, differs(sample, as_numpy)
            if name in reasons:
                listed[name] = listed.get(name, False) or bool(found)
            elif found:
                wrong.append(f"{name}: {found}")
            passed += not found
    assert not wrong, "\n".join(wrong)
    assert passed > (2500 if deep else 150), passed
    if deep:
        stale = {name for name, failed in listed.items() if not failed} - {
            n for n, reason in reasons.items() if reason == MEMORY
        }
        assert not stale, f"these pass, take them out of the table: {stale}"


def test_each_required_name_has_samples_or_a_reason(chosen, deep):
    by_name = Counter(name for name, _, _ in by_hand(SEED, 1))
    assert by_name.keys() <= {*NAMES} and len(by_name) <= 40 and {*by_name.values()} == {3}
    reached = {sample.record.name for sample in chosen}
    assert not reached & WITHOUT_SAMPLE.keys(), "these have samples, take them out of the table"
    assert reached & {*NAMES} and (not deep or {*NAMES} - reached == WITHOUT_SAMPLE.keys())
