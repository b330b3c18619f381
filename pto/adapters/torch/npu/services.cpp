// SPDX-License-Identifier: Apache-2.0
// torch.ops.pto_npu: what torch.npu needs of tensors and generators, which plain C cannot carry.
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include "pto/adapters/torch/npu/generator.hpp"
#include "pto/adapters/torch/npu/memory.hpp"
#include "pto/adapters/torch/npu/placement.hpp"
#include "pto/adapters/torch/npu/registration.hpp"

namespace pto::torch_npu {
namespace {

void for_blocks(const std::vector<at::Tensor>& tensors, void (*action)(Block*)) {
  for (const at::Tensor& tensor : tensors) {
    Block* block = block_of(tensor.storage().data_ptr());
    if (block != nullptr && is_checked()) action(block);
  }
}

}  // namespace

void register_services() {
  auto* const library = new torch::Library(torch::Library::DEF, "pto_npu", {}, __FILE__, __LINE__);
  library->def("default_generator(int device) -> Generator?", [](int64_t device) {
    return default_generator(existing_device(static_cast<int>(device)));
  });
  library->def("open_access(Tensor[] tensors) -> ()",
               [](const std::vector<at::Tensor>& tensors) { for_blocks(tensors, open_access); });
  library->def("close_access(Tensor[] tensors) -> ()",
               [](const std::vector<at::Tensor>& tensors) { for_blocks(tensors, close_access); });
}

}  // namespace pto::torch_npu
