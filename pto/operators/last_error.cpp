// SPDX-License-Identifier: Apache-2.0
#include "pto/operators/last_error.hpp"

#include <memory>
#include <string>

#include "pto/abi/operator.h"

namespace pto {
namespace {

thread_local std::string last_error;
// Its text is last_error. A pointer, since a library that is loaded late shares 1,664 bytes of
// threads' memory with all others.
thread_local std::unique_ptr<Error> last_thrown;

}  // namespace

void set_operator_error(const char* text) noexcept {
  try {
    last_thrown.reset();
    last_error = text;
  } catch (const std::exception&) {  // no memory for the text
    last_error.clear();
  }
}

void set_operator_error(const Error& error) noexcept {
  set_operator_error(error.what());
  try {
    last_thrown = std::make_unique<Error>(error);
  } catch (const std::exception&) {  // no memory for a copy; the text stays
  }
}

Error last_operator_error() {
  return last_thrown ? *last_thrown : Error({last_error, "", ""}, ErrorKind::Runtime);
}

}  // namespace pto

const char* pto_operator_error(void) { return pto::last_error.c_str(); }
