// SPDX-License-Identifier: Apache-2.0
// TypedLaunch: a checked call of a typed kernel, run at once or handed to a device's stream.
//
//     launch.run();                               // returns when it is done
//     launch.run_on(device, stream, arguments);   // returns at once, see isa/kernel/launch.hpp
//
// A PreparedCall finds and binds a program; here the caller has kernel, blocks and tensors, and
// nothing is left to prepare.
// Invariant: it owns the description of its arguments, but not the memory of CPU tensors and
// pointers.
// Thread safety: a value; may run on another thread than the one that made it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pto/abi/typed_call.h"

namespace pto {

struct TypedLaunch {
  pto_kernel kernel;
  int32_t blocks;
  std::vector<pto_tensor> tensors;
  std::vector<uint64_t> scalars;

  int32_t run() const;
  int32_t run_on(int32_t device, const void* stream, std::span<const pto_argument> arguments) const;
};

}  // namespace pto
