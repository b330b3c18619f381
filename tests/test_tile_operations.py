# SPDX-License-Identifier: Apache-2.0
"""Operations of elements that a user defines, in the language and in C++: pto.tile_op."""

import inspect
import itertools
import re

import numpy as np
import pytest
import torch

import pto
from pto import _core
from pto.language.verify import verify_passes

F32 = np.float32
names = (f"tested_{i}" for i in itertools.count())


def defined(schema="(Tensor x, float c) -> Tensor", **parts):
    """A tile operation of a name of its own."""
    return pto.tile_op(next(names) + schema)(type("Definition", (), parts))


softcap = defined(
    body=lambda x, c: c * pto.tanh(x / c),
    oracle=lambda x, c: c * np.tanh(x / c),
)


@pto.tile_op("test_cube(Tensor x, Tensor y) -> Tensor")
class cube:  # noqa: N801
    """x * x * x + y."""

    cpp = """
      auto t = x;
      TMUL(t, x, x);
      TMUL(t, t, x);
      TADD(dst, t, y);
    """

    def oracle(x, y):
        return x * x * x + y

    def grad(ctx, d_result):
        return {"x": d_result * 3 * ctx.saved("x") ** 2, "y": d_result}

    tolerance = {pto.f32: 1e-5, pto.f16: 4e-3, pto.bf16: 3e-2, pto.f64: 1e-10}


@pto.tile_op("test_halved(Tensor x) -> Tensor", oracle=lambda x: x / 2)
def halved(x):
    return x * 0.5


x = np.random.default_rng(0).standard_normal((6, 70), F32)


@pto.jit
def both(x, y):
    return pto.softmax(softcap(x, 3.0) + cube(x, y)) * halved(x)


def test_they_hold_the_laws_of_operations_for_every_type_and_shape():
    assert min(one.check() for one in (softcap, cube, halved)) > 40


def test_the_graph_names_them_and_reads_back():
    graph = both.trace(x, x)
    assert re.search(r"tile\(.*\) \{name=tested_0\} graph ", str(graph))
    assert re.search(r"tile\(.*\) \{name=test_cube\} : f32", str(graph))
    assert _core.Graph.parse(str(graph)) == graph
    assert pto.verify(both, x, x).is_equal


def test_they_fuse_into_one_kernel_whose_operations_have_their_names():
    (kernel,) = both.explain(x, x).steps_of("kernel")
    assert {"tested_0", "test_cube", "test_halved", "exp", "sum"} <= set(kernel.operations)
    assert "tanh" not in kernel.operations
    assert pto.health(both, x, x).operations["test_cube"] == 1


def test_a_body_computes_what_the_same_lines_do_in_a_program():
    @pto.jit
    def plain(x):
        return pto.softmax(4.0 * pto.tanh(x / 4.0)) + x * 0.5

    @pto.jit
    def named(x):
        return pto.softmax(softcap(x, 4.0)) + halved(x)

    assert plain(x).tobytes() == named(x).tobytes()


def test_operands_broadcast_and_numbers_of_the_call_are_operands():
    @pto.jit
    def scaled(x, row, c=2.0):
        return softcap(cube(x, row), c)

    want = np.float64(x) ** 3 + x[0]
    for c in (0.5, 2.0, 7.5):
        np.testing.assert_allclose(scaled(x, x[0], c), c * np.tanh(want / c), rtol=2e-5)
    np.testing.assert_allclose(softcap(x, 2), 2 * np.tanh(x / 2), rtol=1e-5)  # on arrays


def test_they_run_in_loops_and_after_products():
    @pto.jit
    def program(x, w, out):
        h = cube(x @ w, x[0, 0])
        for i in pto.loop(x.shape[0]):
            out[i] = softcap(h[i], 9.0) + halved(x[i])

    w = x[:70].T.copy() @ x
    program(x, w / 50, out := np.zeros_like(x))
    want = (np.float64(x) @ (w / 50)) ** 3 + x[0, 0]
    np.testing.assert_allclose(out, 9 * np.tanh(want / 9) + x / 2, rtol=1e-2, atol=1e-3)
    assert verify_passes(program, x, w / 50, out).is_equal


