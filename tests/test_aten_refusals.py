# SPDX-License-Identifier: Apache-2.0
"""pto.aten on hostile input: an error with what, why and fix, and what was given is as it was."""

import subprocess
import sys

import children
import numpy as np
import pytest
import torch

import pto
import pto.aten
from pto.adapters.torch import direct
from pto.aten import records

x = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)


def refused(call, error, text):
    with pytest.raises(error, match=text) as caught:
        call()
    assert isinstance(caught.value, pto.Error) and caught.value.why and caught.value.fix


def test_a_number_is_no_place_to_write_to():
    refused(lambda: pto.aten.add(x, x, out=3), TypeError, "out is 3, not Tensor")
    refused(lambda: pto.aten.add_(3, x), TypeError, "self is 3, not Tensor")


@pytest.mark.parametrize("slot", ["tile", 8.0, True])
def test_a_slot_is_a_number(slot):
    refused(lambda: pto.aten.exp(x, slot=slot), TypeError, "slot is")


KINDS = [pytest.param(lambda y: y, id="NumPy"), pytest.param(torch.from_numpy, id="PyTorch")]


@pytest.mark.parametrize("of", KINDS)
def test_an_output_with_elements_at_one_place_is_refused(of):
    memory, a = np.zeros(16, np.float32), of(x[:, :3].copy())
    for steps in ((0, 1), (1, 1)):
        place = np.lib.stride_tricks.as_strided(memory, (3, 3), [4 * n for n in steps])
        for call in (
            lambda place=place: pto.aten.neg(a, out=of(place)),
            lambda place=place: pto.aten.mm(a, a, out=of(place)),
        ):
            refused(call, ValueError, "several elements lie at one place")
    assert not memory.any()
    apart = np.lib.stride_tricks.as_strided(memory, (2, 2), (12, 8))  # at 0, 2, 3 and 5
    pto.aten.neg(of(x[:2, :2].copy()), out=of(apart))
    assert np.array_equal(apart, -x[:2, :2])


@pytest.mark.parametrize("of", KINDS)
def test_an_output_that_shares_a_part_of_an_input_or_an_output_is_refused(of):
    memory = np.arange(40, dtype=np.float32)
    a, b, c = (of(memory[at : at + 9].reshape(3, 3)) for at in (0, 4, 9))
    outputs = (of(memory[2:8].reshape(2, 3)), of(memory[:12].view(np.int64).reshape(2, 3)))
    before, given = memory.copy(), of(x[:2, :3].copy())
    for _ in range(2):
        pto.aten.mm.out(a, a, out=of(np.empty((3, 3), np.float32)))  # others of its kind follow
        refused(lambda: pto.aten.mm.out(a, a, out=b), ValueError, "shares a part")
        refused(lambda: pto.aten.add.out(a, a, out=b), ValueError, "shares a part")
        refused(lambda: pto.aten.cat([a, c], out=of(memory[6:24].reshape(6, 3))), ValueError,
                "shares a part")  # fmt: skip
        refused(lambda: pto.aten.sort(given, out=outputs), ValueError, "shares a part")
    assert np.array_equal(memory, before)


@pytest.mark.parametrize("of", KINDS)
def test_columns_beside_each_other_share_nothing(of):
    y = np.zeros((3, 8), np.float32)
    for _ in range(2):
        y[:, ::2] = x
        pto.aten.neg.out(of(y[:, ::2]), out=of(y[:, 1::2]))
        assert np.array_equal(y[:, 1::2], -x) and np.array_equal(y[:, ::2], x)
        pto.aten.mul.out(of(y[:, :4]), other=of(np.full(4, 2.0, np.float32)), out=of(y[:, 4:]))
        assert np.array_equal(y[:, 4:], 2 * y[:, :4])


@pytest.mark.parametrize("of", KINDS)
def test_an_output_that_is_an_input_has_the_elements_of_the_result(of):
    first = np.arange(9, dtype=np.float32).reshape(3, 3)
    want = first @ first
    for _ in range(2):
        y = first.copy()
        place = of(y)
        pto.aten.mm.out(place, place, out=place)
        assert np.array_equal(y, want)  # torch.mm writes zeros there
        y = x.copy()
        pto.aten.exp.out(of(y), out=of(y))
        assert np.allclose(y, np.exp(x))


def test_nested_tensors_are_pytorchs_or_refused():
    nested = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])
    assert pto.aten.relu(nested).is_nested
    refused(lambda: pto.aten.exp(nested), NotImplementedError, r"float32\[nested\]")
    refused(lambda: pto.aten.exp(nested, slot=0), ValueError, "no dense array")


