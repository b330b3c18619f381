# SPDX-License-Identifier: Apache-2.0
"""Compiled programs: the interpreter's results, in the caller's memory, on all threads."""

import concurrent.futures
import math
import os

import numpy as np
import pytest
import torch

import pto

F32 = np.float32
TYPES = {
    name: np.dtype(numpy)
    for name, numpy in {
        "f16": "f2", "f32": "f4", "f64": "f8", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8",
        "u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8",
    }.items()
}  # fmt: skip


def interpreted(function, *args):
    arrays = [x for x in args if hasattr(x, "dtype")]
    found = pto.interpret(function.trace(*args), *arrays)
    return found if isinstance(found, list) else [found]


@pytest.fixture
def threads():
    before = pto.config.threads
    yield lambda n: setattr(pto.config, "threads", n)
    pto.config.threads = before


@pto.jit
def attend(q, keys, values, lengths, out):
    for i in pto.loop(q.shape[0]):
        m, l = pto.full([q.shape[1], 1], -math.inf), pto.zeros([q.shape[1], 1])  # noqa: E741
        o = pto.zeros([q.shape[1], values.shape[2]])
        for j in pto.loop((lengths[i] + 15) // 16):
            size = pto.min(16, lengths[i] - j * 16)
            k, v = (x[i, j * 16 : j * 16 + size] for x in (keys, values))
            s = pto.matmul(q[i], k, b_trans=True)
            top = pto.maximum(m, s.amax(-1, keepdim=True))
            p, old = pto.exp(s - top), pto.exp(m - top)
            l, o, m = l * old + p.sum(-1, keepdim=True), o * old + p @ v, top  # noqa: E741
        out[i] = pto.where(l > 0, o / l, 0.0)


def attention_arguments(batch, rows, longest, width):
    rng = np.random.default_rng(batch * 100 + rows)
    lengths = rng.integers(0, longest + 1, batch)
    q, k, v = (rng.standard_normal((batch, n, width), F32) for n in (rows, longest, longest))
    return [q, k, v, lengths, np.full((batch, rows, width), 7, F32)]


@pytest.mark.parametrize("rows", [1, 2, 5, 8, 16, 33])
def test_attention_has_the_same_bits_on_any_number_of_threads(rows, threads):
    arguments = attention_arguments(40, rows, 100, 48)
    (want,) = interpreted(attend, *arguments)
    found = []
    for count in (1, 2, 4):
        threads(count)
        arguments[-1] = np.full_like(arguments[-1], 7)
        attend(*arguments)
        found.append(arguments[-1])
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()
    np.testing.assert_allclose(found[0], want, rtol=1e-4, atol=1e-5)
    assert "for_each(frame, " in attend.explain(*arguments)


@pto.jit
def look_up(q, pages, table, counts, out):
    for i in pto.loop(q.shape[0]):
        o = pto.zeros([q.shape[1], pages.shape[1]])
        for j in pto.loop(counts[i]):
            k, v = pages[table[i, j], :, i], pages[table[i, j] + 1, :, i]
            o = o + pto.matmul(q[i], k, b_trans=True) @ v
        out[i] = o


def test_a_product_asks_for_what_the_next_iteration_reads_and_for_nothing_else():
    """Numbers behind the last iteration, and of tensors that it does not read, may be anything."""
    rng = np.random.default_rng(3)
    q, pages = rng.standard_normal((3, 5, 24), F32), rng.standard_normal((6, 24, 3, 24), F32)
    table = np.full((3, 3), 2**62)
    table[0, :2], table[2, :3], counts = [4, 0], [1, 3, 2], np.array([2, 0, 3])
    want = np.zeros((3, 5, 24))
    for i in range(3):
        for page in table[i, : counts[i]]:
            want[i] += q[i] @ pages[page, :, i].T @ pages[page + 1, :, i]
    look_up(q, pages, table, counts, out := np.zeros((3, 5, 24), F32))
    np.testing.assert_allclose(out, want, rtol=1e-3, atol=1e-4)
    text = look_up.explain(q, pages, table, counts, out)
    assert "&c, &a, &b, 0, nullptr, nullptr, &soon," in text and "runs_of(" in text
    assert "nullptr, frame" not in text
    table[2, 1] = -5
    with pytest.raises(pto.Error, match=r"offset -5 and size 1 of 6"):
        look_up(q, pages, table, counts, out)
    counts[1] = 4
    with pytest.raises(pto.Error, match=r"offset 4611686018427387904 and size 1 of 6"):
        look_up(q, pages, table, counts, out)


@pytest.mark.parametrize("name", TYPES)
def test_products_of_every_type_are_the_interpreters(name):
    """Batches that broadcast, transposed and strided operands, sizes 0 and 1, wider results."""
    rng = np.random.default_rng(5)
    dtype = TYPES[name]

    def numbers(*shape):
        if dtype.kind == "f":
            return rng.integers(-4, 5, shape).astype(dtype)
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)

    wider = {"f16": ["f32", "f64"], "f32": ["f64"], "i8": ["i16", "i32", "i64"],
             "u8": ["i32"], "i16": ["i32", "i64"], "u16": ["i32", "i64"],
             "i32": ["i64"], "u32": ["i64"]}  # fmt: skip
    results = [name, *wider.get(name, [])]

    @pto.jit
    def product(a, b, result):
        return pto.matmul(a, b, getattr(pto, result)), pto.matmul(b, a, a_trans=True, b_trans=True)

    for batch_a, batch_b in (((), ()), ((3,), (1,)), ((2, 1), (5,))):
        for m, k, n in ((1, 7, 40), (9, 33, 20), (0, 3, 2), (4, 0, 3), (17, 1, 1), (8, 64, 90)):
            a, b = numbers(*batch_a, m, k * 2)[..., ::2], numbers(*batch_b, n, k).swapaxes(-1, -2)
            for result in results:
                got = product(a, b, result)
                want = interpreted(product, a, b, result)
                for x, y in zip(got, want, strict=True):
                    np.testing.assert_array_equal(x, y, err_msg=f"{batch_a} {m} {k} {n} {result}")


