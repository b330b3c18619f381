// SPDX-License-Identifier: Apache-2.0
// Counterexample: the first elements of which a comparison is not true, as an error shows them.
//
//     const pto_tensor sides[] = {rows, limit};  // {0, 2, 1} and 2
//     counterexample("lt", sides) == "2 < 2 is false at [1]";
//
// Thread safety: pure functions, which only read the tensors.
#pragma once

#include <string>
#include <string_view>

#include "pto/abi/host.h"

namespace pto {

// `comparisons` are names, "ge lt", each with its next two of `sides`, which broadcast. Returns ""
// where all are true.
std::string counterexample(std::string_view comparisons, const pto_tensor* sides);

}  // namespace pto
