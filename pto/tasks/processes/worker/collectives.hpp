// SPDX-License-Identifier: Apache-2.0
// Collectives: what the tasks of pto.comm compute, on tensors of any strides.
//
//     collective_of("sum")(tensors, {});        // tensors[0] = tensors[1] + ... + tensors[n]
//     collective_of("add")(tensors, scalars);   // tensors[0][i] += scalars[0], an int64
//
// The names are copy, sum, product, min, max, and add and set with a number. All tensors have one
// shape and element type; the first may be, or overlap, one of the others. NaN propagates through
// min and max.
// Errors: Error for an unknown name, and for tensors that differ.
// Invariant: sources are taken in their order and 16-bit floats accumulate in float, so results do
// not depend on how devices are scheduled.
// Thread safety: any thread.
#pragma once

#include <span>
#include <string_view>

#include "pto/abi/host.h"

namespace pto {

using Collective = void (*)(std::span<const pto_tensor> tensors, std::span<const uint64_t> scalars);
Collective collective_of(std::string_view name);

}  // namespace pto
