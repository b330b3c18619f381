// SPDX-License-Identifier: Apache-2.0
// Loops: the functions that libpto holds once for each target; attention.cpp and matmul.cpp choose
// among them by the abilities of the CPU.
//
//     kAttentionAvx2.run(job);   // where the CPU has AVX2
//
// Invariant: the compiler makes them, so no code of a target runs before it is chosen.
// Thread safety: constants.
#pragma once

#include <stddef.h>

#include "pto/isa/cpu/attention_job.hpp"
#include "pto/isa/cpu/matmul_job.hpp"

namespace pto {

struct AttentionLoops {
  void (*run)(const pto_attention_job&);
  size_t (*bytes)(const pto_attention_job&);
  int (*rows)(const pto_attention_job&);
  void (*run_backward)(const pto_attention_gradients&);
  size_t (*backward_bytes)(const pto_attention_gradients&);
  void (*add_scores)(const pto_attention_gradients&, int, float*);
};
extern const AttentionLoops kAttentionPortable, kAttentionAvx2, kAttentionAvx512, kAttentionPairs,
    kAttentionTiles;

// How many products a job is the first of, and how many elements their operands lie apart.
struct MatmulSteps {
  int64_t count, a, b, c;
};

struct MatmulLoops {
  void (*run)(const pto_matmul_job&);
  // Where b lies in pages, and all of a batch at once; false: nothing was written.
  bool (*run_pages)(const pto_matmul_job&);
  bool (*run_many)(const pto_matmul_job&, const MatmulSteps&);
};
extern const MatmulLoops kMatmulPortable, kMatmulAvx2, kMatmulAvx512, kMatmulQuads, kMatmulPairs,
    kMatmulTiles;

// As pto_transpose(), for elements of so many bytes.
struct TransposeLoops {
  using Run = void (*)(char* to, int64_t to_stride, const char* from, int64_t from_stride,
                       int64_t lines, int64_t length);
  Run bytes1, bytes2, bytes4, bytes8;
};
extern const TransposeLoops kTransposePortable, kTransposeAvx2, kTransposeAvx512;

}  // namespace pto
