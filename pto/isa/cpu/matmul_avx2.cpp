// SPDX-License-Identifier: Apache-2.0
// The loops of TMATMUL for CPUs with AVX2, FMA and F16C; CMakeLists.txt gives the flags.
#define PTO_COMPILES_SHARED_LOOPS
#include "pto/isa/cpu/matmul_shared.hpp"
#include "pto/isa/cpu/matmul_types.hpp"

constexpr pto::MatmulLoops pto::kMatmulAvx2 = pto::isa::matmul::kLoops;
