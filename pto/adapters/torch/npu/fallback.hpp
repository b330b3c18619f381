// SPDX-License-Identifier: Apache-2.0
// Fallback: runs every operator without a kernel of ours by its CPU kernel, on the same memory.
//
//     for (const auto& [name, calls] : fallback_counts()) print(name, calls);
//
// The arguments become CPU aliases, the results npu tensors; nothing is copied. The call waits for
// the current stream of the device and returns when it is done.
// Thread safety: kernels may run on any thread; one thread at a time registers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pto::torch_npu {

// Returns the calls of each operator that fell back, most first: "aten::sort 3".
std::vector<std::pair<std::string, int64_t>> fallback_counts();
void reset_fallback_counts();

}  // namespace pto::torch_npu
