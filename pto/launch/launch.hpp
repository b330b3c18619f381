// SPDX-License-Identifier: Apache-2.0
// Launch: one kernel over its blocks; implements the launch part of abi/host.h.
//
//     pto_args args = ...;
//     if (pto_launch(kernel, &args, 24) != 0) std::puts(pto_last_error());
//
// Around each block: the block's index, a floating-point state of its own (round to nearest,
// subnormals kept; hosts differ, results must not), the thread's scratch, and a net for C++
// exceptions. The first error of a launch keeps its text and stops the blocks not yet begun.
// Invariant: what the caller had is what it finds afterwards: floating-point state, block index,
// also after an error.
// Thread safety: any thread; a launch inside a block runs inline.
#pragma once

#include <string>

#include "pto/abi/host.h"

namespace pto {

// The kernels of a block's cube core and of its vector cores; null: it has no such core, but the
// first vector core where there is a second.
struct CoreKernels {
  pto_kernel cube = nullptr, vectors[2] = {};
  bool operator==(const CoreKernels&) const = default;
};

// Each core of a block runs its kernel, all on the same arguments; they may wait for each other.
// Runs all blocks, which may then wait for each other too, or `block` alone. As pto_launch().
constexpr int32_t kAllBlocks = -1;
int32_t launch_cores(const CoreKernels& kernels, const pto_args& args, int32_t blocks,
                     int32_t block = kAllBlocks);

// The text that pto_last_error() returns on this thread from now on.
void set_last_error(std::string text);

// What pto_extent() finds, whether or not an unknown extent is refused.
int64_t known_extent(const void* pointer);

// From now on pto_extent() fails the running launch instead of answering that it knows nothing.
void refuse_unknown_extents();

}  // namespace pto