def test_sizes_from_data_reach_into_inner_loops(capfd):
    """Also the estimate of the work of a loop, which is made in front of it, compiles."""

    @pto.jit
    def inner(x, lengths, out):
        for i in pto.loop(x.shape[0]):
            part = x[i, : lengths[i]]
            total = part * 0
            for j in pto.loop(lengths[i]):
                total = total + part * part[j]
            if lengths[i] > 2:
                out[i, : lengths[i]] = total
            else:
                out[i, : lengths[i]] = -total

    x, lengths = np.arange(12, dtype=F32).reshape(3, 4), np.array([4, 1, 3])
    inner(x, lengths, out := np.zeros((3, 4), F32))
    for row, n, got in zip(x, lengths, out, strict=True):
        want = row[:n] * row[:n].sum()
        np.testing.assert_array_equal(got[:n], want if n > 2 else -want)
    assert "for_each(frame, " in inner.explain(x, lengths, out)
    assert "warning" not in capfd.readouterr().err


def test_long_sums_of_narrow_floats_round_once():
    rng = np.random.default_rng(6)
    a, b = (torch.tensor(rng.standard_normal(s, F32)).bfloat16() for s in ((40, 3000), (3000, 70)))
    product = pto.jit(lambda a, b: a @ b)
    want = (a.double() @ b.double()).bfloat16().float()
    error = (product(a, b).float() - want).abs().max()
    assert error <= want.abs().max() * 2**-8


KINDS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.float16, F32]


@pytest.mark.parametrize("kind", KINDS)
def test_a_product_without_depth_writes_zeros_and_nothing_beside_them(kind):
    product = pto.jit(lambda a, b: a @ b)
    for rows, cols in ((2, 5), (200, 50)):
        memory = np.full(rows * cols + 128, 7, kind)
        product(np.ones((rows, 0), kind), np.ones((0, cols), kind),
                out=memory[64:-64].reshape(rows, cols))  # fmt: skip
        assert (memory[64:-64] == 0).all()
        assert (memory[:64] == 7).all() and (memory[-64:] == 7).all()


