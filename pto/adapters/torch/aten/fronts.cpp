// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/torch/aten/fronts.hpp"

#include <c10/util/Exception.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

namespace pto::torch_adapter {
namespace {

// A wish for each front.
using Choice = std::vector<Wish>;

// A thread's choice. PyTorch's threads for gradients inherit such a value.
constexpr std::string_view kKindName = "pto.aten.enable";
constexpr c10::DebugInfoKind kKind(&kKindName);
struct ThreadChoice : c10::DebugInfoBase {
  ThreadChoice(Choice choice, int64_t its) : on(std::move(choice)), number(its) {}
  Choice on;
  int64_t number;  // of its enter()
};

std::atomic<const Choice*> process_choice{nullptr};
std::atomic<int32_t> threads_with_choice{0};  // enter() less leave()
std::atomic<FrontRunner> runner{nullptr};
thread_local bool is_running = false;

// The kernel of a SafeKernelFunction, whose only public call is boxed. Naming a private member in
// an explicit instantiation is allowed; this file is built for one PyTorch.
const c10::KernelFunction& kernel_of(const c10::SafeKernelFunction& function);
template <auto Member>
struct Opened {
  friend const c10::KernelFunction& kernel_of(const c10::SafeKernelFunction& function) {
    return function.*Member;
  }
};
template struct Opened<&c10::SafeKernelFunction::kernel_>;

// The functions of a KernelFunction for calls that are not boxed. PyTorch sets them only together
// with a boxed form of each, a template that takes most of the memory of a build.
void*& unboxed_of(c10::KernelFunction& kernel);
void*& symbolic_of(c10::KernelFunction& kernel);
template <auto Unboxed, auto Symbolic>
struct OpenedKernel {
  friend void*& unboxed_of(c10::KernelFunction& kernel) { return kernel.*Unboxed; }
  friend void*& symbolic_of(c10::KernelFunction& kernel) { return kernel.*Symbolic; }
};
template struct OpenedKernel<&c10::KernelFunction::unboxed_kernel_func_,
                             &c10::KernelFunction::sym_unboxed_kernel_func_>;

c10::KernelFunction kernel_of(const FrontRow& row, FrontState state) {
  auto made =
      c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<BoxedFront>(std::move(state)));
  (row.has_symbols ? symbolic_of(made) : unboxed_of(made)) = row.kernel;
  return made;
}

// FrontState::types_left of each front.
std::span<std::atomic<uint64_t>> types_left() {
  static auto* const all = new std::vector<std::atomic<uint64_t>>(kFrontCount);
  return *all;
}

class Silent final : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

// Puts a front before the kernel; returns why it cannot, or null.
const char* install(int32_t index) {
  const FrontRow& row = kFronts[index];
  const auto found = c10::Dispatcher::singleton().findSchema({row.name, row.overload});
  if (!found) return "this PyTorch has no such operator";
  if (!found->hasComputedKernelForDispatchKey(c10::DispatchKey::CPU))
    return "it has no kernel for the CPU";
  if (found->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
      !found->hasKernelForDispatchKey(c10::DispatchKey::CPU))
    return "PyTorch composes it of other operators, and would no longer for its gradient";
  const c10::SafeKernelFunction kept =
      found->getComputedKernelForDispatchKey(c10::DispatchKey::CPU);
  Silent silent;
  const c10::WarningUtils::WarningHandlerGuard guard(&silent);
  static auto* const kept_for_ever = new std::vector<c10::RegistrationHandleRAII>;
  kept_for_ever->push_back(c10::Dispatcher::singleton().registerImpl(
      found->operator_name(), c10::DispatchKey::CPU,
      kernel_of(row, {index, row.others, row.written, &types_left()[static_cast<size_t>(index)],
                      *found, kernel_of(kept)}),
      std::nullopt, nullptr, "pto.aten.enable"));
  return nullptr;
}

}  // namespace

Wish front_wish(int32_t index) {
  const Choice* choice = process_choice.load(std::memory_order_acquire);
  if (threads_with_choice.load(std::memory_order_relaxed) > 0)
    if (const auto* own = static_cast<ThreadChoice*>(c10::ThreadLocalDebugInfo::get(kKind)))
      choice = &own->on;
  return choice && !is_running ? (*choice)[static_cast<size_t>(index)] : kOff;
}

bool may_be_taken(const FrontState& state, Wish wish, std::span<const at::Tensor* const> tensors) {
  std::optional<at::ScalarType> shared;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i]) continue;
    if (!tensors[i]->defined() || !tensors[i]->is_contiguous()) return false;
    if (state.others >> i & 1) continue;
    const at::ScalarType type = tensors[i]->scalar_type();
    if (type != shared.value_or(type)) return false;
    shared = type;
  }
  return !shared || !leaves(state, wish, *shared);
}

