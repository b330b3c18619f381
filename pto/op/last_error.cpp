// SPDX-License-Identifier: Apache-2.0
#include "pto/op/last_error.hpp"

#include <string>

#include "pto/op/operator.h"

namespace pto {
namespace {

thread_local std::string last_error;

}  // namespace

void set_last_error(const char* text) noexcept {
  try {
    last_error = text;
  } catch (const std::exception&) {  // no memory for the text
    last_error.clear();
  }
}

}  // namespace pto

const char* pto_operator_error(void) { return pto::last_error.c_str(); }
