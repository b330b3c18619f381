# SPDX-License-Identifier: Apache-2.0
"""infini.ops on PyTorch's samples: each operator writes the bits of ATen's call into its outputs.

A sample that cannot be called stands in a table of reasons; one there that passes fails.
"""

import warnings
from collections import Counter
from pathlib import Path

import pto.compat.infini
import pytest
import torch
from aten_samples import samples
from test_aten_samples import SEED, bits
from torch.utils import _pytree

from pto.aten.outputs_last import Signature, public_name
from pto.errors import Error

pto.compat.infini.install()
import infini.ops  # noqa: E402

NAMES = {public_name(n) for n in (Path(__file__).parent / "aten_names.txt").read_text().split()}
MEMORY = "its elements are what memory held"
ADDED = "ATen adds to what its output held"
REASONS = {
    **dict.fromkeys(
        ("new_empty", "empty_like", "new_empty_strided", "empty_strided", "empty_permuted",
         "_ctc_loss", "_ctc_loss.Tensor", "_ctc_loss.out", "_ctc_loss.Tensor_out"), MEMORY,
    ),
    **dict.fromkeys(("_compute_linear_combination", "_compute_linear_combination.out"), ADDED),
    "repeat_interleave.self_int": "repeat_interleave(repeats, output_size) takes the same values",
}  # fmt: skip
FAILURES = (RuntimeError, ValueError, TypeError, IndexError)


def signature_of(sample) -> Signature | None:
    """The signature that a sample is a call of; None: its name has no such form."""
    name = public_name(sample.record.name)
    if sample.record.name.endswith("_") and not sample.record.outputs:
        return None  # it is called in the form with outputs
    try:
        signatures = getattr(infini.ops, name).signatures
    except AttributeError:  # it returns no tensor
        return None
    return next((s for s in signatures if sample.record in (s.out, s.functional)), None)


def in_order(signature, values):
    """Inputs and attributes in the library's order up to the first default, the others by name."""
    pairs = list(zip(signature.names, signature.arguments, strict=True))
    first = next((i for i, (_, a) in enumerate(pairs) if a.name not in values), len(pairs))
    positional = [values[argument.name] for _, argument in pairs[:first]]
    named = {name: values[a.name] for name, a in pairs[first:] if a.name in values}
    return positional, named


def outputs_like(made):
    """Outputs of the types and sizes of results, with other elements."""

    def one(result):
        if isinstance(result, list | tuple):
            return [one(inner) for inner in result]
        return torch.ones_like(result)  # of its strides, which decide how a kernel sums

    return [one(result) for result in made]


def differs(sample, signature):
    """Why outputs of the library's call have not the bits of ATen's results; None: they have."""
    torch.manual_seed(3)
    try:
        made = sample.record.handle(**sample.copies())
    except FAILURES as error:
        made = error
    if isinstance(made, Exception) or not is_dense(made):
        return None  # test_aten_samples.py compares refusals; outputs are dense
    made = list(made) if len(signature.outputs) > 1 else [made]
    if any(one is None for one in made):
        return None  # a gradient that was not asked for
    outputs = outputs_like(made)
    positional, named = in_order(signature, sample.copies())
    torch.manual_seed(3)
    try:
        getattr(infini.ops, public_name(sample.record.name))(
            *positional, *outputs, **named, implementation_index=8
        )
    except Error as error:
        return repr(error)[:300]
    return None if bits(outputs) == bits(made) else "other bits"


def is_dense(values):
    """Whether all tensors in a value are dense ones of the CPU, as they lie."""
    leaves = [t for t in _pytree.tree_leaves(values) if isinstance(t, torch.Tensor)]
    return all(
        t.layout is torch.strided and not t.is_quantized and not t.is_conj() and not t.is_neg()
        and not t._is_zerotensor() and t.device.type == "cpu"
        for t in leaves
    )  # fmt: skip


@pytest.fixture(scope="module")
def chosen(deep):
    return samples(SEED, 1 if deep else 10)


def test_each_operator_writes_the_bits_of_atens_call(chosen, deep):
    wrong, passed, listed = [], Counter(), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in chosen:
            signature = signature_of(sample) if is_dense(sample.values) else None
            if signature is None or not signature.outputs:
                continue
            full, found = sample.record.full_name, differs(sample, signature)
            if full in REASONS:
                listed[full] = listed.get(full, False) or bool(found)
            elif found:
                wrong.append(f"{full}: {found}")
            passed[public_name(sample.record.name)] += not found
    assert not wrong, f"{len(wrong)} of {sum(passed.values())}:\n" + "\n".join(wrong)
    reached = {name for name, n in passed.items() if n}
    assert len(NAMES & reached) > (500 if deep else 60), NAMES - reached
    if deep:
        stale = {full for full, failed in listed.items() if not failed}
        assert not stale - {n for n, reason in REASONS.items() if reason == MEMORY}, stale
