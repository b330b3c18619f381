// SPDX-License-Identifier: Apache-2.0
// Matmul shared: the loops of products that those of attention call, too. The files of products
// (matmul_avx2.cpp, ...) compile them, those of attention only declare them: they took half of the
// time that attention takes to compile.
//
//     add_few<FloatDot, float>(job);   // c += a b for a few rows of a
//
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_apart.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

// Adds products of a few rows by rows of b whose distance is large, as that of values is.
template <class Dot, class T>
void add_few(const pto_matmul_job& job) {
  if (Apart<Dot, T>(job).run(true)) return;
  if constexpr (kSame<T, float>) Stream(job).run();
}

#if defined(PTO_TARGET_AVX512)
#define PTO_SHARED_PAIRS(prefix)                                       \
  prefix struct KernelTable<FromPanels<Bf16Dot<HardwarePairs>>>;       \
  prefix struct KernelTable<FromPlaces<Bf16Dot<HardwarePairs>, void>>; \
  prefix void add_few<Bf16Dot<HardwarePairs>, bfloat16_t>(const pto_matmul_job&);
#else
#define PTO_SHARED_PAIRS(prefix)
#endif
#define PTO_SHARED_LOOPS(prefix)                                    \
  prefix struct KernelTable<FromPanels<FloatDot>>;                  \
  prefix struct KernelTable<FromPlaces<FloatDot, void>>;            \
  prefix void add_few<FloatDot, float>(const pto_matmul_job&);      \
  prefix void add_few<FloatDot, bfloat16_t>(const pto_matmul_job&); \
  PTO_SHARED_PAIRS(prefix)

#if defined(PTO_COMPILES_SHARED_LOOPS)
PTO_SHARED_LOOPS(template)
#elif !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which check their own
PTO_SHARED_LOOPS(extern template)
#endif
#undef PTO_SHARED_LOOPS
#undef PTO_SHARED_PAIRS

}  // namespace matmul
PTO_NAMESPACE_END
