// SPDX-License-Identifier: Apache-2.0
// Views: nodes whose output is their input in another shape. They are single kernels of the
// provider's registry, where ONNX Runtime may give the output the input's memory, so usually
// nothing is copied.
//
//     add_view("Reshape", 5, 25, View::Shape);   // rows of the table, before the first session
//
// Invariant: the table does not change after view_registry().
// Thread safety: one thread calls add_view(), before any thread calls view_registry().
#pragma once

#include <string>

#include "pto/adapters/onnxruntime/api.hpp"

namespace pto::ort {

// How the output's shape follows from the input's.
enum class View : int32_t {
  Same,
  Shape,       // input 1 with 0 for an axis of the input and one -1 for what is left
  Matrix,      // the axes before the attribute `axis` joined, and those from it on
  AddAxes,     // axes of size 1 put in at input 1, or the attribute `axes`
  RemoveAxes,  // axes of size 1 taken out there, or all of them
};

void add_view(std::string type, int first, int last, View view);

// Returns the registry of all views; the first call makes it.
const KernelRegistry* view_registry(const char* provider);

}  // namespace pto::ort
