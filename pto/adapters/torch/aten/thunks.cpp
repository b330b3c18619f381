// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/torch/aten/thunks.hpp"

#include <algorithm>
#include <string_view>

namespace pto::torch_adapter {

const Thunk* find_thunk(const c10::OperatorName& name) {
  const auto key = [](const Thunk& one) {
    return std::pair<std::string_view, std::string_view>(one.name, one.overload);
  };
  const std::pair<std::string_view, std::string_view> wanted(name.name, name.overload_name);
  const Thunk* const end = kThunks + kThunkCount;
  const Thunk* const found = std::lower_bound(
      kThunks, end, wanted, [&](const Thunk& one, const auto& other) { return key(one) < other; });
  return found != end && key(*found) == wanted ? found : nullptr;
}

}  // namespace pto::torch_adapter
