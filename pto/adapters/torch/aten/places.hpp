// SPDX-License-Identifier: Apache-2.0
// Places: where the tensors of a call lie, and whether one that is written shares memory.
//
//     Places places;
//     add_place(places, 3, tensor, is_written);
//     if (needs_own_outputs(op, places)) ...       // the elements go through tensors of the call
//
// PyTorch compares tensors of one storage alone; memory that a program lends has a storage for each
// of its tensors.
// Errors: Refused for an output that shares a part of another argument, or is one of two that meet.
// Thread safety: pure functions.
#pragma once

#include <c10/util/SmallVector.h>

#include "pto/adapters/torch/aten/operators.hpp"

namespace pto::torch_adapter {

struct Place {
  int32_t argument;
  const c10::TensorImpl* tensor;
  const char* data;
  int64_t bytes;  // from the first to the last element; 0: it has none
  bool is_written;
};
using Places = c10::SmallVector<Place, 8>;

bool is_written(const c10::Argument& argument);

// Returns the bytes from the first to the last element.
int64_t extent_of(const c10::TensorImpl& tensor);

// Adds a tensor that is an argument, or in a list of one; nothing where it has no dense memory.
void add_place(Places& places, int32_t argument, const at::Tensor& tensor, bool is_written);

// Returns whether an output is also an input that the kernel reads after it has begun to write. One
// that works element by element does not, nor one for `self` whose name has a form in place.
// Throws Refused where a tensor that is written shares a part of another one.
bool needs_own_outputs(const pto_aten_operator& op, const Places& places);

// Throws Refused for an output whose elements share memory with each other.
void check_outputs(const pto_aten_operator& op, const Stack& stack);

// Returns the places of all arguments.
Places places_of(const pto_aten_operator& op, const Stack& stack);

}  // namespace pto::torch_adapter
