// SPDX-License-Identifier: Apache-2.0
// target_of(): returns the target, the set of instructions, for which a compilation makes code.
//
//     target_of({.target = "avx2"}) == Target::Avx2;
//     target_of({}) == target_now();
//
// Thread safety: pure function.
#pragma once

#include "pto/base/machine.hpp"
#include "pto/compiler/compile.hpp"

namespace pto {

// Returns the target of a compilation for another CPU; throws pto::Error for an unknown one.
Target named_target(const std::string& name);

// Throws pto::Error for an unknown target and for one that this CPU lacks.
Target target_of(const CompileOptions& options);

}  // namespace pto