def test_memory_between_elements_runs_atens_kernel():
    memory = np.zeros(4 * 4096 + 1, np.uint8)
    y = memory[1:].view(np.float32)
    y[:] = np.linspace(-1, 1, 4096)
    for given in (y, torch.from_numpy(y)):
        assert "chosen: slot 8" in pto.aten.explain("exp", given)
        assert np.allclose(pto.aten.exp(given), np.exp(y))
        refused(lambda given=given: pto.aten.exp(given, slot=0), ValueError, "self is no")


class Refusing:
    """An array of DLPack whose library lends nothing, or that says it lies on a GPU."""

    def __init__(self, device):
        self.device = device

    def __dlpack__(self, **options):
        raise BufferError("it is not lent")

    def __dlpack_device__(self):
        return self.device


@pytest.mark.parametrize("device", [(1, 0), (2, 0)])
def test_an_array_of_dlpack_that_is_not_lent_is_refused(device):
    given = Refusing(device)
    refused(lambda: pto.aten.neg(given), TypeError, "Refusing is not taken")
    refused(lambda: pto.aten.neg(given, out=given), TypeError, "Refusing is not taken")


def test_a_list_of_names_that_is_no_text_is_refused():
    refused(lambda: pto.aten.restrict(sys.executable), ValueError, "the list of operators")


class Boom(Exception):
    """An exception of a kernel that somebody wrote in Python."""


@pytest.fixture
def library():
    """Opens libraries of operators, which end with the test."""
    made = []

    def open_library(kind):
        made.append(torch.library.Library("aten", kind))
        return made[-1]

    yield open_library
    for one in made:
        one._destroy()


def test_an_exception_inside_a_kernel_is_an_error_of_the_call(library):
    raised = []

    def kernel(self):
        if raised:
            raise raised[0]
        return self + 1

    library("IMPL").impl("special_airy_ai", kernel, "CPU")
    call, given = pto.aten.special_airy_ai.default, torch.zeros(3)
    for one in (given, given, given.numpy()):
        assert call(one).tolist() == [1, 1, 1]
    for error, kind in ((Boom("it broke"), RuntimeError), (KeyError("it broke"), RuntimeError)):
        raised[:] = [error]
        for one in (given, given.numpy()):
            refused(lambda one=one: call(one), kind, "it broke")
    raised[:] = [KeyboardInterrupt()]
    for one in (given, given.numpy()):
        with pytest.raises(KeyboardInterrupt):
            call(one)
    raised[:] = [pto.errors.InvalidValue("mine", "it is", "leave it")]
    with pytest.raises(pto.errors.InvalidValue, match="^mine"):
        call(given)


def test_operators_and_kernels_that_come_later_are_called(library):
    given = np.arange(4, dtype=np.float32)
    with pytest.raises(AttributeError, match="no operator pto_late"):
        pto.aten.pto_late  # noqa: B018
    later = library("FRAGMENT")
    later.define("pto_late(Tensor self) -> Tensor")
    refused(lambda: pto.aten.pto_late(given), ValueError, "no kernel of it")
    later.impl("pto_late", lambda self: self + 1, "CPU")
    for one in (given, torch.from_numpy(given), torch.from_numpy(given)):
        assert pto.aten.pto_late(one).tolist() == [1, 2, 3, 4]
    later.define("pto_late.two(Tensor self, Tensor other) -> Tensor")
    later.impl("pto_late.two", lambda self, other: self * other, "CPU")
    assert pto.aten.pto_late(given, given).tolist() == [0, 1, 4, 9]
    assert pto.aten.pto_late.two(given, given).tolist() == [0, 1, 4, 9]
    library("FRAGMENT").define("neg.pto_late(Tensor self, int n) -> Tensor")
    assert "n" in str(pto.aten.neg.pto_late.__doc__)


def test_operators_that_have_gone_or_were_defined_anew(library):
    given = torch.arange(4.0)
    first = torch.library.Library("aten", "FRAGMENT")
    first.define("pto_passing(Tensor self) -> Tensor")
    first.impl("pto_passing", lambda self: self + 1, "CPU")
    family, overload = pto.aten.pto_passing, pto.aten.pto_passing.default
    for _ in range(3):
        assert overload(given)[0] == 1
    first._destroy()
    refused(lambda: overload(given), RuntimeError, "is not what PyTorch has now")
    refused(lambda: family(given), AttributeError, "no operator pto_passing")
    second = library("FRAGMENT")
    second.define("pto_passing(Tensor self, int n) -> Tensor")
    second.impl("pto_passing", lambda self, n: self + n, "CPU")
    assert family(given, 5)[0] == 5 and pto.aten.pto_passing(given, 5)[0] == 5
    refused(lambda: overload(given), RuntimeError, "is not what PyTorch has now")
    refused(lambda: family(given), TypeError, "n is missing")


