// SPDX-License-Identifier: Apache-2.0
// The table of abi/aten.h over PyTorch's dispatcher: operators by name, and boxed calls of them.
//
// A call runs below autograd, as PyTorch's own kernels call each other. An `out` of another size
// than the result is refused: a run of the Meta kernel, which computes no elements, tells the size.
// Where that kernel is wrong or missing, the elements go through tensors of the call's own.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <torch/version.h>

#include <set>
#include <string>
#include <vector>

#include "pto/adapters/torch/aten/catalog.hpp"
#include "pto/adapters/torch/aten/places.hpp"
#include "pto/adapters/torch/aten/plans.hpp"
#include "pto/adapters/torch/aten/values.hpp"
#include "pto/adapters/torch/dlpack_types.hpp"
#include "pto/aten.hpp"

namespace pto::torch_adapter {
namespace {

thread_local std::string last_error;

// The name that find() did not find last; its text is made when error() is called.
thread_local std::string unknown_name;

const pto_aten_operator* find(const char* name) {
  const pto_aten_operator* const op = find_operator(name);
  if (!op) unknown_name = name;
  return op;
}

const char* error() {
  if (!unknown_name.empty()) last_error = why_unknown(unknown_name);
  unknown_name.clear();
  return last_error.c_str();
}

bool has_kernel(const pto_aten_operator& op) {
  return !op.is_gone && op.handle.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
}

Stack stack_of(const pto_aten_operator& op, const pto_aten_value* given, int32_t n) {
  const auto& arguments = op.handle.schema().arguments();
  if (n > static_cast<int32_t>(arguments.size()))
    throw Refused(std::to_string(n) + " arguments",
                  "the schema has " + std::to_string(arguments.size()) + ": " + op.schema,
                  "pass as many");
  Stack stack;
  stack.reserve(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool is_given = i < static_cast<size_t>(n) && given[i].kind != PTO_ATEN_LEFT_OUT;
    if (is_given)
      stack.push_back(ivalue(given[i], arguments[i]));
    else if (arguments[i].default_value())
      stack.push_back(*arguments[i].default_value());
    else
      throw Refused(arguments[i].name() + " is missing", "it has no default: " + op.schema,
                    "pass it");
  }
  return stack;
}

at::Tensor without_elements(const at::Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
}

c10::IValue without_elements(const c10::IValue& value) {
  if (value.isTensor() && value.toTensor().defined()) return without_elements(value.toTensor());
  if (!value.isTensorList()) return value;
  c10::List<at::Tensor> made;
  for (const at::Tensor& one : value.toTensorVector()) made.push_back(without_elements(one));
  return made;
}

// Empty tensors of the types of the outputs, which the kernel resizes.
std::vector<at::Tensor> fresh_outputs(const pto_aten_operator& op, Stack& stack,
                                      at::Device device) {
  std::vector<at::Tensor> made;
  for (const size_t i : op.outputs) {
    made.push_back(at::empty({0}, stack[i].toTensor().options().device(device)));
    stack[i] = made.back();
  }
  return made;
}

bool fits(const at::Tensor& given, const at::Tensor& made) {
  return given.sizes() == made.sizes() || (given.numel() == 0 && given.storage().resizable());
}

// Kernels that give their output the size of the input for a while, which lent memory cannot take.
const std::set<std::string> kResizeFirst = {"aten::huber_loss", "aten::mse_loss",
                                            "aten::smooth_l1_loss", "aten::soft_margin_loss"};

// Whether outputs have the sizes that the Meta kernel gives.
bool outputs_fit(const pto_aten_operator& op, const Stack& stack) {
  const std::string& name = op.handle.schema().name();
  if (kResizeFirst.contains(name)) return false;
  if (name == "aten::_compute_linear_combination") {  // no Meta kernel, and it never resizes
    at::DimVector sizes(stack[0].toTensor().sizes());
    if (!sizes.empty() && stack[1].toTensor().dim() > 0) sizes[0] = stack[1].toTensor().size(0);
    return stack[2].toTensor().sizes() == at::IntArrayRef(sizes);
  }
  Stack shapes;
  for (const c10::IValue& value : stack) shapes.push_back(without_elements(value));
  const std::vector<at::Tensor> made = fresh_outputs(op, shapes, at::kMeta);
  try {
    op.handle.callBoxed(shapes);
  } catch (const std::exception&) {
    return false;  // no Meta kernel, or a wrong call, which the kernel itself explains
  }
  for (size_t i = 0; i < made.size(); ++i)
    if (!fits(stack[op.outputs[i]].toTensor(), made[i])) return false;
  return true;
}

// Runs with outputs of its own, and copies their elements to those that were given.
void run_with_copies(const pto_aten_operator& op, Stack& stack) {
  std::vector<at::Tensor> given;
  for (const size_t i : op.outputs) given.push_back(stack[i].toTensor());
  const std::vector<at::Tensor> made = fresh_outputs(op, stack, at::kCPU);
  op.handle.callBoxed(stack);
  for (size_t i = 0; i < made.size(); ++i)
    if (!fits(given[i], made[i]))
      throw Refused(op.handle.schema().arguments()[op.outputs[i]].name() + " is " +
                        described(given[i]) + ", the result is " + described(made[i]),
                    "an output of another size would have to be resized",
                    "pass one of the size of the result, or an empty tensor of the library");
  stack.assign(given.begin(), given.end());
  for (size_t i = 0; i < made.size(); ++i) {
    if (given[i].sizes() != made[i].sizes()) given[i].resize_(made[i].sizes());
    given[i].copy_(made[i]);
  }
}

// Runs an operator on converted arguments, and keeps a plan for the next call like this.
void run(const Call& call, Stack& stack) {
  const pto_aten_operator& op = *call.op;
  if (!has_kernel(op))
    throw Refused(op.handle.schema().name() + " has no kernel for dense tensors of the CPU",
                  "PyTorch " TORCH_VERSION " has none", "call another operator");
  const bool is_shared = op.writes && needs_own_outputs(op, places_of(op, stack));
  check_outputs(op, stack);
  bool are_tensors = !op.outputs.empty();
  for (const size_t i : op.outputs) are_tensors &= stack[i].isTensor();
  if (are_tensors && (is_shared || !outputs_fit(op, stack))) return run_with_copies(op, stack);
  keep_plan(call, stack_of(op, call.given, call.n));  // with tensors of its own
  op.handle.callBoxed(stack);
}

// Runs f and returns what it returns; -1 with a text where it throws.
template <class F>
int32_t guarded(F f) {
  unknown_name.clear();
  try {
    return f();
  } catch (const c10::Error& error) {
    last_error = error.what_without_backtrace();
  } catch (const std::exception& error) {
    last_error = error.what();
  }
  return -1;
}

int32_t call(const pto_aten_operator* op, const pto_aten_value* arguments, int32_t n,
             pto_aten_value* results, int32_t room) {
  return guarded([&] {
    if (op->is_gone)
      throw Refused(op->schema + " is no operator of PyTorch any more",
                    "the library that registered it has ended since it was found",
                    "find it again, once it is registered");
    try {
      keep_to_own_threads();
      const at::AutoDispatchBelowADInplaceOrView below;
      const Call call{op, arguments, n};
      if (const int32_t made = run_planned(call, results, room); made != kNoPlan) return made;
      Stack stack = stack_of(*op, arguments, n);
      run(call, stack);
      return results ? write_results(op->handle.schema(), stack, results, room) : 0;
    } catch (const c10::Error& error) {
      throw Refused(op->handle.schema().name() +
                        ": PyTorch refuses the call: " + error.what_without_backtrace(),
                    "the schema is " + op->schema, "give arguments that its kernel takes");
    }
  });
}

int32_t describe(const pto_aten_object* object, pto_aten_memory* memory) {
  return guarded([&] {
    const at::Tensor& tensor = tensor_of(object);
    if (tensor.layout() != at::kStrided || !tensor.device().is_cpu())
      throw Refused("a tensor that is not dense on the CPU", "it has no one place in memory",
                    "call to_dense, or describe its parts");
    const DLDataType type = at::getDLDataType(tensor);
    *memory = {tensor.data_ptr(),
               tensor.sizes().data(),
               tensor.strides().data(),
               static_cast<int32_t>(tensor.dim()),
               type.code,
               type.bits,
               0};
    return 0;
  });
}

}  // namespace
}  // namespace pto::torch_adapter

extern "C" __attribute__((visibility("default"))) const pto_aten_library* pto_aten() {
  using namespace pto::torch_adapter;
  static const pto_aten_library table = {
      .abi_version = PTO_ATEN_ABI_VERSION,
      .torch_version = TORCH_VERSION,
      .count = [] { return static_cast<int32_t>(operator_names().size()); },
      .at = [](int32_t i) -> const pto_aten_operator* {
        const auto& names = operator_names();
        if (i < 0 || i >= static_cast<int32_t>(names.size())) return nullptr;
        return find_operator(names[static_cast<size_t>(i)].c_str());
      },
      .find = find,
      .schema = [](const pto_aten_operator* op) { return op->schema.c_str(); },
      .has_kernel = [](const pto_aten_operator* op) -> int32_t { return has_kernel(*op); },
      .call = call,
      .release = [](pto_aten_value* value) { release(*value); },
      .share = [](const pto_aten_value* value) { return share(*value); },
      .describe = describe,
      .generator = [](uint64_t seed) { return value_of(at::detail::createCPUGenerator(seed)); },
      .error = error};
  return &table;
}

extern "C" __attribute__((visibility("default"))) const char* pto_aten_build_id() {
  static const std::string id = pto::aten::build_id();
  return id.c_str();
}
