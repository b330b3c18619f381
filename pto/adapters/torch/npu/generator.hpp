// SPDX-License-Identifier: Apache-2.0
// Generators: the random numbers of the npu devices; each wraps a CPU generator of the same seed.
//
//     const at::Generator& cpu = cpu_generator(default_generator(0));
//
// Invariant: an npu tensor gets the numbers that a CPU tensor gets under the same seed.
// Thread safety: any thread may call; the mutex of the CPU generator inside guards its state. While
// a BorrowedGenerator lives, other threads' CPU numbers come from the device's sequence too.
#pragma once

#include <ATen/core/Generator.h>

namespace pto::torch_npu {

const at::Generator& default_generator(int device);
at::Generator new_generator(int device);

// Returns the CPU generator inside an npu generator, and any other generator as it is.
const at::Generator& cpu_generator(const at::Generator& generator);

// While it lives, PyTorch's default CPU generator continues the device's sequence, for CPU kernels
// that take no generator.
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
