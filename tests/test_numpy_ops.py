# SPDX-License-Identifier: Apache-2.0
"""Operators called on NumPy arrays: through the registry, without copies, in any layout."""

import importlib
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from kinds_of_operators import RepeatRow, Scale, Swap, WeightedSum

import pto
from pto import _core, ops
from pto.language.op import op

ml_dtypes = pytest.importorskip("ml_dtypes")
ROOT = Path(__file__).parents[1]


@op("numpy_pieces(Tensor x, Tensor? y=None, *, bool swap=False) -> (Tensor[], Tensor)")
class Pieces:
    def build(x, y, swap):
        pair = [x + 1, x if y is None else y]
        return (pair[::-1] if swap else pair), -x


@op("numpy_shift_(Tensor(a!) x, str how='up', int[2] by=1) -> (Tensor(a!), Tensor)")
class Shift:
    def build(x, how, by):
        step = by[0] if how == "up" else -by[1]
        return x + step, x * 1.0


def random(*shape, dtype=np.float32):
    return np.random.default_rng(3).standard_normal(shape).astype(dtype)


def test_a_call_gives_an_array_of_numpy_that_is_its_own():
    x = random(3, 5)
    y = ops.silu(x)
    assert type(y) is np.ndarray and y.dtype == np.float32 and y.flags.c_contiguous
    np.testing.assert_allclose(y, ops.silu.member("oracle")(x.astype(float)), rtol=1e-6)
    y[0] = 7  # writable, and nobody else's
    assert not (ops.silu(x) == 7).any()


LAYOUTS = {
    "dense": lambda a: a.copy(),
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "backwards": lambda a: np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
    "every second": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
    "in a record": lambda a: np.rec.fromarrays([a, a], names="a,b").a,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_bits(layout):
    x, y = random(6, 7), random(6, 7)
    want = ops.silu_mul(x, y)
    np.testing.assert_array_equal(ops.silu_mul(LAYOUTS[layout](x), LAYOUTS[layout](y)), want)


def test_inputs_are_read_where_they_lie():
    x = random(1000, 1000)
    ops.gelu(x)
    before = _core.memory_stats()
    y = ops.gelu(x.T)
    now = _core.memory_stats()
    assert now["live_bytes"] - before["live_bytes"] == y.nbytes


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 4), (4, 0), (1, 1, 1), (2, 3, 4, 5)])
def test_all_ranks_and_empty_arrays_work(shape):
    x = random(*shape)
    y = ops.add(x, x)
    assert y.shape == shape
    np.testing.assert_array_equal(y, x + x)


def test_nan_and_infinity_pass():
    x = np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)
    np.testing.assert_array_equal(ops.add(x, x), x + x)


def test_bf16_arrays_are_those_of_ml_dtypes():
    x = random(4, 6).astype(ml_dtypes.bfloat16)
    y = ops.add(x, x)
    assert y.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(y, x + x)


def test_lists_options_and_sizes_of_the_call():
    xs = [random(3) for _ in range(3)]
    total = ops_of("kinds_weighted_sum")(xs, [1, 2, 3], bias=0.5)
    np.testing.assert_allclose(total, xs[0] + 2 * xs[1] + 3 * xs[2] + 0.5, rtol=1e-6)
    np.testing.assert_array_equal(WeightedSum(tuple(xs[:1]), (np.int64(4),)), 4 * xs[0])
    (a, b), minus = Pieces(xs[0], xs[1], swap=np.True_)
    np.testing.assert_array_equal(a, xs[1])
    np.testing.assert_array_equal(b, xs[0] + 1)
    np.testing.assert_array_equal(minus, -xs[0])
    (a, b), _ = Pieces(xs[0])
    np.testing.assert_array_equal(b, xs[0])
    assert RepeatRow(xs[0], 2).shape == (2, 3)
    kernels = _core.kernel_count()
    shapes = [RepeatRow(xs[0], rows).shape for rows in (3, 5, np.int32(7))]
    assert shapes == [(3, 3), (5, 3), (7, 3)] and _core.kernel_count() == kernels


def ops_of(name):
    return next(o for o in pto.language.op.operators() if o.name == name)


