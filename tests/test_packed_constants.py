# SPDX-License-Identifier: Apache-2.0
"""Constants of jitted functions that are packed once: the bits of what is not packed, every change
noticed, copies that die with their arrays."""

import gc
import os
import subprocess
import sys
import textwrap
import threading
import types
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch

import pto
import pto.torch
from pto.adapters import build
from pto.adapters.torch.build import DIRECT
from pto.errors import Error
from pto.language.op import op, operators

pytestmark = pytest.mark.usefixtures("few_objects")
needs_torch_owners = pytest.mark.skipif(
    build.built(DIRECT) is None, reason="python -m pto adapters build torch"
)


def sums(x):
    return pto.i32 if str(x.dtype).endswith("i8") else pto.f32


def whole(x, w):
    return pto.matmul(x, w, out_dtype=sums(x))


def turned(x, w):
    return pto.matmul(x, w, b_trans=True, out_dtype=sums(x))


def columns(x, w):
    return pto.matmul(x, w[:, 32:97], out_dtype=sums(x)), pto.matmul(x, w[:, 3:40])


def heads(x, w):
    return [pto.matmul(x, w[h], out_dtype=sums(x)) for h in (2, 0, 1)]


def all_heads(x, w):
    return pto.matmul(x[None], w, out_dtype=sums(x))


def middle_axis(x, w):
    return pto.matmul(x, w[:, 1], out_dtype=sums(x))


def tiled(x, w):
    return pto.relu(pto.matmul(x, w, out_dtype=sums(x)).float() * 0.5)


def in_a_loop(x, w, out):
    for h in pto.loop(w.shape[0]):
        out[h] = pto.matmul(x, w[h]).float()


ROWS, DEPTH, COLS = 9, 40, 1100
SHAPES = {
    whole: (DEPTH, COLS),
    turned: (COLS, DEPTH),
    tiled: (DEPTH, COLS),
    columns: (DEPTH, 200),
    heads: (3, DEPTH, 50),
    all_heads: (3, DEPTH, 50),
    middle_axis: (DEPTH, 3, 50),
}
NUMPY = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8}
TORCH = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8}


def with_constant(function):
    """The function with its parameter w as a constant; and without."""
    marked = types.FunctionType(function.__code__, function.__globals__)
    marked.__annotations__ = {"w": pto.Constant}
    return pto.jit(marked), pto.jit(function)


def array(library, kind, *shape):
    numbers = np.random.default_rng(len(shape)).integers(-100, 100, shape).astype(np.float32)
    if kind != "i8":
        numbers /= 64
    if library == "numpy":
        return numbers.astype(NUMPY[kind])
    return torch.from_numpy(numbers).to(TORCH[kind])


def packed_bytes():
    gc.collect()
    return pto.memory()["packed_weights"]


def bits(result):
    many = result if isinstance(result, (list, tuple)) else [result]
    return [(x if isinstance(x, np.ndarray) else x.float().numpy()).tobytes() for x in many]


