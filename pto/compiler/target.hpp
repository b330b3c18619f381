// SPDX-License-Identifier: Apache-2.0
// target_of(): returns the target, the set of instructions, for which a compilation makes code.
//
//     target_of({.target = "avx2"}) == Target::Avx2;
//     target_of({}) == machine().target;
//
// Thread safety: pure function.
#pragma once

#include "pto/base/machine.hpp"
#include "pto/compiler/compile.hpp"

namespace pto {

// Throws pto::Error for an unknown target and for one that this CPU lacks.
Target target_of(const CompileOptions& options);

}  // namespace pto