@pytest.mark.parametrize("layout", ["dense", "transposed", "backwards", "every second"])
def test_a_mutable_argument_is_written_where_it_lies(layout):
    x, y = random(4, 6), random(4, 6) + 1
    target = LAYOUTS[layout](x)
    result = Scale(target, y, factor=0.5)
    assert result is target
    np.testing.assert_array_equal(target, x * np.float32(0.5) + y)


def test_what_a_call_still_reads_is_not_overwritten():
    x = random(8)
    want = x[1:] * 2 + x[:-1]
    Scale(x[1:], x[:-1])
    np.testing.assert_array_equal(x[1:], want)
    a, b = random(5), random(5) + 9
    before = a.copy(), b.copy()
    assert Swap(a, b) is None
    np.testing.assert_array_equal((a, b), before[::-1])


def test_the_replaced_array_may_stand_beside_other_results():
    x = random(5)
    before = x.copy()
    shifted, old = Shift(x, by=(3, 4))
    assert shifted is x
    np.testing.assert_array_equal(x, before + 3)
    np.testing.assert_array_equal(old, before)
    Shift(x, "down", 1)
    np.testing.assert_allclose(x, before + 2, rtol=1e-5)


def test_out_takes_the_result_in_any_layout():
    x, y = random(4, 6), random(4, 6)
    for layout in ("dense", "transposed", "every second"):
        out = LAYOUTS[layout](np.zeros_like(x))
        assert ops.add(x, y, out=out) is out
        np.testing.assert_array_equal(out, x + y)
    want = x + y
    assert ops.add(x, y, out=x) is x
    np.testing.assert_array_equal(x, want)


def refused(kind, *texts):
    return pytest.raises(kind, match="(?s)" + ".*".join(texts))


def test_read_only_and_overlapping_targets_are_refused():
    fixed = LAYOUTS["read-only"](random(3, 3))
    before = fixed.copy()
    with refused(ValueError, "kinds_scale_: x is read-only", "fix: pass a writable array"):
        Scale(fixed, fixed)
    with refused(ValueError, "add: out is read-only"):
        ops.add(fixed, fixed, out=fixed)
    np.testing.assert_array_equal(fixed, before)
    x = random(4)
    with refused(ValueError, "elements of x share memory", "fix: pass memory of its own"):
        Scale(np.lib.stride_tricks.as_strided(x, (3, 2), (4, 4)), random(3, 2))
    with refused(ValueError, "y overlaps x, of whose memory"):
        Swap(x, x)
    with refused(ValueError, "out is .*float32 of shape \\[3\\]", "output is f32\\[4\\]"):
        ops.add(x, x, out=np.zeros(3, np.float32))
    with refused(ValueError, "out is .*float64 of shape \\[4\\]", "output is f32\\[4\\]"):
        ops.add(x, x, out=np.zeros(4))


def test_what_is_no_array_is_refused_with_its_name():
    x = random(4)
    with refused(
        TypeError, "add: y is the float 1.0", "why: the operator computes on arrays", "fix: "
    ):
        ops.add(x, 1.0)
    with refused(TypeError, "add: x is "):
        ops.add([1.0], x)
    with refused(TypeError, "kinds_weighted_sum: xs is array", "Tensor\\[\\] xs"):
        WeightedSum(x, [1])
    with refused(TypeError, "add: x is None|add: x is"):
        ops.add(None, x)
    with refused(TypeError, "masked|add: x is"):
        ops.add(np.ma.masked_array(x), x)


