# SPDX-License-Identifier: Apache-2.0
"""pto.config.matmul_precision: what products of f32 may be made of, and what stays the same."""

import os
import subprocess
import sys

import pytest
import torch

import pto
import pto.torch
from pto import Error, _core
from pto.ops.linear import MatMulPacked, PackRight

PRECISIONS = ("highest", "high", "medium")
BOUND = {"highest": 0, "high": 2**-14, "medium": 2**-7 * 1.01}  # of what parts leave out
ops = torch.ops.pto


@pytest.fixture(autouse=True)
def switch_back():
    before = pto.config.matmul_precision
    yield
    pto.config.matmul_precision = before


@pytest.fixture
def operands():
    torch.manual_seed(3)
    return torch.randn(37, 300), torch.randn(300, 90)


@pytest.mark.parametrize("wrong", ["higher", "", None, 1, "Highest"])
def test_a_precision_without_a_name_is_refused(wrong):
    with pytest.raises(Error, match="config.matmul_precision is"):
        pto.config.matmul_precision = wrong
    assert pto.config.matmul_precision == "highest"


def test_the_environment_names_the_first_precision():
    code = "import pto; print(pto.config.matmul_precision); print(pto.config)"
    for value, want in (("medium", "medium"), ("", "highest")):
        run = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PTO_MATMUL_PRECISION": value},
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout.splitlines()[0] == want
        assert f"matmul_precision = {want!r}" in run.stdout


@pytest.mark.parametrize("precision", PRECISIONS)
def test_explain_tells_the_precision_and_what_it_means_here(precision):
    pto.config.matmul_precision = precision
    text = pto.jit(lambda x: x + 1).explain(torch.zeros(3))
    assert text.endswith(f"matmul_precision = {precision!r}: {_core.way_of_floats()}")


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_error_stays_within_the_stated_bound(operands, precision):
    pto.config.matmul_precision = precision
    a, b = operands
    error = (ops.matmul(a, b).double() - a.double() @ b.double()).abs()
    absolute = a.double().abs() @ b.double().abs()
    assert (error <= (300 * 2**-24 + BOUND[precision]) * absolute).all()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_row_has_the_same_bits_in_every_product(operands, precision):
    pto.config.matmul_precision = precision
    a, b = operands
    want = ops.matmul(a, b)
    a[5, 7], b[9, 3] = float("nan"), 1e-40  # of lines apart
    other = ops.matmul(a, b)
    rest = [i for i in range(37) if i != 5]
    assert other[5].isnan().all()
    kept = [j for j in range(90) if j != 3]
    assert torch.equal(other[rest][:, kept], want[rest][:, kept])
    for rows in (slice(0, 1), slice(8, 25), slice(20, 37)):
        alone = ops.matmul(a[rows].contiguous(), b)
        assert torch.equal(alone.nan_to_num(), other[rows].nan_to_num())
    for strided in (b.t().contiguous().t(), torch.stack((b, b), -1)[..., 0]):
        assert torch.equal(ops.matmul(a, strided).nan_to_num(), other.nan_to_num())
    column = ops.matmul(a, b[:, :1])  # computed as a row
    assert torch.equal(column.nan_to_num(), other[:, :1].nan_to_num())
    assert torch.equal(ops.gemm(a, b).nan_to_num(), other.nan_to_num())


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_packed_weight_has_the_bits_of_its_precision(operands, precision):
    a, b = operands
    w = b.t().contiguous()
    for _ in range(2):  # the switch changes under a weight that is packed
        for now in ("highest", precision):
            pto.config.matmul_precision = now
            want = ops.matmul(a, w, transpose_b=True)
            for _ in range(20):
                assert torch.equal(ops.linear(a, w), want)
            assert torch.equal(ops.linear(a[4], w), want[4])
    for _ in range(2**14):  # what lay there before may have changed often
        if pto.memory()["packed_weights"] >= w.numel() * 2:
            break
        assert torch.equal(ops.linear(a, w), want)
    assert pto.memory()["packed_weights"] >= w.numel() * 2


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_matrix_that_was_packed_keeps_its_precision(operands, precision):
    a, b = operands
    pto.config.matmul_precision = precision
    want, packed = ops.matmul(a, b).numpy(), PackRight(b.numpy())
    for other in PRECISIONS:
        pto.config.matmul_precision = other
        assert (MatMulPacked(a.numpy(), packed, cols=90) == want).all()
    for wrong in (packed[:-2], packed[:3], 0 * packed):
        with pytest.raises(Error, match="packed matrix has another number of rows"):
            MatMulPacked(a.numpy(), wrong.copy(), cols=90)


