// SPDX-License-Identifier: Apache-2.0
// Custom operators beyond the public API: several kernels in one operator, lists, optional tensors,
// in place, outputs with strides, kernels of the file itself; and descriptions that are wrong.
#include <ATen/ops/empty_like.h>
#ifdef PTO_DEEP  // as older sources do; it takes ten seconds more
#include <torch/extension.h>
#endif

#include "hpu_custom_op.h"
#include "hpu_custom_op_pt2.h"
// The instruction set's last, since its Tensor is a name too.
#include <pto/pto-inst.hpp>

#include <atomic>
#include <chrono>
#include <thread>

#include "pto/operators/kernel_arguments.hpp"

namespace {

using habana::PartialOutputMetaDataVector;
using namespace habana::custom_op;

// A typed kernel on tiles.
using Vec = pto::isa::Tile<pto::isa::TileType::Vec, float, 1, 256>;
__global__ void scale_kernel(__gm__ float* out, __gm__ const float* x, float factor, int64_t n) {
  for (int64_t i = pto::isa::get_block_idx() * 256; i < n; i += 256 * pto::isa::get_block_num()) {
    Vec tile;
    pto::isa::TLOAD(tile, pto::isa::GlobalTensor(x + i));
    pto::isa::TMULS(tile, tile, factor);
    pto::isa::TSTORE(pto::isa::GlobalTensor(out + i), tile);
  }
}

int32_t scale(const pto_args* args) {  // x, out; factor, times, negate
  const pto::KernelArguments in(args);
  double factor = 1;
  for (int64_t i = 0; i < in.integer(1); ++i) factor *= in.real(0);
  if (args->scalars[2]) factor = -factor;
  const auto items = in.items(in.tensor(0).sizes[0]);
  for (int64_t i = items.first; i < items.last; ++i) {
    in.data<float>(1)[i] = static_cast<float>(factor) * in.data<const float>(0)[i];
  }
  return 0;
}
PTO_GUID("test_scale_f32", scale, PTO_GUID_SPLITS)

int32_t sum_of_list(const pto_args* args) {  // xs ..., bias or none, out
  const pto::KernelArguments in(args);
  const int bias = in.tensors() - 2, out = in.tensors() - 1;
  for (int64_t i = 0; i < in.tensor(out).sizes[0]; ++i) {
    float sum = in.is_absent(bias) ? 0 : in.data<const float>(bias)[i];
    for (int x = 0; x < bias; ++x) sum += in.data<const float>(x)[i];
    in.data<float>(out)[i] = sum;
  }
  return 0;
}
PTO_GUID("test_sum_of_list", sum_of_list, 0)

int32_t parts(const pto_args* args) {  // x, out ...
  const pto::KernelArguments in(args);
  const float* x = in.data<const float>(0);
  for (int part = 1; part < in.tensors(); ++part) {
    for (int64_t i = 0; i < in.tensor(part).sizes[0]; ++i) in.data<float>(part)[i] = *x++;
  }
  return 0;
}
PTO_GUID("test_parts_f32", parts, 0)

int32_t copy_element(const pto_args* args) {  // y[i] = x[n - 1 - i]: not elementwise
  const pto::KernelArguments in(args);
  const int64_t n = in.tensor(0).sizes[0];
  for (int64_t i = 0; i < n; ++i) in.data<float>(1)[i] = in.data<const float>(0)[n - 1 - i];
  return 0;
}
PTO_GUID("test_reverse", copy_element, 0)

PTO_GUID("test_taken", parts, 0)
PTO_GUID("test_taken", copy_element, 0)

// Waits until open_gate(): what is queued behind it cannot have run.
std::atomic<bool> gate_is_open{false};
int32_t wait_at_gate(const pto_args* args) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!gate_is_open.load()) {
    if (std::chrono::steady_clock::now() > end) {
      return pto::KernelArguments(args).fail("nobody opened the gate: the caller waits for it");
    }
    std::this_thread::yield();
  }
  return 0;
}
PTO_GUID("test_gate", wait_at_gate, 0)

int32_t throws(const pto_args*) { throw std::runtime_error("thrown by a kernel"); }
PTO_GUID("test_throws", throws, 0)

PartialOutputMetaDataVector like_first(const at::Stack& stack) {
  const at::Tensor x = stack[0].toTensor();
  return {{x.scalar_type(), x.sizes().vec()}};
}
PartialOutputMetaDataVector in_place(const at::Stack& stack) {
  const at::Tensor x = stack[0].toTensor();
  return {{x.scalar_type(), x.sizes().vec(), 0}};
}

