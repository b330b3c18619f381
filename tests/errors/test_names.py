# SPDX-License-Identifier: Apache-2.0
"""Names: modules that bear the name of something else, unknown ones, misspelt ones."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import torch

import pto
import pto.models
import pto.torch

IMPORT_EVERYTHING = """
import importlib, os, pto
before = {name: getattr(pto, name) for name in pto.__all__ + ["op", "ops", "compile", "Runtime"]}
root = os.path.dirname(pto.__file__)
for entry in sorted(os.listdir(root)):
    is_module = entry.endswith(".py") or os.path.isdir(os.path.join(root, entry))
    if is_module and not entry.startswith("_"):
        importlib.import_module(f"pto.{entry.removesuffix('.py')}")
changed = [name for name, value in before.items() if getattr(pto, name) is not value]
print(changed)
"""


def test_importing_a_module_of_the_package_changes_no_name_of_it():
    found = subprocess.run(
        [sys.executable, "-c", IMPORT_EVERYTHING], capture_output=True, text=True
    )
    assert found.stdout == "[]\n", found.stdout + found.stderr


UNKNOWN = {
    "cat": "pto.concat does that",
    "top_k": "pto.topk does that",
    "embedding": "pto.ops.embedding",
    "sofmax": "did you mean softmax?",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_name_leads_to_the_known_one(name):
    def method(x):
        return getattr(x, name)()

    for use in (lambda: getattr(pto, name), lambda: pto.jit(method)(np.ones(3))):
        with pytest.raises(AttributeError) as caught:
            use()
        assert isinstance(caught.value, pto.Error)
        assert UNKNOWN[name] in caught.value.why and f"has no {name}" in caught.value.what


MISSPELT = [
    ("pto", "gelo", "gelu"),
    ("pto.ops", "gelo", "gelu"),
    ("pto.ops", "reluu_", "relu_"),
    ("pto.config", "cxxx", "cxx"),
]


@pytest.mark.parametrize("owner, wrong, right", MISSPELT)
def test_a_misspelt_name_leads_to_the_nearest_one_and_to_a_list(owner, wrong, right):
    place = {"pto": pto, "pto.ops": pto.ops, "pto.config": pto.config}[owner]
    with pytest.raises(pto.Error) as caught:
        getattr(place, wrong)
    assert str(caught.value) == (
        f"{owner} has no {wrong}\n  why: did you mean {right}?\n  fix: dir({owner}) lists its names"
    )
    assert isinstance(caught.value, AttributeError) and not hasattr(place, wrong)
    assert right in dir(place)
    if place is not pto:  # which lists frameworks that are not installed, too
        assert not [name for name in dir(place) if not hasattr(place, name)]


def test_a_setting_that_does_not_exist_is_not_set():
    with pytest.raises(pto.errors.UnknownAttribute, match="did you mean threads?"):
        pto.config.thread = 1
    assert not hasattr(pto.config, "thread")
    with pytest.raises(pto.errors.UnknownAttribute, match="the known names are .*interpret"):
        pto.config.nothing = 1


def test_a_misspelt_operator_of_a_framework_or_a_model_is_told_the_nearest_name():
    for module, wrong, right in [
        (pto.torch, "gelo", "gelu"),
        (pto.torch, "explan", "explain"),
        (pto.models, "topk_gates", "topk_gate"),
    ]:
        with pytest.raises(pto.errors.UnknownAttribute, match=f"did you mean {right}?"):
            getattr(module, wrong)
        assert right in dir(module) and not hasattr(module, "_nothing")


def test_a_name_like_no_other_of_many_is_told_without_a_long_list():
    with pytest.raises(AttributeError, match="none of the .* is spelled alike") as caught:
        pto.zzzz  # noqa: B018
    assert len(str(caught.value)) < 200


def test_a_list_of_names_has_those_that_a_user_may_write_and_tells_of_none():
    assert pto.errors.nearest("name", []) == "no name is known"
    error = pto.errors.unknown_attribute("it", "shape", ["save", "__init__", "_own"])
    assert error.why == "the known names are save"


ALIKE = [
    (pto.f32, np.float32, np.dtype("f4"), torch.float32, "f32", "float32"),
    (pto.f16, np.float16, np.dtype("f2"), torch.float16, "f16", "float16"),
    (pto.bf16, ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16), torch.bfloat16, "bf16"),
    (pto.i64, np.int64, np.dtype("i8"), torch.int64, "i64", "int64"),
    (pto.u8, np.uint8, np.dtype("u1"), torch.uint8, "u8", "uint8"),
    (pto.boolean, np.bool_, np.dtype("?"), torch.bool, bool, "bool"),
]


def test_an_element_type_equals_what_other_libraries_call_it_and_nothing_else():
    for row, (kind, *_) in enumerate(ALIKE):
        for other, (_, *others) in enumerate(ALIKE):
            for name in others:
                assert (kind == name) == (row == other), (kind, name)
                assert (name != kind) == (row != other), (kind, name)
    assert pto.f32 != 3 and pto.f32 != None and pto.f32 not in [(), 1.5]  # noqa: E711
    with pytest.raises(TypeError, match="unknown element type 'flaot32'"):
        pto.f32 == "flaot32"  # noqa: B015


@pytest.mark.parametrize("wrong, right", [("gard", "grad"), ("tolerence", "tolerance")])
def test_a_misspelt_member_of_an_operator_is_refused(wrong, right):
    members = {"build": lambda x: x * 2, "_own": 3, wrong: None}
    with pytest.raises(pto.Error) as caught:
        pto.op("misspelt_member(Tensor x) -> Tensor")(type("Misspelt", (), members))
    assert caught.value.why == f"did you mean {right}?" and wrong in caught.value.what
