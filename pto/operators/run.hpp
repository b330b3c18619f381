// SPDX-License-Identifier: Apache-2.0
// The steps of a call, for those that remember some of them.
//
//     CallArguments arguments(call, CallArguments::Reads::Values);
//     const Program& program = program_of(*call.op, arguments);   // compiles at a miss
//     run_call(call, arguments);                                  // all of it
//
// They throw pto::Error.
// Thread safety: any thread; the arguments belong to one.
#pragma once

#include <span>

#include "pto/operators/call_arguments.hpp"

namespace pto {

const Program& program_of(const pto_operator& op, const CallArguments& arguments);

// Asks for the outputs and runs; inputs with gaps may be replaced in `arguments`.
void run_call(const pto_operator_call& call, CallArguments& arguments);

// Whether output `output` may be written over this input where both have the same memory.
bool may_replace(const ProgramSpec& spec, size_t output, std::span<const int64_t> sizes,
                 const TensorArgument& input);

// How many tensors an output that is a list has: what the others leave, where it is the only one.
int list_size(const pto_operator_call& call, int output, int tensors);

// visit(output, member) for each tensor of the outputs, of which there are `tensors`, in order.
template <class Visit>
void for_each_output(const pto_operator_call& call, int tensors, Visit visit) {
  for (int output = 0; output < call.op->n_outputs; ++output) {
    const int members = call.op->outputs[output].is_list ? list_size(call, output, tensors) : 1;
    for (int member = 0; member < members; ++member) visit(output, member);
  }
}

// The memory that the caller gives for a tensor of an output.
void* allocate_output(const pto_operator_call& call, int output, int member,
                      std::span<const int64_t> sizes, DType dtype, int64_t bytes);

}  // namespace pto
