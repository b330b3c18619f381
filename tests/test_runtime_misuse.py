# SPDX-License-Identifier: Apache-2.0
"""Tests users' mistakes at level chip: each is an error with what, why and fix, never a crash."""

import re

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import pto

KERNEL = """
#include <pto/pto-inst.hpp>
using namespace pto;
__global__ __aicore__ void Add(__gm__ float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] += 1;
}
PTO_KERNEL(add, Add)
"""
ORCH = """
#include <pto/runtime.h>
extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* a) {
  pto::Orchestration o(rt, a);
  auto x = o.inout(0);
  pto::TaskOptions options;
  pto::View none;
  switch (o.integer(0)) {
    case 1: o.tensor({4}, pto::ElementType{0, 0}); break;
    case 2: o.tensor({4}, pto::ElementType{2, 4}); break;
    case 3: o.wait(none); break;
    case 4: o.read<float>(none); break;
    case 5: options.condition = &none; o.submit("add", {o.out(x), o.scalar(1)}, options); break;
    case 6: options.compare = 77, options.condition = &x;
            o.submit("add", {o.out(x), o.scalar(1)}, options); break;
    case 7: options.blocks = 2147483647; o.submit("add", {o.out(x), o.scalar(1)}, options); break;
    case 8: options.blocks = -3; o.submit("add", {o.out(x), o.scalar(1)}, options); break;
    case 9: x.reshape({-2, -2}); break;
    case 10: o.tensor({-1}, pto::element::f32); break;
    case 11: options.after = {12345}; o.submit("add", {o.out(x), o.scalar(1)}, options); break;
  }
  o.submit("add", {o.inout(x), o.scalar(x.numel())});
  return 0;
}
"""


@pytest.fixture(scope="module")
def rt():
    with pto.Runtime() as rt:
        rt.register("p", orch=ORCH, kernels=[{"source": KERNEL}])
        yield rt


@pytest.fixture(autouse=True)
def _is_usable_afterwards(rt):
    yield
    x = np.zeros(4, np.float32)
    rt.run("p", [pto.Arg.inout(x), pto.Arg.scalar(0)])
    assert (x == 1).all()


def refused(kind, text, call):
    with pytest.raises(kind, match=text) as raised:
        call()
    assert isinstance(raised.value, pto.Error) and re.search("why: .*\n.*fix: ", str(raised.value))


@pytest.mark.parametrize("number, text", [
    (1, "an element type of code 0 and 0 bits"),
    (2, "an element type of code 2 and 4 bits"),
    (3, "the tensor that is waited for is no tensor of this run"),
    (4, "read<T>\\(\\): the size of T is 32 bits, that of an element is 0, and the number"),
    (5, "the element of a condition is no tensor of this run"),
    (6, "a condition has the comparison 77"),
    (7, "a task of 2147483647 blocks"),
    (8, "a task of -3 blocks"),
    (9, "reshape\\(\\) of 4 elements to"),
    (10, "a dimension of -1"),
    (11, "is to follow task 12345"),
])  # fmt: skip
def test_mistakes_of_orchestrations_end_the_run_with_a_text(rt, number, text):
    args = [pto.Arg.inout(np.zeros(4, np.float32)), pto.Arg.scalar(number)]
    refused(RuntimeError, text, lambda: rt.run("p", args, deadline=5.0))


@pytest.mark.parametrize("deadline", [None, 60.0])
def test_a_failed_run_tells_its_own_error_also_where_its_trace_cannot_be_written(rt, deadline):
    rt.trace("/dev/null/t.json")
    try:
        args = [pto.Arg.inout(np.zeros(4, np.float32)), pto.Arg.scalar(8)]
        refused(RuntimeError, "a task of -3 blocks", lambda: rt.run("p", args, deadline=deadline))
    finally:
        rt.trace(None)


@pytest.mark.parametrize("make", [pto.Arg.input, pto.Arg.output, pto.Arg.inout])
def test_an_array_whose_memory_begins_before_it_is_refused(rt, make):
    x = np.zeros((4, 4), np.float32)
    for view in (x[0][::-1], x[::-1], x[:, ::-2], memoryview(x[0])[::-1]):
        args = [make(view), pto.Arg.scalar(0)]
        refused(ValueError, "argument 0 has the stride -", lambda a=args: rt.run("p", a))
    assert not x.any()


