// SPDX-License-Identifier: Apache-2.0
// The gradients of linear_quantized.cpp by x, bias and residual. The weight is a constant: its
// numbers, turned, are the right operand of d_x, and are widened while they are packed.
#include "pto/ops/linear_coded.hpp"
#include "pto/ops/linear_gradients.hpp"

namespace {

// Scale: the type of the outputs' scales; void: there are none.
template <class Scale>
struct CodedWeight : Coded {
  static constexpr bool kIsScaled = !std::is_void_v<Scale>;
  static constexpr int64_t kRows = 192;  // that share the widened weight
  const Scale* scales = nullptr;

  float scale(int64_t col) const {
    if constexpr (kIsScaled)
      return static_cast<float>(scales[col]);
    else
      return 1;
  }
};

template <class Weight, class Named>
int32_t write_gradients(const Named& in, const Weight& weight) {
  Gradients<PTO_TYPE_0, Weight> all(in, weight);
  const int64_t needs = in.integer("needs"_arg);
  if (needs & 1) all.d_x = in.data("d_x"_arg);
  if (needs & 2 && all.has_bias()) all.d_bias = in.data("d_bias"_arg);
  if (needs & 4 && !in.is_absent("residual"_arg)) all.d_residual = in.data("d_residual"_arg);
  return all.run();
}

}  // namespace

PTO_OPERATOR_KERNEL(linear_int8_backward) {
  const CodedWeight<PTO_TYPE_3> weight = {coded(in, PTO_MATMUL_I8), in.data("scale"_arg)};
  return write_gradients(in, weight);
}

PTO_OPERATOR_KERNEL(linear_int4_backward) {
  const CodedWeight<void> weight = {in_groups<PTO_TYPE_3>(in, coded(in, PTO_MATMUL_I4X2))};
  return write_gradients(in, weight);
}
