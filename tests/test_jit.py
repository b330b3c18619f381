# SPDX-License-Identifier: Apache-2.0
"""@pto.jit on arrays: types, shapes, strides, constants, outputs, threads."""

import gc
import threading

import ml_dtypes
import numpy as np
import pytest
import torch

import pto
from pto import _core


@pto.jit
def softmax(x):
    e = pto.exp(x - pto.amax(x, -1, keepdim=True))
    return e / pto.sum(e, -1, keepdim=True)


@pto.jit
def scaled_add(x, y, *, factor=2.0):
    return x * factor + y


@pto.jit
def total(x):
    return pto.sum(x)


TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1e-2, torch.float32: 2e-6, torch.float64: 1e-12}


def close(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape, (got.dtype, got.shape)
    tolerance = TOLERANCE.get(want.dtype, 0)
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)


def integers(*shape):
    return torch.arange(int(np.prod(shape)), dtype=torch.int32).reshape(shape)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [(4, 5), (3, 1000), (1, 7), (2, 3, 33), (17,), (), (0, 5)])
def test_softmax_agrees_with_pytorch_for_every_float_type_and_size(dtype, shape):
    x = torch.randn(shape).to(dtype)
    got = softmax(x)
    assert isinstance(got, torch.Tensor)
    close(got, torch.softmax(x, -1))


@pytest.mark.parametrize("dtype", [*TOLERANCE, torch.int32, torch.int64])
def test_arithmetic_agrees_with_pytorch_on_odd_and_broadcast_shapes(dtype):
    for a, b in [((7, 33), (33,)), ((5, 1), (1, 6)), ((), (3,)), ((), ()), ((0, 4), (1, 4))]:
        x, y = torch.randint(-9, 9, a).to(dtype), torch.randint(-9, 9, b).to(dtype)
        close(scaled_add(x, y, factor=3), x * 3 + y)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "bool"])
def test_numpy_in_numpy_out(dtype):
    x = (np.arange(35).reshape(5, 7) % 3).astype(dtype)
    got = pto.jit(lambda x: pto.where(x == x, x, x))(x)
    assert type(got) is np.ndarray and got.dtype == x.dtype and got.flags.writeable
    np.testing.assert_array_equal(got, x)


def test_numpy_bf16_through_ml_dtypes():
    x = np.linspace(-3, 3, 24).reshape(4, 6).astype(ml_dtypes.bfloat16)
    got = scaled_add(x, x)
    assert got.dtype == ml_dtypes.bfloat16
    np.testing.assert_allclose(got.astype("f4"), 3 * x.astype("f4"), 1e-2)


def test_numpy_scalars_and_rank_0_are_tensors():
    got = scaled_add(np.float32(3), np.array(4, np.float32))
    assert got.shape == () and got.dtype == np.float32 and got == 10


@pytest.mark.parametrize("view", [
    lambda x: x.t(),
    lambda x: x[:, ::2],
    lambda x: x[::3],
    lambda x: x[1:, 1:],
    lambda x: x[:1].expand(40, -1),
    lambda x: x[:, :1].expand(-1, 9),
    lambda x: x.as_strided((10, 10), (1, 1)),
    lambda x: x.as_strided((6, 5), (3, 7), 4),
])  # fmt: skip
def test_strided_and_overlapping_inputs_are_read_where_they_lie(view):
    x = view(torch.randn(30, 40))
    close(softmax(x), torch.softmax(x, -1))


@pytest.mark.parametrize("view", [
    lambda x: x[::-1],
    lambda x: x[:, ::-1],
    lambda x: x[::-2, ::-3],
    lambda x: np.asfortranarray(x),
    lambda x: np.broadcast_to(x[3], (5, 40)),
])  # fmt: skip
def test_negative_strides_work(view):
    x = view(np.random.default_rng(0).standard_normal((30, 40), np.float32))
    close(torch.from_numpy(softmax(x)), torch.softmax(torch.from_numpy(x.copy()), -1))


