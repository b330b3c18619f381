# SPDX-License-Identifier: Apache-2.0
"""Scalars of runs and tasks keep their kind: a kernel gets the number that was meant, or none."""

import numpy as np
import pytest

import pto

KERNELS = """
#include <pto/pto-inst.hpp>
using namespace pto;
__global__ __aicore__ void FillReal(__gm__ double* x, float f, double d) { x[0] = f; x[1] = d; }
PTO_KERNEL(real, FillReal)
__global__ __aicore__ void FillWhole(__gm__ int64_t* x, int64_t i, uint8_t b) {
  x[0] = i;
  x[1] = b;
}
PTO_KERNEL(whole, FillWhole)
"""
# The first scalar chooses how the others reach the kernel.
ORCH = """
#include <pto/runtime.h>
extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* a) {
  pto::Orchestration o(rt, a);
  auto x = o.out(o.output(0));
  switch (o.integer(0)) {
    case 0: o.submit("real", {x, o.scalar(1), o.scalar(uint16_t(2))}); break;
    case 1: o.submit("whole", {x, o.scalar(4.0), o.scalar(1)}); break;
    case 2: o.submit("real", {x, o.scalar(o.integer(1)), o.scalar(o.number(1))}); break;
    case 3:
      o.submit("real", {x, o.scalar(o.symbol(1) * 2), o.scalar(o.symbol<double>(1) / 2)});
      break;
    case 4: o.submit("whole", {x, o.scalar(o.symbol(1)), o.scalar(o.symbol(1) - 1)}); break;
    case 5: o.submit("real", {x, o.scalar(o.number(1)), o.scalar(o.number(1))}); break;
    case 6: o.submit("whole", {x, o.scalar(o.symbol<double>(1)), o.scalar(1)}); break;
  }
  return 0;
}
"""


@pytest.fixture(scope="module")
def rt():
    kernels = [{"source": KERNELS, "symbol": name} for name in ("real", "whole")]
    with pto.Runtime() as rt:
        rt.register("own", orch=ORCH, kernels=kernels)
        package = pto.compile(orch=ORCH, kernels=kernels)
        rt.register("loaded", pkg=pto.CompiledPackage.from_bytes(package.to_bytes()))
        yield rt


def scalars(*values):
    return [v if isinstance(v, pto.Arg) else pto.Arg.scalar(v) for v in values]


def run(rt, name, dtype, *values):
    x = np.full(2, 77, dtype)
    rt.run(name, [pto.Arg.output(x), *scalars(*values)])
    return x.tolist()


@pytest.mark.parametrize("name", ["own", "loaded"])
@pytest.mark.parametrize("values, dtype, expected", [
    ((0,), "float64", [1, 2]),
    ((2, 3), "float64", [3, 3]),
    ((3, 8), "float64", [16, 4]),
    ((4, 7), "int64", [7, 6]),
    ((5, 6), "float64", [6, 6]),
    ((5, 0.5), "float64", [0.5, 0.5]),
    ((5, np.float32(0.1)), "float64", [float(np.float32(0.1))] * 2),
])  # fmt: skip
def test_an_integer_reaches_a_float_as_that_number(rt, name, values, dtype, expected):
    assert run(rt, name, dtype, *values) == expected


@pytest.mark.parametrize("name", ["own", "loaded"])
@pytest.mark.parametrize("values, text", [
    ((1,), r"whole: scalar 0 is 4 \(float64\), its parameter is i64"),
    ((2, 2**24 + 1), r"real: scalar 0 is 16777217 \(int64\), its parameter is f32"),
    ((2, 4.0), r"integer\(\) of scalar 1, which is 4 \(float64\)"),
    ((2, 2**53 + 1), r"number\(\) of scalar 1, which is 9007199254740993 \(int64\)"),
    ((3, 2.5), r"symbol<int64_t>\(\) of scalar 1, which is 2.5 \(float64\)"),
    ((3, 2**24 + 1), r"real: scalar 0 is 33554434 \(int64\), its parameter is f32"),
    ((6, 1.0), r"whole: scalar 0 is 1 \(float64\), its parameter is i64"),
])  # fmt: skip
def test_what_does_not_convert_is_a_type_error(rt, name, values, text):
    with pytest.raises(TypeError, match=text + "(.|\n)*why: (.|\n)*fix: "):
        run(rt, name, "float64", *values)
    assert run(rt, name, "float64", 0) == [1, 2]  # the runtime is usable


def test_a_number_that_its_parameter_cannot_hold_is_refused_at_the_submission(rt):
    with pytest.raises(
        RuntimeError, match=r"whole: scalar 1 is 299 \(int64\), its parameter is u8"
    ):
        run(rt, "own", "int64", 4, 300)


def test_a_graph_converts_what_each_replay_computes(rt):
    x = np.zeros(2)
    args = lambda n: [pto.Arg.output(x), *scalars(3, n)]  # noqa: E731
    graph = rt.capture("own", args(4))
    graph.replay(args(9))
    assert x.tolist() == [18, 4.5]
    with pytest.raises(TypeError, match="real: scalar 0 is 67108866 "):
        graph.replay(args(2**25 + 1))
    graph.replay(args(1))
    assert x.tolist() == [2, 0.5]
    with pytest.warns(RuntimeWarning, match="captured anew"), pytest.raises(TypeError):
        graph.replay(args(1.5))  # another kind: symbol<int64_t>() of a float


HOST_ORCH = """
#include <pto/runtime.h>
extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* a) {
  pto::Orchestration o(rt, a);
  o.submit("real", {o.out(o.output(0)), o.scalar(o.number(0)), o.scalar(o.integer(0))});
  return 0;
}
"""


def python_kernel(x, whole, real):
    x[:] = [isinstance(whole, int) and whole, isinstance(real, float) and real]


def test_kinds_travel_to_the_workers_of_level_host():
    real = {"source": KERNELS, "symbol": "real"}
    kernels = {
        "one": pto.compile(kernels=[real]),
        "whole": pto.compile(kernels=[{"source": KERNELS, "symbol": "whole"}]),
        "many": pto.compile(orch=HOST_ORCH, kernels=[real]),
        "python": python_kernel,
    }

    def orch(ctx, given):
        ctx.submit(0, given[1], [pto.Arg.output(given[0]), *scalars(*given[2:])])

    def run(dtype, *given):
        x = np.zeros(2, dtype)
        rt.run("p", [x, *given])
        return x.tolist()

    with pto.Runtime(level="host", devices=[0], memory=1 << 24) as rt:
        rt.register("p", orch=orch, kernels=kernels)
        assert run("float64", "one", 1, 2) == [1, 2]
        assert run("float64", "one", 0.5, 2) == [0.5, 2]
        assert run("int64", "whole", 7, 255) == [7, 255]
        assert run("float64", "many", 3) == [3, 3]
        assert run("float64", "python", 3, 0.25) == [3, 0.25]
        with pytest.raises(TypeError, match=r"whole: scalar 0 is 4 \(float64\)"):
            run("int64", "whole", 4.0, 1)
        with pytest.raises(RuntimeError, match=r"integer\(\) of scalar 0, which is 0.5"):
            run("float64", "many", 0.5)
        assert run("float64", "one", 1, 2) == [1, 2]
