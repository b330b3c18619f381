# SPDX-License-Identifier: Apache-2.0
"""Wrong calls of operators inside PyTorch: each says what, why and how to fix it."""

import os
import pathlib
import sys

import children
import pytest
import torch

import pto.torch  # noqa: F401
from pto.adapters.torch import build
from pto.errors import Failure
from pto.language.op import op

pto_ops = torch.ops.pto


@op("test_no_gradient(Tensor x) -> Tensor")
class NoGradient:
    def build(x):
        return x * 2


def x(*shape, **options):
    return torch.randn(*shape, **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: pto_ops.add(x(2, 3), x(4)),
            r"add: sizes 3 and 4 differ in add",
        ),
        (
            lambda: pto_ops.layer_norm(x(2, 3), x(4), x(3)),
            r"sizes 3 and 4 differ|sizes 4 and 3 differ",
        ),
        (
            lambda: pto_ops.add(x(2, 3), x(2, 3).double()),
            "add: y is f64 but x is f32",
        ),
        (
            lambda: pto_ops.add(x(2), x(2, device="meta")),
            "add: tensor y is on meta but x is on cpu",
        ),
        (
            lambda: pto_ops.gelu(torch.ones(2, dtype=torch.complex64)),
            "gelu: tensor x has a dtype without kernels",
        ),
        (
            lambda: pto_ops.gelu(x(1, 1, 1, 1, 1, 1, 1, 1, 2)),
            "tensor argument 0 has 9 dimensions",
        ),
        (
            lambda: pto_ops.test_no_gradient(x(2, requires_grad=True)),
            "test_no_gradient: .*tensor .*requires grad, but the operator has no gradient",
        ),
        (lambda: pto_ops.softmax(x(2, 3), 5), "softmax|amax: there is no axis 5"),
        (lambda: pto_ops.rms_norm(torch.tensor(1.0), x(1)), "there is no axis -1"),
    ],
)
def test_a_wrong_call_says_what_why_and_fix(call, message):
    with pytest.raises(Exception, match=message) as raised:
        call()
    assert "why:" in str(raised.value) and "fix:" in str(raised.value)


def test_an_operator_without_gradient_runs_where_none_is_asked_for():
    ones = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert torch.equal(pto_ops.test_no_gradient(ones), torch.full((2,), 2.0))
    assert torch.equal(pto_ops.test_no_gradient(ones.detach()), torch.full((2,), 2.0))


def test_an_error_leaves_nothing_behind():
    y = torch.ones(3)
    references = sys.getrefcount(y)
    for _ in range(100):
        with pytest.raises(RuntimeError):
            pto_ops.add(y, torch.ones(4))
    assert sys.getrefcount(y) == references


def test_a_build_of_the_gradients_that_fails_names_its_log(tmp_path, monkeypatch):
    compiler = tmp_path / "broken"
    compiler.write_text(
        "#!/bin/sh\ncase \"$*\" in *-dM*) echo '#define __GNUC__ 13'; exit 0 ;; esac\n"
        "echo 'node.cpp:1: error: out of luck' >&2\nexit 3\n"
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("PTO_CXX", str(compiler))
    monkeypatch.setenv("PTO_CACHE_DIR", str(tmp_path))
    with pytest.raises(
        Failure, match="failed with exit status 3\n.*node.cpp:1: error: out of luck"
    ) as raised:
        build.build()
    (log,) = tmp_path.rglob("failed-*.log")
    assert str(log) in raised.value.fix and "out of luck" in log.read_text()
    assert build.built() is None and not list(tmp_path.rglob("*.so"))


def test_a_build_of_the_gradients_without_a_compiler_says_so(tmp_path, monkeypatch):
    monkeypatch.delenv("PTO_CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PTO_CACHE_DIR", str(tmp_path))
    with pytest.raises(Failure, match="no C\\+\\+ compiler was found") as raised:
        build.build()
    assert "install" in raised.value.fix


def test_damaged_gradients_name_the_file(tmp_path):
    build_folder = tmp_path / "torch"
    build_folder.mkdir()
    (build_folder / build.path().name).write_text("no library")
    environment = {**os.environ, "PTO_CACHE_DIR": str(tmp_path)}
    run = children.run("-c", "import pto.torch", env=environment)
    assert "the PyTorch gradients cannot be loaded" in run.stderr
    assert "python -m pto adapters build torch" in run.stderr


KEYWORDS = """
import torch, pto.torch
from pto import op

@op("keyword_sum(Tensor x, *, Tensor y) -> Tensor")
class KeywordSum:
    def build(x, y): return x + y
    grad = "automatic"

x = torch.ones(3, requires_grad=True)
print(torch.ops.pto.keyword_sum(x.detach(), y=torch.ones(3)).tolist())
torch.ops.pto.keyword_sum(x, y=torch.ones(3))
"""


def test_without_the_cpp_part_keyword_only_tensors_have_no_gradient(tmp_path):
    (tmp_path / "keywords.py").write_text(KEYWORDS)
    environment = {"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(tmp_path)}
    environment["PYTHONPATH"] = str(pathlib.Path(pto.torch.__file__).parents[3])
    run = children.run(tmp_path / "keywords.py", env=environment)
    assert run.stdout == "[2.0, 2.0, 2.0]\n", run.stderr
    assert "keyword_sum: a tensor requires grad, but gradients go through Python" in run.stderr
    assert "fix: run: python -m pto adapters build torch" in run.stderr


def test_without_the_cpp_part_gradients_go_through_python(tmp_path):
    program = (
        "import torch, pto.torch; print(pto.torch.describe());"
        "x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True);"
        "print(torch.autograd.gradcheck(torch.ops.pto.softmax, (x,)));"
        "print(torch.autograd.gradcheck(lambda x: torch.ops.pto.gelu(x, approximate='tanh'), (x,)))"
    )
    environment = {"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(tmp_path)}
    environment["PYTHONPATH"] = str(pathlib.Path(pto.torch.__file__).parents[3])
    run = children.run("-c", program, env=environment)
    assert run.returncode == 0, run.stderr
    assert "gradients through Python" in run.stdout and run.stdout.count("True") == 2
