// SPDX-License-Identifier: Apache-2.0
// The multiply-adds that a core makes in registers alone: the ceiling of products.
//
//     multiply_add_in_registers<float>();        // kAtOnce<float> multiply-adds
//
// Thread safety: pure functions.
#pragma once
#include <pto/pto-inst.hpp>

namespace bench {

using namespace pto::isa;

#if defined(PTO_TARGET_AVX512)
constexpr int kWide = 24;  // vectors
#define PTO_FUSED "vfmadd231ps %1, %1, %0"
#define PTO_QUADS "vpdpbusd %1, %1, %0"
#elif defined(PTO_TARGET_AVX2)
constexpr int kWide = 10;
#define PTO_FUSED "vfmadd231ps %1, %1, %0"
#define PTO_QUADS "vpmaddwd %1, %1, %2\n vpaddd %2, %0, %0"
#else
constexpr int kWide = 8;
#define PTO_FUSED "movaps %1, %2\n mulps %1, %2\n addps %2, %0"
#define PTO_QUADS "movaps %1, %2\n pmaddwd %1, %2\n paddd %2, %0"
#endif
constexpr int kRepeats = 1000;

// Makes kRepeats multiply-adds of kWide vectors, of floats or of bytes.
template <class T>
void multiply_add_in_registers() {
  using V = Vec<float, kVectorBytes / 4>;
  V one = {};
  V sum[kWide] = {};
  for (int i = 0; i < kRepeats; ++i) {
    PTO_UNROLL
    for (int j = 0; j < kWide; ++j) {
      V product;
      if (kSame<T, int8_t>)
        asm volatile(PTO_QUADS : "+v"(sum[j]), "+v"(one), "=&v"(product));
      else
        asm volatile(PTO_FUSED : "+v"(sum[j]), "+v"(one), "=&v"(product));
    }
  }
}

// Multiply-adds of one call of the function above. AVX-512 counts on VNNI, as libpto does.
template <class T>
constexpr double kAtOnce = double(kRepeats) * kWide* kVectorBytes / 4 *
                           (!kSame<T, int8_t>    ? 1
                            : kVectorBytes == 64 ? 4
                                                 : 2);

}  // namespace bench
