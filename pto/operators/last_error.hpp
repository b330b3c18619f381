// SPDX-License-Identifier: Apache-2.0
// The border of abi/operator.h: turns exceptions into a code and the text of pto_operator_error().
//
//     return reported([&] { run(*call); });   // 0, or 1 after an exception
//
// Invariant: no exception crosses the border.
// Thread safety: each thread has its own text.
#pragma once

#include <cstdint>
#include <exception>

#include "pto/base/error.hpp"

namespace pto {

void set_operator_error(const char* text) noexcept;
void set_operator_error(const Error& error) noexcept;

// Returns the calling thread's last error as it was thrown; any other exception has kind Runtime.
Error last_operator_error();

template <class F>
int32_t reported(F f) noexcept {
  try {
    f();
    return 0;
  } catch (const Error& error) {
    set_operator_error(error);
  } catch (const std::exception& error) {
    set_operator_error(error.what());
  } catch (...) {
    set_operator_error("an exception of an unknown type");
  }
  return 1;
}

}  // namespace pto