@pytest.mark.parametrize("library", ["numpy", pytest.param("torch", marks=needs_torch_owners)])
@pytest.mark.parametrize("kind", NUMPY)
@pytest.mark.parametrize("function", SHAPES, ids=lambda f: f.__name__)
def test_a_constant_is_packed_and_keeps_its_bits(function, kind, library, deep):
    at = [*SHAPES].index(function)
    quick = {
        "f32": "numpy",
        "i8": "torch",
        ("f16", "bf16")[at % 2]: ("numpy", "torch")[at // 2 % 2],
    }
    if not deep and quick.get(kind) != library:
        pytest.skip("in ./dev test --deep")
    constant, plain = with_constant(function)
    x, w = array(library, kind, ROWS, DEPTH), array(library, kind, *SHAPES[function])
    before, expected = packed_bytes(), bits(plain(x, w))
    for call in range(4):
        assert bits(constant(x, w)) == expected
        assert (pto.memory()["packed_weights"] > before) == (call > 0)
    for rows in (1, 64, 200):
        more = array(library, kind, rows, DEPTH)
        assert bits(constant(more, w)) == bits(plain(more, w))
    assert constant.explain(x, w).constants == {"w": ""}
    del w
    assert packed_bytes() == before


def test_a_program_that_loops_reads_parts_of_one_copy():
    constant, plain = with_constant(in_a_loop)
    x, w = array("numpy", "f32", 5, DEPTH), array("numpy", "f32", 7, DEPTH, 64)
    before, expected = packed_bytes(), np.zeros((7, 5, 64), np.float32)
    plain(x, w, expected)
    for _ in range(3):
        out = np.zeros_like(expected)
        constant(x, w, out)
        assert np.array_equal(out, expected)
    assert packed_bytes() - before >= w.nbytes


def numpy_changes(w):
    yield lambda: np.copyto(w, w[::-1].copy())
    yield lambda: np.multiply(w, 2, out=w)
    yield lambda: w.T.fill(0.25)
    yield lambda: w.__setitem__(slice(None, None, 1), np.float32(3))


def test_a_numpy_constant_that_is_written_as_a_whole_is_read_anew():
    constant, plain = with_constant(whole)
    x, w = array("numpy", "f32", ROWS, DEPTH), array("numpy", "f32", DEPTH, COLS)
    for change in numpy_changes(w):
        for _ in range(5):
            assert bits(constant(x, w)) == bits(plain(x, w))
        change()
        for _ in range(9):
            assert bits(constant(x, w)) == bits(plain(x, w))


@needs_torch_owners
def test_a_torch_constant_that_changes_in_place_is_read_anew():
    constant, plain = with_constant(whole)
    x, w = array("torch", "f32", ROWS, DEPTH), array("torch", "f32", DEPTH, COLS)
    changes = [lambda: w[17, 11].fill_(9), lambda: w.t()[3].zero_(), lambda: w.data.mul_(3),
               lambda: setattr(w, "data", w * 2 + 1)]  # fmt: skip
    for change in changes:
        for _ in range(3):
            assert bits(constant(x, w)) == bits(plain(x, w))
        change()
        assert bits(constant(x, w)) == bits(plain(x, w))


@pytest.mark.parametrize("library", ["numpy", pytest.param("torch", marks=needs_torch_owners)])
def test_a_few_elements_through_an_alias_are_told_of_or_compared(library):
    constant, plain = with_constant(whole)
    x, w = array(library, "f32", ROWS, DEPTH), array(library, "f32", DEPTH, COLS)
    alias = w if library == "numpy" else w.data
    for _ in range(3):
        constant(x, w)
    alias[7, 5] = 50
    pto.repack(w)
    for _ in range(4):
        assert bits(constant(x, w)) == bits(plain(x, w))
    try:
        pto.config.weights = "compared"
        for _ in range(3):
            constant(x, w)
        alias[9, 1000] += 1
        assert bits(constant(x, w)) == bits(plain(x, w))
    finally:
        pto.config.weights = "sampled"


def test_another_array_at_the_address_of_a_dead_one_is_another_constant():
    constant, plain = with_constant(whole)
    memory = bytearray(DEPTH * COLS * 4)
    x = array("numpy", "f32", ROWS, DEPTH)
    for seed in range(4):
        w = np.frombuffer(memory, np.float32).reshape(DEPTH, COLS)
        w[:] = 1  # so that samples agree
        w[7, 5] = seed
        for _ in range(4):
            assert bits(constant(x, w)) == bits(plain(x, w))
        del w


def test_views_of_one_array_have_one_owner_and_their_own_copies():
    constant, plain = with_constant(whole)
    x, all_ = array("numpy", "f32", ROWS, DEPTH), array("numpy", "f32", 2 * DEPTH, COLS)
    before = packed_bytes()
    for _ in range(3):
        for w in (all_[:DEPTH], all_[DEPTH:], all_[::2], all_[:DEPTH, ::-1], all_[:DEPTH, 10:]):
            assert bits(constant(x, w)) == bits(plain(x, w))
    assert packed_bytes() - before >= 4 * DEPTH * (COLS - 10) * 4
    del all_, w
    assert packed_bytes() == before


def test_a_weight_of_an_operator_and_of_a_program_is_packed_for_both():
    constant, plain = with_constant(turned)
    x, w = array("torch", "i8", ROWS, DEPTH), array("torch", "i8", COLS, DEPTH)
    ones = [torch.ones(n) for n in (ROWS, COLS)]
    linear = {o.name: o for o in operators()}["linear_int8"]
    expected = bits(plain(x, w))
    wide = linear(x.float(), w, ones[1])
    for _ in range(4):
        assert bits(constant(x, w)) == expected
        assert torch.equal(torch.ops.pto.scaled_matmul(x, w, *ones), plain(x, w).float())
        assert torch.equal(torch.ops.pto.linear_int8(x.float(), w, ones[1]), wide)


def test_what_is_not_packed_says_why():
    x, w = array("numpy", "f32", 4, 64), array("numpy", "f32", 64, 64)

    def why(function, *args):
        return with_constant(function)[0].explain(*args).constants["w"]

    assert "on its right" in why(lambda x, w: x + w, w, w)
    assert "on its right" in why(lambda x, w: pto.matmul(w, x, b_trans=True), x, w)
    assert "f64" in why(lambda x, w: x @ w, x.astype("f8"), w.astype("f8"))
    assert "part of its rows" in why(lambda x, w: x[:, :32] @ w[:32], x, w)
    assert "another shape" in why(lambda x, w: x @ w.reshape(64, 64), x, w.reshape(64, 8, 8))

    def writes(x, w, out):
        out[:] = x @ w
        w[:] = w * 2

    out = np.zeros((4, 64), np.float32)
    assert "writes it" in why(writes, x, w, out)
    text = with_constant(whole)[0].explain(x, w)
    assert "==== constants ====\nw: packed once" in text
    assert not any(choice.what == "constant" for choice in text.choices)
    before = packed_bytes()
    for function, args in (
        (lambda x, w: x[:, :32] @ w[:32], (x, w)),
        (lambda x, w: x @ w, (x.astype("f8"), w.astype("f8"))),
        (writes, (x, w, out)),
    ):
        both = with_constant(function)
        copies = [[a.copy() for a in args] for _ in both]
        for _ in range(3):
            made = [one(*given) for one, given in zip(both, copies, strict=True)]
            assert bits(copies[0]) == bits(copies[1])
            assert made[0] is None or bits(made[0]) == bits(made[1])
    assert packed_bytes() == before


def test_the_switches_of_weights_and_of_precision_count():
    constant, plain = with_constant(whole)
    x, w = array("numpy", "f32", ROWS, DEPTH), array("numpy", "f32", DEPTH, COLS)
    before = packed_bytes()
    try:
        pto.config.weights = "never"
        for _ in range(3):
            assert bits(constant(x, w)) == bits(plain(x, w))
        assert packed_bytes() == before
    finally:
        pto.config.weights = "sampled"
    try:
        for precision in ("medium", "highest") * 3:
            pto.config.matmul_precision = precision
            assert bits(constant(x, w)) == bits(plain(x, w))
    finally:
        pto.config.matmul_precision = "highest"


@pytest.mark.parametrize("library", ["numpy", pytest.param("torch", marks=needs_torch_owners)])
def test_threads_share_a_copy(library):
    constant, plain = with_constant(tiled)
    x = array(library, "f32", 64, DEPTH)
    weights = [array(library, "f32", DEPTH, COLS) * k for k in (1, 2, 3)]
    expected = [bits(plain(x, w)) for w in weights]
    wrong = []

    def call():
        for _ in range(20):
            for w, right in zip(weights, expected, strict=True):
                if bits(constant(x, w)) != right:
                    wrong.append(w)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_package_packs_its_constants_and_sees_them_change(tmp_path):
    """In a process of its own, since the function that made the package keeps weights too."""
    constant, _ = with_constant(whole)
    x, w = array("numpy", "f32", ROWS, DEPTH), array("numpy", "f32", DEPTH, COLS)
    constant.package(tmp_path / "whole.pto", (x, w))
    np.savez(tmp_path / "arrays.npz", x=x, w=w, y=constant(x, w), z=constant(x, -w))
    text = """
        import sys, numpy as np, pto
        whole, arrays = pto.load("whole.pto"), np.load("arrays.npz")
        x, w = arrays["x"], arrays["w"].copy()
        for _ in range(3):
            assert whole(x, w).tobytes() == arrays["y"].tobytes()
        assert pto.memory()["packed_weights"] >= w.nbytes
        w *= -1
        assert whole(x, w).tobytes() == arrays["z"].tobytes()
    """
    here = {**os.environ, "PYTHONPATH": str(Path(pto.__file__).parents[1])}
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], check=True, cwd=tmp_path, env=here
    )


