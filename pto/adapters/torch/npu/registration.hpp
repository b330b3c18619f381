// SPDX-License-Identifier: Apache-2.0
// What makes the device: each function tells PyTorch of one part, once, in this order.
//
// Invariant: nothing is registered before, so that what PyTorch refuses is an error of the load and
// not the end of the process.
// Thread safety: none; loading belongs to one thread.
#pragma once

#include <torch/library.h>

namespace pto::torch_npu {

void register_device();    // guard, hooks and allocator
void register_services();  // torch.ops.pto_npu: what torch.npu asks for
void register_kernels();   // operators.cpp
void register_autocast();
void register_queue();     // of launches by users
void register_fallback();  // last: for all operators without a kernel yet

// The library for kernels of `space`; it lives as long as the process.
inline torch::Library& kernel_library(const char* space, c10::DispatchKey key) {
  return *new torch::Library(torch::Library::IMPL, space, key, __FILE__, __LINE__);
}

}  // namespace pto::torch_npu