void BoxedFront::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const Wish wish = front_wish(state_.index);
  if (!wish) return state_.kept.callBoxed(op, keys, stack);
  const auto& schema = op.schema();
  const size_t count = schema.arguments().size(), first = stack->size() - count;
  c10::SmallVector<FrontBoxed, 8> boxed;
  for (size_t i = 0; i < count; ++i)
    boxed.push_back({&(*stack)[first + i], &schema.arguments()[i]});
  c10::SmallVector<FrontArgument, 8> given;
  for (const FrontBoxed& one : boxed) given.push_back(front_argument(one));
  FrontCall call(state_, wish, {given.data(), given.size()});
  if (!call.run()) {
    state_.kept.callBoxed(op, keys, stack);
    if (call.error) std::rethrow_exception(call.error);
    return;
  }
  std::vector<c10::IValue> made(call.results.begin(), call.results.end());
  if (schema.is_mutable()) made.clear();
  for (size_t i = 0; i < count && schema.is_mutable(); ++i)
    if (const auto* alias = schema.arguments()[i].alias_info(); alias && alias->isWrite())
      made.push_back((*stack)[first + i]);
  stack->resize(first);
  stack->insert(stack->end(), made.begin(), made.end());
}

bool FrontCall::run() {
  push(state_.index, wish_);
  for (; takes_ && place_ < arguments_.size(); ++place_)
    arguments_[place_].type->read(arguments_[place_].value, *this);
  push_shared_memory();
  const FrontRunner run = takes_ && tensors_ > 0 ? runner.load() : nullptr;
  if (!run) return false;
  struct Running {
    Running() { is_running = true; }
    ~Running() { is_running = false; }
  };
  const Running running;
  try {
    return run(*this);
  } catch (...) {
    error = std::current_exception();
    return false;
  }
}

}  // namespace pto::torch_adapter

#define PTO_EXPORT extern "C" __attribute__((visibility("default")))

PTO_EXPORT int32_t pto_aten_front_count() {
  return static_cast<int32_t>(pto::torch_adapter::kFrontCount);
}

// The full name of a front, "aten::add" and "out" in turn.
PTO_EXPORT const char* pto_aten_front_name(int32_t index, int32_t part) {
  const auto& row = pto::torch_adapter::kFronts[index];
  return part == 0 ? row.name : row.overload;
}

PTO_EXPORT const char* pto_aten_front_install(int32_t index) {
  return pto::torch_adapter::install(index);
}

// Asks the runner again about all element types.
PTO_EXPORT void pto_aten_front_forget() {
  for (std::atomic<uint64_t>& one : pto::torch_adapter::types_left()) one = 0;
}

PTO_EXPORT void pto_aten_front_runner(void* runner) {
  pto::torch_adapter::runner = reinterpret_cast<pto::torch_adapter::FrontRunner>(runner);
  pto_aten_front_forget();
}

// Turns fronts on for the process: a Wish for each, or null for none.
PTO_EXPORT void pto_aten_front_process(const uint8_t* on) {
  using namespace pto::torch_adapter;
  // A thread may be reading any: each choice is kept, once.
  static auto* const all = new std::vector<std::unique_ptr<const Choice>>;
  if (!on) return process_choice.store(nullptr, std::memory_order_release);
  const Choice wanted(on, on + kFrontCount);
  auto found = std::ranges::find_if(*all, [&](const auto& one) { return *one == wanted; });
  if (found == all->end()) found = all->insert(found, std::make_unique<const Choice>(wanted));
  process_choice.store(found->get(), std::memory_order_release);
}

// Turns fronts on for the calling thread and what it starts of PyTorch, until it leaves with the
// number that this returns. The last choice that is on counts.
PTO_EXPORT int64_t pto_aten_front_enter(const uint8_t* on) {
  using namespace pto::torch_adapter;
  static std::atomic<int64_t> last{0};
  const int64_t number = ++last;
  ++threads_with_choice;
  c10::ThreadLocalDebugInfo::_push(
      kKind, std::make_shared<ThreadChoice>(Choice(on, on + kFrontCount), number));
  return number;
}

// Ends an enter of the calling thread; those that began since stay. -1: it has none of this number,
// or something else that began since is not over.
PTO_EXPORT int32_t pto_aten_front_leave(int64_t number) {
  using namespace pto::torch_adapter;
  using Info = c10::ThreadLocalDebugInfo;
  std::vector<std::shared_ptr<c10::DebugInfoBase>> inner;
  bool has_left = false;
  try {
    while (!has_left) {
      auto last = Info::_pop(kKind);
      has_left = static_cast<const ThreadChoice&>(*last).number == number;
      if (!has_left) inner.push_back(std::move(last));
    }
    --threads_with_choice;
  } catch (const std::exception&) {  // what is next is none of ours
  }
  for (auto& one : inner | std::views::reverse) Info::_push(kKind, std::move(one));
  return has_left ? 0 : -1;
}

#undef PTO_EXPORT
