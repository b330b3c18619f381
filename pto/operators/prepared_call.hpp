// SPDX-License-Identifier: Apache-2.0
// PreparedCall: a call of an operator whose program is found and whose sizes are bound and checked.
//
//     const PreparedCall prepared(call);        // throws pto::Error; compiles at a miss
//     CallMemory memory = prepared.memory(call);   // asks the caller for the outputs
//     prepared.run(&memory);                    // at once, or later
//     if (prepared.fits(other)) ...             // it serves other calls too
//
// The caller may give memory of an argument for an output, whole or in part: the run protects the
// elements that it still has to read.
// Invariant: it owns copies of all that it was made from but the memory. A program, once made,
// lives as long as the process.
// Thread safety: immutable; runs may be under way on many threads.
#pragma once

#include <array>
#include <bitset>
#include <vector>

#include "pto/base/strided.hpp"
#include "pto/launch/call.hpp"
#include "pto/operators/bounded_rows.hpp"
#include "pto/operators/call_arguments.hpp"
#include "pto/operators/packed_constants.hpp"

namespace pto {

// The memory of one call, and its numbers of rows.
struct CallMemory {
  explicit CallMemory(const pto_operator_call& call) : rows(call) {}

  std::array<void*, PTO_MAX_TENSORS> inputs;
  std::array<void*, PTO_MAX_BUFFERS> outputs;
  BoundedRows rows;
  PackedConstants constants;
};

class PreparedCall {
 public:
  explicit PreparedCall(const pto_operator_call& call);

  // Says whether a call has as many tensors, of the same types, sizes and strides.
  bool fits(const pto_operator_call& call) const;

  CallMemory memory(const pto_operator_call& call) const;
  void run(CallMemory* memory) const;

 private:
  struct Gaps {  // the strides of an input of which the kernel gets a copy
    size_t input;
    std::array<int64_t, PTO_MAX_RANK> strides;
  };

  PreparedCall(const pto_operator_call& call, CallArguments&& arguments);
  static std::vector<Gaps> take_gaps(const pto_operator& op, CallArguments& arguments);
  static const Program& program_of(const pto_operator& op, const CallArguments& arguments);
  void count_members(const pto_operator_call& call);
  size_t given_outputs() const;
  std::vector<std::byte> packed_params(CallMemory* memory) const;
  const Gaps* gaps_of(size_t input) const;
  pto_tensor_ref input_at(size_t input, void* data) const;
  void lay_over_inputs();
  int tensor_of(int32_t argument) const;
  size_t members_of(int output) const;
  pto_tensor_ref output_at(size_t output, void* data) const;
  bool must_stand_aside(size_t output, const CallMemory& memory) const;
  bool may_replace(size_t output, size_t input) const;

  const pto_operator& op_;
  uint64_t owner_;  // of the kernel: a call of a replaced definition fits no more
  size_t n_given_;
  std::array<int32_t, PTO_MAX_TENSORS> counts_;  // of each tensor argument
  std::vector<int32_t> members_;                 // of each output; empty: one tensor each
  std::vector<Gaps> gaps_;
  Call call_;
  std::bitset<PTO_MAX_BUFFERS> laid_over_;  // outputs that lie where their argument does, with gaps
};

}  // namespace pto
