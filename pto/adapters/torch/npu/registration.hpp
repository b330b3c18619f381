// SPDX-License-Identifier: Apache-2.0
// Registers the device: each function tells PyTorch of one part, once, in this order.
//
//     register_device(), register_services(), register_kernels();   // in pto_npu_load()
//
// Invariant: nothing is registered earlier, so a refusal of PyTorch's is an error of the load and
// does not end the process.
// Thread safety: none; one thread loads.
#pragma once

#include <torch/library.h>

namespace pto::torch_npu {

void register_device();    // guard, hooks and allocator
void register_services();  // torch.ops.pto_npu: what torch.npu asks for
void register_kernels();   // operators.cpp
void register_autocast();
void register_queue();     // of launches by users
void register_fallback();  // last: for all operators without a kernel yet

// Returns the library for kernels of `space`; it lives as long as the process.
inline torch::Library& kernel_library(const char* space, c10::DispatchKey key) {
  return *new torch::Library(torch::Library::IMPL, space, key, __FILE__, __LINE__);
}

}  // namespace pto::torch_npu
