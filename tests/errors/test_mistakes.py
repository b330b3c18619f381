# SPDX-License-Identifier: Apache-2.0
"""Mistakes in programs, a row each: the text of the program, and what its error says.

A program is the body of a function of x (f32[3, 4]), r (i64[3]: 2, 1, 0) and out (f32[3, 4]); the
error names the line that ends in "#!", or else the first one.
"""

import importlib.util
import itertools

import numpy as np
import pytest
import torch

import pto

X, R = np.arange(12, dtype="f4").reshape(3, 4), np.array([2, 1, 0])
_modules = itertools.count()


def programs(folder, bodies):
    """The functions f0, f1 ... of these bodies, from a file that can be read, and their lines."""
    lines = ["import math, functools", "import numpy as np", "import pto", ""]
    told = []
    for number, body in enumerate(bodies):
        lines += ["@pto.jit", f"def f{number}(x, r, out):"]
        own = body.split("\n")
        marked = [i for i, line in enumerate(own) if line.endswith("#!")]
        told.append(len(lines) + 1 + (marked[0] if marked else 0))
        lines += [f"    {line}" for line in own]
    file = folder / f"mistakes_{next(_modules)}.py"
    file.write_text("\n".join(lines) + "\n")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [(getattr(module, f"f{i}"), file.name, line) for i, line in enumerate(told)]


