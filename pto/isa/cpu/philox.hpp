// SPDX-License-Identifier: Apache-2.0
// Philox: random words by counting. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// 2011: Philox4x32.
//
//     using V = Vec<uint32_t, 8>;
//     V word[4] = {lanes::iota<uint32_t, 8>(), V{}, V{}, V{}};   // counters 0 to 7
//     lanes::philox<10>(word, key0, key1);                       // 32 random words
//
// Invariant: equal keys and counters give equal words on every target.
// Thread safety: pure functions.
#pragma once
#include "pto/isa/cpu/shuffle.hpp"

PTO_NAMESPACE_BEGIN

namespace lanes {

// Computes the low and the high halves of 32 x 32 bits.
template <class V>
PTO_INLINE void multiply_wide(V a, uint32_t b, V& low, V& high) {
  using Wide = Vec<uint64_t, kCount<V> / 2>;
  Wide p, q;
#if defined(PTO_TARGET_AVX512) || defined(PTO_TARGET_AVX2)
  const Wide even = bit_cast<Wide>(a), odd = even >> 32;  // the instruction reads the low halves
  const Wide factor = splat<Wide>(b);
  asm("vpmuludq %2, %1, %0" : "=v"(p) : "v"(even), "v"(factor));
  asm("vpmuludq %2, %1, %0" : "=v"(q) : "v"(odd), "v"(factor));
#else
  const Wide even = bit_cast<Wide>(a) & 0xffffffffu, odd = bit_cast<Wide>(a) >> 32;
  p = even * uint64_t(b);
  q = odd * uint64_t(b);
#endif
  low = bit_cast<V>((p & 0xffffffffu) | (q << 32));
  high = bit_cast<V>((p >> 32) | (q & 0xffffffff00000000u));
}

// word[i] holds word i of as many counters as there are lanes, lowest first, then of the numbers.
template <int Rounds, class V>
PTO_INLINE void philox(V (&word)[4], uint32_t key0, uint32_t key1) {
  for (int round = 0; round < Rounds; ++round) {
    V low0, high0, low1, high1;
    multiply_wide(word[0], 0xd2511f53u, low0, high0);
    multiply_wide(word[2], 0xcd9e8d57u, low1, high1);
    word[0] = high1 ^ word[1] ^ key0;
    word[1] = low1;
    word[2] = high0 ^ word[3] ^ key1;
    word[3] = low0;
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
}

}  // namespace lanes

PTO_NAMESPACE_END
