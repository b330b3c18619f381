// SPDX-License-Identifier: Apache-2.0
// Launch: one kernel over its blocks; implements the launch part of abi/host.h.
//
//     pto_args args = {PTO_ABI_VERSION};
//     if (pto_launch(kernel, &args, 24) != 0) std::puts(pto_last_error());
//
// Each block runs with its own block index, a floating-point state (round to nearest, subnormals
// kept; hosts differ, results must not), the thread's scratch, and a net for C++ exceptions. The
// first error of a launch keeps its text and stops the blocks not yet begun.
//
// Invariant: a launch restores the caller's floating-point state and block index, also after an
// error.
// Thread safety: any thread; a launch inside a block runs inline.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "pto/abi/host.h"

namespace pto {

// The kernels of a block's cube core and of its vector cores. Null: the block has no such core; but
// a null first vector kernel beside a second one is an idle core.
struct CoreKernels {
  pto_kernel cube = nullptr, vectors[2] = {};
  bool operator==(const CoreKernels&) const = default;
};

// Each core of a block runs its kernel, all on the same arguments; they may wait for each other.
// Runs all blocks, which may then wait for each other too, or `block` alone. Returns as
// pto_launch() does.
constexpr int32_t kAllBlocks = -1;
int32_t launch_cores(const CoreKernels& kernels, const pto_args& args, int32_t blocks,
                     int32_t block = kAllBlocks);

// Calls a program's function once, on this thread; what it launches runs on the pool. Returns as
// pto_launch() does.
int32_t run_program(pto_kernel function, const pto_args& args);

// Returns the arguments of a launch, which point to these.
inline pto_args args_of(std::span<const pto_tensor> tensors, std::span<const uint64_t> scalars,
                        std::span<const std::byte> params = {}) {
  pto_args args{};
  args.abi_version = PTO_ABI_VERSION;
  args.n_tensors = static_cast<int32_t>(tensors.size());
  args.tensors = tensors.data();
  args.n_scalars = static_cast<int32_t>(scalars.size());
  args.scalars = scalars.data();
  args.params = params.data();
  args.params_bytes = static_cast<int64_t>(params.size());
  args.blocks = 1;
  return args;
}

// Sets the text that pto_last_error() returns on this thread from now on.
void set_last_error(std::string text);

// Returns the extent that pto_extent() finds, whether or not an unknown extent is refused.
int64_t known_extent(const void* pointer);

// From now on pto_extent() fails the running launch instead of returning -1.
void refuse_unknown_extents();

}  // namespace pto
