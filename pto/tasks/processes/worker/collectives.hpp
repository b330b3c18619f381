// SPDX-License-Identifier: Apache-2.0
// Collectives: what the tasks of pto.comm compute, on tensors of any strides.
//
//     collective_of("sum")(tensors, {});        // tensors[0] = tensors[1] + ... + tensors[n]
//     collective_of("add")(tensors, {value});   // each element of tensors[0] += value, an int64
//
// copy, sum, product, min, max; add and set with a number. All tensors have one shape and element
// type; the first may be one of the others. Sources are taken in their order, floats of 16 bits in
// float: results do not depend on how devices are scheduled. NaN propagates through min and max.
// Errors: Error for a name that does not exist, and tensors that differ.
// Thread safety: any thread.
#pragma once

#include <span>
#include <string_view>

#include "pto/abi/host.h"

namespace pto {

using Collective = void (*)(std::span<const pto_tensor> tensors, std::span<const uint64_t> scalars);
Collective collective_of(std::string_view name);

}  // namespace pto
