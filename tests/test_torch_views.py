# SPDX-License-Identifier: Apache-2.0
"""strided_view() is as_strided() for what is only read: same elements, same errors."""

import random

import pytest
import torch

import pto.torch  # noqa: F401 loads the library
from pto.adapters.torch import direct

pytestmark = pytest.mark.skipif(direct._library is None, reason="direct calls are not built")
view = direct.strided_view()
X = torch.arange(24.0)
torch.manual_seed(0)


class Own(torch.Tensor):
    pass


def outcome(call):
    try:
        found = call()
    except Exception as error:
        return type(error), str(error).partition("\n")[0]  # no frames of C++
    about = found.shape, found.stride(), found.storage_offset(), found.dtype, found._version
    return about, found.untyped_storage().data_ptr(), type(found), found.detach().tolist()


def test_views_are_those_of_as_strided_also_beyond_the_memory():
    rng, refused = random.Random(5), 0
    for _ in range(2000):
        rank = rng.randint(0, 4)
        sizes = tuple(rng.choice((0, 1, 2, 3, 5)) for _ in range(rank))
        strides = tuple(rng.choice((0, 1, 2, 4, 7)) for _ in range(rank))
        x, offset = rng.choice((X, X[3:], X.view(4, 6).t())), rng.choice((0, 1, 11, 23, 24, 99))
        ours = outcome(lambda s=sizes, t=strides, o=offset, x=x: view(x, s, t, o))
        assert ours == outcome(lambda s=sizes, t=strides, o=offset, x=x: x.as_strided(s, t, o))
        refused += isinstance(ours[0], type)
    assert 100 < refused < 1900


OTHERS = {
    "a negative stride": (X, (3,), (-1,), 5),
    "a negative size": (X, (-3,), (1,), 0),
    "a negative offset": (X, (3,), (1,), -1),
    "fewer strides": (X, (3, 2), (1,), 0),
    "a huge step": (X, (2**40,), (2**40,), 0),
    "a huge number": (X, (2,), (2**70,), 0),
    "lists": (X, [2, 3], [3, 1], 0),
    "floats": (X, (2.0,), (1,), 0),
    "nine axes": (X, (1,) * 9, (1,) * 9, 0),
    "a parameter": (torch.nn.Parameter(X.clone()), (2, 3), (3, 1), 1),
    "a subclass": (X.clone().as_subclass(Own), (2, 3), (3, 1), 1),
    "a negated tensor": (torch.randn(8, dtype=torch.complex64).conj().imag, (2,), (2,), 1),
    "without elements": (torch.empty(0), (0, 3), (3, 1), 0),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_plain_is_pytorchs(name):
    x, *rest = OTHERS[name]
    with torch.no_grad():
        assert outcome(lambda: view(x, *rest)) == outcome(lambda: x.as_strided(*rest))
    if name == "a parameter":
        assert view(x, *rest).requires_grad and view(x, *rest).grad_fn is not None


def test_a_view_counts_the_writes_of_its_tensor_and_keeps_its_memory():
    x = torch.zeros(6)
    seen = view(x, (2, 3), (3, 1), 0)
    x.add_(1)
    assert seen._version == 1 and seen.tolist() == [[1.0] * 3] * 2
    del x
    assert seen.sum() == 6


def test_too_few_arguments_are_an_error():
    with pytest.raises(TypeError, match="takes 4 arguments, not 2"):
        view(X, (2,))
