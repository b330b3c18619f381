// SPDX-License-Identifier: Apache-2.0
// Programs of test_runtime_spelling.py in the public spelling; the run's first scalar chooses one.
#include "orchestration_api.h"

#include <cstring>

namespace {

enum { ADD, ADD_CONSTANT, MARK, SCALE, LANE, LAST };

int64_t length(const ChipTensor& tensor) { return int64_t(tensor.numel()); }

TaskOutputTensors submit_add(const ChipTensor& x, float c, const TensorCreateInfo& info) {
  CoreTaskArgs args;
  args.add_input(x);
  args.add_output(info);
  args.add_scalar(c, length(x));
  return rt_submit_aiv_task(ADD_CONSTANT, args);
}

// f = (a + b + 1) + (a + b + 2), the sum in memory of the runtime.
void diamond(const ChipTaskArgs& given) {
  const ChipTensor &a = given.tensor(0).ref(), &b = given.tensor(1).ref();
  TensorCreateInfo info(a.shapes, a.ndims, a.dtype);
  CoreTaskArgs sum;
  sum.add_input(a, b);
  sum.add_output(info);
  sum.add_scalar(length(a));
  TaskOutputTensors sums = rt_submit_aiv_task(ADD, sum);
  const ChipTensor& s = sums.get_ref(0);
  PTO2_SCOPE() {
    TaskOutputTensors left = submit_add(s, 1.0f, info), right = submit_add(s, 2.0f, info);
    CoreTaskArgs last;
    last.add_input(left.get_ref(0), right.get_ref(0));
    last.add_output(given.tensor(2).ref());
    last.add_scalar(length(a));
    rt_submit_aic_task(ADD, last);
  }
}

// Marks a tensor 1 .. n one after another, though nothing is inferred; then doubles it.
void by_hand(const ChipTaskArgs& given) {
  const ChipTensor& x = given.tensor(0).ref();
  PTO2_SCOPE(PTO2ScopeMode::MANUAL) {
    PTO2TaskId last = PTO2TaskId::invalid();
    for (int64_t k = 1; k <= given.scalar<int32_t>(1); ++k) {
      CoreTaskArgs args;
      args.add_inout(x);
      args.add_scalar(float(k), length(x));
      if (last.is_valid()) args.set_dependencies(&last, 1);
      last = rt_submit_aiv_task(MARK, args).task_id();
    }
    CoreTaskArgs joint;
    joint.set_dependencies(&last, 1);
    CoreTaskArgsWithDeps<2> args;
    args.add_no_dep(x);
    args.add_scalar(2.0f, length(x));
    args.add_dep(rt_submit_dummy_task(joint).task_id(), last);
    rt_submit_aiv_task(SCALE, args);
  }
}

// Scales row k of x where gate[k] > 0.
void gated(const ChipTaskArgs& given) {
  const ChipTensor &gate = given.tensor(0).ref(), &x = given.tensor(1).ref();
  for (uint32_t k = 0; k < x.shapes[0]; ++k) {
    const uint32_t shape[] = {1, x.shapes[1]}, offset[] = {k, 0};
    CoreTaskPredicate predicate;
    predicate.operand.tensor = &gate;
    predicate.operand.ndims = 1;
    predicate.operand.indices[0] = k;
    predicate.op = PredicateOp::GT;
    CoreTaskArgs args;
    args.add_inout(x.view(shape, offset));
    args.add_scalar(10.0f, int64_t(x.shapes[1]));
    args.set_predicate(predicate);
    rt_submit_aiv_task(SCALE, args);
  }
}

// Reads what a task has written, and writes where tasks have read.
void data(const ChipTaskArgs& given) {
  const ChipTensor &x = given.tensor(0).ref(), &out = given.tensor(1).ref();
  TensorCreateInfo info(x.shapes, x.ndims, x.dtype);
  info.set_initial_value(0.5f);
  TaskOutputTensors fresh = alloc_tensors(info), sums;
  CoreTaskArgs args;
  args.add_input(x, fresh.get_ref(0));
  args.add_output(out);
  args.add_scalar(length(x));
  rt_submit_aiv_task(ADD, args);
  const uint32_t first[] = {0}, second[] = {1}, third[] = {2};
  const float value = get_tensor_data<float>(out, 1, first);
  set_tensor_data(x, 1, second, value * 100);  // after the task that has read it
  set_tensor_data(out, 1, third, uint64_t(0x40490fdb));
  if (get_tensor_data(out, 1, third) != 0x40490fdb) rt_report_fatal(7, "bits of %d", 3);
}

// A mixed task of two kernels, blocks, and views of each kind.
void views(const ChipTaskArgs& given) {
  const simpler::hbg::Tensor& x = given.tensor(0).ref();  // 4 x 6
  const uint32_t flat[] = {24}, order[] = {1, 0};
  CoreTaskArgs args;
  args.add_inout(x.reshape(flat, 1));
  args.add_scalar(1.0f, int64_t(24));
  args.launch_spec.set_block_num(3);
  rt_submit_task({INVALID_KERNEL_ID, MARK, SCALE}, args);
  const ChipTensor row = x.permute(order).transpose(0, 1).slice(0, 2, 3);
  CoreTaskArgs one;
  one.add_inout(row);
  one.add_scalar(7.0f, int64_t(6));
  rt_submit_task({MARK, SCALE, INVALID_KERNEL_ID}, one);
}

// Each vector core of each of two blocks writes its rows; the cube core waits for both.
void lanes(const ChipTaskArgs& given) {
  CoreTaskArgs args;
  args.add_inout(given.tensor(0).ref());
  args.launch_spec.set_block_num(2);
  args.launch_spec.set_require_sync_start(given.scalar<int32_t>(1) != 0);
  args.add_scalar(length(given.tensor(0).ref()));
  rt_submit_task({LAST, LANE, LANE}, args);
}

void tell(const CoreTaskArgs& args, int32_t times) {
  for (int32_t k = 0; k < times; ++k) rt_submit_aiv_task(SCALE, args);
}
void graph(const ChipTaskArgs& given) {
  GraphTaskArgs args;
  args.add_inout(given.tensor(0).ref());
  args.add_scalar(3.0f, length(given.tensor(0).ref()));
  rt_submit_graph(&tell, args, 2);
}

void fatal(const ChipTaskArgs& given) {
  rt_report_fatal(42, "no room for %d pages", 9);
  if (rt_is_fatal()) graph(given);  // does nothing
}

// Mistakes, by the second scalar: with tasks, then with tensors and scopes.
void mistaken_tasks(const ChipTaskArgs& given) {
  const uint32_t* const shape = given.tensor(0).shapes;
  TensorCreateInfo info(shape, 1);
  CoreTaskArgs args;
  TaskOutputTensors made;
  TaskId none = TaskId::invalid();
  switch (given.scalar<int64_t>(1)) {
    case 0:
      made.get_ref(1);
      break;
    case 1:
      PTO2_SCOPE() made = alloc_tensors(info);
      args.add_input(made.get_ref(0));
      rt_submit_aiv_task(MARK, args);
      break;
    case 2:
      args.add_input(ChipTensor());
      rt_submit_aiv_task(MARK, args);
      break;
    case 3:
      args.set_dependencies(&none, 1);
      rt_submit_dummy_task(args);
      break;
    case 4:
      args.set_dependencies(&none, 1);
      args.set_dependencies(&none, 1);
      rt_submit_dummy_task(args);
      break;
    case 5:
      args.add_inout(info);
      rt_submit_dummy_task(args);
      break;
    case 6:
      rt_submit_task({}, args);
      break;
    case 7:
      args.set_dependencies_with_kinds(&none, nullptr, 1);
      rt_submit_dummy_task(args);
      break;
    case 8:
      rt_submit_aiv_task(77, args);
      break;
    case 16:
      args.set_predicate({});
      rt_submit_dummy_task(args);
      break;
  }
}

void mistaken_tensors(const ChipTaskArgs& given) {
  const ChipTensor& x = given.tensor(0).ref();
  const uint32_t index[] = {0}, two[] = {0, 0};
  switch (given.scalar<int64_t>(1)) {
    case 9:
      get_tensor_data<double>(x, 1, index);
      break;
    case 10:
      get_tensor_data<float>(x, 2, two);
      break;
    case 11:
      PTO2_SCOPE(ScopeMode::MANUAL) { rt_scope_begin(); }
      break;
    case 12:
      rt_scope_end();
      break;
    case 13:
      given.tensor(5);
      break;
    case 14:
      given.scalar<int8_t>(2);
      break;
    case 15:
      x.slice(0, 1, 99);
      break;
    case 17: {
      const uint32_t longer[] = {11};
      make_tensor_external(x.data_as<float>(), longer, 1);
    }
  }
}

void mistaken(const ChipTaskArgs& given) {
  mistaken_tasks(given);
  mistaken_tensors(given);
}

}  // namespace

extern "C" {
__attribute__((visibility("default"))) void aicpu_orchestration_entry(const ChipTaskArgs& given) {
  void (*const programs[])(const ChipTaskArgs&) = {diamond, by_hand, gated,    data, views,
                                                   graph,   fatal,   mistaken, lanes};
  programs[given.scalar<int64_t>(0)](given);
}
}
