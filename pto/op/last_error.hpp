// SPDX-License-Identifier: Apache-2.0
// The border of operator.h: exceptions become a code and the text of pto_operator_error().
//
//     return reported([&] { run(*call); });   // 0, or 1 after an exception
//
// Thread safety: the text belongs to the calling thread.
#pragma once

#include <cstdint>
#include <exception>

namespace pto {

void set_last_error(const char* text) noexcept;

template <class F>
int32_t reported(F f) noexcept {
  try {
    f();
    return 0;
  } catch (const std::exception& error) {
    set_last_error(error.what());
  } catch (...) {
    set_last_error("an exception of an unknown type");
  }
  return 1;
}

}  // namespace pto
