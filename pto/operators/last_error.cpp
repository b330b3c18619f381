// SPDX-License-Identifier: Apache-2.0
#include "pto/operators/last_error.hpp"

#include <optional>
#include <string>

#include "pto/abi/operator.h"

namespace pto {
namespace {

thread_local std::string last_error;
thread_local std::optional<Error> last_thrown;  // last_error is its text

}  // namespace

void set_last_error(const char* text) noexcept {
  try {
    last_thrown.reset();
    last_error = text;
  } catch (const std::exception&) {  // no memory for the text
    last_error.clear();
  }
}

void set_last_error(const Error& error) noexcept {
  set_last_error(error.what());
  last_thrown.emplace(error);
}

Error last_operator_error() {
  return last_thrown ? *last_thrown : Error({last_error, "", ""}, ErrorKind::Runtime);
}

}  // namespace pto

const char* pto_operator_error(void) { return pto::last_error.c_str(); }
