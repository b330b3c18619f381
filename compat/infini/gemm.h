// SPDX-License-Identifier: Apache-2.0
// The product of matrices in the spelling of the public library: y = alpha op(a) op(b) + beta c.
//
//     Gemm::Call(handle, config, a, b, c, 1.0f, 0.5f, false, true, y);   // op(b) is b transposed
//     Gemm::Call(a, b, y);                                               // a b, of any rank
//     Owning z = Gemm::Call(u, v);
//
// With a factor or c, a and b have rank 2, or 3 with one number of matrices. beta is 0 without c.
// Errors: pto::aten::Error with what, why and fix.
//
// Thread safety: as Operator.
#pragma once

#include "infini/operator.h"

namespace infini::ops {

namespace detail {

// addmm and baddbmm, which Gemm calls for ranks 2 and 3.
struct ScaledProduct {
  static constexpr Signature kSignatures[] = {{"addmm.out", nullptr, "TTTSS", "abcde", 3, "T"},
                                              {"baddbmm.out", nullptr, "TTTSS", "abcde", 3, "T"}};
};

}  // namespace detail

class Gemm : public Operator<Gemm> {
 public:
  static constexpr detail::Signature kSignatures[] = {
      {"matmul.out", "matmul", "TT", "ab", 2, "T"}};

  // Any of c, alpha, beta, trans_a and trans_b may be null.
  static void Compute(const Config& config, const Tensor& a, const Tensor& b,
                      const std::optional<Tensor>& c, std::optional<float> alpha,
                      std::optional<float> beta, std::optional<int> trans_a,
                      std::optional<int> trans_b, const Tensor& y) {
    const Tensor left = trans_a.value_or(0) ? transposed(a) : a;
    const Tensor right = trans_b.value_or(0) ? transposed(b) : b;
    if (!c && alpha.value_or(1) == 1)
      return detail::call_with_outputs<Gemm>(config, left, right, y);
    const float times_c = c ? beta.value_or(1) : 0;
    const Tensor& added = c ? *c : y;  // without c its factor is 0, and nothing is read
    if (y.ndim() == 2) {
      detail::call_signature<detail::ScaledProduct, 0>(config, added, left, right, times_c,
                                                       alpha.value_or(1), y);
    } else if (y.ndim() == 3) {
      detail::call_signature<detail::ScaledProduct, 1>(config, added, left, right, times_c,
                                                       alpha.value_or(1), y);
    } else {
      throw pto::aten::Error("Gemm with a factor or c gets y of rank " + std::to_string(y.ndim()),
                             "it is computed for ranks 2 and 3", "view y as rank 3");
    }
  }

 private:
  static Tensor transposed(const Tensor& x) {
    Tensor::Shape shape = x.shape();
    Tensor::Strides strides = x.strides();
    if (x.ndim() < 2)
      throw pto::aten::Error("Gemm transposes a tensor of rank " + std::to_string(x.ndim()),
                             "a matrix has two axes", "pass one of rank 2, or do not transpose");
    std::swap(shape.end()[-2], shape.end()[-1]);
    std::swap(strides.end()[-2], strides.end()[-1]);
    return {const_cast<void*>(x.data()), shape, x.dtype(), x.device(), strides};
  }
};

}  // namespace infini::ops
