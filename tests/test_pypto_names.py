# SPDX-License-Identifier: Apache-2.0
"""Each public name of compat/pypto, on CPU and npu tensors, gives what PyTorch gives."""

import importlib
import sys

import pytest
import torch

import pto.torch  # noqa: F401 makes the device npu
from pto import build_config
from pto.adapters.torch import activation

DEVICES = ["cpu", *(["npu"] if activation.is_active() else [])]
GROUPS = ["elements", "shapes", "positions", "products", "statements"]
MOST = 8  # results of the gradient of an operator's gradient: one for each tensor of it
pytestmark = pytest.mark.filterwarnings("ignore:pypto. the setting:RuntimeWarning")


@pytest.fixture(scope="module")
def table():
    names = ("pypto", "pypto.frontend", "pypto.experimental", "pypto_rows", "pypto_statements")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(build_config.compat_dir())
        pypto = importlib.import_module("pypto")
        rows, statements = (importlib.import_module(name) for name in names[-2:])
        yield pypto, rows, statements
    for name in names:
        sys.modules.pop(name, None)


def test_every_public_name_has_a_row(table):
    pypto, rows, statements = table
    have = {name for one in rows.ROWS for name in (one.name, one.name.partition(".")[0])}
    have |= {name for name, *_ in rows.values()} | {*statements.PROGRAMS}
    inside = [f"{one}.{name}" for one in ("experimental", "frontend")
              for name in vars(getattr(pypto, one))]  # fmt: skip
    assert sorted({*pypto.__all__, *inside} - have) == [
        "frontend.dynamic"
    ]  # of the spelling's test
    assert {one.group for one in rows.ROWS} == {*GROUPS}


def together(part):
    """The rows in groups that one function can hold, and the names of their tensors."""
    some, names = [], {"a": None}
    for one in part:
        if some and len(some) + 1 + len(names | dict.fromkeys(one.names)) > MOST:
            yield some, [*names]
            some, names = [], {"a": None}
        some.append(one)
        names |= dict.fromkeys(one.names)
    yield some, [*names]


def one_function(pypto, part, names):
    """A jitted function over tensors of these names that gives what the rows give."""
    found = {"part": part}
    exec(f"def all_of({', '.join(names)}):\n    given = dict(locals())\n"
         "    return [one.run(given) for one in part]", found)  # fmt: skip
    return pypto.jit(found["all_of"])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("group", GROUPS)
def test_a_name_gives_what_pytorch_gives(table, group, device):
    """Each row is a function; many are compiled at a time, which takes less long."""
    pypto, rows, _ = table
    chosen = [one for one in rows.ROWS if one.group == group]
    tensors = {name: x.to(device) for name, x in rows.TENSORS.items()}
    wrong = []
    for part, names in together(sorted(chosen, key=lambda one: one.names)):
        found = one_function(pypto, part, names)(**{name: tensors[name] for name in names})
        wrong += [text for one, got in zip(part, found, strict=True)
                  if (text := difference(one, got, rows.TENSORS, device))]  # fmt: skip
    assert not wrong, "\n".join(wrong)


def difference(one, got, tensors, device):
    """What is wrong with the result of a row, as text."""
    want = one.want(**tensors)
    if got.device.type != device or got.dtype != want.dtype:
        return f"{one.name}: {got.dtype} on {got.device}, not {want.dtype}"
    try:
        torch.testing.assert_close(got.cpu(), want, rtol=2e-5, atol=2e-5, equal_nan=True)
    except AssertionError as error:
        return f"{one.name}: {error}"
    return ""


@pytest.mark.parametrize("device", DEVICES)
def test_decorators_and_annotations_make_programs(table, device):
    _, rows, statements = table
    a = rows.TENSORS["a"].to(device)
    for name, program in statements.PROGRAMS.items():
        program(a, out := torch.empty_like(a))
        torch.testing.assert_close(out.cpu(), rows.TENSORS["a"] + 1, msg=name)


def test_names_have_their_values_outside_of_programs(table):
    for name, value, want in table[1].values():
        assert value == want, name


@pytest.mark.skipif("npu" not in DEVICES, reason="the npu device is not built")
def test_a_program_on_npu_tensors_is_no_fallback(table):
    _, rows, statements = table
    a = rows.TENSORS["a"].to("npu")
    torch.npu.reset_fallbacks()
    statements.PROGRAMS["jit"](a, torch.empty_like(a))
    assert not [name for name in torch.npu.fallbacks() if "pto" in name]