def test_mistakes_in_attributes_are_refused_by_the_schema():
    x = random(4)
    for call, text in [
        (lambda: ops.softmax(x, "0"), "softmax: dim is '0', of type str"),
        (lambda: ops.softmax(x, 1.5), "softmax: dim is 1.5, of type float"),
        (lambda: ops.softmax(x, True), "softmax: dim is True, of type bool"),
        (lambda: ops.gelu(x, approximate=None), "gelu: approximate is None"),
        (lambda: ops.layer_norm(x, x, x, "1e-5"), "layer_norm: eps is '1e-5'"),
        (lambda: Shift(x, by=[1, 2, 3]), "numpy_shift_: by is \\[1, 2, 3\\]"),
        (lambda: ops.gelu(x, "tanh"), "gelu: called with 2 positional arguments"),
        (lambda: ops.gelu(x, approx="tanh"), "gelu: called with .* approx="),
        (lambda: ops.add(x, x=x), "add: called with 1 positional arguments, x="),
        (lambda: ops.add(), "missing: x, y"),
        (lambda: Swap(x, x, out=x), "called with .* out="),
    ]:
        with refused(TypeError, text):
            call()
    with refused(ValueError, "softmax: dim is 1180591620717411303424, which does not fit into 64"):
        ops.softmax(x, 1 << 70)
    for last in (1 << 63, -(1 << 63) - 1):
        with refused(ValueError, f"transpose: perm holds {last}, which does not fit into 64 bits"):
            ops.transpose(x, perm=[0, last])


def test_errors_keep_their_kind():
    x = random(4)
    with refused(pto.errors.InvalidValue, "sizes 4 and 3 differ", "why: ", "fix: "):
        ops.add(x, x[:3])
    for wide in (4, 5):  # a filter on an image of 3 x 3
        with refused(
            pto.errors.InvalidValue, "conv2d: sizes .* differ", "leaves of the padded image"
        ):
            ops.conv2d(random(1, 1, 3, 3), random(1, 1, wide, 3))
    with refused(pto.errors.InvalidType, "add: y is i64", "convert"):
        ops.add(x, np.arange(4))
    with refused(IndexError, "softmax|axis"):
        ops.softmax(x, 3)


def test_arrays_of_two_libraries_are_refused():
    torch = pytest.importorskip("torch")
    for pair in [(random(4), torch.zeros(4)), (torch.zeros(4), random(4))]:
        with refused(TypeError, "add: an argument is", "come from one library"):
            ops.add(*pair)


def test_an_operator_on_traced_tensors_is_inlined():
    @pto.jit
    def function(x):
        return ops.silu(x) + 1

    x = random(5)
    np.testing.assert_allclose(function(x), ops.silu(x) + 1, rtol=1e-6)


SLOW = """
import threading, time
import numpy as np
from pto import op

@op("numpy_slow(Tensor x) -> Tensor")
class Slow:
    def build(x):
        time.sleep(0.3)  # the others come meanwhile
        return x + 1

x, results = np.ones((3, 7), np.float32), []
threads = [threading.Thread(target=lambda: results.append(Slow(x))) for _ in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
assert len(results) == 4 and all((r == 2).all() for r in results)
"""


def test_who_waits_for_another_threads_compilation_gives_the_lock_up():
    done = subprocess.run(
        [sys.executable, "-c", SLOW], timeout=60, capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr


def test_calls_from_many_threads_do_not_mix():
    xs = [random(64, 33) + i for i in range(4)]
    want = [ops.softmax(x) for x in xs]
    wrong = []

    def call(i):
        for _ in range(50):
            if not np.array_equal(ops.softmax(xs[i]), want[i]):
                wrong.append(i)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_results_have_the_bits_of_other_frameworks():
    torch = pytest.importorskip("torch")
    importlib.import_module("pto.torch")
    x, w, b = random(33, 65), random(65), random(65)
    theirs = torch.ops.pto.layer_norm(*(torch.from_numpy(a) for a in (x, w, b)), 1e-3)
    np.testing.assert_array_equal(ops.layer_norm(x, w, b, 1e-3), theirs.numpy())


def test_references_are_neither_lost_nor_kept():
    x = random(4)
    ops.add(x, x)
    for call in (lambda: ops.add(x, x), lambda: ops.add(x, x, out=np.zeros_like(x))):
        before = sys.getrefcount(x)
        for _ in range(100):
            call()
        assert sys.getrefcount(x) == before
    before = sys.getrefcount(x), sys.getrefcount(None)
    for _ in range(100):
        with pytest.raises(ValueError):
            ops.add(x, x[:3])
    assert sys.getrefcount(x) <= before[0] + 3 and sys.getrefcount(None) < before[1] + 50
