// SPDX-License-Identifier: Apache-2.0
// Infers an operator's outputs from sizes of which some are unknown, for graphs under construction.
//
//     const auto outputs = partial_outputs(call, sizes);   // of all given tensors, in order
//     outputs[0].sizes[1].is_known
//
// Invariant: a size that depends on an unknown one is unknown; so is the first of a bounded output.
// Errors: SizeRefusal for known sizes that do not fit; std::runtime_error with the text of what the
// operator refuses. C++17, as evaluate_sizes.hpp.
// Thread safety: pure function.
#pragma once
#include <stdexcept>
#include <utility>
#include <vector>

#include "pto/adapters/operator.hpp"
#include "pto/base/evaluate_sizes.hpp"

namespace pto {

template <class Name>
struct PartialOutput {
  int32_t dtype;
  std::vector<PartialSize<Name>> sizes;
};

// Returns the tensors of all outputs, those of lists one after another.
template <class Name>
std::vector<PartialOutput<Name>> partial_outputs(const pto_operator_call& call,
                                                 std::vector<PartialSize<Name>> symbols) {
  const pto_operator& op = *call.op;
  const pto_operator_value* attribute = call.attributes;
  for (int32_t i = 0; i < op.n_arguments; ++i) {
    if (is_tensor(op.arguments[i])) continue;
    if (op.arguments[i].kind == PTO_KIND_SYMINT)  // one that is None counts, too
      symbols.push_back(PartialSize<Name>::number(attribute->integer));
    ++attribute;
  }
  const pto_shapes* const shapes = pto_operator_shapes(&call);
  if (!shapes) throw std::runtime_error(pto_operator_error());
  PartialSizes<Name> rules(*shapes);
  const auto dims = evaluate_sizes(*shapes, symbols, rules);
  std::vector<PartialOutput<Name>> found;
  const pto_shape* next = shapes->tensors;
  for (int32_t output = 0; output < op.n_outputs; ++output) {
    for (int32_t n = 0; n < shapes->counts[output]; ++n, ++next) {
      PartialOutput<Name>& made = found.emplace_back(PartialOutput<Name>{next->dtype, {}});
      for (int32_t axis = 0; axis < next->rank; ++axis)
        made.sizes.push_back(dims[static_cast<size_t>(next->sizes[axis])]);
      if (op.outputs[output].is_bounded) made.sizes[0] = PartialSize<Name>::unknown();
    }
  }
  return found;
}

}  // namespace pto
