// SPDX-License-Identifier: Apache-2.0
// Kernels of the public form kernel_entry(int64_t*): packs a block's arguments into slots;
// implements that part of abi/host.h.
#include <string>

#include "pto/abi/host.h"
#include "pto/base/error.hpp"
#include "pto/base/strided.hpp"

namespace pto {
namespace {

int32_t refuse(const pto_args& args, const ErrorText& text) {
  return args.services->fail(args.services, Error(text).what());
}

}  // namespace
}  // namespace pto

int32_t pto_enter_slots(pto_slot_kernel kernel, const pto_args* args) {
  using namespace pto;
  if (args->params_bytes > 0) {
    return refuse(*args, {"kernel_entry: called with " + std::to_string(args->params_bytes) +
                              " bytes of params",
                          "a kernel of this form gets tensors and scalars only, one slot each",
                          "pass them as scalars, or take const pto_args* in the kernel"});
  }
  const auto tensors = static_cast<size_t>(args->n_tensors);
  const auto scalars = static_cast<size_t>(args->n_scalars);
  auto* slots = static_cast<int64_t*>(
      args->services->scratch(args->services, (tensors + scalars + 1) * sizeof(int64_t)));
  if (slots == nullptr) {
    return refuse(*args, {"kernel_entry: no memory for " + std::to_string(tensors + scalars) +
                              " slots of arguments",
                          "each block needs slots of its own", "free some memory"});
  }
  for (size_t i = 0; i < tensors; ++i) {
    const pto_tensor& tensor = args->tensors[i];
    if (has_gaps(tensor)) {
      return refuse(
          *args,
          {"kernel_entry: tensor " + std::to_string(i + 1) + " has gaps between its elements",
           "a slot holds only an address, so memory must be row-major without gaps",
           "pass a contiguous copy"});
    }
    slots[i] = (tensor.flags & PTO_TENSOR_ABSENT) ? 0 : reinterpret_cast<int64_t>(tensor.data);
  }
  for (size_t i = 0; i < scalars; ++i) {
    slots[tensors + i] = static_cast<int64_t>(args->scalars[i]);
  }
  kernel(slots);
  return 0;
}
