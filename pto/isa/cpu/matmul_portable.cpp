// SPDX-License-Identifier: Apache-2.0
// The loops of TMATMUL for any x86-64 CPU.
#define PTO_COMPILES_SHARED_LOOPS
#include "pto/isa/cpu/matmul_shared.hpp"
#include "pto/isa/cpu/matmul_types.hpp"

constexpr pto::MatmulLoops pto::kMatmulPortable = pto::isa::matmul::kLoops;
