// SPDX-License-Identifier: Apache-2.0
// Aliases: a CPU tensor over the memory of an npu tensor, and the way back.
//
//     Aliases aliases;
//     at::Tensor x = aliases.add(npu_tensor);        // same sizes, strides and memory
//     at::Tensor y = aliases.wrap(cpu_kernel(x), device);   // a view of x stays a view
//     aliases.write_back();                                 // what x was resized to
//
// Invariant: an alias owns its memory, so it may outlive the tensor. Nothing is copied, but in
// checked mode the results of CPU kernels.
// Thread safety: an Aliases belongs to one thread; alias_of may be called from any.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "pto/adapters/torch/npu/memory.hpp"

namespace pto::torch_npu {

// Throws where the tensor reaches beyond its storage, which was resized behind its back.
void check_memory(const at::Tensor& tensor);

// Throws for what is no dense npu tensor with memory. The meaning of sizes and strides is the
// tensor's.
at::Tensor alias_of(const at::Tensor& tensor);

// The same; PyTorch sees that it overlaps the aliases of all tensors over that storage.
at::Tensor alias_of(const at::Tensor& tensor, const c10::Storage& alias_storage);

// An npu tensor over this storage with sizes, strides, offset and dtype of `like`.
at::Tensor npu_tensor(c10::Storage storage, const at::Tensor& like);

class Aliases {
 public:
  // The alias of the tensor; the same one for the same tensor, and one storage for one storage.
  at::Tensor add(const at::Tensor& tensor);

  // What a CPU kernel returned, as a tensor of the device: an alias is its tensor, a view of an
  // alias a view of its tensor, everything else is adopted.
  at::Tensor wrap(const at::Tensor& result, int device);

  // Gives the tensors the sizes and the memory that their aliases got.
  void write_back();

 private:
  struct Pair {
    at::Tensor tensor, alias;
    const void* data;
    Access access;
  };
  struct Adopted {
    c10::StorageImpl* from;
    c10::Storage to;
  };
  c10::Storage adopted(const c10::Storage& storage, int device);

  c10::SmallVector<Pair, 6> pairs_;
  c10::SmallVector<Adopted, 2> adopted_;
};

}  // namespace pto::torch_npu