SIZE, NUMBER, SCALAR = "x.shape[0]", "r[0]", "pto.symbolic_scalar(r[0])"
SYMBOLS = {"size": SIZE, "number": NUMBER, "scalar": SCALAR}
# Where "{}" stands, each kind of symbol has its own row.
OF_SYMBOLS = {
    "len": ("out[0] = x[0] * len({})", TypeError, "len|length|members", "once|one kernel", ""),
    "bool": ("y = bool({})", TypeError, "a condition (if", "", ""),
    "int": ("y = int({})", (TypeError, ValueError), "an integer|to a Python number", "",
            "pto.loop"),
    "float": ("y = float({})", TypeError, "a real number|to a Python number", "", ""),
    "range": ("y = [x[k] for k in range({})]", TypeError, "range", "", "pto.loop"),
    "list index": ("y = [1, 2, 3][{}]", TypeError, "an index", "", ""),
    "list slice": ("y = [1, 2, 3][:{}]", TypeError, "an index", "", ""),
    "in a set": ("y = {} in {{3, 4}}", TypeError, "a member of a set", "would ever be found",
                 "(n == 3) | (n == 4)"),
    "in a set, steering": ("if {} in {{3, 4}}:\n    out[0] = x[0]", TypeError, "a member of a set",
                           "", ""),
    "in a list": ("y = {} in [3, 4]", TypeError, "a condition (if|was compared with 3", "", ""),
    "key of a dict": ("y = {{3: 1}}[{}]", TypeError, "a key of a dict|no key", "", "table[n]"),
    "get of a dict": ("y = {{3: 1}}.get({}, 2)", TypeError, "a key of a dict", "would ever be",
                      "table[n]"),
    "pop of a dict": ("y = {{3: 1}}.pop({}, 2)", TypeError, "a key of a dict", "", ""),
    "math.sqrt": ("y = math.sqrt({})", TypeError, "a real number|math.sqrt()", "", ""),
    "numpy.sqrt": ("y = np.sqrt({})", TypeError, "does not support ufuncs", "only operations of",
                   "pto.sqrt"),
    "numpy.zeros": ("out[:] = np.zeros({})", TypeError, "a sequence of integers", "", "parameter"),
    "index of an array": ("y = np.arange(4.0)[{}]", (TypeError, IndexError),
                          "an index of a NumPy|to an array", "", ""),
    "call": ("y = {}(2)", TypeError, "not callable", "", "brackets"),
    "unknown attribute": ("y = {}.norm", (TypeError, AttributeError), "norm", "", ""),
    "iteration": ("y = [k for k in {}]", TypeError, "members|iteration", "", ""),
    "sorting": ("y = sorted([2, {}])", TypeError, "a condition (if|was compared with 2", "", ""),
    "format": ("y = f'{{{}:.2f}}'", ValueError, "the format '.2f'", "an expression", "f'{{n}}'"),
    "percent": ("y = '%d' % {}", (TypeError, ValueError), "an integer was asked|%d format", "", ""),
}  # fmt: skip
OF_TENSORS = {
    "condition of a tensor": ("y = 1 if x > 0 else 2", TypeError, "a condition", "", "pto.where"),
    "filter by a tensor": ("y = [k for k in [1, 2] if x > k]", TypeError, "a condition (if", "",
                           "pto.where"),
    "any of tensors": ("y = any([x > 0, x < 1])", TypeError, "a condition (if", "", "& | ~"),
    "maximum of tensors": ("y = sorted([x, x + 1])", TypeError, "a condition (if", "", "pto.where"),
    "math.sqrt of a tensor": ("out[:] = math.sqrt(x)", TypeError, "math.sqrt()", "", "pto.sqrt(x)"),
    "numpy.exp of a tensor": ("out[:] = np.exp(x)", TypeError, "ufuncs", "only operations", "pto."),
    "round of a tensor": ("out[:] = round(x)", TypeError, "__round__", "", "pto.round"),
    "call of a tensor": ("out[0] = x(0)", TypeError, "not callable", "", "x[i]"),
    "memo of a number": ("@functools.cache\ndef twice(n):\n    return n * 2\ny = twice(r[0])  #!",
                         TypeError, "a key of a dict", "", ""),
    "shape that a dict lacks": ("y = {(3, 4): 1}.get(x.shape)", TypeError, "a key of a dict", "",
                                ""),
    "tensor in a set": ("y = x in {1, 2}", TypeError, "a member of a set", "", ""),
    "mistake in a loop": ("for i in pto.loop(3):\n    out[i] = x[i] * math.exp(i)  #!", TypeError,
                          "to a Python number", "", ""),
    "mistake in a branch": ("if r[0] > 1:\n    out[0] = np.exp(x[0])  #!", TypeError, "ufuncs", "",
                            "pto."),
}  # fmt: skip
LOOP = "for i in pto.loop(x.shape[0], parallel=True):\n    "
OF_LOOPS = {
    "parallel writes of one row": (LOOP + "out[0] = x[i]  #!", ValueError,
                                   "may write the same part of 'out'", "no order", "out[i] = y"),
    "parallel writes of rows that overlap": (
        "for i in pto.loop(2, parallel=True):\n    out[i : i + 2] = x[:2] + i  #!", ValueError,
        "may write the same part of 'out'", "no order", "in order"),
    "a sum of a parallel loop": ("total = pto.zeros([4])\n" + LOOP + "total = total + x[i]  #!\n"
                                 "out[0] = total", ValueError,
                                 "'total' is computed from the iteration before", "", "reduce"),
    "a counter of a parallel loop": ("n = 0\n" + LOOP + "n = n + r[i]  #!\nout[n] = x[0]",
                                     ValueError,
                                     "'n' is computed from the iteration before", "", "reduce"),
    "a sum that a parallel loop writes": ("total = pto.zeros([4])\n" + LOOP + "total = total + x[i]"
                                          "  #!\n    out[i] = total", ValueError,
                                          "'total' is computed from the iteration before", "",
                                          "in order"),
}  # fmt: skip
OF_COUNTS = {
    "a loop backwards": ("for i in reversed(pto.loop(3)):\n    out[i] = x[i]", TypeError,
                         "reversed() of a pto.loop", "counts from start", "pto.loop(stop - 1"),
    "a count that does not fit": ("for i in pto.loop(2**63):\n    out[0] = x[0]", ValueError,
                                  "loop: the number 9223372036854775808 does not fit i64", "64-bit",
                                  "smaller"),
    "a step that does not fit": ("for i in pto.loop(0, 10, 2**63):\n    out[0] = x[0]", ValueError,
                                 "does not fit i64", "64-bit", "smaller"),
    "a step of 0 from data": ("for i in pto.loop(0, 3, r[2]):  #!\n    out[0] = x[0]", RuntimeError,
                              "loop: the step is 0", "", ""),
    "a real count": ("for i in pto.loop(x[0, 0]):\n    out[0] = x[0]", TypeError,
                     "is no whole number", "", "pto.cast"),
    "a count of rank 1": ("for i in pto.loop(r):\n    out[0] = x[0]", TypeError,
                          "is no whole number", "rank 0", "index"),
}  # fmt: skip
CASES = OF_TENSORS | OF_LOOPS | OF_COUNTS | {
    f"{name} of a {symbol}": (row[0].format(text), row[1], *row[2:])
    for name, row in OF_SYMBOLS.items() for symbol, text in SYMBOLS.items()
}  # fmt: skip


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    made = programs(tmp_path_factory.mktemp("mistakes"), [row[0] for row in CASES.values()])
    return dict(zip(CASES, made, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_told_with_its_line_and_the_fix(name, functions):
    _, kind, what, why, fix = CASES[name]
    function, file, line = functions[name]
    with pytest.raises(pto.Error) as caught:
        function(X, R, np.zeros_like(X))
    error = caught.value
    assert isinstance(error, kind), repr(error)
    told = f"{error.location}: {error.what}"
    assert f"{file}:{line}:" in told, f"line {line}, but: {error}"
    assert any(words in told for words in what.split("|")), str(error)
    assert any(words in error.why for words in why.split("|")), str(error)
    assert error.why and error.fix and fix.replace("{{n}}", "{n}") in error.fix, str(error)


def nested(depth, head):
    """A body that adds 1 to out[0] below so many statements."""
    lines = [line.replace("?", str(k)) for k in range(depth) for line in head]
    deep, made = 0, ["k = r[1]"]
    for line in lines:
        made.append("    " * deep + line)
        deep += line.endswith(":")
    return "\n".join([*made, "    " * deep + "out[0] = out[0] + 1"])


MANY = "y = x\nfor k in range(700):\n    y = (y + k % 7) * -1\nout[:] = y"


def many(x):
    for k in range(700):
        x = (x + k % 7) * -1
    return x


FINE = {
    "loops 20 deep": (nested(20, ["for i? in pto.loop(r[1]):"]), lambda x, r: 0 * x[0] + 1),
    "while 19 deep": (nested(19, ["k? = r[1]", "while k? > 0:", "k? = k? - 1"]),
                      lambda x, r: 0 * x[0] + 1),
    "branches 20 deep": (nested(20, ["if r[0] > 1 - ?:"]), lambda x, r: 0 * x[0] + 1),
    "1400 operations one after the other": (MANY, lambda x, r: many(x)[0]),
    "a dict that is written": ("n, m = x.shape\nmemo = {n: 1}\nmemo[m] = 2\nmemo[n] += 4\n"
                        "out[0] = memo[n] + len({n, m, n}) * pto.ones([4])",
                        lambda x, r: 0 * x[0] + 7),
    "a negative count": ("out[0] = 1\nfor i in pto.loop(r[1] - 5):\n    out[0] = 2\n"
                         "for i in pto.loop(-3):\n    out[0] = 3", lambda x, r: 0 * x[0] + 1),
    "bounds far apart": ("n = 0\nfor i in pto.loop(-(2**63), 2**63 - 1, 2**62):\n    n = n + 1\n"
                         "out[0] = n * pto.ones([4])", lambda x, r: 0 * x[0] + 4),
    "f-strings": ("y = f'{x.shape[0]} {r[0]} {x} {r[0]:>40}'\nout[0] = x[0] * 2",
                  lambda x, r: x[0] * 2),
    "assertions": ("assert x.shape[0] > 2 and r[0] > 1\nout[0] = x[0] * 2", lambda x, r: x[0] * 2),
    "a dict of sizes": ("out[0] = x[0] * {x.shape[0]: 3}[x.shape[0]]", lambda x, r: x[0] * 3),
    "parallel rows": (LOOP + "out[2 - i] = x[i]", lambda x, r: x[2]),
    "parallel rows in steps": ("for i in pto.loop(0, 4, 2, parallel=True):\n"
                               "    out[:, i : i + 2] = x[:, :2]", lambda x, r: x[0, [0, 1, 0, 1]]),
    "parallel rows from data": (LOOP + "out[r[i]] = x[i]", lambda x, r: x[2]),
    "parallel rows in place": (LOOP + "out[i] = out[i] + x[i]", lambda x, r: x[0]),
    "parallel, written by one iteration": (
        LOOP + "if pto.is_loop_end(i):\n        out[0] = x[i]", lambda x, r: x[2]),
    "one parallel iteration": ("for i in pto.loop(1, parallel=True):\n    out[0] = x[1]",
                               lambda x, r: x[1]),
}  # fmt: skip


@pytest.mark.parametrize("name", FINE)
def test_what_is_no_mistake_works(name, tmp_path):
    body, want = FINE[name]
    [(function, _, _)] = programs(tmp_path, [body])
    out = np.zeros_like(X)
    function(X, R, out)
    assert np.array_equal(out[0], want(X, R))


def shared(kind, *parts):
    """Parts of one memory of 24 numbers, each from a place on with a shape and strides."""
    memory = np.zeros(24, "f4")
    arrays = [np.lib.stride_tricks.as_strided(memory[first:], shape, [4 * s for s in strides])
              for first, shape, strides in parts]  # fmt: skip
    return [torch.from_numpy(one) for one in arrays] if kind == "torch" else arrays


def both(x, y):
    x[0], y[0] = 1, 2


def only_one(x, y):
    y[0] = x[1]


def shifted(x, y):
    for i in pto.loop(x.shape[0]):
        y[i] = x[i] + 1


# What two parts of one memory are to a program: the words of its error, or None.
OVERLAPS = {
    "the same array": (both, ((0, (4,), (1,)), (0, (4,), (1,))),
                       "x has its bytes 0 to 16, y 0 to 16"),
    "a shifted view": (both, ((0, (8,), (1,)), (6, (8,), (1,))),
                       "x has its bytes 0 to 32, y 24 to 56"),
    "a reversed view": (both, ((7, (8,), (-1,)), (6, (8,), (1,))),
                        "x has its bytes 0 to 32, y 24 to 56"),
    "rows and a column": (both, ((4, (2, 4), (4, 1)), (1, (3, 1), (4, 1))),
                          "x has its bytes 12 to 44, y 0 to 36"),
    "columns beside each other": (both, ((0, (6,), (4,)), (1, (6,), (4,))), None),
    "arrays behind each other": (both, ((0, (4,), (1,)), (4, (4,), (1,))), None),
    "an element that is stretched": (only_one, ((0, (4,), (1,)), (5, (4,), (0,))),
                                     "elements of y share memory"),
    "an array without elements": (shifted, ((0, (0, 4), (4, 1)), (0, (0, 4), (0, 0))), None),
    "what is read shifted": (shifted, ((0, (8,), (1,)), (1, (8,), (1,))), None),
    "what is read and written": (shifted, ((0, (8,), (1,)), (0, (8,), (1,))), None),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("name", OVERLAPS)
def test_arrays_that_are_written_share_no_element(name, kind):
    function, parts, words = OVERLAPS[name]
    if kind == "torch" and any(step < 0 for _, _, strides in parts for step in strides):
        pytest.skip("PyTorch has no negative strides")
    arrays = shared(kind, *parts)
    memory = arrays[0].base if kind == "numpy" else None
    if words is None:
        want = [np.asarray(one).copy() for one in arrays]
        pto.jit(function)(*arrays)
        if function is shifted:
            assert np.array_equal(arrays[1], want[0] + 1)
        else:
            assert [float(one[0]) for one in arrays] == [1, 2]
        return
    with pytest.raises(ValueError) as caught:
        pto.jit(function)(*arrays)
    error = caught.value
    assert isinstance(error, pto.Error) and words in error.what, str(error)
    assert "test_mistakes.py" in error.location and error.why and error.fix
    assert memory is None or not np.asarray(arrays[0]).any()


def test_an_out_that_overlaps_is_named_with_its_bytes():
    @pto.jit
    def double(left, right):
        return left * 2 + right

    left, out = shared("numpy", (0, (8,), (1,)), (2, (8,), (1,)))
    words = "out overlaps an input, left, of whose memory it has the bytes 8 to 40, .* 0 to 32"
    with pytest.raises(ValueError, match=words):
        double(left, np.ones(8, "f4"), out=out)
    assert not out.any()
