// SPDX-License-Identifier: Apache-2.0
// Every operator of the registry as a custom operator of ONNX Runtime, in the domain ai.pto.
//
// An operator whose Tensor[] is not its last tensor argument, or output, is left out: ONNX has no
// form for it. Private operators, whose names begin with "_", are left out too.
// Invariant: the domain and its operators live as long as the process.
// Thread safety: may be called from any thread.
#pragma once

#include "pto/adapters/onnxruntime/api.hpp"

namespace pto::ort {

inline constexpr const char* kOperatorDomain = "ai.pto";

// The domain with all operators that are defined by now.
Domain* operator_domain();

}  // namespace pto::ort
