// SPDX-License-Identifier: Apache-2.0
// The loops of TMATMUL for CPUs with AVX2, FMA and F16C; CMakeLists.txt gives the flags.
#include "pto/isa/cpu/matmul_types.hpp"

extern "C" {
void pto_matmul_avx2(const pto_matmul_job* job, int quads) {
  pto::isa::matmul::run(*job, quads != 0);
}
}

extern "C" int pto_matmul_avx2_pages(const pto_matmul_job* job) {
  return pto::isa::matmul::run_pages(*job);
}
