// SPDX-License-Identifier: Apache-2.0
// The steps of a call, for callers that cache some of them. They throw pto::Error.
//
//     CallArguments arguments(call, CallArguments::Reads::Values);
//     const Program& program = program_of(*call.op, arguments);   // compiles at a miss
//     run_call(call, arguments);                                  // all steps
//
// Invariant: a program, once made, lives as long as the process.
// Thread safety: any thread; one thread uses the arguments of a call.
#pragma once

#include <span>

#include "pto/operators/call_arguments.hpp"

namespace pto {

const Program& program_of(const pto_operator& op, const CallArguments& arguments);

// Allocates the outputs and runs; it may replace inputs with gaps in `arguments` by dense copies.
void run_call(const pto_operator_call& call, CallArguments& arguments);

// Says whether output `output` may be written over this input if both have the same memory.
bool may_replace(const ProgramSpec& spec, size_t output, std::span<const int64_t> sizes,
                 const pto_tensor_ref& input);

// Returns the number of tensors in a list output: what the other outputs leave of `tensors` if it
// is the only list, else the number that infer gave.
int list_size(const pto_operator_call& call, int output, int tensors);

// Calls visit(output, member) in order for each of the `tensors` tensors of the outputs.
template <class Visit>
void for_each_output(const pto_operator_call& call, int tensors, Visit visit) {
  for (int output = 0; output < call.op->n_outputs; ++output) {
    const int members = call.op->outputs[output].is_list ? list_size(call, output, tensors) : 1;
    for (int member = 0; member < members; ++member) visit(output, member);
  }
}

// Asks the caller for the memory of a tensor of an output.
void* allocate_output(const pto_operator_call& call, int output, int member,
                      std::span<const int64_t> sizes, DType dtype, int64_t bytes);

}  // namespace pto
