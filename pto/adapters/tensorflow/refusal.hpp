// SPDX-License-Identifier: Apache-2.0
// Refusal: a user's error for TensorFlow: what, why and fix.
//
//     return refuse(op, "tensor x has 9 axes", "kernels take at most 8", "reshape it");
//
// Thread safety: pure function.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "pto/abi/operator.h"
#include "pto/base/error_message.hpp"

namespace pto::tensorflow_adapter {

inline absl::Status refuse(const pto_operator& op, const std::string& what, const std::string& why,
                           const std::string& fix) {
  return absl::InvalidArgumentError(std::string(op.name) + ": " + error_message(what, why, fix));
}

// Refuses a node that our Python part did not build, or built for another schema.
inline absl::Status refuse_node(const pto_operator& op, const std::string& what) {
  return refuse(op, what, std::string("the operator is ") + op.schema,
                std::string("build the graph with pto.tensorflow.") + op.name);
}

}  // namespace pto::tensorflow_adapter