@pytest.mark.parametrize("level", ["chip", "host"])
def test_a_tensor_whose_storage_was_resized_is_refused(rt, level):
    x = torch.zeros(4096)
    arg = pto.Arg.inout(x)
    x.untyped_storage().resize_(0)
    text = "a torch tensor of 16384 bytes, whose storage has 0"
    if level == "chip":
        refused(ValueError, text, lambda: rt.run("p", [arg, pto.Arg.scalar(0)]))
        refused(ValueError, text, lambda: rt.run("p", [pto.Arg.inout(x), pto.Arg.scalar(0)]))
        x.untyped_storage().resize_(16384)
        x.zero_()
        rt.run("p", [arg, pto.Arg.scalar(0)])
        assert (x == 1).all()
        return
    kernels = {"add": pto.compile(kernels=[{"source": KERNEL}])}
    with pto.Runtime(level="host", devices=[0], memory=1 << 22) as host:
        args = [arg, pto.Arg.scalar(1)]
        host.register("p", orch=lambda ctx, _: ctx.submit(0, "add", args) and None, kernels=kernels)
        refused(ValueError, text, lambda: host.run("p"))


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
def test_a_tensor_that_only_stands_for_others_is_refused(rt):
    with FakeTensorMode():
        fake = torch.ones(4)
    refused(ValueError, "argument 0 has elements but no memory",
            lambda: rt.run("p", [pto.Arg.input(fake), pto.Arg.scalar(0)]))  # fmt: skip


@pytest.mark.parametrize("options, text", [
    ({"workers": 100000}, "workers is 100000"),
    ({"workers": 1024}, "1024 workers and a window of 4096 tasks"),
    ({"workers": -1}, "workers is -1"),
    ({"workers": 1.0}, "workers is 1.0"),
    ({"window": 2**30}, "window is 1073741824"),
    ({"window": 2**20, "workers": 64}, "64 workers and a window of 1048576"),
    ({"window": 0}, "window is 0"),
    ({"device": 2**40}, "device is 1099511627776"),
    ({"window": None}, "window is None"),
])  # fmt: skip
def test_sizes_that_no_machine_has_are_refused(options, text):
    refused(ValueError, text, lambda: pto.Runtime(**options))


@pytest.mark.parametrize("name", [[1], {}, None, b"p", 3, ("p",)])
def test_a_name_is_a_text(rt, name):
    for call in (rt.run, rt.submit, rt.capture, rt.check):
        refused(TypeError, "the name of a program is a str", lambda c=call: c(name, []))
    refused(TypeError, "register: the name", lambda: rt.register(name, orch=ORCH, kernels=[]))


@pytest.mark.parametrize("path", [5, b"t.json", ["t.json"]])
def test_a_trace_goes_to_a_path(rt, path):
    text = f"trace: the path is {path!r}, of type {type(path).__name__}"
    refused(TypeError, re.escape(text), lambda: rt.trace(path))


@pytest.mark.parametrize("path", ["", "a\0b.json"])
def test_a_trace_goes_to_a_name_that_a_file_can_have(rt, path):
    refused(ValueError, re.escape(f"trace: the path is {path!r}"), lambda: rt.trace(path))


@pytest.mark.parametrize("kind", ["input", 9, -1, None, [], float("nan"), 1.5, object()])
def test_an_unknown_param_type_names_those_that_exist(kind):
    refused(ValueError, r"the types are ParamType.SCALAR \(0\)", lambda: pto.Arg(kind, np.ones(3)))


def test_a_timeout_is_a_number(rt):
    run = rt.submit("p", [pto.Arg.inout(np.zeros(4, np.float32)), pto.Arg.scalar(0)])
    for wrong in (float("nan"), "1", True, [], 1j):
        refused(ValueError, "timeout is ", lambda w=wrong: run.wait(w))
        refused(ValueError, "timeout is ", lambda w=wrong: run.result(w))
    assert run.wait(10**400) and run.wait(float("inf")) and run.wait(-1) in (True, False)
    assert run.wait(np.float32(9)) and run.wait(np.int64(9))


@pytest.mark.parametrize("deadline", [float("nan"), float("inf"), 10**400, 1e10, -1, 0, "1", True])
def test_a_deadline_is_a_number_of_seconds(rt, deadline):
    args = [pto.Arg.inout(np.zeros(4, np.float32)), pto.Arg.scalar(0)]
    refused(ValueError, "deadline is ", lambda: rt.run("p", args, deadline=deadline))
    rt.run("p", args, deadline=np.float32(60))
