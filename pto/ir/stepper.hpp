// SPDX-License-Identifier: Apache-2.0
// Stepper: the interpreter on a graph that is still being built, node by node.
//
//     Stepper stepper(builder, {x});                  // behind the inputs, in their order
//     Value y = builder.unary(Opcode::exp, 0);
//     stepper.value(y).reals[0];                      // computes what was built up to now
//
// Invariant: the values are those of interpret(); each node is computed once.
// Thread safety: as the builder's, which must outlive it.
#pragma once

#include <vector>

#include "pto/ir/operations/evaluation.hpp"

namespace pto {

class Stepper {
 public:
  // Throws pto::Error as interpret() does: inputs that do not fit.
  Stepper(const GraphBuilder& builder, const std::vector<Array>& inputs,
          const InterpretLimits& limits = {});

  // Both throw pto::Error, at the user's line: a guard that does not hold, a view outside its
  // tensor, more work than the limits.
  const Array& value(Value v);
  int64_t size(const Dim& dim);

 private:
  Budget budget_;
  Evaluation evaluation_;
};

}  // namespace pto
