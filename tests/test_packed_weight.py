# SPDX-License-Identifier: Apache-2.0
"""Packed weights as objects: the bits of the weight itself, shared, counted, and saved in files
that are refused where they are damaged or for another CPU."""

import copy
import gc
import hashlib
import json
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pto
from pto import _core, container, ops
from pto.language.dtypes import numpy_type
from pto.ops.packed_weight import KINDS, PRECISIONS

FLOATS = ("linear", "matmul")


def numbers(*shape, dtype="f4"):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def case(kind, rows=(5,), inputs=64, outputs=50, dtype="f4"):
    """(x, weight, what comes behind it, options) of a call of the operator."""
    random = np.random.default_rng(inputs + outputs)
    x = numbers(*rows, inputs, dtype=dtype)
    if kind == "linear":
        return x, numbers(outputs, inputs, dtype=dtype), (numbers(outputs, dtype=dtype),), {}
    if kind == "matmul":
        return x, numbers(inputs, outputs, dtype=dtype), (), {}
    if kind == "linear_int8":
        weight = random.integers(-128, 128, (outputs, inputs)).astype("i1")
        return x, weight, (random.random(outputs, "f4"),), {"activation": "gelu"}
    weight = random.integers(0, 256, (outputs, inputs // 2)).astype("u1")
    scale = random.random((inputs // 32, outputs), "f4")
    return (
        x,
        weight,
        (scale, -scale),
        {"group": 32, "residual": numbers(*rows, outputs, dtype=dtype)},
    )


def call(kind, x, weight, behind, options):
    return getattr(ops, kind)(x, weight, *behind, **options)


SIZES = [
    ((5,), 64, 50), ((1,), 1120, 33), ((2, 3), 32, 800), ((), 64, 1), ((300,), 32, 97),
    ((64,), 96, 1024), ((0,), 32, 3), ((2,), 0, 5), ((2,), 32, 0),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["f4", "f2", numpy_type("bf16")], ids=["f32", "f16", "bf16"])
@pytest.mark.parametrize("rows, inputs, outputs", SIZES, ids=str)
def test_a_packed_weight_gives_the_bits_of_the_weight(kind, dtype, rows, inputs, outputs):
    x, weight, behind, options = case(kind, rows, inputs, outputs, dtype)
    expected = call(kind, x, weight, behind, options)
    packed = pto.pack_weight(weight, kind)
    assert (packed.kind, packed.shape) == (kind, weight.shape)
    assert (packed.inputs, packed.outputs) == (inputs, outputs)
    loaded = pto.PackedWeight.from_bytes(packed.to_bytes())
    for one in (packed, loaded):
        np.testing.assert_array_equal(call(kind, x, one, behind, options), expected)
    assert repr(loaded) == repr(packed) and loaded.to_bytes() == packed.to_bytes()


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("layout", ["f4", "f2", "gaps", "backwards", "turned", "repeated"])
def test_a_weight_of_any_layout_and_type_is_packed(kind, layout):
    dtype = layout if layout in ("f4", "f2") else "f4"
    x, weight, behind, options = case(kind, dtype=dtype)
    views = {
        "gaps": lambda w: np.repeat(np.repeat(w, 2, 0), 3, 1)[::2, ::3],
        "backwards": lambda w: w[::-1, ::-1],
        "turned": np.asfortranarray,
        "repeated": lambda w: np.broadcast_to(w[:1], w.shape),
    }
    weight = views.get(layout, lambda w: w)(weight)
    expected = call(kind, x, np.ascontiguousarray(weight), behind, options)
    packed = pto.pack_weight(weight, kind)
    np.testing.assert_array_equal(call(kind, x, packed, behind, options), expected)
    assert pto.pack_weight(weight.copy(), kind).to_bytes() == packed.to_bytes()


def test_what_is_special_among_numbers_is_kept():
    x, weight, behind, options = case("linear")
    weight[::3, ::5] = np.tile([np.nan, np.inf, -np.inf, 1e-42, 3e38, -0.0], 40)[:221].reshape(
        17, 13
    )
    expected = call("linear", x, weight, behind, options)
    np.testing.assert_array_equal(
        call("linear", x, pto.pack_weight(weight), behind, options), expected
    )


def test_torch_tensors_take_it_without_a_copy_and_have_no_gradient():
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x, weight = torch.randn(3, 40).to(dtype), torch.randn(50, 40).to(dtype)
        packed = pto.pack_weight(torch.nn.Parameter(weight))
        for _ in range(2):
            assert torch.equal(ops.linear(x, packed), ops.linear(x, weight))
        turned = pto.pack_weight(weight.t(), "matmul")
        assert torch.equal(ops.matmul(x, turned), ops.matmul(x, weight.t()))
        if dtype is not torch.float32:
            wide = pto.pack_weight(weight.float())
            with pytest.raises(TypeError, match=r"linear: x is b?f16, the packed weight f32"):
                ops.linear(x, wide)
    x, weight, (scale,), options = case("linear_int8")
    ours = (torch.from_numpy(a) for a in (x, scale))
    packed = pto.pack_weight(torch.from_numpy(weight), "linear_int8")
    result = ops.linear_int8(next(ours), packed, next(ours), **options)
    np.testing.assert_array_equal(result.numpy(), ops.linear_int8(x, weight, scale, **options))
    x = torch.randn(3, 40, requires_grad=True)
    packed = pto.pack_weight(torch.randn(50, 40))
    with pytest.raises(RuntimeError, match="has no gradient"):
        ops.linear(x, packed).sum().backward()
    with torch.no_grad():
        assert ops.linear(x, packed).shape == (3, 50)
    with pytest.raises(pto.Error, match="_pack_weight: weight cannot be read"):
        pto.pack_weight(torch.empty(50, 40, device="meta"))


def test_torch_compile_and_vmap_take_it():
    torch = pytest.importorskip("torch")
    x, weight, bias = torch.randn(3, 40), torch.randn(50, 40), torch.randn(50)
    packed, expected = pto.pack_weight(weight), ops.linear(x, weight, bias)
    compiled = torch.compile(lambda x: ops.linear(x, packed, bias), backend="eager")
    assert torch.equal(compiled(x), expected)
    rows = torch.func.vmap(lambda row: ops.linear(row, packed, bias))
    assert torch.equal(rows(x), expected)


def test_jax_takes_it():
    jax = pytest.importorskip("jax")
    x, weight, behind, options = case("linear")
    packed, expected = pto.pack_weight(weight), call("linear", x, weight, behind, options)
    for function in (ops.linear, jax.jit(lambda x, b: ops.linear(x, packed, b))):
        given = (packed, *behind) if function is ops.linear else behind
        np.testing.assert_array_equal(np.asarray(function(jax.numpy.asarray(x), *given)), expected)


def test_threads_share_one():
    x, weight, behind, options = case("linear", (17,), 200, 300)
    packed = pto.pack_weight(weight)
    expected = call("linear", x, weight, behind, options)
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(call, "linear", x, packed, behind, options) for _ in range(60)]
    assert all(np.array_equal(job.result(), expected) for job in jobs)


def test_its_bytes_are_counted_while_it_lives():
    gc.collect()
    before = pto.memory()["packed_weights"]
    packed = pto.pack_weight(numbers(50, 40))
    assert packed.nbytes >= 50 * 40 * 4
    assert pto.memory()["packed_weights"] == before + packed.nbytes
    loaded = pto.PackedWeight.from_bytes(packed.to_bytes())
    assert pto.memory()["packed_weights"] == before + 2 * packed.nbytes
    del packed, loaded
    gc.collect()
    assert pto.memory()["packed_weights"] == before


def test_copies_are_itself_and_a_pickle_is_checked_as_a_file_is():
    packed = pto.pack_weight(numbers(50, 40))
    assert copy.deepcopy({"w": packed})["w"] is packed and copy.copy(packed) is packed
    content = pickle.dumps(packed)
    assert pickle.loads(content).to_bytes() == packed.to_bytes()
    place = len(content) - 500
    with pytest.raises(ValueError, match="was truncated or altered"):
        pickle.loads(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_another_process_loads_it(kind, tmp_path):
    x, weight, behind, options = case(kind)
    pto.pack_weight(weight, kind).save(tmp_path / "w.pto")
    arrays = {"x": x, **{f"_{i}": b for i, b in enumerate(behind)}}
    arrays |= {k: v for k, v in options.items() if isinstance(v, np.ndarray)}
    plain = {k: v for k, v in options.items() if not isinstance(v, np.ndarray)}
    np.savez(tmp_path / "a.npz", **arrays)
    program = f"""
import numpy as np, pto
a = dict(np.load("a.npz"))
behind = [a.pop(n) for n in sorted(n for n in a if n[0] == "_")]
result = pto.ops.{kind}(a.pop("x"), pto.load("w.pto"), *behind, **a, **{plain!r})
np.save("result.npy", result)
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    expected = call(kind, x, weight, behind, options)
    np.testing.assert_array_equal(np.load(tmp_path / "result.npy"), expected)
    assert sorted(os.listdir(tmp_path)) == ["a.npz", "result.npy", "w.pto"]


def sealed(content, payload=None, version=None, **changes):
    """The file with another header or payload, and a digest that fits."""
    magic, own, length = container.PREFIX.unpack_from(content)
    start = container.PREFIX.size
    header = {**json.loads(content[start : start + length]), **changes}
    text = json.dumps(header).encode()
    payload = content[start + length : -32] if payload is None else payload
    whole = container.PREFIX.pack(magic, own if version is None else version, len(text))
    whole += text + payload
    return whole + hashlib.sha256(whole).digest()


def payload_of(content):
    return bytes(container.opened(content, "it").payload)


@pytest.mark.parametrize("spoil, text", [
    (lambda c: b"", "is no package"),
    (lambda c: c[:100], "was truncated or altered"),
    (lambda c: c[:-1], "was truncated or altered"),
    (lambda c: c[:3000] + bytes([c[3000] ^ 1]) + c[3001:], "was truncated or altered"),
    (lambda c: sealed(c, version=2), "has version 2 of the format\n.*reads version 1"),
    (lambda c: sealed(c, kind="program"), "holds a jitted function, not a packed weight"),
    (lambda c: sealed(c, kind="shape"), "holds 'shape', not a packed weight"),
    (lambda c: sealed(c, layout="floats for AVX4, version 1"),
     "is packed as 'floats for AVX4, version 1'\n.*read '.*, version .*\n.*pack the weight again"),
    (lambda c: sealed(c, layout="floats for AVX2, version 9"), "is packed as .*, version 9'"),
    (lambda c: sealed(c, operator="attention"), "has a header that save"),
    (lambda c: sealed(c, operator=["linear"]), "has a header that save"),
    (lambda c: sealed(c, shape=[50]), "has a header that save"),
    (lambda c: sealed(c, shape=[-50, 40]), "has a header that save"),
    (lambda c: sealed(c, dtype=7), "has a header that save"),
    (lambda c: sealed(c, dtype="f64"), "is packed as"),
    (lambda c: sealed(c, payload=b"123"), "has a header that save"),
])  # fmt: skip
def test_a_file_that_cannot_be_used_is_refused(tmp_path, spoil, text):
    (tmp_path / "w.pto").write_bytes(spoil(pto.pack_weight(numbers(50, 40)).to_bytes()))
    with pytest.raises(ValueError, match="w.pto " + text) as raised:
        pto.PackedWeight.load(tmp_path / "w.pto")
    assert isinstance(raised.value, pto.Error) and raised.value.why and raised.value.fix


@pytest.mark.parametrize("kind", KINDS)
def test_every_altered_byte_is_noticed(kind):
    content = pto.pack_weight(case(kind)[1], kind).to_bytes()
    for place in np.random.default_rng(0).integers(0, len(content), 30):
        spoilt = content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]
        with pytest.raises(ValueError, match="the package "):
            pto.PackedWeight.from_bytes(spoilt)


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_that_the_elements_have_not_are_refused_at_the_call(kind):
    """With a digest that fits: somebody else may have written the file."""
    x, weight, behind, options = case(kind, outputs=64)
    content = pto.pack_weight(weight, kind).to_bytes()
    payload = payload_of(content)
    for other in (payload[:4], payload[:-32], payload[32:], b""):
        packed = pto.PackedWeight.from_bytes(sealed(content, payload=other))
        with pytest.raises(
            pto.Error, match="packed (matrix|weight) has another number|was packed for another"
        ):
            call(kind, x, packed, behind, options)
    rows, cols = weight.shape
    for shape in ([rows, cols * 2], [rows * 2, cols], [2**40, 2**40]):
        packed = pto.PackedWeight.from_bytes(sealed(content, shape=shape))
        with pytest.raises(pto.Error):
            call(kind, x, packed, behind, options)


def test_a_header_of_any_content_is_read_or_refused(deep):
    """With a digest that fits: what is read multiplies, or a call refuses it."""
    x, weight, behind, options = case("linear")
    expected = call("linear", x, weight, behind, options)
    content = pto.pack_weight(weight).to_bytes()
    magic, version, length = container.PREFIX.unpack_from(content)
    start = container.PREFIX.size
    header, payload = content[start : start + length], content[start + length : -32]
    random = np.random.default_rng(0)
    pieces = [b"null", b"-1", b"1e999", b"[", b"{}", b'"x"', b"9" * 5000, b"[" * 100000, b"NaN",
              b"", b"linear", b"matmul", b"64", b"50", b"f16", b"kind"]  # fmt: skip
    for _ in range(20000 if deep else 300):
        spoilt = header
        for _ in range(random.integers(1, 3)):
            place = random.integers(0, len(spoilt))
            end = place + random.integers(0, 12)
            spoilt = spoilt[:place] + pieces[random.integers(len(pieces))] + spoilt[end:]
        whole = container.PREFIX.pack(magic, version, len(spoilt)) + spoilt + payload
        try:
            packed = pto.PackedWeight.from_bytes(whole + hashlib.sha256(whole).digest())
            result = call("linear", x, packed, behind, options)
        except pto.Error as error:
            assert error.what and error.why and error.fix
        else:
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("kind", FLOATS)
def test_elements_of_another_layout_are_never_multiplied(kind):
    x, weight, behind, options = case(kind)
    content = pto.pack_weight(weight, kind).to_bytes()
    payload = bytearray(payload_of(content))
    payload[-8] = payload[-8] % 3 + 1  # a layout of another CPU, behind the sizes
    packed = pto.PackedWeight.from_bytes(sealed(content, payload=bytes(payload)))
    with pytest.raises(pto.Error, match="packed for another CPU, element type or version"):
        call(kind, x, packed, behind, options)
    if kind == "linear":  # where the weight is there too, it is read
        other = np.frombuffer(bytes(payload), "f4")
        np.testing.assert_array_equal(
            ops.linear(x, weight, *behind, packed=other), ops.linear(x, weight, *behind)
        )


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_weight_of_another_precision_is_refused_or_has_its_bits(precision):
    x, weight, behind, options = case("linear")
    try:
        pto.config.matmul_precision = precision
        packed = pto.pack_weight(weight)
        expected = call("linear", x, weight, behind, options)
        np.testing.assert_array_equal(call("linear", x, packed, behind, options), expected)
    finally:
        pto.config.matmul_precision = "highest"
    loaded = pto.PackedWeight.from_bytes(packed.to_bytes())  # whatever the switch is now
    if packed.layout == _core.matmul_layout("f32"):
        np.testing.assert_array_equal(call("linear", x, loaded, behind, options), expected)
        return
    with pytest.raises(ValueError, match="linear: the weight is packed as .*\n.*'highest'.*\n.*"
                       f"matmul_precision = {precision!r}"):  # fmt: skip
        call("linear", x, loaded, behind, options)


# --- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight, kind, error, text", [
    (numbers(4, 5), "conv2d", ValueError, "kind is 'conv2d'\n.*\n.*linear, linear_int8"),
    (numbers(4, 5), None, ValueError, "kind is None"),
    (numbers(4), "linear", TypeError, "the weight is"),
    (None, "linear", TypeError, "the weight is None"),
    ([[1.0]], "linear", TypeError, "the weight is"),
    (numbers(4, 5).astype("f8"), "linear", TypeError, "f64"),
    (numbers(4, 5), "linear_int8", TypeError, "f32"),
    (np.array([[None]]), "linear", TypeError, "unknown element type"),
])  # fmt: skip
def test_what_is_no_weight_is_refused(weight, kind, error, text):
    with pytest.raises(error, match=text) as raised:
        pto.pack_weight(weight, kind)
    assert isinstance(raised.value, pto.Error) and raised.value.why and raised.value.fix


PACKED = pto.pack_weight(numbers(50, 40))
SQUARE = pto.pack_weight(numbers(40, 40), "matmul")


@pytest.mark.parametrize("wrong, error, text", [
    (lambda x: ops.linear(x[:, :7], PACKED), ValueError, "x has 7 inputs, the packed weight 40"),
    (lambda x: ops.linear(x.astype("f2"), PACKED), TypeError, "x is f16, the packed weight f32"),
    (lambda x: ops.linear(x, PACKED, np.ones(50, "f2")), TypeError, "bias is f16"),
    (lambda x: ops.linear(x, PACKED, np.ones(51, "f4")), ValueError, "sizes 51 and 50"),
    (lambda x: ops.linear(x, PACKED, activation="tanh"), ValueError, "activation is 'tanh'"),
    (lambda x: ops.linear(x, x, PACKED), TypeError, "a packed weight, and also bias"),
    (lambda x: ops.linear(x, PACKED, packed=x), TypeError, "and also packed"),
    (lambda x: ops.linear(PACKED, PACKED), TypeError, "and also x"),
    (lambda x: ops.matmul(x, PACKED), ValueError, "matmul: got a weight that is packed for linear"),
    (lambda x: ops.gelu(PACKED), ValueError, "gelu: got a weight that is packed for linear"),
    (lambda x: ops.concat([x, PACKED]), ValueError, "concat: got a weight that is packed"),
    (lambda x: ops.matmul(x, SQUARE, transpose_b=True), TypeError, "and also transpose_b"),
    (lambda x: ops.matmul(x, SQUARE, out_dtype="f64"), pto.Error, "."),
    (lambda x: ops.linear(np.float32(1), PACKED), pto.Error, "."),
    (lambda x: ops.linear(None, PACKED), pto.Error, "."),
])  # fmt: skip
def test_a_call_that_does_not_fit_says_why(wrong, error, text):
    with pytest.raises(error, match=text) as raised:
        wrong(numbers(3, 40))
    assert isinstance(raised.value, pto.Error) and raised.value.why and raised.value.fix


def test_it_tells_what_it_is():
    assert repr(PACKED).startswith("<weight of linear, f32 50 x 40, packed as ")
    assert PACKED.layout == _core.matmul_layout("f32") and PACKED.dtype == "f32"
    with pytest.raises(AttributeError):
        PACKED.kind = "matmul"
