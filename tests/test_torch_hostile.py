# SPDX-License-Identifier: Apache-2.0
"""Tensors that an operator must refuse, or resolve: nothing aborts, and texts say what to do."""

import threading

import children
import pytest
import torch

import pto.torch  # noqa: F401

ops = torch.ops.pto
torch.manual_seed(0)
X = torch.randn(3, 4)


def freed():
    x = torch.randn(4)
    x.untyped_storage().resize_(0)
    return x


REFUSED = {
    "complex": (lambda: ops.silu(X.to(torch.complex64)), "silu: tensor x has a dtype without"),
    "conjugated": (lambda: ops.silu(X.to(torch.complex64).conj()), "dtype without kernels"),
    "8-bit floats": (lambda: ops.silu(X.to(torch.float8_e4m3fn)), "dtype without kernels"),
    "integers": (lambda: ops.silu(X.int()), "silu: x is i32"),
    "mixed types": (lambda: ops.add(X, X.double()), "add: y is f64 but x is f32"),
    "mixed devices": (lambda: ops.add(X, X.to("meta")), "y is on meta but x is on cpu"),
    "sparse": (lambda: ops.silu(X.to_sparse()), "SparseCPU"),
    "without memory": (lambda: ops.silu(freed()), "silu: tensor x has elements but no memory"),
    "nine axes": (lambda: ops.silu(torch.ones([1] * 9)), "9 dimensions"),
    "sizes that differ": (lambda: ops.add(X, torch.ones(5)), "sizes 4 and 5 differ"),
    "a matrix of weights": (lambda: ops.rms_norm(X, torch.ones(2, 4)), "sizes 3 and 2 differ"),
    "no such axis": (lambda: ops.softmax(X, 5), "there is no axis 5 in a tensor of 2 axes"),
    "a result beyond the memory": (
        lambda: ops.add(torch.ones(1).expand(2**42), torch.ones(1)),
        "add: no memory for output 0 of 17592186044416 bytes",
    ),
    "a result beyond all numbers": (
        lambda: ops.add(torch.ones(1, 1).expand(2**40, 1), torch.ones(1, 1).expand(1, 2**40)),
        "more than 2\\^63 bytes",
    ),
    "an unknown word": (
        lambda: ops.gelu(X, approximate="both"),
        "gelu: approximate is 'both'",
    ),
    "a number": (lambda: ops.silu(1.0), "silu"),
    "None": (lambda: ops.silu(None), "silu|no tensor arguments"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_a_text(name):
    call, text = REFUSED[name]
    with pytest.raises((RuntimeError, ValueError, TypeError), match=text):
        call()


@pytest.mark.parametrize("name", ["complex", "sizes that differ", "without memory"])
def test_it_is_refused_on_other_threads_too(name):
    found = []

    def run():
        with pytest.raises(RuntimeError, match=REFUSED[name][1]):
            REFUSED[name][0]()
        found.append(name)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4


def test_a_lazy_negative_is_resolved_also_where_it_is_written():
    z = torch.view_as_complex(torch.randn(3, 2))
    x = torch.imag(z.conj())
    assert x.is_neg()
    torch.testing.assert_close(ops.silu(x), torch.nn.functional.silu(x.clone()))
    ops.silu(torch.ones(3), out=x)
    torch.testing.assert_close(x.clone(), torch.nn.functional.silu(torch.ones(3)))


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 4), (1, 1, 1, 1, 1, 1, 1, 1)])
def test_shapes_at_the_edge_work(shape):
    x = torch.randn(shape)
    torch.testing.assert_close(ops.silu(x), torch.nn.functional.silu(x))


def test_misaligned_and_strided_memory_works():
    raw = bytearray(1 + 4 * 8)
    x = torch.frombuffer(raw, dtype=torch.float32, offset=1)
    x.copy_(torch.arange(8.0))
    for view in (x, x[::3], x.expand(3, 8), x.view(2, 4).t(), x.as_strided((3, 2), (1, 1))):
        torch.testing.assert_close(ops.silu(view), torch.nn.functional.silu(view.clone()))


def test_a_subclass_stays_one():
    class Mine(torch.Tensor):
        pass

    assert type(ops.silu(X.as_subclass(Mine))) is Mine


AT_EXIT = """
import atexit, torch, pto.torch
x = torch.ones(3)
torch.ops.pto.silu(x)
done = []
atexit.register(lambda: done.append(torch.ops.pto.silu(x)))
class Late:
    def __del__(self):
        try:
            torch.ops.pto.silu(x)
        except BaseException:
            pass
late = Late()
print("ended")
"""


def test_a_call_while_the_interpreter_ends_does_no_harm():
    done = children.run("-c", AT_EXIT)
    assert done.returncode == 0 and done.stdout.strip() == "ended", done.stderr
