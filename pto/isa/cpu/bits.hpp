// SPDX-License-Identifier: Apache-2.0
// Masks of lanes as bits and back, the least significant bit first.
//
//     uint32_t b = pack_mask(x < y);            // bit i = lane i
//     auto m = unpack_mask<Vec<float, 8>>(b);   // all ones or zero a lane
//
// Invariant: a mask's lane is all ones or zero; bits beyond the lanes are 0 after pack_mask and
// ignored by unpack_mask. At most 32 lanes.
// Thread safety: pure functions.
#pragma once
#include "pto/isa/cpu/vec.hpp"

PTO_NAMESPACE_BEGIN
namespace lanes {

// Eight bytes of 0 or 1 to bits: 7 (8 - i) + 8 i = 56 + i, and no two terms meet.
PTO_INLINE uint32_t pack_bytes(uint64_t bytes) {
  return uint32_t(((bytes & 0x0101010101010101u) * 0x0102040810204080u) >> 56);
}

template <class M>
PTO_INLINE uint32_t pack_mask(M mask) {
  constexpr int N = kCount<M>;
  [[maybe_unused]] constexpr int kBytes = int(sizeof(LaneOf<M>));
#if defined(PTO_TARGET_AVX512)
  if constexpr (sizeof(M) >= 16) {
    uint64_t bits;  // vpmovb2m of 64 bytes fills all of a mask register
    if constexpr (kBytes == 1)
      asm("vpmovb2m %1, %0" : "=Yk"(bits) : "v"(mask));
    else if constexpr (kBytes == 2)
      asm("vpmovw2m %1, %0" : "=Yk"(bits) : "v"(mask));
    else if constexpr (kBytes == 4)
      asm("vpmovd2m %1, %0" : "=Yk"(bits) : "v"(mask));
    else
      asm("vpmovq2m %1, %0" : "=Yk"(bits) : "v"(mask));
    return uint32_t(bits);
  }
#elif defined(PTO_TARGET_AVX2)
  if constexpr (sizeof(M) >= 16 && kBytes != 2) {
    uint32_t bits;
    if constexpr (kBytes == 1)
      asm("vpmovmskb %1, %0" : "=r"(bits) : "x"(mask));
    else if constexpr (kBytes == 4)
      asm("vmovmskps %1, %0" : "=r"(bits) : "x"(mask));
    else
      asm("vmovmskpd %1, %0" : "=r"(bits) : "x"(mask));
    return bits;
  }
#endif
  struct Bytes {
    uint64_t word[(N + 7) / 8];
  };
  Bytes bytes = {};
  const Vec<int8_t, N> narrow = convert<int8_t>(mask);
  __builtin_memcpy(&bytes, &narrow, N);
  uint32_t bits = 0;
  for (int i = 0; i < (N + 7) / 8; ++i) bits |= pack_bytes(bytes.word[i]) << (8 * i);
  return bits;
}

// The lanes' bits, 1 << i.
template <class I, int N>
struct Powers {
  I value[N];
  constexpr Powers() : value() {
    for (int i = 0; i < N; ++i) value[i] = I(uint64_t(1) << i);
  }
};
template <class I, int N>
inline constexpr Powers<I, N> kPowers;

template <class V>
PTO_INLINE MaskOf<V> unpack_mask(uint32_t bits) {
  constexpr int N = kCount<V>;
  using I = LaneOf<MaskOf<V>>;
  // A lane narrower than the mask has no room for its bit.
  using Wide = typename Choose<(8 * sizeof(I) >= N), I, int32_t>::type;
  using W = Vec<Wide, N>;
  const W power = bit_cast<W>(kPowers<Wide, N>);
  return convert<I>((splat<W>(Wide(bits)) & power) == power);
}

}  // namespace lanes
PTO_NAMESPACE_END
