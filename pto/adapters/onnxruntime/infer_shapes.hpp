// SPDX-License-Identifier: Apache-2.0
// The shape function of a custom operator: evaluates our size expressions over ONNX's sizes, which
// are numbers, names ("N") or unknown. A name survives if a size passes through unchanged.
//
//     infer_shapes(op, context);
//
// Thread safety: pure function.
#pragma once

#include "pto/abi/operator.h"
#include "pto/adapters/onnxruntime/api.hpp"

namespace pto::ort {

// Tells ONNX Runtime element types and sizes of all outputs, or nothing if a rank is unknown.
// Throws pto::Error for what the operator refuses.
void infer_shapes(const pto_operator& op, ShapeContext* context);

}  // namespace pto::ort
