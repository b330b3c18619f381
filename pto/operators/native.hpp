// SPDX-License-Identifier: Apache-2.0
// Operators with hand-written kernels: shapes from `infer`, and a program that launches one kernel.
//
// Thread safety: pure functions.
#pragma once

#include <memory>
#include <string>

#include "pto/operators/registry.hpp"

namespace pto {

// A program whose one launch is `function` (see abi/define_operator.h for its arguments); `library`
// keeps its code loaded. `shapes` are those of the request's tensors.
std::shared_ptr<const Program> native_program(const KernelRequest& request,
                                              const InferredShapes& shapes, pto_kernel function,
                                              std::shared_ptr<void> library);

// The dtypes and ranks of the given tensors, and the shapes for them.
std::vector<TensorKind> kinds_of(const KernelRequest& request);
InferredShapes infer_shapes_for(const KernelRequest& request);

}  // namespace pto