def test_a_gradient_is_the_users_or_that_of_the_body():
    a, b = (torch.randn(5, 9, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(pto.jit(lambda a, b: softcap(cube(a, b), 2.0)), (a, b))
    doubled = pto.jit(lambda a: product(a, a))
    assert torch.autograd.gradcheck(doubled, (a,))


product = defined("(Tensor x, Tensor y) -> Tensor", body=lambda x, y: x * pto.exp(y))


def test_cpp_without_a_gradient_refuses_to_be_differentiated():
    plain = defined("(Tensor x) -> Tensor", cpp="TEXP(dst, x);", oracle=np.exp)
    with pytest.raises(RuntimeError, match="the derivative of tested_.* is not known") as error:
        pto.jit(lambda x: plain(x))(torch.ones(3, requires_grad=True)).sum().backward()
    assert "give it a grad" in str(error.value)


def test_a_package_holds_their_code(tmp_path):
    both.package(tmp_path / "both.pto", x, x)
    assert pto.load(tmp_path / "both.pto")(x, x).tobytes() == both(x, x).tobytes()


def test_the_key_of_a_kernel_has_the_text():
    def added(n):
        f = defined("(Tensor x) -> Tensor", cpp=f"TADDS(dst, x, {n});", oracle=lambda x: x + n)
        return pto.jit(lambda x: f(x))(x) - x

    for n in (1, 2):
        np.testing.assert_allclose(added(n), n, rtol=1e-5)


def test_a_call_of_another_definition_is_compiled_anew():
    @pto.jit
    def program(x):
        return chosen[0](x)

    chosen = [halved]
    assert program(x)[0, 0] == x[0, 0] / 2
    chosen[0] = pto.exp
    assert program(x)[0, 0] == pto.exp(x)[0, 0]


def refused(build, *words, kind=TypeError):
    with pytest.raises(kind) as error:
        build()
    text = str(error.value)
    assert all(word in text for word in words), text
    assert "why:" in text and "fix:" in text and "test_tile_operations.py:" in text, text


def test_mistakes_in_a_definition_name_what_does_not_fit():
    x_only = "(Tensor x) -> Tensor"
    refused(lambda: defined(x_only, body=lambda x: x > 0), "the body gives bool[]", "f16")
    refused(lambda: defined(x_only, body=lambda x: 1.0), "the body gives", "1.0")
    refused(lambda: defined(x_only, body=lambda x: x.float()), "the body gives f32[]", "type f16")
    refused(lambda: defined(x_only, body=lambda x: x.reshape(1, 1)), "the body gives f16[1, 1]")
    refused(
        lambda: defined(x_only, body=lambda x: x.reshape(1).reshape()), "the body has", "reshape"
    )
    refused(lambda: defined(x_only), "neither body nor cpp")
    refused(lambda: defined(x_only, body=abs, cpp=""), "body and cpp")
    refused(lambda: defined(x_only, cpp="TEXP(dst, x);"), "C++ and no oracle", "def oracle(x)")
    refused(lambda: defined(x_only, cpp=3, oracle=np.exp), "cpp is", "C++ text")
    refused(lambda: defined(x_only, boddy=abs), "unknown member boddy", "body")
    refused(lambda: defined(x_only, body=lambda: 1), "body does not take 1", "def body(x)")
    refused(lambda: defined(x_only, body=abs, grad=lambda d: d), "def grad(ctx, d_result)")
    refused(lambda: defined(x_only, body=3), "body is the int 3, which is no function")
    refused(lambda: defined("(Tensor x, int n) -> Tensor", body=abs), "has no int n")
    refused(lambda: defined("(Tensor(a!) x) -> Tensor", body=abs), "has no Tensor(a!) x")
    refused(lambda: defined("(Tensor x) -> (Tensor, Tensor)", body=abs), "the schema is")
    refused(lambda: defined("(float x) -> Tensor", body=abs), "takes 0 tensors", kind=ValueError)
    refused(lambda: pto.tile_op(3), "the schema is", "text")
    refused(lambda: pto.tile_op("other(Tensor x) -> Tensor")(3), "decorates")


def test_names_that_exist_are_refused():
    def exists(name):
        return lambda: pto.tile_op(f"{name}(Tensor x) -> Tensor")(lambda x: x)

    refused(exists("exp"), "pto.exp is a function of the language", kind=ValueError)
    refused(exists("test_cube"), "is defined already, at ", kind=ValueError)


def test_an_oracle_that_disagrees_is_named_with_the_element_and_both_values():
    def build():
        defined("(Tensor x) -> Tensor", body=lambda x: pto.maximum(x, 0.5),
                oracle=lambda x: np.maximum(x, 0))  # fmt: skip

    refused(
        build, "the oracle disagrees with the body", "x = ", "is 0.5 by the body", kind=ValueError
    )
    wrong = defined("(Tensor x) -> Tensor", cpp="TEXP(dst, x);", oracle=lambda x: np.exp(x) + 1)
    refused(wrong.check, "by the compiled form", "by the oracle, in f16", "x = ", kind=ValueError)


def test_a_gradient_that_is_wrong_is_found_by_its_laws():
    wrong = defined("(Tensor x) -> Tensor", body=lambda x: x * x, oracle=lambda x: x * x,
                    grad=lambda ctx, d: d * ctx.saved("x"))  # fmt: skip
    refused(wrong.check, "the gradient by x at element", "finite differences", kind=ValueError)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda d: {"y": d * 2}, "gradients for y"),
        (lambda d: (d, d), "gradients for 2 values"),
        (lambda d: {"x": pto.sum(d)}, "grad gives f64[] for x"),
        (lambda d: {"x": d > 0}, "grad gives bool[s0] for x"),
        (lambda d: {"x": 3.0}, "grad gives the float 3.0 for x"),
        (lambda d: "x", "grad gives the str 'x' for x"),
    ],
)
def test_a_gradient_of_another_name_shape_or_type_is_refused(made, told):
    plain = defined("(Tensor x) -> Tensor", cpp="TEXP(dst, x);", oracle=np.exp,
                    grad=lambda ctx, d: made(d))  # fmt: skip
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    with pytest.raises(RuntimeError) as error:
        pto.jit(lambda x: plain(x) * 1)(x).sum().backward()
    assert told in str(error.value)


