# SPDX-License-Identifier: Apache-2.0
"""Calls in steps on the interpreter: pto.config.interpret, pto.print and pto.breakpoint."""

import os
import subprocess
import sys

import numpy as np
import pytest

import pto


@pytest.fixture
def interpreted():
    pto.config.interpret = True
    yield
    pto.config.interpret = False


def both(function, *args):
    """The results of one call compiled and one in steps, each with the arrays that it wrote."""
    found = []
    for steps in (False, True):
        given = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        pto.config.interpret = steps
        try:
            result = function(*given)
        finally:
            pto.config.interpret = False
        found.append([*(result if isinstance(result, tuple) else (result,)), *given])
    return found


def assert_alike(function, *args):
    for compiled, stepped in zip(*both(function, *args), strict=True):
        assert type(compiled) is type(stepped)
        if isinstance(compiled, np.ndarray):
            assert (compiled.dtype, compiled.shape) == (stepped.dtype, stepped.shape)
            same = np.testing.assert_allclose if compiled.dtype.kind == "f" else (
                np.testing.assert_array_equal)  # fmt: skip
            same(stepped, compiled, **({"rtol": 3e-6} if compiled.dtype.kind == "f" else {}))


@pto.jit
def softmax(x, scale=1.0):
    e = pto.exp(scale * (x - pto.amax(x, -1, keepdim=True)))
    return e / pto.sum(e, -1, keepdim=True)


@pto.jit
def running(x, counts, out):
    total, best = pto.zeros([4]), 0
    for i in pto.loop(counts[0]):
        total = total + x[i]
        if total[0] > 0:
            best = i
        out[i] = total
    left = counts[0]
    while left > 1:
        left = left // 2
        best = best + left
    return total, best


@pto.jit
def halves(x):
    y = pto.cond(pto.sum(x) > 0, lambda: x * 2, lambda: -x)
    for i, k in pto.loop_unroll(x.shape[0], unroll_list=[2]):
        y[i] = y[i] + k
    for _ in pto.loop(3, unroll_list=[2]):
        y = y * 2
    return y


ROWS = np.arange(20, dtype="f4").reshape(5, 4)


@pytest.mark.parametrize("shift", [0, 5, 9, 100])
@pytest.mark.parametrize("count", [0, 1, 4])
def test_a_program_in_steps_computes_what_it_does_compiled(shift, count):
    assert_alike(running, ROWS - shift, np.array([count]), np.zeros((5, 4), "f4"))
    assert_alike(halves, ROWS - shift)
    assert_alike(softmax, ROWS - shift, 0.5)


def test_torch_tensors_of_any_type_come_back_as_such(interpreted):
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        x = torch.randn(3, 4).to(dtype)
        found = softmax(x)
        assert found.dtype is dtype
        np.testing.assert_allclose(found.double(), torch.softmax(x.double(), -1), atol=0.01)
    target = torch.empty(3, 4)
    assert softmax(torch.randn(3, 4), out=target) is target
    np.testing.assert_allclose(target.sum(-1), np.ones(3), rtol=1e-5)
    x = torch.randn(3, 4, requires_grad=True)  # a call that PyTorch makes: compiled, as ever
    (softmax(x) * x.detach()).sum().backward()
    assert x.grad.shape == x.shape


@pto.jit
def printing(x, n):
    pto.print("sizes", x.shape, n)
    for i in pto.loop(x.shape[0]):
        row = pto.sum(x[i])
        if row > n:
            pto.print(i, "has", row, sep=":")
    return x + 1


def test_what_a_function_prints_are_values_in_the_order_of_the_program(capsys):
    x = np.array([[1, 2], [3, 4], [0, 9]], "i4")
    with pytest.warns(RuntimeWarning, match="printing runs in the interpreter"):
        assert np.array_equal(printing(x, 5), x + 1)
    expected = "sizes (3, 2) 5\n1:has:7\n2:has:9\n"
    assert capsys.readouterr().out == expected
    pto.config.interpret = True
    try:
        printing(x, 5)  # nothing to warn of: it was asked for
    finally:
        pto.config.interpret = False
    assert capsys.readouterr().out == expected
    pto.print("outside", x[0, 0], end=".")
    assert capsys.readouterr().out == "outside 1."


def test_a_tensor_shows_its_values_in_steps(interpreted, capsys):
    @pto.jit
    def shown(x):
        print(x, f"{x * 2}")
        return x

    shown(np.array([1, 2], "i4"))
    assert capsys.readouterr().out == "<i32[s0] [1 2]> <i32[s0] [2 4]>\n"


@pytest.mark.filterwarnings("ignore:chosen runs in the interpreter")
def test_printing_where_nothing_has_values_is_an_error_with_the_fix():
    @pto.jit
    def chosen(x):
        return (pto.print("no") or x) if x[0] > 0 else x

    for call in (lambda: printing.explain(ROWS, 1), lambda: printing.trace(ROWS, 1),
                 lambda: chosen(ROWS[0])):  # fmt: skip
        with pytest.raises(pto.Error, match=r"test_stepping.py:\d+: pto.print.*\n.*why.*\n.*fix"):
            call()
    torch = pytest.importorskip("torch")
    with pytest.raises(pto.Error, match="pto.print is met(.|\n)*x.detach"):
        printing(torch.ones(2, 2, requires_grad=True), 1.0)


def test_errors_in_steps_are_those_of_compiled_calls(interpreted):
    @pto.jit
    def beyond(x, places):
        return x[places[0]] + 1

    with pytest.raises(pto.Error, match=r"test_stepping.py:\d+"):
        beyond(ROWS, np.array([7]))
    with pytest.raises(TypeError, match="config.interpret is 'yes'(.|\n)*assign True or False"):
        pto.config.interpret = "yes"


CODE = """
import numpy as np, pto

@pto.jit
def grown(x):
    y = x * 2
    for i in pto.loop(2):
        y = y + 1
        pto.breakpoint()
    y = y + 10
    return y

print(grown(np.array([1, 2], "i4")))
"""


def test_a_breakpoint_enters_pdb_at_the_line_with_values(tmp_path):
    (tmp_path / "program.py").write_text(CODE)
    env = os.environ | {"PTO_CACHE_DIR": str(tmp_path / "cache")}
    run = [sys.executable, "-W", "ignore", "program.py"]
    commands = "p y, i\np x + 40\nu\np type(x)\nc\np y.sum()\nn\nn\nn\nn\np y\nc\n"
    done = subprocess.run(
        run, cwd=tmp_path, env=env, input=commands, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("program.py(9)") == 2 and "-> pto.breakpoint()" in done.stdout
    for text in (
        "(array([3, 5], dtype=int32), 0)",
        "<class 'numpy.ndarray'>",
        "array([41, 42], dtype=int32)",
        "np.int64(10)",
        "array([14, 16]",
        "[14 16]",
    ):
        assert text in done.stdout, done.stdout
    env["PYTHONBREAKPOINT"] = "0"
    done = subprocess.run(run, cwd=tmp_path, env=env, input="", capture_output=True, text=True)
    assert done.stdout == "[14 16]\n"
