// SPDX-License-Identifier: Apache-2.0
// Errors across ONNX Runtime's C boundary: its statuses become exceptions, ours become statuses.
//
//     return guarded([&] { check(api::Graph_GetNodes(graph, nodes.data(), nodes.size())); });
//
// Invariant: no exception leaves guarded(). The user gets it as ONNX Runtime's InvalidArgument with
// the whole text.
// Thread safety: any thread may call every function but connect().
#pragma once

#include <exception>

#include "pto/adapters/onnxruntime/api.hpp"

namespace pto::ort {

// Fetches the tables of functions and checks that they are what api.hpp declares. Throws pto::Error
// for an ONNX Runtime that is too old or different.
void connect(const ApiBase* base);

// Throws pto::Error with ONNX Runtime's text if `status` is not null, and releases it.
void check(Status* status);

// Says whether `status` is success; releases and drops a failure.
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

// Runs an entry point, for which connect() comes first; where that fails for want of an interface,
// there is no status to say so.
template <class F>
Status* connected(const ApiBase* base, F f) {
  try {
    connect(base);
  } catch (const std::exception& error) {
    return api::tables[api::kRuntime] ? api::CreateStatus(kFail, error.what()) : nullptr;
  }
  return guarded(f);
}

}  // namespace pto::ort
