# SPDX-License-Identifier: Apache-2.0
"""Orchestrations in the public spelling: aicpu_orchestration_entry and its names."""

from pathlib import Path

import numpy as np
import pytest

import pto

FOLDER = Path(__file__).parent / "chip"
TYPED = [
    {"source": FOLDER / "public_kernels.cpp", "symbol": symbol}
    for symbol in ("add", "add_constant", "mark", "scale")
]
# The same with descriptors of tensors and bits of scalars in the slots: kernel k takes so many
# tensors, then perhaps a float, and the count of elements.
BODY = """
#include <pto/pto-inst.hpp>

#include "tensor.h"
using namespace pto;
extern "C" __aicore__ void kernel_entry(__gm__ int64_t* args) {{
  __gm__ float* t[{tensors}];
  for (int k = 0; k < {tensors}; ++k) {{
    __gm__ Tensor* tensor = reinterpret_cast<__gm__ Tensor*>(args[k]);
    t[k] = reinterpret_cast<__gm__ float*>(tensor->buffer.addr) + tensor->start_offset;
  }}
  const float c = {has_c} ? from_u64<float>(uint64_t(args[{tensors}])) : 0;
  const int64_t n = args[{tensors} + {has_c}];
  for (int64_t i = get_block_idx(); i < n; i += get_block_num()) {statement};
}}
"""
SLOTS = [
    {"source": BODY.format(tensors=tensors, has_c=has_c, statement=statement), "name": name}
    for name, tensors, has_c, statement in (
        ("add", 3, 0, "t[2][i] = t[0][i] + t[1][i]"),
        ("add_constant", 2, 1, "t[1][i] = t[0][i] + c"),
        ("mark", 1, 1, "t[0][i] = c"),
        ("scale", 1, 1, "t[0][i] *= c"),
    )
]
DIAMOND, BY_HAND, GATED, DATA, VIEWS, GRAPH, FATAL, MISTAKEN = range(8)


@pytest.fixture(scope="module", params=[TYPED, SLOTS], ids=["typed", "slots"])
def package(request):
    return pto.compile(orch=FOLDER / "public.cpp", kernels=request.param)


@pytest.fixture(params=[1, 0], ids=["one worker", "all workers"])
def rt(request, package):
    with pto.Runtime(workers=request.param) as rt:
        rt.register("public", pkg=package)
        yield rt


def arguments(program, *arrays, scalars=()):
    return [*map(pto.Arg.inout, arrays), pto.Arg.scalar(program), *map(pto.Arg.scalar, scalars)]


def run(rt, program, *arrays, scalars=()):
    rt.run("public", arguments(program, *arrays, scalars=scalars))


