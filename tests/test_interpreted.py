# SPDX-License-Identifier: Apache-2.0
"""Code that the C++ compiler refuses is our defect: the call is answered by the interpreter."""

import os
import pathlib
import re
import subprocess
import sys
import textwrap

import children
import numpy as np

import pto
from pto import _core

# Says its version, then finds an error in every text.
REFUSES = """#!/bin/sh
case "$*" in *-dM*) exec g++ "$@";; esac
echo "In file included from here:" >&2
echo "kernel.cpp:7:3: error: no matching function" >&2
exit 1
"""


def refused(code, tmp_path):
    """Runs the code with such a compiler; its output, and the files that the warnings name."""
    compiler = tmp_path / "refuses"
    compiler.write_text(REFUSES)
    compiler.chmod(0o755)
    (tmp_path / "program.py").write_text(textwrap.dedent(code))
    env = {**os.environ, "PTO_CACHE_DIR": str(tmp_path / "cache"), "PTO_CXX": str(compiler)}
    done = children.run(tmp_path / "program.py", env=env)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("this is a defect of OpenPTO") == done.stderr.count("warning: ")
    assert done.stderr.count("no matching function") == done.stderr.count("warning: ")
    return done.stdout.split(), re.findall(r"send (\S+), the graph as text", done.stderr)


def test_a_call_is_answered_and_one_warning_names_a_graph_that_reproduces(tmp_path):
    code = """
        import numpy as np, pto

        @pto.jit
        def centred(x, scale=2.0):
            mean = pto.sum(x, -1, keepdim=True) / 4
            return (x - mean) * scale, mean

        x = np.arange(12, dtype="f4").reshape(3, 4)
        for x in (x, x[::-1], x[:, ::2], x[:0], x):  # other layouts and sizes of the same graph
            y, mean = centred(x)
            want = x.sum(-1, keepdims=True) / 4
            print(np.array_equal(mean, want) and np.array_equal(y, (x - want) * 2))
    """
    out, files = refused(code, tmp_path)
    assert out == ["True"] * 5
    (file,) = files
    text = pathlib.Path(file).read_text()
    assert text.startswith("# centred: the C++ compiler") and "no matching function" in text
    graph = _core.Graph.parse(text)
    x = np.arange(12, dtype="f4").reshape(3, 4)
    y, mean = pto.interpret(graph, x, 2.0)
    np.testing.assert_array_equal(y, (x - mean) * 2)
    again = re.search(r'python -c "(.*)"\n', text)[1]
    done = subprocess.run([sys.executable, "-c", again], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")  # another compiler takes it


def test_every_type_goes_through_the_interpreter_unchanged(tmp_path):
    code = """
        import numpy as np, pto

        @pto.jit
        def kept(x):
            return pto.where(x == x, x, x), x

        for dtype in ("bool", "int32", "int64", "float16", "float32", "float64"):
            x = np.arange(-3, 3).astype(dtype).reshape(2, 3)
            print(all(np.array_equal(got, x) and got.dtype == x.dtype for got in kept(x)))
    """
    out, files = refused(code, tmp_path)
    assert out == ["True"] * 6 and len(files) == 6


def test_operators_in_a_framework_are_answered_too(tmp_path):
    code = """
        import numpy as np, pto, torch
        import pto.torch
        from pto import op

        @op("interpreted_scaled(Tensor x, *, float alpha=2.0) -> Tensor")
        class Scaled:
            def infer(x, alpha):
                return x.like()

            def build(x, alpha):
                return x * alpha + pto.amax(x, -1, keepdim=True)

            grad = "automatic"

        x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
        for alpha in (2.0, 0.3):
            y = torch.ops.pto.interpreted_scaled(x, alpha=alpha)
            print(torch.equal(y, x * alpha + x.amax(-1, keepdim=True)))
        y.sum().backward()
        expected = torch.full((3, 5), 0.3, dtype=torch.float64)
        expected.scatter_(1, x.argmax(1, keepdim=True), 5.3)
        print(torch.allclose(x.grad, expected))
        half = x.detach().bfloat16()
        got = torch.ops.pto.interpreted_scaled(half)
        print(torch.equal(got, half * 2 + half.amax(-1, keepdim=True)))
        out = Scaled(np.ones((2, 3)), alpha=1.5)
        print(np.array_equal(out, np.full((2, 3), 2.5)))
    """
    out, files = refused(code, tmp_path)
    assert out == ["True"] * 5
    assert len(files) == len(set(files)) == 3  # itself, its gradient, of bf16


def test_what_the_interpreter_refuses_is_an_error_as_ever(tmp_path):
    code = """
        import numpy as np, pto

        @pto.jit
        def largest(x):
            return pto.amax(x, -1)

        try:
            largest(np.ones((3, 0), "f4"))
        except pto.Error as error:
            print("0" in str(error), "why:" in str(error))
    """
    assert refused(code, tmp_path)[0] == ["True", "True"]
