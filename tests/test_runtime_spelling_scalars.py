# SPDX-License-Identifier: Apache-2.0
"""Scalars in the public spelling of orchestrations: floats that are read and passed on as bits."""

import struct

import numpy as np
import pytest

import pto

TYPED = """
#include <pto/pto-inst.hpp>
using namespace pto;
__global__ __aicore__ void Whole(__gm__ int64_t* x, int64_t i, uint8_t b) {
  x[0] = i;
  x[1] = b;
}
PTO_KERNEL(whole, Whole)
union Bits { double real; int64_t bits; };
__global__ __aicore__ void Show(__gm__ int64_t* x, float f, double d) {
  x[0] = Bits{f}.bits;
  x[1] = Bits{d}.bits;
}
PTO_KERNEL(show, Show)
"""
PUBLIC = """
#include "orchestration_api.h"
namespace {
void in_graph(const CoreTaskArgs& given) {
  CoreTaskArgs task;
  task.add_output(given.tensor(0));
  uint64_t s = given.scalar(0), d = given.scalar(1);
  task.add_scalar(s, d);
  rt_submit_aiv_task(0, task);
}
}  // namespace
extern "C" void aicpu_orchestration_entry(const ChipTaskArgs& args) {
  CoreTaskArgs task;
  task.add_output(args.tensor(0).ref());
  const float f = args.scalar<float>(1);
  const double d = args.scalar<double>(1);
  uint64_t s = args.scalar(1), seen = args.scalar(1);
  switch (args.scalar<int32_t>(0)) {
    case 0: task.add_scalar(s, seen); break;
    case 1: task.add_scalar(f, d); break;
    case 2: task.add_scalar(f, d); in_graph(task); return;
    case 3: task.add_scalar(to_u64(f), to_u64(d)); break;
    case 4: task.add_scalar(int(3), uint32_t(4)); break;
    case 5: rt_submit_aiv_task(1, (task.add_scalar(s, 1), task)); return;
    case 6: task.add_scalar(args.scalar<uint32_t>(1) == uint32_t(s) ? 1.0f : 0.0f, 0.0); break;
  }
  rt_submit_aiv_task(0, task);
}
"""
SLOTS = """
#include <pto/pto-inst.hpp>
#include "tensor.h"
extern "C" __aicore__ void kernel_entry(__gm__ int64_t* args) {
  __gm__ Tensor* x = reinterpret_cast<__gm__ Tensor*>(args[0]);
  __gm__ int64_t* data = reinterpret_cast<__gm__ int64_t*>(x->buffer.addr);
  data[0] = args[1];
  data[1] = args[2];
}
"""


def bits(kind, value):
    return struct.unpack("Q" if kind == "d" else "I", struct.pack(kind, value))[0]


def run(rt, choice, given):
    x = np.full(2, 77, np.int64)
    rest = [v if isinstance(v, pto.Arg) else pto.Arg.scalar(v) for v in (choice, given)]
    rt.run("public", [pto.Arg.output(x), *rest])
    return [v % 2**64 for v in x.tolist()]


@pytest.fixture(scope="module", params=["typed", "slots"])
def public(request):
    first = {"source": TYPED, "symbol": "show"}
    if request.param == "slots":
        first = {"source": SLOTS, "name": "raw"}
    with pto.Runtime() as rt:
        kernels = [first, {"source": TYPED, "symbol": "whole"}]
        rt.register("public", orch=PUBLIC, kernels=kernels)
        rt.is_typed = request.param == "typed"
        yield rt


@pytest.mark.parametrize("choice, given, real, double", [
    (0, 0.1, "f", "f"),
    (0, -1.5, "f", "f"),
    (0, pto.Arg.scalar(0.1, dtype="float64"), "d", "d"),
    (0, np.float64(0.1), "f", "f"),
    (0, pto.Arg.scalar(0.1, dtype="float32"), "f", "f"),
    (1, 0.1, "f", "d"),
    (2, 0.1, "f", "d"),
    (3, 0.1, "f", "d"),
    (6, -0.25, "one", "zero"),
])  # fmt: skip
def test_public_orchestrations_pass_floats_as_bits(public, choice, given, real, double):
    value = given.data if isinstance(given, pto.Arg) else float(given)
    wanted = {"f": float(np.float32(value)), "d": value, "one": 1.0, "zero": 0.0}
    got = run(public, choice, given)
    if public.is_typed:
        typed = [float(np.float32(wanted[real])), wanted[double]]
        assert got == [bits("d", v) for v in typed]
    else:
        formats = {"f": "f", "d": "d", "one": "f", "zero": "d"}
        expected = [bits(formats[k], wanted[k]) for k in (real, double)]
        assert got == expected


def test_public_integers_are_numbers_and_a_uint64_is_bits(public):
    def seen(number, kind="d"):
        return bits("d" if public.is_typed else kind, number)

    assert run(public, 4, 0) == ([seen(3), seen(4)] if public.is_typed else [3, 4])
    given = bits("f", 2.5)  # passed to run() as an integer
    assert run(public, 0, given) == [seen(2.5, "f")] * 2
    assert run(public, 5, 0.1) == [bits("f", 0.1), 1]  # to an int64 parameter
    assert run(public, 1, 3) == [seen(3, "f"), seen(3)]


def test_a_float_that_no_float32_is_has_no_such_bits(public):
    with pytest.raises(RuntimeError, match=r"scalar<T>\(1\) of 1e\+300(.|\n)*why: (.|\n)*fix: "):
        run(public, 0, 1e300)