def ramp(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_a_diamond_runs_from_tensors_that_the_runtime_makes(rt, package):
    assert package.orch_func == "aicpu_orchestration_entry"
    a, b, f = ramp(100), ramp(100) + 5, np.zeros(100, np.float32)
    run(rt, DIAMOND, a, b, f)
    np.testing.assert_array_equal(f, 2 * (a + b) + 3)


def test_manual_scopes_follow_the_dependencies_that_are_set(rt):
    x = ramp(64)
    run(rt, BY_HAND, x, scalars=[20])
    assert (x == 40).all()


def test_a_predicate_skips_a_task(rt):
    gate, x = np.array([1, 0, -3, 9], np.int32), np.ones((4, 8), np.float32)
    run(rt, GATED, gate, x)
    np.testing.assert_array_equal(x[:, 0], [10, 1, 1, 10])


def test_elements_are_read_after_their_writers_and_written_after_their_readers(rt):
    x, out = ramp(1000), np.zeros(1000, np.float32)
    run(rt, DATA, x, out)
    assert x[1] == 50 and out[1] == 1.5 and out[2] == np.float32(np.pi)


def test_views_blocks_and_mixed_tasks(rt):
    x = ramp(4, 6)
    run(rt, VIEWS, x)
    np.testing.assert_array_equal(x, np.array([[1], [1], [49], [1]], np.float32) + np.zeros((4, 6)))


def test_a_graph_of_the_public_spelling_is_called_where_it_stands(rt):
    x = ramp(10)
    run(rt, GRAPH, x)
    np.testing.assert_array_equal(x, 9 * ramp(10))


def test_a_captured_graph_replays(rt):
    a, b, f = ramp(100), ramp(100), np.zeros(100, np.float32)
    graph = rt.capture("public", arguments(DIAMOND, a, b, f))
    graph.replay(arguments(DIAMOND, a, b, f))
    np.testing.assert_array_equal(f, 2 * (a + b) + 3)
    with pytest.raises(RuntimeError, match="waits for a tensor while it is captured"):
        rt.capture("public", arguments(DATA, a, b))  # its initial value, and its elements


def test_a_fatal_error_ends_the_run_with_its_text(rt):
    x = ramp(10)
    with pytest.raises(RuntimeError, match="fatal error 42: no room for 9 pages"):
        run(rt, FATAL, x)
    np.testing.assert_array_equal(x, ramp(10))


@pytest.mark.parametrize("number, text", list(enumerate([
    r"get_ref\(1\) of 0 tensors",
    "a tensor of a scope that has ended",
    "a tensor that was made by its default constructor",
    r"dependency 0 of a task is TaskId::invalid\(\)",
    r"set_dependencies\(\) a second time",
    "a TensorCreateInfo that is no output",
    "a mixed task without a kernel",
    "one kernel on both vector cores",
    'kernel "77", which this orchestration has not',
    r"get_tensor_data\(\) of 8 bytes from elements of 4",
    "2 indices into a tensor of 1 dimensions",
    "an AUTO scope inside a MANUAL one",
    "the end of a scope that was not begun",
    r"tensor\(5\) of 1",
    r"scalar<T>\(2\) of 300",
    r"slice\(0, 1, 99, 1\) of 10 elements",
    r"set_predicate\(\) without a tensor",
    r"make_tensor_external\(\) of 44 bytes that lie in no argument",
])))  # fmt: skip
def test_mistakes_say_what_why_and_fix(rt, number, text):
    with pytest.raises(RuntimeError, match=text + "(.|\n)*why: (.|\n)*fix: "):
        run(rt, MISTAKEN, ramp(10), scalars=[number, 300])
    x = ramp(3)
    run(rt, GRAPH, x)  # the runtime is usable
    assert x[1] == 9


ENTRY = """
#include "pto_orchestration_api.h"
extern "C" PTO2OrchestrationConfig aicpu_orchestration_config(const ChipTaskArgs&) {
  return PTO2OrchestrationConfig{.expected_arg_count = 2};
}
extern "C" void mine(const ChipStorageTaskArgs& orch_args) {
  const uint32_t half[] = {2};
  Tensor first = from_tensor_arg(orch_args.tensor(0)).slice(0, 0, 2);
  Tensor second = make_tensor_external(orch_args.tensor(0).data_as<float>() + 2, half, 1);
  for (const Tensor& x : {first, second}) {
    L0TaskArgs args;
    args.add_inout(x);
    args.add_scalar(orch_args.scalar<float>(0));
    args.add_scalar(int64_t(x.numel()));
    rt_submit_aiv_task(3, args);
  }
}
"""


def test_an_entry_of_another_name_and_the_count_that_it_expects():
    package = pto.compile(orch=ENTRY, kernels=TYPED, orch_func="mine")
    loaded = pto.CompiledPackage.from_bytes(package.to_bytes())
    with pto.Runtime() as rt:
        rt.register("mine", pkg=loaded)
        x = ramp(4)
        rt.run("mine", [pto.Arg.inout(x), pto.Arg.scalar(0.5)])
        np.testing.assert_array_equal(x, ramp(4) / 2)
        with pytest.raises(RuntimeError, match="got 1 arguments\n.*config says 2"):
            rt.run("mine", [pto.Arg.inout(x)])
        with pytest.raises(RuntimeError, match="argument 0 has elements of type code 2, 64 bits"):
            rt.run("mine", [pto.Arg.inout(np.zeros(4)), pto.Arg.scalar(0.5)])
    with pytest.raises(ValueError, match="does not define aicpu_orchestration_entry"):
        pto.compile(orch=ENTRY, orch_func="aicpu_orchestration_entry")


def test_kernels_of_the_public_form_are_called_as_their_files(tmp_path):
    for kernel in SLOTS:
        (tmp_path / f"kernel_{kernel['name']}.cpp").write_text(kernel["source"])
    kernels = [{"source": path, "func_id": place, "core_type": "aiv"}
               for place, path in enumerate(sorted(tmp_path.glob("*.cpp")))]  # fmt: skip
    package = pto.compile(orch=FOLDER / "public.cpp", kernels=kernels)
    assert [kernel.name for kernel in package.kernels] == [
        "kernel_add", "kernel_add_constant", "kernel_mark", "kernel_scale",
    ]  # fmt: skip
