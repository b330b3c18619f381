// SPDX-License-Identifier: Apache-2.0
// The border of the functions that Python calls to register operators: an exception becomes text.
//
//     return error_text([&] { register_operator(index); });   // null, or what the exception says
//
// Thread safety: the text belongs to the calling thread, until its next call.
#pragma once

#include <exception>
#include <string>

namespace pto::torch_adapter {

template <class F>
const char* error_text(F f) {
  thread_local std::string text;
  try {
    f();
    return nullptr;
  } catch (const std::exception& error) {
    text = error.what();
  }
  return text.c_str();
}

}  // namespace pto::torch_adapter
