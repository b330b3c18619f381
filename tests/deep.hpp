// SPDX-License-Identifier: Apache-2.0
// Whether tests run deep: as ./dev test --deep asks for.
//
//     const int rounds = rounds_of(5000, 1000000);   // quick, deep; a tenth under a sanitizer
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

inline int rounds_of(int quick, int deep) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  quick /= 10;
#endif
  return is_deep() ? deep : quick;
}

}  // namespace pto