def test_arrays_are_written_where_they_lie():
    """Only the rows that are written change: a large cache is neither copied nor read."""

    @pto.jit
    def store(cache, rows, slots):
        for i in pto.loop(rows.shape[0]):
            cache[slots[i]] = rows[i]

    cache, rows = np.zeros((50, 8), F32), np.ones((3, 8), F32)
    text = store.explain(cache, rows, np.array([4, 9, 2]))
    assert text.count("pto_copy_tensor") == 2  # of the cache where it lies elsewhere; of a row
    store(cache, rows, np.array([4, 9, 2]))
    assert np.flatnonzero(cache.sum(1)).tolist() == [2, 4, 9]
    tensor = torch.zeros(50, 8)
    version, pointer = tensor._version, tensor.data_ptr()
    store(tensor, torch.ones(3, 8), torch.tensor([4, 9, 2]))
    assert tensor.data_ptr() == pointer and tensor._version > version
    assert tensor.sum() == 24
    with pytest.raises(pto.Error, match="offset 50 and size 1 of 50"):
        store(cache, rows, np.array([1, 50, 2]))
    cache.flags.writeable = False
    with pytest.raises(pto.Error, match="read-only"):
        store(cache, rows, np.array([4, 9, 2]))
    assert cache[1].sum() in (0, 8)


def test_what_is_read_again_keeps_an_array_from_being_written_early():
    @pto.jit
    def rotate(x, out):
        first = x[0]
        for i in pto.loop(x.shape[0] - 1):
            x[i] = x[i + 1]
        x[-1] = first
        out[:] = out + x

    x, out = np.arange(12, dtype=F32).reshape(4, 3), np.ones((4, 3), F32)
    want = np.roll(x, -1, 0)
    rotate(x, out)
    np.testing.assert_array_equal(x, want)
    np.testing.assert_array_equal(out, want + 1)

    @pto.jit
    def swapped(a, b):
        for _ in pto.loop(3):
            a, b = b, a
        return a, b, a.transpose(0, 1)

    a, b = np.arange(4, dtype=F32).reshape(2, 2), np.full((2, 2), 9, F32)
    for got, want in zip(swapped(a, b), (b, a, b.T), strict=True):
        np.testing.assert_array_equal(got, want)


@pto.jit
def columns_forward(x, states):
    for i in pto.loop(x.shape[0]):
        for j in pto.loop(states.shape[0]):
            states[j, i] = states[j, i] * 2 + x[i]


@pto.jit
def with_the_last(x, states):
    for i in pto.loop(x.shape[0]):
        states[0, i] = x[i]
        states[1, i] = states[0, x.shape[0] - 1]


def test_rows_that_an_iteration_alone_reads_and_writes_go_side_by_side(threads):
    threads(2)
    rng = np.random.default_rng(0)
    x, states = rng.standard_normal((500, 33), F32), rng.standard_normal((3, 500, 33), F32)
    loops = [f.explain(x, states).steps_of("loop")[0] for f in (columns_forward, with_the_last)]
    assert [one.order for one in loops] == ["side by side", "in order"]
    assert "reads 'states'" in loops[1].why
    for function in (columns_forward, with_the_last):
        found, [want] = states.copy(), interpreted(function, x, states)
        function(x, found)
        np.testing.assert_array_equal(found, want)


def test_a_carried_matrix_may_become_its_own_transpose():
    @pto.jit
    def turned(x, times):
        for i in pto.loop(times[0]):
            x = x.transpose(0, 1) + i
        return x

    x = np.arange(9, dtype=F32).reshape(3, 3)
    for times in range(4):
        want = x
        for i in range(times):
            want = want.T + F32(i)
        np.testing.assert_array_equal(turned(x, np.array([times])), want)


def test_errors_of_a_run_say_what_the_interpreter_says():
    @pto.jit
    def first(x, n, out):
        out[0, : n[0]] = x[0, : n[0]] / 2
        return pto.amax(x[1, : n[0]], -1)

    x = np.ones((2, 5), F32)
    for n in (6, -1, 0):
        arguments = x, np.array([n]), np.zeros((2, 5), F32)
        texts = []
        for call in (first, lambda *a: interpreted(first, *a)):
            with pytest.raises(pto.Error) as error:
                call(*arguments)
            texts.append(str(error.value).replace("first: ", ""))
        assert all("test_compiled_programs.py:" in text for text in texts)
        rules = [text.split("why: ")[1].split("fix: ")[0].strip() for text in texts]
        assert rules[0] == rules[1]


def test_threads_may_call_one_program_with_different_sizes(threads):
    threads(2)
    cases = [attention_arguments(3 + i, 1 + i, 20 + 9 * i, 32) for i in range(6)]
    wanted = [interpreted(attend, *case)[0] for case in cases]

    def run(place):
        for _ in range(20):
            case = [*cases[place][:-1], np.zeros_like(cases[place][-1])]
            attend(*case)
            np.testing.assert_allclose(case[-1], wanted[place], rtol=1e-4, atol=1e-5)

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(run, range(6)))


