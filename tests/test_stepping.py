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


def test_values_can_be_looked_at_in_steps(interpreted):
    found = []

    @pto.jit
    def looked_at(x):
        y = x * 2
        for i in range(2):
            found.append((np.asarray(y[i]), y[i].numpy(), y[i, 0].item(), y[i].tolist()))
        found.append(f"{y[1, 1]:5} {np.isnan(np.asarray(y, 'f8')).any()}")
        y.numpy()[:] = 7  # a copy
        return y

    for dtype in ("f4", "i8"):
        assert np.array_equal(looked_at(np.ones((2, 2), dtype)), np.full((2, 2), 2))
        for array, copy, number, numbers in found[:2]:
            assert array.dtype == copy.dtype == dtype and array.tolist() == numbers == [2, 2]
            assert type(number) is type(numbers[0]) is (float if dtype == "f4" else int)
        assert found[2] == ("  2.0 False" if dtype == "f4" else "    2 False")
        found.clear()
    torch = pytest.importorskip("torch")
    looked_at(torch.ones(2, 2, dtype=torch.bfloat16))
    assert found[0][0].dtype.name == "bfloat16" and found[0][3] == [2.0, 2.0]


MISUSED = {
    "float": lambda x: x * float(x[0]),
    "int": lambda x: x * int(x[0]),
    "bool": lambda x: x if bool(x[0]) else -x,
    "range": lambda x: [x for _ in range(x[0])][0],
    "ufunc": lambda x: np.isnan(x),
}


@pytest.mark.parametrize("name", MISUSED)
def test_what_would_steer_is_refused_in_steps_with_the_reason_that_is_true(name, interpreted):
    with pytest.raises(TypeError) as raised:
        pto.jit(MISUSED[name])(np.ones(3, "f4"))
    text = str(raised.value)
    assert "to look at it: numpy.asarray(x)" in text and "compiled once" not in text
    assert "why: values are there to be looked at in steps; compiled, no line could depend" in text
    pto.config.interpret = False
    with pytest.raises(TypeError, match="why: the function is compiled once for all values"):
        pto.jit(MISUSED[name])(np.ones(3, "f4"))


SIZE_USES = {
    "float": float,
    "int": int,
    "bool": bool,
    "range": range,
    "compared": lambda n: [n > 1],
}


@pytest.mark.parametrize("use", SIZE_USES.values(), ids=SIZE_USES)
def test_a_size_that_would_steer_is_refused_in_steps_with_its_value(use, interpreted):
    function = pto.jit(lambda x: (use(x.shape[0] * 2), x)[1])
    reason = "2 is 6 in this call; compiled, one kernel serves all sizes, so no line could depend"
    with pytest.raises(pto.Error, match=reason) as raised:
        function(np.ones(3, "f4"))
    assert "known only" not in str(raised.value)
    pto.config.interpret = False
    with pytest.raises(pto.Error, match="the size is known only when the kernel runs"):
        function(np.ones(3, "f4"))


def test_a_body_has_sizes_only_when_it_runs(interpreted):
    @pto.jit
    def totals(x):
        for i in pto.loop(x.shape[0]):
            x = x + float(pto.zeros([i + 1]).shape[0])
        return x

    with pytest.raises(TypeError, match="why: compiled, one kernel serves all sizes, so no line"):
        totals(np.ones(3, "f4"))


def test_a_body_has_values_only_when_it_runs(interpreted):
    @pto.jit
    def totals(x):
        total = pto.zeros([])
        for i in pto.loop(x.shape[0]):
            total = total + x[i]
            np.asarray(total)
        return total

    with pytest.raises(TypeError, match="in the body of a loop.*\n.*looked over.*\n.*pto.print"):
        totals(np.ones(3, "f4"))


def test_no_value_is_shown_behind_the_end(interpreted):
    kept = []

    @pto.jit
    def keeping(x):
        kept.append(x)
        with pytest.raises(ValueError, match="item.. of 3 elements"):
            x.item()
        return x

    keeping(np.ones(3, "f4"))
    for use in (np.asarray, float, lambda x: x.item(), lambda x: x.tolist()):
        with pytest.raises(TypeError, match="used after its tracing ended"):
            use(kept[0])


@pto.op("stepping_print(Tensor x) -> Tensor")
class Printing:
    def build(x):
        pto.print("largest", pto.amax(x))
        return x * 2


@pytest.mark.filterwarnings("ignore:outer runs in the interpreter")
def test_an_operator_prints_where_a_function_calls_it(capsys):
    @pto.jit
    def outer(x):
        return Printing(x) + 1

    assert np.array_equal(outer(ROWS), ROWS * 2 + 1)
    assert capsys.readouterr().out == "largest 19.0\n"
    for interpret in (True, False):
        pto.config.interpret = interpret
        try:
            with pytest.raises(pto.Error, match="pto.print is met(.|\n)*and an operator from such"):
                Printing(ROWS)
        finally:
            pto.config.interpret = False


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


@pytest.mark.parametrize("tool", ["report", "trace", "tune", "verify"])
def test_a_tool_for_compiled_code_is_refused_in_steps(tool, interpreted, tmp_path):
    doubled, x = pto.jit(lambda x: x + x), np.ones(3, np.float32)
    call = {
        "report": lambda: doubled.report(x),
        "trace": lambda: doubled.trace(tmp_path / "t.json", x),
        "tune": lambda: pto.tune(doubled, x, budget_s=1, path=tmp_path / "tuned.json"),
        "verify": lambda: pto.verify(doubled, x),
    }[tool]
    with pytest.raises(pto.errors.Failure, match=f"{tool}: .*pto.config.interpret is True"):
        call()
    assert list(tmp_path.iterdir()) == []
    assert "==== C++ ====" in doubled.explain(x)  # it runs nothing


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
