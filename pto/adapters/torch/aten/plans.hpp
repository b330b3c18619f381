// SPDX-License-Identifier: Apache-2.0
// Plans keep the work that calls with arguments of the same kinds, sizes and numbers need only
// once.
//
//     if (const int32_t n = run_planned(call, results, room); n != kNoPlan) return n;
//     keep_plan(call, std::move(stack));  // after the checks that hold for all calls of this key
//
// A plan has the typed call and its arguments: numbers and lists as PyTorch takes them, and tensors
// whose memory is set anew at each call. Its key has every kind, type, size, stride, number and
// text of the call, and is compared in full.
//
// Invariant: a tensor of a plan is its own before and after a call; if a kernel keeps one, or gives
// it other sizes, the plan is dropped and the tensor is left to whoever has it.
// Thread safety: each thread has plans of its own, at most kPlans; a forked process has those of
// the thread that forked. A kernel that calls the same again gets no plan.
#pragma once

#include "pto/adapters/torch/aten/operators.hpp"

namespace pto::torch_adapter {

inline constexpr int32_t kNoPlan = -2;
inline constexpr int32_t kPlans = 256;

// Runs the plan of a call and returns the number of results; kNoPlan: there is none that takes it.
// Null `results` drops them. Throws Refused for too little room, for null memory of elements, and
// for a written tensor that shares a part of its memory with another argument.
int32_t run_planned(const Call& call, pto_aten_value* results, int32_t room);

// Keeps a plan for calls like this one; nobody else may hold the tensors of `stack`. Does nothing
// for an overload without a thunk, a call without a key, or one whose arguments no plan can hold.
void keep_plan(const Call& call, Stack stack);

// Returns the number of plans that this thread has.
int32_t plans_kept();

}  // namespace pto::torch_adapter