def test_a_program_frees_what_it_takes():
    @pto.jit
    def grow(x, out):
        total = pto.zeros(x.shape)
        for i in pto.loop(40):
            total = total + pto.matmul(x, x + i)
        out[:] = total

    x = np.zeros((300, 300), F32)
    grow(x, np.zeros_like(x))
    before = pto.memory()["live_bytes"]
    for _ in range(5):
        grow(x, np.zeros_like(x))
    assert pto.memory()["live_bytes"] <= before


@pytest.mark.skipif(os.environ.get("PTO_DEEP") != "1", reason="takes seconds")
def test_a_large_product_is_cut_over_the_threads(threads):
    x = np.random.default_rng(0).standard_normal((1200, 1300), F32)
    product = pto.jit(lambda a, b: pto.matmul(a, b, b_trans=True))
    found = []
    for count in (1, 2, 3):
        threads(count)
        found.append(product(x, x))
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()
    np.testing.assert_allclose(found[0], x @ x.T, rtol=1e-4, atol=1e-3)


def test_only_kernels_without_scratch_memory_run_without_a_launch(threads):
    @pto.jit
    def rows(x, out):
        for i in pto.loop(x.shape[0]):
            out[i] = x[i] * 2 + 1

    @pto.jit
    def softmaxes(x, out):
        for i in pto.loop(x.shape[0]):
            out[i] = pto.softmax(x[i], -1)

    x = np.random.default_rng(0).standard_normal((30, 2000), F32)
    for function, is_plain in ((rows, True), (softmaxes, False)):
        assert ("run<kPlain>(frame" in function.explain(x, np.empty_like(x)).cpp) == is_plain
        for part in (x[:, :7], x[:, :1024], x):  # 4 KB of rows in and out are the most
            found = []
            for count in (1, 2):
                threads(count)
                found.append(np.zeros_like(part))
                function(np.ascontiguousarray(part), found[-1])
            right = np.zeros_like(part)
            for now, want in zip(
                interpreted(function, part.copy(), right), [found[0]], strict=False
            ):
                np.testing.assert_allclose(want, now, rtol=1e-6)
            assert found[0].tobytes() == found[1].tobytes()


@pytest.mark.parametrize("axes", [(1, 0), (0, 2, 1), (2, 0, 1), (1, 2, 0), (2, 1, 0)])
def test_a_result_with_another_axis_last_is_computed_as_it_lies_and_then_copied(axes):
    @pto.jit
    def turned(x):
        return pto.relu(pto.permute(x, axes)) * 3

    for sizes in ((5, 37, 18), (1, 16, 64), (33, 1, 2), (0, 4, 4)):
        x = np.random.default_rng(1).standard_normal(sizes[-len(axes) :]).astype("f4")
        np.testing.assert_array_equal(turned(x), np.maximum(x.transpose(axes), 0) * 3)
    text = str(turned.explain(x))
    assert text.count("pto_copy_tensor") == 1 and "load_strided" not in text
    row = np.ones([1] * (len(axes) - 1) + [50], "f4")  # no element is passed by another one
    assert "pto_copy_tensor" not in str(turned.explain(row))


@pytest.mark.parametrize("axes", [(1, 0), (0, 2, 1), (2, 0, 1), (2, 1, 0)])
def test_a_sum_that_is_returned_as_one_term_lies_copies_the_other_one_alone(axes):
    back = tuple(np.argsort(axes))

    @pto.jit
    def added(x, y):
        return pto.permute(pto.relu(pto.permute(x, axes)) + y, back) * 2

    draw = np.random.default_rng(1)
    for sizes in ((5, 37, 18), (1, 16, 64), (33, 1, 2), (0, 4, 4)):
        x = draw.standard_normal(sizes[-len(axes) :]).astype("f4")
        y = draw.standard_normal(x.transpose(axes).shape).astype("f4")
        want = (np.maximum(x.transpose(axes), 0) + y).transpose(back) * 2
        np.testing.assert_array_equal(added(x, y), want)
    assert str(added.explain(x, y)).count("pto_copy_tensor") == 1
