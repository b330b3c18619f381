// SPDX-License-Identifier: Apache-2.0
// The loops of TMATMUL for any x86-64 CPU.
#include "pto/isa/cpu/matmul_types.hpp"

constexpr pto::MatmulLoops pto::kMatmulPortable = pto::isa::matmul::kLoops;
