// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/torch/npu/fallback.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

#include "pto/adapters/torch/npu/alias.hpp"
#include "pto/adapters/torch/npu/generator.hpp"
#include "pto/adapters/torch/npu/placement.hpp"
#include "pto/adapters/torch/npu/registration.hpp"
#include "pto/device/npu/stream.hpp"

namespace pto::torch_npu {
namespace {

using c10::DispatchKey;
using torch::jit::Stack;

enum Kind : uint8_t { kOther, kTensor, kTensors, kOptionalTensors, kDevice, kGenerator };

Kind kind_of(const c10::Argument& argument) {
  const c10::TypePtr type = argument.real_type();
  const std::string text = type->str();
  if (text == "Tensor" || text == "Tensor?" || text == "Optional[Tensor]") return kTensor;
  if (text == "Tensor[]" || text == "List[Tensor]") return kTensors;
  if (text == "Tensor?[]" || text == "List[Optional[Tensor]]") return kOptionalTensors;
  if (text == "Device" || text == "Device?" || text == "Optional[Device]") return kDevice;
  if (text == "Generator" || text == "Generator?" || text == "Optional[Generator]") {
    return kGenerator;
  }
  return kOther;
}

// How to call one operator on the CPU, worked out once.
struct Plan {
  explicit Plan(const c10::OperatorHandle& op) : op(op), name(c10::toString(op.operator_name())) {
    bool has_generator = false;
    for (const c10::Argument& argument : op.schema().arguments()) {
      kinds.push_back(kind_of(argument));
      has_generator = has_generator || kinds.back() == kGenerator;
    }
    is_random = !has_generator && op.hasTag(at::Tag::nondeterministic_seeded);
    is_program = op.operator_name().name == "pto_program::run";
  }

  c10::OperatorHandle op;
  std::string name;  // as torch.npu.fallbacks() lists it
  std::vector<uint8_t> kinds;
  bool is_random;   // and takes no generator
  bool is_program;  // of the language: it has this way only, so it counts as no fallback
  std::atomic<int64_t> calls{0};
};

// One call: its arguments on the CPU, and its results back.
class FallbackCall {
 public:
  FallbackCall(Plan& plan, Stack* stack) : plan_(plan), stack_(stack), place_(plan.name) {}

  void run() {
    if (!plan_.is_program) plan_.calls.fetch_add(1, std::memory_order_relaxed);
    const size_t n = plan_.kinds.size();
    const size_t begin = stack_->size() - n;
    for (size_t i = 0; i < n; ++i) find_device((*stack_)[begin + i], plan_.kinds[i]);
    device_ = place_.device();
    current_stream(device_).wait();
    for (size_t i = 0; i < n; ++i) to_cpu((*stack_)[begin + i], plan_.kinds[i]);
    {
      const c10::DeviceGuard guard(npu());
      const at::AutoDispatchBelowADInplaceOrView below;
      std::optional<BorrowedGenerator> borrowed;
      if (plan_.is_random) borrowed.emplace(device_);
      plan_.op.redispatchBoxed(c10::DispatchKeySet(DispatchKey::CPU), stack_);
    }
    const size_t results = plan_.op.schema().returns().size();
    for (size_t i = stack_->size() - results; i < stack_->size(); ++i) from_cpu((*stack_)[i]);
    aliases_.write_back();
  }

 private:
  c10::Device npu() const { return {kNpu, static_cast<c10::DeviceIndex>(device_)}; }

  void find_device(const c10::IValue& value, uint8_t kind) {
    if (kind == kTensor && value.isTensor()) return place_.note(value.toTensor());
    if (kind == kTensors && value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) place_.note(tensor);
    } else if (kind == kDevice && value.isDevice()) {
      place_.note(value.toDevice());
    }
  }

  at::Tensor cpu(const at::Tensor& tensor) {
    return tensor.defined() && tensor.device().type() == kNpu ? aliases_.add(tensor) : tensor;
  }

  void to_cpu(c10::IValue& value, uint8_t kind) {
    if (value.isNone() && kind != kGenerator) return;
    switch (kind) {
      case kTensor:
        value = cpu(value.toTensor());
        break;
      case kTensors: {
        c10::List<at::Tensor> list;
        for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(cpu(tensor));
        value = std::move(list);
        break;
      }
      case kOptionalTensors: {
        c10::List<std::optional<at::Tensor>> list;
        for (const c10::IValue& item : value.toListRef()) {
          list.push_back(item.isNone() ? std::optional<at::Tensor>() : cpu(item.toTensor()));
        }
        value = std::move(list);
        break;
      }
      case kDevice:
        if (value.toDevice().type() == kNpu) value = c10::Device(c10::kCPU);
        break;
      case kGenerator:
        value = cpu_generator(value.isNone() ? default_generator(device_) : value.toGenerator());
        break;
      default:
        break;
    }
  }

  void from_cpu(c10::IValue& value) {
    if (value.isTensor()) {
      value = aliases_.wrap(value.toTensor(), device_);
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) {
        list.push_back(aliases_.wrap(tensor, device_));
      }
      value = std::move(list);
    }
  }

  Plan& plan_;
  Stack* stack_;
  Aliases aliases_;
  Placement place_;
  int device_ = 0;
};

// All plans, by requested name and by schema; they live as long as the process.
struct Plans {
  std::shared_mutex mutex;
  std::unordered_map<const c10::FunctionSchema*, std::unique_ptr<Plan>> by_schema;
  std::vector<Plan*> all;
};
Plans& plans() {
  static auto* const it = new Plans;
  return *it;
}

Plan& plan_of(const c10::OperatorHandle& op) {
  const c10::FunctionSchema* key = &op.schema();
  {
    const std::shared_lock lock(plans().mutex);
    if (const auto found = plans().by_schema.find(key); found != plans().by_schema.end()) {
      return *found->second;
    }
  }
  const std::unique_lock lock(plans().mutex);
  std::unique_ptr<Plan>& plan = plans().by_schema[key];
  if (!plan) {
    plan = std::make_unique<Plan>(op);
    plans().all.push_back(plan.get());
  }
  return *plan;
}

void fallback(const c10::OperatorHandle& op, Stack* stack) {
  FallbackCall(plan_of(op), stack).run();
}

// The fallback of one operator that already has its plan.
class FallbackKernel final : public c10::OperatorKernel {
 public:
  explicit FallbackKernel(Plan& plan) : plan_(plan) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, Stack* stack) {
    FallbackCall(plan_, stack).run();
  }

 private:
  Plan& plan_;
};

}  // namespace

std::vector<std::pair<std::string, int64_t>> fallback_counts() {
  std::vector<std::pair<std::string, int64_t>> counts;
  const std::shared_lock lock(plans().mutex);
  for (const Plan* plan : plans().all) {
    if (plan->calls > 0) counts.emplace_back(plan->name, plan->calls);
  }
  std::stable_sort(counts.begin(), counts.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return counts;
}

void reset_fallback_counts() {
  const std::shared_lock lock(plans().mutex);
  for (Plan* plan : plans().all) plan->calls = 0;
}

void register_fallback() {
  kernel_library("_", DispatchKey::PrivateUse1)
      .fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
  torch::Library& aten = kernel_library("aten", DispatchKey::PrivateUse1);
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op || !op->hasKernelForDispatchKey(DispatchKey::CPU) ||
        op->hasKernelForDispatchKey(DispatchKey::PrivateUse1) ||
        !op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional)) {
      continue;
    }
    const std::string full = c10::toString(name).substr(6);
    aten.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunctor(
                                std::make_unique<FallbackKernel>(plan_of(*op))));
  }
}

}  // namespace pto::torch_npu
