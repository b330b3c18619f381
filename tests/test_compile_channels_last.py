# SPDX-License-Identifier: Apache-2.0
"""Pictures whose channels lie last under torch.compile(backend="pto"): results, strides and
gradients are eager's, and no kernel works on a picture turned to the order of its axes."""

import pytest
import torch
import torch.nn.functional as F

import pto.torch
from pto import _core

FUNCTIONS = {
    "mean": lambda x: x.mean((2, 3)),
    "amax": lambda x: x.amax(1, keepdim=True) + x,
    "concat": lambda x: torch.cat([x, x * 2], 1).relu(),
    "pad": lambda x: F.pad(x, (1, 2, 0, 1)) * 2,
    "gate": lambda x: x * x.mean((2, 3), keepdim=True).sigmoid(),
    "batch norm": lambda x: F.batch_norm(x, torch.ones(6), torch.ones(6)).relu(),
    "softmax": lambda x: x.softmax(1),
    "cumsum": lambda x: x.cumsum(1) + 1,
    "slice": lambda x: x[:, 1:5] * x[:, 2:6],
    "split channels": lambda x: x.reshape(2, 2, 3, 5, 7).sum(2) * 3,
    "tokens": lambda x: F.gelu(x.flatten(2).transpose(1, 2)),
    "patches": lambda x: x[:, :, :4, :6].unfold(2, 2, 2).unfold(3, 3, 3).sum((4, 5)),
}
UNMOVED = {"batch norm", "softmax", "cumsum", "split channels", "patches"}  # or turned by eager too


def picture():
    torch.manual_seed(0)
    return torch.randn(2, 6, 5, 7).to(memory_format=torch.channels_last)


@pytest.fixture(autouse=True)
def forgotten():
    torch._dynamo.reset()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_strides_and_gradients_are_those_of_eager(name):
    x, y = picture().requires_grad_(), picture().requires_grad_()
    want, found = FUNCTIONS[name](x), torch.compile(FUNCTIONS[name], backend="pto")(y)
    torch.testing.assert_close(found, want)
    assert found.stride() == want.stride()
    want.square().sum().backward()
    found.square().sum().backward()
    torch.testing.assert_close(y.grad, x.grad)
    assert y.grad.stride() == x.grad.stride()


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("pool", [lambda x: F.adaptive_avg_pool2d(x, 1), torch.clone])
def test_a_convolution_over_whole_pictures_is_a_product_of_their_program(pool, layout):
    x = picture().contiguous(memory_format=layout)
    weights = torch.randn(4, 6, *pool(x).shape[2:]), torch.randn(6, 4, 1, 1)

    def gate(x):
        squeezed = F.conv2d(pool(x), weights[0], torch.ones(4), stride=2).relu()
        return x * F.conv2d(squeezed, weights[1]).sigmoid()

    compiled = torch.compile(gate, backend="pto")
    found, want = compiled(x), gate(x)
    torch.testing.assert_close(found, want)
    assert found.stride() == want.stride()
    assert [step.kind for step in pto.torch.explain(compiled, x).steps] == ["program"]


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in UNMOVED])
def test_kernels_read_pictures_as_they_lie(name, tmp_path):
    options = {"dump": str(tmp_path)}
    with torch.no_grad():
        torch.compile(FUNCTIONS[name], backend="pto", options=options)(picture())
    stages = {}
    for path in tmp_path.glob("*.pto.txt"):
        _core.explain(_core.Graph.parse(path.read_text()), stages.__setitem__)
        assert "transpose(" not in stages["remove_dead_nodes"]
    assert stages
