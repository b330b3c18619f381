// SPDX-License-Identifier: Apache-2.0
// Operators with hand-written kernels: shapes from `infer`, and a program that launches one kernel.
//
//     const auto program = native_program(request, infer_shapes_for(request), kernel, library);
//
// Invariant: the program keeps the kernel's library loaded.
// Thread safety: pure functions.
#pragma once

#include <memory>
#include <string>

#include "pto/operators/registry.hpp"

namespace pto {

// Makes a program whose one launch is `function` (abi/define_operator.h lists its arguments).
// `library` keeps its code loaded; `shapes` are those of the request's tensors.
std::shared_ptr<const Program> native_program(const KernelRequest& request,
                                              const InferredShapes& shapes, pto_kernel function,
                                              std::shared_ptr<void> library);

// Return the dtypes and ranks of the given tensors, and the shapes that follow.
std::vector<TensorKind> kinds_of(const KernelRequest& request);
InferredShapes infer_shapes_for(const KernelRequest& request);

}  // namespace pto
