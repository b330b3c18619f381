// SPDX-License-Identifier: Apache-2.0
// torch.ops.custom_op.custom_topk(x, k, axis, bottom): two outputs, the second of int64, and
// parameters of the kernel, in the shorter form of the API.
#include "hpu_custom_op_pt2.h"
// The public API includes these structures of parameters.
#include <synapse_common_types.hpp>

namespace {

using habana::PartialOutputMetaDataVector;
using habana::custom_op::UserCustomOpDescriptor;

int64_t axis_of(const at::Stack& inputs) {
  return c10::maybe_wrap_dim(inputs[2].toInt(), inputs[0].toTensor().dim());
}

PartialOutputMetaDataVector outputs_of(const at::Stack& inputs) {
  const at::Tensor self = inputs[0].toTensor();
  std::vector<int64_t> sizes = self.sizes().vec();
  TORCH_CHECK_VALUE(!sizes.empty(), "custom_topk: self has no axis");
  int64_t& along = sizes[static_cast<size_t>(axis_of(inputs))];
  const int64_t k = inputs[1].toInt();
  TORCH_CHECK_VALUE(0 <= k && k <= along, "custom_topk: k is ", k, ", but the axis has ", along,
                    " elements");
  along = k;
  return {{self.scalar_type(), sizes}, {c10::ScalarType::Long, sizes}};
}

std::shared_ptr<void> params_of(const at::Stack& inputs, size_t& size) {
  HPU_PARAMS_STUB(synBeamParams);
  params->bsw = static_cast<unsigned>(inputs[1].toInt());
  params->axis = static_cast<unsigned>(inputs[0].toTensor().dim() - 1 - axis_of(inputs));
  params->bottomK = inputs[3].toBool();
  return params;
}

bool register_custom_topk() {
  habana::custom_op::registerUserCustomOp("custom_op::custom_topk", "topk", outputs_of, params_of);
  return true;
}
const bool kTopkIsRegistered = register_custom_topk();

std::tuple<at::Tensor, at::Tensor> custom_topk(const at::Tensor& self, const at::Scalar& k,
                                               const at::Scalar& axis, bool bottom) {
  const auto& topk = UserCustomOpDescriptor::getUserCustomOpDescriptor("custom_op::custom_topk");
  const std::vector<at::Tensor> results = topk.execute({self, k, axis, bottom});
  return {results[0], results[1]};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(custom_op, m) {
  m.def("custom_topk(Tensor self, Scalar k, Scalar axis, bool bottom) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(custom_op, HPU, m) { m.impl("custom_topk", custom_topk); }