def test_medium_rounds_to_bf16_where_that_is_faster(operands):
    a, b = operands
    floats = ops.matmul(a, b)
    pto.config.matmul_precision = "medium"
    if _core.way_of_floats().startswith("rounded to bf16"):
        assert torch.equal(ops.matmul(a, b), ops.matmul_f32(a.bfloat16(), b.bfloat16()))
        assert not torch.equal(ops.matmul(a, b), floats)
    else:
        assert torch.equal(ops.matmul(a, b), floats)


def test_other_types_do_not_heed_the_precision(operands):
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        a, b = (x.to(dtype) for x in operands)
        image, filters = torch.randn(1, 4, 8, 8).to(dtype), torch.randn(2, 4, 3, 3).to(dtype)
        want = ops.matmul(a, b), ops.conv2d(image, filters)
        pto.config.matmul_precision = "medium"
        assert torch.equal(ops.matmul(a, b), want[0])
        assert torch.equal(ops.conv2d(image, filters), want[1])
        pto.config.matmul_precision = "highest"


def test_gradients_heed_it_and_convolutions_do_not(operands):
    image, filters = torch.randn(2, 8, 9, 9), torch.randn(4, 8, 3, 3)
    chain = ops.conv2d(image, filters)
    for precision in PRECISIONS:
        pto.config.matmul_precision = precision
        a, b = (x.clone().requires_grad_() for x in operands)
        ops.matmul(a, b).sum().backward()
        d = torch.ones(37, 90)
        assert torch.equal(a.grad, ops.matmul(d, b.detach(), transpose_b=True))
        want = torch.nn.functional.conv2d(image.double(), filters.double())
        got = ops.conv2d(image, filters)
        assert (got - want).abs().max() < 1e-4
        assert torch.equal(got, chain)


@pto.jit
def of_the_process(a, b):
    return pto.matmul(a, b) + 1


@pto.jit
def of_its_own(a, b, precision):
    return pto.matmul(a, b, precision=precision) + 1


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shape", [(37, 90), (3, 90), (200, 640)])
def test_a_product_has_its_own_precision_whatever_the_switch_says(precision, shape):
    a, b = torch.randn(shape[0], 300), torch.randn(300, shape[1])
    pto.config.matmul_precision = precision
    want = of_the_process(a, b)
    for switch in PRECISIONS:
        pto.config.matmul_precision = switch
        assert torch.equal(of_its_own(a, b, precision=precision), want)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_constant_is_packed_for_the_precision_of_the_product(operands, precision):
    @pto.jit
    def constant(a, b: pto.Constant):
        return pto.matmul(a, b, precision=precision)

    a, b = (x.numpy() for x in operands)
    pto.config.matmul_precision = precision
    want = torch.ops.pto.matmul(*operands).numpy()
    for switch in PRECISIONS * 3:
        pto.config.matmul_precision = switch
        assert (constant(a, b) == want).all()
    b[:] = -b
    for switch in PRECISIONS * 3:
        pto.config.matmul_precision = switch
        assert (constant(a, b) == -want).all()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_interpreter_bounds_the_error_of_a_precision(operands, precision):
    a, b = (x.numpy() for x in operands)
    report = pto.verify(of_its_own, a[:9, :60], b[:60], precision=precision)
    assert report.is_equal, report


def test_a_precision_of_a_product_that_has_none_is_refused(operands):
    a, b = (x.numpy() for x in operands)
    with pytest.raises(
        Error, match=r"(?s)precision is the str 'lower'.*'highest', 'high', 'medium'"
    ):
        of_its_own(a, b, precision="lower")
    with pytest.raises(Error, match=r"precision is 'medium' but the operands are f64"):
        of_its_own(a.astype("f8"), b.astype("f8"), precision="medium")


def test_the_text_of_a_graph_keeps_the_precision():
    text = """graph g(%a: f32[2, 3], %b: f32[3, 4]) -> (f32[2, 4]) {
  %0 = matmul(%a, %b) {precision=high} : f32[2, 4]
  return %0
}
"""
    assert str(_core.Graph.parse(text)) == text
    for wrong, message in (("lower", '"lower"'), ('"', "a precision")):
        with pytest.raises(Error, match=message):
            _core.Graph.parse(text.replace("high", wrong))
    with pytest.raises(Error, match="only products of f32 have a precision"):
        _core.Graph.parse(text.replace("f32", "i32"))
