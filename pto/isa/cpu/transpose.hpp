// SPDX-License-Identifier: Apache-2.0
// Transposition in registers: blocks of 16 bytes x 32 bytes (16 where vectors are that short).
//
//     transpose_lines<4>(d, d_stride, s, s_stride, 128, 64);   // d[i][j] = s[j][i], 128 x 64
//     floats
//
// Invariant: exactly lines x length elements are written; B is the size of an element in bytes.
// Source and destination do not overlap.
// Thread safety: pure functions on memory of the caller.
#pragma once
#include "pto/isa/cpu/vec.hpp"

PTO_NAMESPACE_BEGIN
namespace moves {

template <int B>
using Bits =
    typename Choose<B == 1, uint8_t,
                    typename Choose<B == 2, uint16_t,
                                    typename Choose<B == 4, uint32_t, uint64_t>::type>::type>::type;
// Bytes of a stored row of a block, and what one 128-bit lane holds.
constexpr int kBlockBytes = kVectorBytes < 32 ? 16 : 32;
template <int B>
constexpr int kLaneCount = 16 / B;

// Interleaves the lower or the upper half of each 128-bit lane: one unpack instruction.
constexpr int zip_index(int i, int lane, int count, bool high) {
  const int j = i % lane, from = i - j + (high ? lane / 2 : 0) + j / 2;
  return j % 2 ? from + count : from;
}
template <bool High, int Lane, class V, int... I>
PTO_INLINE V zip(V a, V b, Indices<I...>) {
  return __builtin_shufflevector(a, b, zip_index(I, Lane, int(sizeof...(I)), High)...);
}
template <class V, class H, int... I>
PTO_INLINE V joined(H low, H high, Indices<I...>) {
  return __builtin_shufflevector(low, high, I...);
}

// d[i][j] = s[j][i] for kLaneCount<B> rows i of N elements: one or two lanes.
template <int B, int N>
PTO_INLINE void transpose_block(char* d, int64_t d_stride, const char* s, int64_t s_stride) {
  constexpr int L = kLaneCount<B>;
  using Order = typename IndicesTo<N>::type;
  using V = Vec<Bits<B>, N>;
  using Half = typename VecOf<Bits<B>, L>::loose;
  V v[L], w[L];
  PTO_UNROLL
  for (int i = 0; i < L; ++i) {
    const Vec<Bits<B>, L> low = *reinterpret_cast<const Half*>(s + i * s_stride);
    if constexpr (N == L)
      v[i] = low;
    else
      v[i] = joined<V>(low, Vec<Bits<B>, L>(*reinterpret_cast<const Half*>(s + (i + L) * s_stride)),
                       Order{});
  }
  PTO_UNROLL
  for (int step = 1; step < L; step *= 2) {
    PTO_UNROLL
    for (int i = 0; i < L / 2; ++i) {
      w[2 * i] = zip<false, L>(v[i], v[i + L / 2], Order{});
      w[2 * i + 1] = zip<true, L>(v[i], v[i + L / 2], Order{});
    }
    PTO_UNROLL
    for (int i = 0; i < L; ++i) v[i] = w[i];
  }
  PTO_UNROLL
  for (int i = 0; i < L; ++i)
    *reinterpret_cast<typename VecOf<Bits<B>, N>::loose*>(d + i * d_stride) = v[i];
}

template <int B>
PTO_INLINE void copy_element(char* d, const char* s) {
  __builtin_memcpy(d, s, B);
}

// Source lines are taken a cache line at a time. A last, partial block is moved back over the one
// before.
template <int B, int N>
PTO_INLINE void transpose_blocks(char* d, int64_t d_stride, const char* s, int64_t s_stride,
                                 int64_t lines, int64_t length) {
  constexpr int L = kLaneCount<B>, kStrip = 64 / B;
  for (int64_t strip = 0; strip < lines; strip += kStrip) {
    const int64_t end = strip + kStrip < lines ? strip + kStrip : lines;
    for (int64_t next = 0; next < length; next += N) {
      const int64_t j = next + N <= length ? next : length - N;
      for (int64_t step = strip; step < end; step += L) {
        const int64_t i = step + L <= lines ? step : lines - L;
        transpose_block<B, N>(d + i * d_stride + j * B, d_stride, s + j * s_stride + i * B,
                              s_stride);
      }
    }
  }
}

// d[i][j] = s[j][i] for `lines` rows i of `length` elements.
template <int B>
__attribute__((noinline)) inline void transpose_lines(char* d, int64_t d_stride, const char* s,
                                                      int64_t s_stride, int64_t lines,
                                                      int64_t length) {
  constexpr int L = kLaneCount<B>, N = kBlockBytes / B;
  if (lines < L || length < L) {
    for (int64_t i = 0; i < lines; ++i)
      for (int64_t j = 0; j < length; ++j)
        copy_element<B>(d + i * d_stride + j * B, s + j * s_stride + i * B);
  } else if (length < N) {
    transpose_blocks<B, L>(d, d_stride, s, s_stride, lines, length);
  } else {
    transpose_blocks<B, N>(d, d_stride, s, s_stride, lines, length);
  }
}

}  // namespace moves
PTO_NAMESPACE_END
