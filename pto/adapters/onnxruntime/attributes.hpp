// SPDX-License-Identifier: Apache-2.0
// Reads the attributes of a node in the domain ai.pto as an operator's: by name, with the schema's
// defaults for missing ones.
//
//     const AttributeValues values = attributes_of(op, info);
//
// Thread safety: pure functions.
#pragma once

#include "pto/adapters/onnxruntime/kernel.hpp"

namespace pto::ort {

// Throw pto::Error for an attribute that is missing or of another type.
AttributeValues attributes_of(const pto_operator& op, const KernelInfo* info);
AttributeValues attributes_of(const pto_operator& op, const ShapeContext* context);

}  // namespace pto::ort