def test_more_than_2_to_the_31_elements_by_broadcasting():
    rows, columns = 46341, 46351
    x = torch.ones(1, 1, dtype=torch.bool).expand(rows, columns)
    assert rows * columns > 2**31
    assert total(x).item() == rows * columns


@pytest.mark.parametrize("special", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinities_give_what_pytorch_gives(special):
    x = torch.randn(6, 19)
    x[2, 3] = x[4, 0] = special
    close(softmax(x), torch.softmax(x, -1))
    close(pto.jit(lambda x: x.amax(-1))(x), x.amax(-1))
    close(pto.jit(lambda x, y: pto.maximum(x, y))(x, x.flip(0)), torch.maximum(x, x.flip(0)))


def test_empty_sums_give_0_and_empty_products_1():
    assert total(torch.empty(0, 3)).item() == 0
    close(pto.jit(lambda x: x.sum(0))(torch.empty(0, 3)), torch.zeros(3))
    close(pto.jit(lambda x: x.prod(0))(torch.empty(0, 3)), torch.ones(3))


@pytest.mark.parametrize("shape", [(5, 0), (0, 5), (2, 0, 3)])
def test_softmax_of_nothing_is_nothing(shape):
    x = torch.empty(shape)
    close(pto.jit(lambda x: pto.softmax(x, -1))(x), torch.softmax(x, -1))
    close(pto.jit(lambda x: pto.log_softmax(x, -1))(x), torch.log_softmax(x, -1))


def test_several_outputs_are_a_tuple():
    @pto.jit
    def both(x):
        return x.sum(-1), x > 0, x.to(pto.f64)

    x = torch.randn(5, 9)
    rows, positive, wide = both(x)
    close(rows, x.sum(-1))
    assert torch.equal(positive, x > 0) and torch.equal(wide, x.double())
    a, b, c = both(x.numpy())
    assert (a.dtype, b.dtype, c.dtype) == (np.float32, np.bool_, np.float64)


def test_an_input_may_be_returned_and_is_copied():
    x = torch.randn(3, 4)
    y = pto.jit(lambda x: x)(x)
    assert torch.equal(x, y) and x.data_ptr() != y.data_ptr()


def test_constants_are_part_of_the_key_and_compared_exactly():
    seen = []

    @pto.jit(constants=("value",))
    def constant(x, value, mode="a"):
        seen.append((value, mode))
        return x + (value if isinstance(value, int | float) else value[0])

    x = torch.zeros(4)
    for value in (1, 1.0, True, 0.0, -0.0, (2, 3), (2, 3), (2.0, 3), 1, 1.0, float("nan")):
        constant(x, value)
    constant(x, 1, mode="b")
    constant(x, 1, "b")
    constant(mode="b", value=1, x=x)
    assert [(repr(v), m) for v, m in seen] == [
        ("1", "a"), ("1.0", "a"), ("True", "a"), ("0.0", "a"), ("-0.0", "a"), ("(2, 3)", "a"),
        ("(2.0, 3)", "a"), ("nan", "a"), ("1", "b"),
    ]  # fmt: skip


def test_sizes_are_free_but_1_is_a_case_of_its_own():
    traced = []

    @pto.jit
    def double(x):
        traced.append(x.shape)
        return x + x

    for size in (5, 6, 0, 1000, 1):
        close(double(torch.ones(size, 3)), torch.full((size, 3), 2.0))
    assert [str(shape) for shape in traced] == ["(s0, s1)", "(1, s0)"]


def test_optional_tensors_and_python_control_flow():
    @pto.jit
    def affine(x, weight=None, *, times=1):
        for _ in range(times):
            x = x if weight is None else x * weight
        return x + 1

    x, w = torch.randn(3, 4), torch.randn(4)
    close(affine(x), x + 1)
    close(affine(x, w, times=2), x * w * w + 1)


def test_a_compiled_function_inside_another_is_inlined():
    outer = pto.jit(lambda x: softmax(x) * 2)
    x = torch.randn(4, 8)
    close(outer(x), torch.softmax(x, -1) * 2)
    assert "exp" in str(outer.trace(x))


def test_out_is_written_and_returned():
    x = torch.randn(6, 8)
    out = torch.empty(6, 8)
    assert softmax(x, out=out) is out
    close(out, torch.softmax(x, -1))
    array = np.empty((6, 8), np.float32)
    assert softmax(x.numpy(), out=array) is array


def test_results_own_their_memory_and_give_it_back():
    x = torch.randn(600, 1000)
    gc.collect()
    before = _core.memory_stats()["live_bytes"]
    kept = [softmax(x), softmax(x.numpy())]
    assert _core.memory_stats()["live_bytes"] >= before + 2 * x.nbytes
    part = kept[1][3:]
    kept.clear()
    assert np.isfinite(part).all()
    del part
    gc.collect()
    assert _core.memory_stats()["live_bytes"] < before + x.nbytes


def test_many_threads_compile_once_and_agree():
    traced = []

    @pto.jit
    def gate(x, y):
        traced.append(1)
        return pto.silu(x) * y

    x, y = torch.randn(64, 300), torch.randn(64, 300)
    want = torch.nn.functional.silu(x) * y
    results, start = [None] * 8, threading.Barrier(8)

    def work(place):
        start.wait()
        for _ in range(20):
            results[place] = gate(x, y)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert len(traced) == 1
    for result in results:
        close(result, want)


def test_kernels_that_are_forgotten_while_one_is_made_do_not_come_back():
    traced = []

    def note():
        traced.append(1)
        if len(traced) == 1:
            plus_one.forget_kernels()  # as pto.tune() does, on another thread perhaps

    @pto.jit
    def plus_one(x):
        note()
        return x + 1

    for calls in (1, 2, 2):
        close(plus_one(torch.ones(3)), torch.full((3,), 2.0))
        assert len(traced) == calls


def test_threads_that_meet_a_traced_condition_at_once_agree():
    """The late one finds its condition when the other has made a branch of it already."""
    inside, done = threading.Event(), threading.Event()

    def meet():
        if threading.current_thread().name == "late":
            inside.set()
            done.wait(10)

    @pto.jit
    def doubled(x):
        meet()
        y = x
        if x[0] > 0:
            y = x * 2
        return y

    found = []
    late = threading.Thread(name="late", target=lambda: found.append(doubled(np.ones(3))))
    late.start()
    inside.wait(10)
    found.append(doubled(np.ones(3, np.float32)))
    done.set()
    late.join()
    assert [x.tolist() for x in found] == [[2.0] * 3] * 2


@pytest.mark.parametrize("words", [("mine",), ()])
def test_a_tracing_that_fails_leaves_nothing_behind(words):
    broken = [True]

    @pto.jit
    def sometimes(x):
        if broken:
            raise KeyError(*words)
        return x + 1

    with pytest.raises(KeyError, match="|".join(words)):
        sometimes(torch.ones(3))
    broken.clear()
    close(sometimes(torch.ones(3)), torch.full((3,), 2.0))


def test_a_dropped_function_frees_its_kernels():
    class Array(np.ndarray):
        pass

    function = pto.jit(lambda x, k=(1, 2.0): x + k[0])
    function(np.ones(3).view(Array))
    import weakref

    gone = weakref.ref(function.__wrapped__)
    del function
    gc.collect()
    assert gone() is None


def test_inference_mode_and_no_grad_take_what_requires_grad():
    x = torch.randn(3, 4, requires_grad=True)
    with torch.no_grad():
        close(softmax(x), torch.softmax(x, -1))


def test_the_function_keeps_its_name_and_text():
    @pto.jit
    def named(x):
        """What it does."""
        return x + 1

    assert named.__name__ == "named" and named.__doc__ == "What it does."
    assert repr(named) == "<pto.jit named>"
