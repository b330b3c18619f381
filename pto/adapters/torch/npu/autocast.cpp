// SPDX-License-Identifier: Apache-2.0
// torch.autocast("npu"): PyTorch's own table says which operators compute in the lower precision
// and which in float32.
#include <ATen/autocast_mode.h>

#include "pto/adapters/torch/npu/registration.hpp"
#include "pto/base/error_message.hpp"

namespace pto::torch_npu {
namespace {

using namespace at;  // PyTorch's table names its types so

Tensor binary_cross_entropy(const Tensor&, const Tensor&, const std::optional<Tensor>&, int64_t) {
  TORCH_CHECK(
      false,
      error_message(
          "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast",
          "they take probabilities, which low precision rounds to 0 and 1",
          "use binary_cross_entropy_with_logits, or compute the loss outside autocast"));
}

}  // namespace

void register_autocast() {
  constexpr DispatchKey key = DispatchKey::AutocastPrivateUse1;
  kernel_library("_", key).fallback(torch::CppFunction::makeFallthrough());
  torch::Library& m = kernel_library("aten", key);  // as the macros call it
#define PTO_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define PTO_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define PTO_FP32_OPTION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define PTO_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(PTO_LOWER)
  AT_FORALL_FP32(PTO_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(PTO_FP32_OPTION)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(PTO_PROMOTE)
#undef PTO_LOWER
#undef PTO_FP32
#undef PTO_FP32_OPTION
#undef PTO_PROMOTE
  m.impl("binary_cross_entropy", &binary_cross_entropy);
}

}  // namespace pto::torch_npu
