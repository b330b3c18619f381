// SPDX-License-Identifier: Apache-2.0
// error_text() runs a function that Python calls to register operators, and turns its exception
// into text.
//
//     return error_text([&] { register_operator(index); });   // null, or what the exception says
//
// Invariant: no exception derived from std::exception crosses the border.
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
