// SPDX-License-Identifier: Apache-2.0
// Whether tests run deep: as ./dev test --deep asks for.
//
//     const int rounds = is_deep() ? 1000000 : 5000;
//
// Thread safety: pure function.
#pragma once
#include <cstdlib>
#include <string>

namespace pto {

inline bool is_deep() {
  const char* const deep = std::getenv("PTO_DEEP");
  return deep != nullptr && std::string(deep) == "1";
}

}  // namespace pto