@pto.tile_op("test_broken(Tensor x) -> Tensor")
class broken:  # noqa: N801
    """Does not compile."""

    cpp = """
      auto t = x;
      TEXPP(dst, t);
    """
    oracle = np.exp


def test_cpp_that_does_not_compile_shows_the_compilers_message_at_its_line():
    with pytest.raises(RuntimeError) as error:
        pto.jit(lambda x: broken(x) + 1)(x)
    lines, first = inspect.getsourcelines(inspect.getmodule(defined))
    line = 1 + next(i for i, text in enumerate(lines) if "TEXPP(dst, t);" in text)
    assert re.search(rf"test_tile_operations.py:{line}:\d+: error: .*TEXPP", str(error.value))
    assert "test_broken: the C++ compiler refused its text" in str(error.value)


def test_calls_are_checked_as_those_of_the_language():
    refused(lambda: pto.jit(lambda x: softcap(x, "c"))(x), "c is", "number")
    refused(lambda: pto.jit(lambda x, y: cube(x, y))(x, np.float64(x)), "f32 and f64")
    narrow = defined("(Tensor x) -> Tensor", body=lambda x: x, dtypes=(pto.f32,))
    refused(lambda: pto.jit(lambda x: narrow(x))(np.float64(x)), "operands are f64", "takes f32")
    with pytest.raises(ValueError, match='no operation "unknown" is defined'):
        _core.Graph.parse(
            "graph g(%x: f32[s0]) -> (f32[s0]) { %0 = tile(%x) {name=unknown} : f32[s0] return %0 }"
        )
