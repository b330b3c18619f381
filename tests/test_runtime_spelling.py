# SPDX-License-Identifier: Apache-2.0
"""Orchestrations in the public spelling: aicpu_orchestration_entry and its names."""

from pathlib import Path

import numpy as np
import pytest
import torch

import pto

FOLDER = Path(__file__).parent / "chip"
TYPED = [
    {"source": FOLDER / "public_kernels.cpp", "symbol": symbol}
    for symbol in ("add", "add_constant", "mark", "scale", "lane", "last")
]
# The same with descriptors of tensors and bits of scalars in the slots: kernel k takes so many
# tensors, then perhaps a float, and the count of elements.
BODY = """
#include <pto/pto-inst.hpp>

#include "tensor.h"
#include "intrinsic.h"
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
        (
            "lane",
            1,
            0,
            "if (i < 2) { t[0][4 * i + get_sub_block_id(args)] = 10 * get_subblockdim() "
            "+ get_subblockid(); ffts_cross_core_sync(PIPE_MTE3, _getFFTSMsg(2, 3)); }",
        ),
        (
            "last",
            1,
            0,
            "if (i < 2) { wait_flag_dev(3); t[0][4 * i + 2] = t[0][4 * i] + "
            "t[0][4 * i + 1]; t[0][4 * i + 3] = get_block_num(args); }",
        ),
    )
]
DIAMOND, BY_HAND, GATED, DATA, VIEWS, GRAPH, FATAL, MISTAKEN, LANES = range(9)


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


@pytest.mark.parametrize("together", [0, 1])
def test_the_cores_of_a_mixed_task_run_side_by_side_and_know_their_lane(rt, together):
    x = np.zeros((2, 4), np.float32)
    run(rt, LANES, x, scalars=[together])
    np.testing.assert_array_equal(x, [[20, 21, 41, 2]] * 2)
    graph = rt.capture("public", arguments(LANES, x, scalars=[together]))
    x[:] = 0
    graph.replay(arguments(LANES, x, scalars=[together]))
    np.testing.assert_array_equal(x, [[20, 21, 41, 2]] * 2)
    x[:] = 0
    rt.check("public", arguments(LANES, x, scalars=[together]))
    np.testing.assert_array_equal(x, [[20, 21, 41, 2]] * 2)


NAMES = """
#include "pto_arg_with_deps.h"
extern "C" void aicpu_orchestration_entry(const ChipTaskArgs& given) {
  static_assert(PTO2_ERROR_INVALID_ARGS == 5 && PTO2_ERROR_READY_QUEUE_OVERFLOW == 104, "");
  const ChipTensor& x = given.tensor(0);
  always_assert(rt_available_aiv_count() == 2 * rt_available_cluster_count());
  always_assert(PTO2TaskId::make(2, 7).ring() == 2 && PTO2TaskId::make(2, 7).local() == 7);
  const uint32_t shape[] = {8};
  TensorCreateInfo info(shape, 1);
  always_assert(info.buffer_size_bytes() == 32);
  CoreTaskArgs args;
  args.set_dependencies(nullptr, 4);
  always_assert(args.has_error && std::strstr(args.error_msg, "its count is 4") != nullptr);
  args.reset();
  always_assert(!args.has_error && args.error_msg == nullptr);
  args.copy_scalars_from(args, 1, INT32_MAX);
  always_assert(args.has_error && std::strstr(args.error_msg, "beyond the other") != nullptr);
  args.reset();
  const uint32_t beyond[] = {1u << 31, 1u << 31, 4};
  always_assert(TensorCreateInfo(beyond, 3).buffer_size_bytes() == UINT64_MAX);
  PTO2_SCOPE(PTO2ScopeMode::MANUAL) {
    TaskOutputTensors memory = alloc_tensors(info);
    args.add_inout(memory.get_ref(0));
    args.clear();
    args.add_output(memory.get_ref(0));
    args.add_scalar(2.0f, int64_t(8));
    args.launch_spec.set_core_num(2);
    PTO2TaskId first = rt_submit_aiv_task(2, args).task_id();
    const DepFlags kinds[] = {DEP_WAIT | DEP_RETAIN};
    CoreTaskArgs add;
    add.add_input(memory.get_ref(0), memory.get_ref(0));
    add.add_output(x);
    add.add_scalar(int64_t(8));
    add.set_dependencies_with_kinds(&first, kinds, 1);
    rt_submit_aiv_task(0, add);
  }
  always_assert(given.scalar_count() == 0);
}
extern "C" PTO2OrchestrationConfig aicpu_orchestration_config(const ChipTaskArgs&) { return {1}; }
"""


# The launch specification of one chip.
SPEC = """
#include "aicpu/cache_maintenance.h"
#include "orchestration_api.h"
#if PTO_CHIP != %d
#error "another chip"
#endif
// The guard of a header, by which sources know the runtime with the other name.
#ifdef SRC_A5_RUNTIME_TENSORMAP_AND_RINGBUFFER_RUNTIME_PTO_TYPES_H_
#define set_guarded_num set_core_num
#else
#define set_guarded_num set_block_num
#endif
extern "C" void aicpu_orchestration_entry(const ChipTaskArgs& given) {
  CoreTaskArgs args;
  args.launch_spec.set_%s_num(2);
  args.launch_spec.set_guarded_num(2);
  const ChipTensor& x = given.tensor(0).ref();
  for (volatile float* value = x.data_as<float>(); *value == 0; SPIN_WAIT_HINT())
    cache_invalidate_range(const_cast<float*>(value), sizeof(float));
  cache_flush_range(x.data_as<float>(), sizeof(float));
}
"""
EMPTY = 'extern "C" void kernel_entry(int64_t*) {\n}'


def test_names_of_public_orchestrations_and_memory_of_a_manual_scope():
    with pto.Runtime() as rt:
        rt.register("names", orch=NAMES, kernels=TYPED)
        x = np.zeros(8, np.float32)
        rt.run("names", [pto.Arg.output(x)])
        assert (x == 4).all()
        report = rt.check("names", [pto.Arg.output(x)])
        assert not report.races and not report.writes
        with pytest.raises(RuntimeError, match=r"always_assert\(given.scalar_count\(\) == 0\) of "
                                               r"\w+.cpp:\d+\n.*why: (.|\n)*fix: "):  # fmt: skip
            rt.run("names", [pto.Arg.output(x), pto.Arg.scalar(1)])
    graphs, rings = "host_build_graph", "tensormap_and_ringbuffer"
    for chip, names, runtime in [(1, "block", rings), (1, "block", graphs), (2, "core", rings),
                                 (2, "block", graphs)]:  # fmt: skip
        platform = "a2a3sim" if chip == 1 else "a5sim"
        pto.compile(platform, SPEC % (chip, names), [{"source": EMPTY}], runtime=runtime)
    with pytest.raises(RuntimeError, match="has no member named 'set_block_num'"):
        pto.compile("a5sim", SPEC % (2, "block"), [{"source": EMPTY}])


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
    r"get_ref\(1\), but the number of tensors that the runtime made is 0",
    "a tensor of a scope that has ended",
    "a tensor that was made by its default constructor",
    r"dependency 0 of a task is TaskId::invalid\(\)",
    r"set_dependencies\(\) a second time",
    "a TensorCreateInfo was added, but not as an output",
    "a mixed task without a kernel",
    r"set_dependencies_with_kinds\(\): kinds is null, but count is 1",
    'kernel "77", but this orchestration has no kernel of that name',
    r"get_tensor_data<T>\(\): the size of T is 8 bytes, that of an element is 4",
    "the number of indices is 2, but the tensor has rank 1",
    "an AUTO scope inside a MANUAL one",
    "the end of a scope that was not begun",
    r"tensor\(5\), but there are 1",
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
        with pytest.raises(RuntimeError, match="got too few arguments: 1 of at least 2\n"):
            rt.run("mine", [pto.Arg.inout(x)])
        with pytest.raises(RuntimeError, match="argument 0 has elements of type code 2, 64 bits"):
            rt.run("mine", [pto.Arg.inout(np.zeros(4)), pto.Arg.scalar(0.5)])
    with pytest.raises(ValueError, match="does not define aicpu_orchestration_entry"):
        pto.compile(orch=ENTRY, orch_func="aicpu_orchestration_entry")


def test_kernels_of_the_public_form_are_called_as_their_files(tmp_path):
    for kernel in SLOTS[:2]:
        (tmp_path / f"kernel_{kernel['name']}.cpp").write_text(kernel["source"])
    kernels = [{"source": path, "func_id": place, "core_type": "aiv"}
               for place, path in enumerate(sorted(tmp_path.glob("*.cpp")))]  # fmt: skip
    package = pto.compile(orch=FOLDER / "public.cpp", kernels=kernels)
    assert [kernel.name for kernel in package.kernels] == ["kernel_add", "kernel_add_constant"]


WRITES = """
#include "orchestration_api.h"
static void scale(const ChipTensor& x) {
  CoreTaskArgs args;
  args.add_inout(x);
  args.add_scalar(10.0f, int64_t(x.numel()));
  rt_submit_aiv_task(3, args);
}
static void twice(const ChipTensor& x, const ChipTensor& y) {
  CoreTaskArgs args;
  args.add_input(x, x);
  args.add_output(y);
  args.add_scalar(int64_t(x.numel()));
  rt_submit_aiv_task(0, args);
}
extern "C" void aicpu_orchestration_entry(const ChipTaskArgs& args) {
  const ChipTensor &x = args.tensor(0).ref(), &y = args.tensor(1).ref();
  const uint32_t n = x.shapes[0], half = n / 2, zero = 0;
  if (args.scalar(0) == 1) {
    PTO2_SCOPE() { scale(x); }
    return;
  }
  if (args.scalar(0) == 2) return twice(y.view(&n, &zero), x);
  twice(x, y.view(&n, &zero));
  scale(x.view(&half, &half));
  set_tensor_data(x, 1, &zero, 7.0f);
  always_assert(get_tensor_data<float>(x, 1, &zero) == 7);
  twice(x, y.view(&n, &n));
}
"""


@pytest.mark.parametrize("workers", [1, 0])
def test_a_public_orchestration_may_change_its_copy_of_an_input(workers, capfd):
    x, y = np.arange(1, 9, dtype=np.float32), np.zeros(16, np.float32)
    with pto.Runtime(workers=workers) as rt:
        rt.register("writes", orch=WRITES, kernels=TYPED)
        rt.run("writes", [pto.Arg.input(x), pto.Arg.output(y), pto.Arg.scalar(0)])
        assert x.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
        assert y.tolist() == [2 * v for v in [*x, 7, 2, 3, 4, 50, 60, 70, 80]]
        assert "a task changes tensor 0, an input of the run: a copy" in capfd.readouterr().err
        with pytest.raises(RuntimeError, match="writes an input of the run"):  # in a scope
            rt.run("writes", [pto.Arg.input(x), pto.Arg.output(y), pto.Arg.scalar(1)])
        rt.run("writes", [pto.Arg.input(x), pto.Arg.output(y), pto.Arg.scalar(2)])
        assert x.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


TYPES = """
#include "orchestration_api.h"
extern "C" void aicpu_orchestration_entry(const ChipTaskArgs& args) {
  const ChipTensor& x = args.tensor(0).ref();
  const uint32_t zero = 0;
  always_assert(int(x.dtype) == int(args.scalar(0)));
  always_assert(get_element_size(x.dtype) == args.scalar(1) && x.nbytes() == 64);
  if (x.dtype == DataType::FP8E8M0) set_tensor_data(x, 1, &zero, uint8_t(127));
}
"""


def test_element_types_have_the_public_names_in_the_public_order():
    names = "float32 float16 int32 int16 int8 uint8 bfloat16 int64 uint64 uint16 uint32 bool"
    narrow = " float8_e4m3fn float8_e8m0fnu float4_e2m1fn_x2"
    with pto.Runtime() as rt:
        rt.register("types", orch=TYPES, kernels=[{"source": EMPTY}])
        for place, name in enumerate((names + narrow).split()):
            x = torch.zeros(64, dtype=torch.uint8).view(getattr(torch, name))
            numbers = [pto.Arg.scalar(place), pto.Arg.scalar(x.element_size())]
            rt.run("types", [pto.Arg.inout(x), *numbers])
            assert x.view(torch.uint8)[0] == (127 if name == "float8_e8m0fnu" else 0)
        x = np.zeros(8, np.complex64)
        with pytest.raises(RuntimeError, match="type code 5, 64 bits\n.*DataType has no name"):
            rt.run("types", [pto.Arg.inout(x), pto.Arg.scalar(0), pto.Arg.scalar(8)])