class Layer:
    """The product of an operator whose weight is a constant."""

    types = "(T, T) -> T where T: f32 bf16"
    constants = ("w",)

    def build(x, w):
        return pto.matmul(x, w)


@needs_torch_owners
@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_a_constant_of_an_operator_is_packed_for_torch(kind):
    layer = {o.name: o for o in operators()}.get("packed_layer") or op(
        "packed_layer(Tensor x, Tensor w) -> Tensor"
    )(Layer)
    x, w = array("torch", kind, ROWS, DEPTH), array("torch", kind, DEPTH, COLS)
    _, plain = with_constant(lambda x, w: pto.matmul(x, w))
    before = packed_bytes()
    for change in (lambda w: None, lambda w: w[3, 5].fill_(7), lambda w: w.data.mul_(2)):
        change(w)
        for _ in range(9):  # each change doubles the calls until it is packed again
            assert bits(torch.ops.pto.packed_layer(x, w)) == bits(plain(x, w))
        assert packed_bytes() > before
    del w
    assert packed_bytes() == before
    assert layer.trace([("f32", (4, 4))] * 2, []).inputs[1][1] == "f32"


@pytest.mark.parametrize("names", [("v",), ("cache",), (3,), "cache", "xy"])
def test_a_constant_of_an_operator_is_a_tensor_that_it_does_not_write(names):
    members = {"build": lambda x, cache: cache + x, "constants": names}
    first = repr(names if isinstance(names, str) else names[0])
    text = f"constants names {first}\n.* that no call writes.*\n.*some of x"
    with pytest.raises(Error, match=text):
        op("written_layer(Tensor x, Tensor(a!) cache) -> ()")(type("Written", (), members))


def test_a_text_is_the_name_of_one_constant():
    members = {"build": lambda x, weight: x @ weight, "constants": "weight"}
    layer = op("text_layer(Tensor x, Tensor weight) -> Tensor")(type("TextLayer", (), members))
    assert "%weight: f32[4, 4] !constant=[1]" in str(layer.trace([("f32", (4, 4))] * 2, []))
