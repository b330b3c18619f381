# SPDX-License-Identifier: Apache-2.0
"""The kernels of docs/known_kernels.md: against formulas in f64, and pass by pass."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import pto

TEXT = (Path(__file__).parents[1] / "docs/known_kernels.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """The page as a module: the text of a program is read from its file."""
    assert len(BLOCKS) == TEXT.count("```") // 2
    path = tmp_path_factory.mktemp("page") / "known_kernels.py"
    path.write_text("\n".join(BLOCKS))
    spec = importlib.util.spec_from_file_location("known_kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def normal(*shape):
    return RNG.standard_normal(shape, np.float32)


def image(height, width):
    return RNG.integers(0, 256, (height, width), np.uint8)


def of_torch(function):
    """The results of a function of torch tensors, of f64 where an argument is a float."""

    def run(*args):
        given = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in args]
        found = function(*(t.double() if getattr(t, "is_floating_point", bool)() else t
                           for t in given))  # fmt: skip
        return [t.numpy() for t in (found if isinstance(found, tuple | list) else [found])]

    return run


def norm_backward(d, x, weight):
    x.requires_grad_(), weight.requires_grad_()
    bias = torch.zeros_like(weight, requires_grad=True)
    y = F.layer_norm(x, weight.shape, weight, bias)
    return torch.autograd.grad(y, (x, weight, bias), d)


def attended(q, k, v, scale, out):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)


def grouped(x, w, starts, out):
    parts = [x[a:b] @ one for one, a, b in zip(w, starts[:-1], starts[1:], strict=True)]
    return torch.cat(parts)


def blurred(picture):
    wide = F.pad(picture[None, None], (1, 1, 1, 1), mode="replicate")
    return F.avg_pool2d(wide, 3, 1)[0, 0]


def equalised(picture):
    levels = np.cumsum(np.bincount(picture.ravel(), minlength=256)) * 255 // picture.size
    return [levels.astype(np.uint8)[picture]]


def bright(picture, factor):
    return [np.minimum(picture.astype(np.float32) * np.float32(factor), 255).astype(np.uint8)]


def starts(*ends):
    return np.array([0, *ends])


# Name: what it has to be, and arguments of two sizes, the second with tails.
CASES = {
    "add": (of_torch(torch.add), (normal(8), normal(8)), (normal(1000), normal(1000))),
    "softmax": (of_torch(lambda x: x.softmax(-1)), (normal(3, 8),), (normal(7, 781),)),
    "matmul_leaky": (of_torch(lambda a, b: F.leaky_relu(a @ b)),
                     (normal(4, 8), normal(8, 5)), (normal(130, 70), normal(70, 257))),
    "layer_norm": (of_torch(lambda x, w, b: F.layer_norm(x, w.shape, w, b)),
                   (normal(3, 8), normal(8), normal(8)),
                   (normal(9, 333), normal(333), normal(333))),
    "layer_norm_backward": (of_torch(norm_backward), (normal(3, 8), normal(3, 8), normal(8)),
                            (normal(9, 333), normal(9, 333), normal(333))),
    "causal_attention": (of_torch(attended), (*normal(3, 2, 5, 8), 0.5, np.zeros((2, 5, 8), "f4")),
                         (*normal(3, 3, 150, 32), 0.25, np.zeros((3, 150, 32), "f4"))),
    "grouped_matmul": (
        of_torch(grouped), (normal(6, 4), normal(3, 4, 5), starts(2, 2, 6), np.zeros((6, 5), "f4")),
        (normal(99, 64), normal(4, 64, 33), starts(1, 50, 64, 99), np.zeros((99, 33), "f4"))),
    "brighter": (bright, (image(3, 5), 1.5), (image(67, 129), 2.25)),
    "blur": (of_torch(blurred), (normal(4, 5),), (normal(67, 129),)),
    "equalised": (equalised, (image(3, 5),), (image(67, 129),)),
    "sharper": (of_torch(lambda x, a: x + (x - blurred(x)) * a),
                (normal(4, 5), 0.5), (normal(67, 129), 1.5)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_of_a_tutorial_computes_its_formula(kernels, name):
    formula, few, many = CASES[name]
    for args in (few, many):
        found = getattr(kernels, name)(*args)
        found = args[-1] if found is None else found
        found = found if isinstance(found, tuple) else (found,)
        for a, b in zip(found, formula(*args), strict=True):
            assert a.shape == b.shape and a.dtype.kind == b.dtype.kind
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", CASES)
def test_each_pass_keeps_a_kernel_of_a_tutorial(kernels, name):
    _, few, _ = CASES[name]
    report = pto.verify(getattr(kernels, name), *few)
    assert report.is_equal, str(report)


def test_dropout_keeps_a_share_by_its_seed(kernels):
    x = np.ones((100, 333), np.float32)
    found = kernels.dropout(x, 0.25, 3)
    assert set(np.unique(found)) == {0, np.float32(1 / 0.75)}
    assert abs((found > 0).mean() - 0.75) < 0.01
    assert np.array_equal(found, kernels.dropout(x, 0.25, 3))
    other = kernels.dropout(x, 0.25, 4)
    assert 0.3 < (found != other).mean() < 0.45  # 2 * 0.25 * 0.75
    report = pto.verify(kernels.dropout, x[:3, :5], 0.25, 3)
    assert report.is_equal, str(report)


def test_the_page_names_every_kernel_that_is_tested():
    names = re.findall(r"^@pto.jit\ndef (\w+)", TEXT, re.MULTILINE)
    assert sorted(names) == sorted([*CASES, "dropout"])
