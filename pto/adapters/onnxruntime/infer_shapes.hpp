// SPDX-License-Identifier: Apache-2.0
// The shape function of a custom operator: our size expressions over ONNX's sizes, which are
// numbers, names ("N") or unknown. A name survives where a size passes through unchanged.
// Thread safety: pure function.
#pragma once

#include "pto/abi/operator.h"
#include "pto/adapters/onnxruntime/api.hpp"

namespace pto::ort {

// Tells ONNX Runtime element types and sizes of all outputs; nothing where a rank is unknown.
// Throws pto::Error for what the operator refuses.
void infer_shapes(const pto_operator& op, ShapeContext* context);

}  // namespace pto::ort
