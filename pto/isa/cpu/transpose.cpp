// SPDX-License-Identifier: Apache-2.0
// Chooses the loops of transposes by the abilities of the CPU.
#include "pto/abi/transpose.h"

#include "pto/isa/cpu/engine.hpp"
#include "pto/isa/cpu/loops.hpp"

void pto_transpose(void* to, int64_t to_stride, const void* from, int64_t from_stride,
                   int64_t lines, int64_t length, int32_t element_bytes) {
  const int best = pto::best_engine();
  const pto::TransposeLoops& loops = best >= PTO_MATMUL_AVX512 ? pto::kTransposeAvx512
                                     : best >= PTO_MATMUL_AVX2 ? pto::kTransposeAvx2
                                                               : pto::kTransposePortable;
  const auto run = element_bytes == 1   ? loops.bytes1
                   : element_bytes == 2 ? loops.bytes2
                   : element_bytes == 4 ? loops.bytes4
                                        : loops.bytes8;
  run(static_cast<char*>(to), to_stride, static_cast<const char*>(from), from_stride, lines,
      length);
}