def test_an_overload_stays_where_another_one_comes_and_goes():
    negate = pto.aten.family("neg").overloads["default"]
    for _ in range(2):
        passing = torch.library.Library("aten", "FRAGMENT")
        passing.define("neg.pto_passing(Tensor self, int n) -> Tensor")
        assert pto.aten.neg.pto_passing.__doc__
        passing._destroy()
        for given in (x, torch.from_numpy(x), torch.from_numpy(x)):
            assert np.array_equal(negate(given), -x)


def test_a_name_that_nothing_has_makes_no_list_of_all_names(monkeypatch):
    """PyTorch has thousands, so that a list takes milliseconds."""
    known = records.library()
    monkeypatch.setattr(known, "_listed", lambda: pytest.fail("all names were listed"))
    for _ in range(2):
        assert known.records("pto_nothing") == known.records("pto_nowhere::add") == ()


def test_operators_of_extensions_are_found_by_their_namespace():
    extension = torch.library.Library("pto_extension", "DEF")
    try:
        extension.define("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")
        extension.impl("add.Tensor", lambda self, other, alpha=1: self * other + alpha, "CPU")
        assert pto.aten.names("pto_extension") == ["pto_extension::add"]
        add = pto.aten.family("pto_extension::add")
        for given in (x, torch.from_numpy(x), torch.from_numpy(x)):
            assert np.array_equal(add(given, given, alpha=2), x * x + 2)
            assert np.array_equal(add.Tensor(given, given), x * x + 1)
        assert repr(add.Tensor.slots()) == "[8 aten]"  # no row of ours for ATen's add
        assert "pto_extension::add.Tensor(" in add.__doc__
        text = "no operator pto_extension::ad(.|\n)*did you mean pto_extension::add"
        refused(lambda: pto.aten.family("pto_extension::ad"), AttributeError, text)
    finally:
        extension._destroy()
    refused(lambda: add(x, x), AttributeError, "no operator pto_extension::add")


FORK = """
import os, sys
import torch, pto.aten
x = torch.ones(512, 1024)
for _ in range(3): pto.aten.exp.default(x, slot=8), pto.aten.log1p(x), torch.exp(x)
child = os.fork()
if child == 0:
    pto.aten.exp.default(x, slot=8), pto.aten.log1p(x), pto.aten.add(x.numpy(), 1, slot=8)
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_goes_on():
    made = children.run("-c", FORK)
    assert made.stdout == "7\n", made.stderr


LATER_WITHOUT = """
import sys
__file__ = sys.argv[1]
import pto.aten
class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch": raise ModuleNotFoundError(f"no {name}", name=name)
sys.meta_path.insert(0, Nowhere())
for ask in (pto.aten.names, lambda: pto.aten.add, pto.aten.differences, pto.aten.enable,
            lambda: pto.aten.restrict(__file__), lambda: pto.aten.explain("add"),
            pto.aten.shadow(["add"]).__enter__, lambda: pto.aten.measure(["exp"])):
    try: ask()
    except pto.Error as error: print("pip install torch" in error.fix)
"""


def test_without_pytorch_each_function_says_what_to_install():
    made = subprocess.run(
        [sys.executable, "-c", LATER_WITHOUT, __file__], capture_output=True, text=True
    )
    assert made.stdout == "True\n" * 8, made.stdout + made.stderr


def test_a_call_that_was_planned_is_checked_for_memory_it_shares():
    if direct._library is None:
        pytest.skip("its part is not built: python -m pto adapters build torch")
    memory = torch.zeros(12)
    a, out = memory[:4], memory[6:10]
    for _ in range(3):
        pto.aten.add.out(a, a, out=out)
    refused(lambda: pto.aten.add.out(a, a, out=memory[2:6]), ValueError, "shares a part")


@pytest.mark.parametrize("name", ("scatter", "scatter_add", "index_add"))
def test_a_write_names_the_position_that_is_not_there(name):
    index = np.array([-5]) if name == "index_add" else np.array([[-5, 0, 0, 0]])
    call = getattr(pto.aten, name)
    refused(lambda: call(x, 0, index, x[:1], slot=0), IndexError, "position -5 along axis 0")


FIRST_USE = """
import threading
import torch
import pto.aten
from pto.aten import rows
results, install = [], rows.install
other = threading.Thread(target=lambda: results.append(pto.aten.exp(torch.zeros(3), slot=0)))

def meets_another_thread(*args):
    other.start()
    other.join(0.2)
    install(*args)

rows.install = meets_another_thread
pto.aten.exp(torch.zeros(3))
other.join()
print(results)
"""


def test_a_thread_that_meets_the_first_use_waits_for_our_rows():
    made = children.run("-c", FIRST_USE)
    assert made.stdout == "[tensor([1., 1., 1.])]\n", made.stderr
