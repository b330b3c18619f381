// SPDX-License-Identifier: Apache-2.0
// Generators: the random numbers of the npu devices, each a CPU generator of the same seed.
//
//     torch.npu.manual_seed(7); torch.randn(3, device="npu")   # the numbers of the CPU under seed
//     7
//
// Thread safety: as PyTorch's generators: the state is guarded by the CPU generator's mutex.
#pragma once

#include <ATen/core/Generator.h>

namespace pto::torch_npu {

const at::Generator& default_generator(int device);
at::Generator new_generator(int device);

// The CPU generator inside an npu generator; others are returned as they are.
const at::Generator& cpu_generator(const at::Generator& generator);

// While it lives, PyTorch's default CPU generator continues the sequence of the device's, for CPU
// kernels that take no generator.
class BorrowedGenerator {
 public:
  explicit BorrowedGenerator(int device);
  ~BorrowedGenerator();
  BorrowedGenerator(const BorrowedGenerator&) = delete;
  BorrowedGenerator& operator=(const BorrowedGenerator&) = delete;

 private:
  const at::Generator& device_;
  c10::intrusive_ptr<c10::TensorImpl> cpu_state_;
};

}  // namespace pto::torch_npu
