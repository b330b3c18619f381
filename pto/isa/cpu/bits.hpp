// SPDX-License-Identifier: Apache-2.0
// Bits: converts masks of lanes to bits and back, the least significant bit first.
//
//     uint32_t b = pack_mask(x < y);            // bit i = lane i
//     auto m = unpack_mask<Vec<float, 8>>(b);   // all ones or zero a lane
//     auto z = select_by_bits(b, x, y);         // bit i ? x[i] : y[i]
//
// Invariant: a mask's lane is all ones or zero; bits beyond the lanes are 0 after pack_mask and
// ignored by the others. At most 32 lanes, 64 in select_by_bits.
// Thread safety: pure functions.
#pragma once
#include "pto/isa/cpu/shuffle.hpp"

PTO_NAMESPACE_BEGIN
namespace lanes {

// Packs eight bytes of 0 or 1: byte i goes to bit 7 (8 - i) + 8 i = 56 + i, and no two terms meet.
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

// The bits that pack_mask gives for a mask that is true in every lane.
template <class V>
constexpr uint32_t kEveryLane = uint32_t((uint64_t(1) << kCount<V>)-1);

// The bit of each lane, 1 << i, and that within its byte.
constexpr uint64_t bit_of_lane(int lane) { return uint64_t(1) << lane; }
constexpr uint64_t bit_in_byte(int lane) { return uint64_t(1) << lane % 8; }

struct ByteOfBit {
  static constexpr int at(int i, int) { return i / 16 * 16 + i / 8; }
};

template <class V>
PTO_INLINE MaskOf<V> unpack_mask(uint32_t bits) {
  constexpr int N = kCount<V>;
  using I = LaneOf<MaskOf<V>>;
  if constexpr (sizeof(I) == 1 && N % 4 == 0) {
    // Every byte receives the byte that holds its bit.
    using Bytes = Vec<int8_t, N>;
    const Bytes all = bit_cast<Bytes>(splat<Vec<uint32_t, N / 4>>(bits));
    return (shuffle<ByteOfBit>(all, all) & lane_table<Bytes, bit_in_byte>()) != Bytes{};
  } else {
    // A lane narrower than the mask has no room for its bit.
    using Wide = typename Choose<(8 * sizeof(I) >= N), I, int32_t>::type;
    using W = Vec<Wide, N>;
    const W power = lane_table<W, bit_of_lane>();
    return convert<I>((splat<W>(Wide(bits)) & power) == power);
  }
}

// Selects between vectors of integers.
template <class V>
PTO_INLINE V select_by_bits(uint64_t bits, V a, V b) {
#if defined(PTO_TARGET_AVX512)
  if constexpr (sizeof(V) >= 16) {
    constexpr int kBytes = int(sizeof(LaneOf<V>));
    V v;
    if constexpr (kBytes == 1)
      asm("vpblendmb %1, %2, %0%{%3%}" : "=v"(v) : "v"(a), "v"(b), "Yk"(bits));
    else if constexpr (kBytes == 2)
      asm("vpblendmw %1, %2, %0%{%3%}" : "=v"(v) : "v"(a), "v"(b), "Yk"(uint32_t(bits)));
    else if constexpr (kBytes == 4)
      asm("vpblendmd %1, %2, %0%{%3%}" : "=v"(v) : "v"(a), "v"(b), "Yk"(uint16_t(bits)));
    else
      asm("vpblendmq %1, %2, %0%{%3%}" : "=v"(v) : "v"(a), "v"(b), "Yk"(uint8_t(bits)));
    return v;
  }
#endif
  return select(unpack_mask<V>(uint32_t(bits)), a, b);
}

}  // namespace lanes
PTO_NAMESPACE_END
