// SPDX-License-Identifier: Apache-2.0
// Keys of calls: a call with the key of an earlier one skips the work that the earlier one did.
//
//     CallKey key;
//     add_layout(tensor, key);
//     Kept<Plan> kept;
//     if (Plan* plan = kept.find(key)) ...          // else kept.keep(key, plan_of(call))
//
// Invariant: keys are compared in full; kMost are kept, the newest first.
// Thread safety: that of the owner.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace pto::torch_adapter {

using CallKey = std::vector<int64_t>;

// Adds element type, sizes and strides. The tensor has no symbols for sizes.
inline void add_layout(const at::Tensor& tensor, CallKey& key) {
  const c10::TensorImpl& one = *tensor.unsafeGetTensorImpl();
  key.push_back(static_cast<int64_t>(tensor.scalar_type()) << 32 | one.dim());
  key.insert(key.end(), one.sizes().begin(), one.sizes().end());
  key.insert(key.end(), one.strides().begin(), one.strides().end());
}

template <class Value>
class Kept {
 public:
  static constexpr size_t kMost = 32;

  // Returns the value of an equal key, which lives until the next keep() or clear(), or null.
  Value* find(const CallKey& key) {
    const auto found = std::find_if(all_.begin(), all_.end(),
                                    [&key](const auto& one) { return one.first == key; });
    return found == all_.end() ? nullptr : &found->second;
  }
  // Returns the value that goes for it, if there is one.
  std::optional<Value> keep(CallKey key, Value value) {
    all_.emplace_front(std::move(key), std::move(value));
    if (all_.size() <= kMost) return std::nullopt;
    std::optional<Value> dropped(std::move(all_.back().second));
    all_.pop_back();
    return dropped;
  }
  void clear() { all_.clear(); }

 private:
  std::deque<std::pair<CallKey, Value>> all_;
};

}  // namespace pto::torch_adapter
