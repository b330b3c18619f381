// SPDX-License-Identifier: Apache-2.0
// Errors across ONNX Runtime's C boundary: its statuses become exceptions, ours become statuses.
//
//     return guarded([&] { check(api::Graph_GetNodes(graph, nodes.data(), nodes.size())); });
//
// Invariant: no exception leaves guarded(). What it catches reaches the user as ONNX Runtime's
// InvalidArgument with the whole text.
// Thread safety: every function but connect() may be called from any thread.
#pragma once

#include <exception>

#include "pto/adapters/onnxruntime/api.hpp"

namespace pto::ort {

// Fetches the tables of functions and checks that they are what api.hpp takes them for. Throws
// pto::Error where this ONNX Runtime is too old or another one.
void connect(const ApiBase* base);

// Throws pto::Error with ONNX Runtime's text where `status` is not null, and releases it.
void check(Status* status);

// Whether `status` is success; a failure is released and forgotten.
bool succeeded(Status* status);

template <class F>
Status* guarded(F f) noexcept {
  try {
    f();
    return nullptr;
  } catch (const std::exception& error) {
    return api::CreateStatus(kInvalidArgument, error.what());
  } catch (...) {
    return api::CreateStatus(kFail, "an exception of an unknown type");
  }
}

}  // namespace pto::ort
