// SPDX-License-Identifier: Apache-2.0
// Aliases: a CPU tensor over the memory of an npu tensor, and the way back.
//
//     Aliases aliases;
//     at::Tensor x = aliases.add(npu_tensor);               // same sizes, strides and memory
//     at::Tensor y = aliases.wrap(cpu_kernel(x), device);   // a view of x stays a view
//     aliases.write_back();                                 // resizes npu_tensor as x was resized
//
// Invariant: an alias owns its memory, so it may outlive the tensor. Nothing is copied, except
// results of CPU kernels in checked mode.
// Thread safety: an Aliases belongs to one thread; any thread may call alias_of().
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "pto/adapters/torch/npu/memory.hpp"

namespace pto::torch_npu {

// Throws if the tensor reaches beyond its storage, which was resized behind its back.
void check_memory(const at::Tensor& tensor);

// Returns the alias; throws unless it is a dense npu tensor with memory. Sizes and strides mean
// what they mean for the tensor.
at::Tensor alias_of(const at::Tensor& tensor);

// Does the same; PyTorch sees that it overlaps the aliases of all tensors over that storage.
at::Tensor alias_of(const at::Tensor& tensor, const c10::Storage& alias_storage);

// Makes an npu tensor over this storage with the sizes, strides, offset and dtype of `like`.
at::Tensor npu_tensor(c10::Storage storage, const at::Tensor& like);

class Aliases {
 public:
  // Returns the tensor's alias: one for each tensor, with one storage for each storage.
  at::Tensor add(const at::Tensor& tensor);

  // Returns the result of a CPU kernel as a tensor of the device: an alias becomes its tensor, a
  // view of an alias a view of its tensor, any other result is adopted.
  at::Tensor wrap(const at::Tensor& result, int device);

  // Gives each tensor the sizes and the memory that its alias got.
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
