// SPDX-License-Identifier: Apache-2.0
// start_launch: the last step of a call, which starts kernels on tensors that are described.
//
//     const Scratch scratch(bytes);
//     scratch.give(temporaries);
//     start_launch(program.spec(), measured, tensors.all, tensors.scalars, params);
//
// Thread safety: pure functions on the caller's memory.
#pragma once

#include <cstdint>
#include <span>

#include "pto/abi/limits.h"
#include "pto/launch/program.hpp"

namespace pto {

// All tensors of a program during a call: inputs, outputs, temporaries.
struct Call::Tensors {
  pto_tensor all[PTO_MAX_BUFFERS];
  int64_t sizes[PTO_MAX_BUFFERS][PTO_MAX_RANK];    // of temporaries
  int64_t strides[PTO_MAX_BUFFERS][PTO_MAX_RANK];  // of outputs and temporaries
  uint64_t scalars[Program::kMaxScalars + 2 + Program::kMaxSymbols];
};

// A launch with known sizes. Scalars `items_at` and the next one hold its items and its quantum.
struct MeasuredLaunch {
  const LaunchSpec* spec;
  pto_kernel function;
  bool takes_all;  // its tensors are the program's, in order
  int64_t items, bytes, written_bytes;
  int32_t items_at, n_scalars;
};

// Holds the memory of a call's temporaries. Throws pto::Error without memory.
class Scratch {
 public:
  explicit Scratch(int64_t bytes);
  ~Scratch() { pto_free(data_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Lays the temporaries out one behind another; their extents are multiples of the alignment.
  void give(std::span<pto_tensor> temporaries) const {
    char* next = static_cast<char*>(data_);
    for (pto_tensor& one : temporaries) {
      one.data = next;
      next += one.extent_bytes;
    }
  }

 private:
  void* data_;
};

// Runs one launch on `all` tensors of the program; writes the launch's own two of `scalars`. Throws
// pto::Error with the kernel's text.
void start_launch(const ProgramSpec& program, const MeasuredLaunch& launch, const pto_tensor* all,
                  uint64_t* scalars, std::span<const std::byte> params);

}  // namespace pto
