// SPDX-License-Identifier: Apache-2.0
// Engine: the best engine of the loops that libpto compiles for several targets.
//
//     const bool has_avx2 = pto::best_engine() >= PTO_MATMUL_AVX2;
//
// Thread safety: any thread.
#pragma once
#include "pto/isa/cpu/matmul_job.hpp"

namespace pto {

int best_engine();

}  // namespace pto
