// SPDX-License-Identifier: Apache-2.0
// The table of abi/aten.h over PyTorch's dispatcher: operators by name, and boxed calls of them.
//
// A call runs below autograd, as PyTorch's own kernels call each other. An `out` of another size
// than the result is refused: a run of the Meta kernel, which computes no elements, tells the size.
// Where that kernel is wrong or missing, the elements go through tensors of the call's own.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/DLConvertor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <torch/version.h>

#include <pthread.h>

#include <array>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "pto/adapters/torch/aten/plans.hpp"
#include "pto/adapters/torch/aten/values.hpp"
#include "pto/aten.hpp"

namespace pto::torch_adapter {
namespace {

thread_local std::string last_error;

pto_aten_operator made_of(c10::OperatorHandle handle) {
  const c10::FunctionSchema& schema = handle.schema();
  const bool keeps_sizes = !handle.hasTag(at::Tag::inplace_view);
  const Thunk* const thunk = keeps_sizes ? find_thunk(handle.operator_name()) : nullptr;
  pto_aten_operator made{handle, c10::toString(schema), {}, thunk};
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& one = schema.arguments()[i];
    if (one.kwarg_only() && one.alias_info() && one.alias_info()->isWrite())
      made.outputs.push_back(i);
  }
  return made;
}

// Every operator that was asked for, and the names of all. A fork waits until no thread searches.
class Operators {
 public:
  Operators();
  const pto_aten_operator* find(std::string name) {
    if (name.find("::") == std::string::npos) name = "aten::" + name;
    const std::lock_guard lock(mutex_);
    const auto known = found_.find(name);
    if (known != found_.end()) return &known->second;
    const size_t dot = name.find('.', name.find("::"));
    const std::string overload = dot == std::string::npos ? "" : name.substr(dot + 1);
    const auto handle = c10::Dispatcher::singleton().findSchema({name.substr(0, dot), overload});
    if (!handle) return nullptr;
    return &found_.emplace(name, made_of(*handle)).first->second;
  }
  const std::vector<std::string>& names() {
    const std::lock_guard lock(mutex_);
    if (names_.empty())
      for (const c10::OperatorName& one : c10::Dispatcher::singleton().getAllOpNames())
        if (one.name.starts_with("aten::")) names_.push_back(c10::toString(one));
    return names_;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, pto_aten_operator> found_;
  std::vector<std::string> names_;
};

Operators& operators() {
  static auto* all = new Operators;  // outlives what runs while the process ends
  return *all;
}

Operators::Operators() {
  pthread_atfork([] { operators().mutex_.lock(); }, [] { operators().mutex_.unlock(); },
                 [] { operators().mutex_.unlock(); });
}

// Finds an operator among those that this thread asked for last, or among all.
const pto_aten_operator* find(const char* name) {
  struct Asked {
    std::string name;
    const pto_aten_operator* op = nullptr;
  };
  static thread_local std::array<Asked, 64> asked;
  const std::string_view text = name;
  Asked& last = asked[std::hash<std::string_view>()(text) % asked.size()];
  if (last.op && last.name == text) return last.op;
  const pto_aten_operator* const op = operators().find(name);
  if (op) last = {std::string(text), op};
  return op;
}

bool has_kernel(const pto_aten_operator& op) {
  return op.handle.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
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
  bool are_tensors = !op.outputs.empty();
  for (const size_t i : op.outputs) are_tensors &= stack[i].isTensor();
  if (are_tensors && !outputs_fit(op, stack)) return run_with_copies(op, stack);
  keep_plan(call, stack_of(op, call.given, call.n));  // with tensors of its own
  op.handle.callBoxed(stack);
}

// Runs f and returns what it returns; -1 with a text where it throws.
template <class F>
int32_t guarded(F f) {
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
    try {
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
               type.bits};
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
      .count = [] { return static_cast<int32_t>(operators().names().size()); },
      .at = [](int32_t i) -> const pto_aten_operator* {
        const auto& names = operators().names();
        if (i < 0 || i >= static_cast<int32_t>(names.size())) return nullptr;
        return operators().find(names[i]);
      },
      .find = find,
      .schema = [](const pto_aten_operator* op) { return op->schema.c_str(); },
      .has_kernel = [](const pto_aten_operator* op) -> int32_t { return has_kernel(*op); },
      .call = call,
      .release = [](pto_aten_value* value) { release(*value); },
      .share = [](const pto_aten_value* value) { return share(*value); },
      .describe = describe,
      .generator = [](uint64_t seed) { return value_of(at::detail::createCPUGenerator(seed)); },
      .error = [] { return last_error.c_str(); }};
  return &table;
}

extern "C" __attribute__((visibility("default"))) const char* pto_aten_build_id() {
  static const std::string id = pto::aten::build_id();
  return id.c_str();
}
