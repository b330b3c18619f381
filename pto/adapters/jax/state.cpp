// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/jax/state.hpp"

#include <new>
#include <string_view>

namespace pto::jax_adapter {
namespace {

using namespace xla_ffi;

constexpr std::string_view kName = "pto::jax_adapter::SiteState";

void free_state(void* state) { delete static_cast<SiteState*>(state); }

constexpr TypeInfo kInfo{sizeof(TypeInfo), nullptr, &free_state};

// XLA's number of our type; registering it again gives the same number.
std::atomic<int64_t> type_number{0};

xla_ffi::Error* register_type(const Api& api) {
  if (type_number.load(std::memory_order_relaxed) != 0) return nullptr;
  TypeId type{0};
  RegisterTypeArguments arguments{
      sizeof arguments, nullptr, {kName.data(), kName.size()}, &type, &kInfo};
  xla_ffi::Error* const error = api.register_type(&arguments);
  if (!error) type_number.store(type.number, std::memory_order_relaxed);
  return error;
}

}  // namespace

xla_ffi::Error* make_state(const CallFrame& frame) {
  if (xla_ffi::Error* const error = register_type(*frame.api)) return error;
  TypeId type{type_number.load(std::memory_order_relaxed)};
  auto* const state = new (std::nothrow) SiteState;
  StateArguments arguments{sizeof arguments, nullptr, frame.context, kInstantiate, &type, state};
  xla_ffi::Error* const error = frame.api->set_state(&arguments);
  if (error) delete state;
  return error;
}

SiteState* state_of(const CallFrame& frame) {
  TypeId type{type_number.load(std::memory_order_relaxed)};
  StateArguments arguments{sizeof arguments, nullptr, frame.context, kInstantiate, &type, nullptr};
  xla_ffi::Error* const error = frame.api->get_state(&arguments);
  if (!error) return static_cast<SiteState*>(arguments.state);
  DestroyErrorArguments destroyed{sizeof destroyed, nullptr, error};
  frame.api->destroy_error(&destroyed);
  return nullptr;
}

}  // namespace pto::jax_adapter
