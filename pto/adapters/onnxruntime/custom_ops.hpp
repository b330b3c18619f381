// SPDX-License-Identifier: Apache-2.0
// Makes every operator of the registry a custom operator of ONNX Runtime, in the domain ai.pto.
//
//     Domain* const domain = operator_domain();
//
// Left out are operators whose Tensor[] is not the last tensor argument, or output (ONNX has no
// form for them), and private operators, whose names begin with "_".
// Invariant: the domain and its operators live as long as the process.
// Thread safety: any thread.
#pragma once

#include "pto/adapters/onnxruntime/api.hpp"

namespace pto::ort {

inline constexpr const char* kOperatorDomain = "ai.pto";

// Returns the domain with all operators defined so far.
Domain* operator_domain();

}  // namespace pto::ort
