// SPDX-License-Identifier: Apache-2.0
// The gradients of linear.cpp.
#include "pto/ops/linear_gradients.hpp"

PTO_OPERATOR_KERNEL(linear_backward) {
  const DenseWeight<PTO_TYPE_0> weight(in.tensor("weight"_arg));
  Gradients<PTO_TYPE_0, DenseWeight<PTO_TYPE_0>> all(in, weight);
  const int64_t needs = in.integer("needs"_arg);
  if (needs & 1) all.d_x = in.data("d_x"_arg);
  if (needs & 2) all.d_weight = in.data("d_weight"_arg);
  if (needs & 4 && all.has_bias()) all.d_bias = in.data("d_bias"_arg);
  if (needs & 8 && !in.is_absent("residual"_arg)) all.d_residual = in.data("d_residual"_arg);
  return all.run();
}
