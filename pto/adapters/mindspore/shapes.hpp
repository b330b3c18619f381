// SPDX-License-Identifier: Apache-2.0
// Infers the shapes of an operator's results, as far as those of its arguments are known.
//
//     infer_shapes(request, ranks, shapes, nullptr).tensors;   // {{-1, 4}}: one size comes later
//
// -1 is an unknown size, a shape of one -2 an unknown rank.
// Invariant: sizes are compared if both are known; the call itself checks the rest.
// Thread safety: pure functions.
#pragma once

#include "pto/adapters/mindspore/request.hpp"

namespace pto::mindspore_adapter {

using Shape = std::vector<int64_t>;

inline constexpr int64_t kUnknownSize = -1;
inline constexpr int64_t kUnknownRank = -2;

struct InferredResults {
  std::vector<Shape> tensors;   // of all outputs, those of lists one after another
  std::vector<int32_t> dtypes;  // of the tensors; only where those of the arguments were given
  std::vector<int32_t> counts;  // tensors of each output
};

// Without `dtypes` it takes any that the operator allows: sizes do not depend on them. Throws
// std::runtime_error for shapes that do not fit the operator, or each other.
InferredResults infer_shapes(const Request& request, const int* ranks, const int64_t* const* shapes,
                             const int32_t* dtypes);

// Returns the place of tensor `member` of output `output` among all result tensors of a call.
size_t place_of(const pto_operator_call& call, int32_t output, int32_t member);

}  // namespace pto::mindspore_adapter
