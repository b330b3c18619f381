// SPDX-License-Identifier: Apache-2.0
// RepeatedCall: checks and binds the sizes of a call once, to run it on other memory.
//
//     const RepeatedCall call(program, tensors, scalars, params);   // throws as Call does
//     call.run(inputs, outputs);    // as Call(...).run(...) for tensors of those sizes
//
// Invariant: it owns copies of its arguments, except for the program, which must outlive it.
// Thread safety: immutable; run() may be under way on many threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pto/launch/program.hpp"

namespace pto {

class RepeatedCall {
 public:
  RepeatedCall(const Program& program, std::span<const pto_tensor_ref> inputs,
               std::span<const uint64_t> scalars, std::span<const std::byte> params);
  ~RepeatedCall();

  std::span<const pto_tensor> inputs() const { return {tensors_.data(), n_inputs_}; }
  std::span<const pto_tensor> outputs() const { return {&tensors_[n_inputs_], n_outputs_}; }
  const Program& program() const { return program_; }

  // Runs on the memory of each input and output.
  void run(std::span<void* const> inputs, std::span<void* const> outputs) const;

 private:
  const Program& program_;
  size_t n_inputs_, n_outputs_;
  std::vector<pto_tensor> tensors_;  // inputs, outputs, temporaries, all without memory
  std::vector<int64_t> numbers_;     // their sizes and strides
  std::vector<uint64_t> scalars_;
  std::vector<std::byte> params_;
  std::vector<MeasuredLaunch> launches_;
  int64_t scratch_bytes_;
};

}  // namespace pto
