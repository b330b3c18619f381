// SPDX-License-Identifier: Apache-2.0
// The attributes of a node in the domain ai.pto as those of an operator: by name, with the schema's
// defaults for what the node leaves out.
// Thread safety: pure functions.
#pragma once

#include "pto/adapters/onnxruntime/kernel.hpp"

namespace pto::ort {

// Throw pto::Error for an attribute that is missing or of another type.
AttributeValues attributes_of(const pto_operator& op, const KernelInfo* info);
AttributeValues attributes_of(const pto_operator& op, const ShapeContext* context);

}  // namespace pto::ort