bool register_all() {
  registerUserCustomOp("test::add", "add_fwd", like_first);
  registerUserCustomOp("test::relu", "relu_fwd", like_first);
  registerUserCustomOp("test::relu_", "relu_fwd", in_place);
  registerUserCustomOp("test::reverse_", "test_reverse", in_place);
  registerUserCustomOp("test::sum", "test_sum_of_list", [](const at::Stack& stack) {
    return PartialOutputMetaDataVector{{at::kFloat, stack[0].toTensorVector()[0].sizes().vec()}};
  });
  registerUserCustomOp("test::parts", "test_parts", [](const at::Stack& stack) {
    const int64_t n = stack[1].toInt();
    const int64_t each = stack[0].toTensor().size(0) / n;
    return PartialOutputMetaDataVector(static_cast<size_t>(n), {at::kFloat, {each}});
  });
  registerUserCustomOp("test::columns", "relu_fwd", [](const at::Stack& stack) {
    const at::Tensor x = stack[0].toTensor();
    return PartialOutputMetaDataVector{{x.scalar_type(), x.sizes().vec(), -1, {1, x.size(0)}}};
  });
  registerUserCustomOp("test::unknown", "no_such_kernel", like_first);
  registerUserCustomOp("test::taken", "test_taken", like_first);
  registerUserCustomOp("test::throws", "test_throws", like_first);
  registerUserCustomOp("test::gate", "test_gate", like_first);
  registerUserCustomOp("test::twice", "relu_fwd", like_first);
  registerUserCustomOp("test::twice", "relu_bwd", like_first);
  registerUserCustomOp("test::no_outputs", "relu_fwd", nullptr);
  const std::vector<InputDesc> scale{{input_type::SCALAR, 3},
                                     {input_type::TENSOR, 0},
                                     {input_type::SCALAR, 1},
                                     {input_type::SCALAR, 2}};
  const std::vector<OutputDesc> one{{0}};
  REGISTER_CUSTOM_OP_ATTRIBUTES("test::scale", "test_scale", scale, one, nullptr);
  const std::vector<InputDesc> repeated{{input_type::TENSOR, 0}, {input_type::TENSOR, 0}};
  REGISTER_CUSTOM_OP_ATTRIBUTES("test::repeated", "add_fwd", repeated, one, nullptr);
  return true;
}
const bool kIsRegistered = register_all();

std::vector<at::Tensor> run(const char* name, const std::vector<c10::IValue>& values) {
  return UserCustomOpDescriptor::getUserCustomOpDescriptor(name).execute(values);
}

at::Tensor named(const std::string& name, const at::Tensor& x) { return run(name.c_str(), {x})[0]; }

at::Tensor add_relu(const at::Tensor& x, const at::Tensor& y) {
  return run("test::relu", {run("test::add", {x, y})[0]})[0];
}
void relu_(at::Tensor& x) { run("test::relu_", {x}); }
void reverse_(at::Tensor& x) { run("test::reverse_", {x}); }
at::Tensor sum(const std::vector<at::Tensor>& xs, const std::optional<at::Tensor>& bias) {
  return run("test::sum", {xs, bias.has_value() ? c10::IValue(*bias) : c10::IValue()})[0];
}
std::vector<at::Tensor> cut(const at::Tensor& x, int64_t n) { return run("test::parts", {x, n}); }
at::Tensor scaled(const at::Tensor& x, double factor, int64_t times, bool negate) {
  const auto descriptor = HabanaCustomOpDescriptor::getCustomOpDescriptor("test::scale");
  TORCH_CHECK(descriptor.getInputsSize() == 4 && descriptor.getOutputsSize() == 1 &&
              descriptor.getGuid() == "test_scale" && !descriptor.hasUserParamsFunc() &&
              !descriptor.hasOutputShapeFunc(0));
  return descriptor.execute({x, factor, times, negate})[0];
}
at::Tensor of_other_api(const at::Tensor& x) {
  return HabanaCustomOpDescriptor::getCustomOpDescriptor("test::relu").execute({x})[0];
}
at::Tensor repeated(const at::Tensor& x) {
  return HabanaCustomOpDescriptor::getCustomOpDescriptor("test::repeated").execute({x})[0];
}
at::Tensor on_tiles(const at::Tensor& x, double factor) {
  at::Tensor out = at::empty_like(x);
  EXEC_KERNEL_CMD(scale_kernel, 3, out, x, static_cast<float>(factor), x.numel());
  return out;
}

void open_gate(bool open) { gate_is_open.store(open); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(custom_op_test, m) {
  m.def("open_gate(bool open) -> ()", open_gate);
  m.def("named(str name, Tensor x) -> Tensor");
  m.def("add_relu(Tensor x, Tensor y) -> Tensor");
  m.def("relu_(Tensor(a!) x) -> ()");
  m.def("reverse_(Tensor(a!) x) -> ()");
  m.def("sum(Tensor[] xs, Tensor? bias=None) -> Tensor");
  m.def("parts(Tensor x, int n) -> Tensor[]");
  m.def("scaled(Tensor x, float factor, int times, bool negate) -> Tensor");
  m.def("of_other_api(Tensor x) -> Tensor");
  m.def("repeated(Tensor x) -> Tensor");
  m.def("on_tiles(Tensor x, float factor) -> Tensor");
}
TORCH_LIBRARY_IMPL(custom_op_test, HPU, m) {
  m.impl("named", named);
  m.impl("add_relu", add_relu);
  m.impl("relu_", relu_);
  m.impl("reverse_", reverse_);
  m.impl("sum", sum);
  m.impl("parts", cut);
  m.impl("scaled", scaled);
  m.impl("of_other_api", of_other_api);
  m.impl("repeated", repeated);
  m.impl("on_tiles", on_tiles);
}
