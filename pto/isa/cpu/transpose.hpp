// SPDX-License-Identifier: Apache-2.0
// Transpose: transposes in registers, in blocks of 16 bytes x a vector of up to 64 bytes.
//
//     transpose_lines<4>(d, d_stride, s, s_stride, 128, 64);   // d[i][j] = s[j][i], 128 x 64
//
// Invariant: exactly lines x length elements are written; B is the size of an element in bytes.
// Source and destination do not overlap.
// Thread safety: pure functions on memory of the caller.
#pragma once
#include "pto/isa/cpu/steps.hpp"

PTO_NAMESPACE_BEGIN
namespace moves {

template <int B>
using Bits = typename WordOf<B>::Unsigned;
// Elements in one 128-bit lane.
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
// Joins a lane from each of N / kLaneCount<B> rows as they come from memory, for which the compiler
// takes shuffles.
template <int B, int N>
PTO_INLINE Vec<Bits<B>, N> load_lanes(const char* const* rows, int64_t offset) {
  constexpr int L = kLaneCount<B>;
  using Lane = typename VecOf<Bits<B>, L>::loose;
  if constexpr (N == L) {
    return *reinterpret_cast<const Lane*>(rows[0] + offset);
  } else {
    const auto low = load_lanes<B, N / 2>(rows, offset);
    Vec<Bits<B>, N> v;
    if constexpr (N == 2 * L)
      asm("vinserti128 $1, %2, %t1, %0"
          : "=x"(v)
          : "x"(low), "m"(*reinterpret_cast<const Lane*>(rows[1] + offset)));
    else
      asm("vinserti64x4 $1, %2, %g1, %0"
          : "=v"(v)
          : "v"(low), "v"(load_lanes<B, N / 2>(rows + 2, offset)));
    return v;
  }
}

// Computes v[i][j] = s[j][i] for kLaneCount<B> rows i of N elements: one, two or four lanes, within
// which the shuffles stay.
template <int B, int N>
PTO_INLINE void load_transposed(Vec<Bits<B>, N>* v, const char* s, int64_t s_stride) {
  constexpr int L = kLaneCount<B>;
  using Order = typename IndicesTo<N>::type;
  Vec<Bits<B>, N> w[L];
  const char* rows[N / L];  // else the compiler keeps an address for every row
  PTO_UNROLL
  for (int i = 0; i < N / L; ++i)
    rows[i] = lanes::without_history(i > 0 ? rows[i - 1] + L * s_stride : s);
  PTO_UNROLL
  for (int i = 0; i < L; ++i) v[i] = load_lanes<B, N>(rows, i * s_stride);
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
}

template <int B, int N>
PTO_INLINE void transpose_block(char* d, int64_t d_stride, const char* s, int64_t s_stride) {
  constexpr int L = kLaneCount<B>;
  Vec<Bits<B>, N> v[L];
  d = lanes::without_history(d);
  load_transposed<B, N>(v, s, s_stride);
  PTO_UNROLL
  for (int i = 0; i < L; ++i)
    *reinterpret_cast<typename VecOf<Bits<B>, N>::loose*>(d + i * d_stride) = v[i];
}

template <int B>
PTO_INLINE void copy_element(char* d, const char* s) {
  __builtin_memcpy(d, s, B);
}

// Transposes blocks beside each other.
template <int B, int N>
PTO_INLINE void transpose_strip(char* d, int64_t d_stride, const char* s, int64_t s_stride,
                                int64_t lines) {
  constexpr int L = kLaneCount<B>;
  for (; lines > 0; lines -= L, d += L * d_stride, s += L * B)
    transpose_block<B, N>(d, d_stride, s, s_stride);
}

// Transposes a strip at a time, a cache line of the source wide where possible. The last strip, of
// lines and of their length, moves back over elements that are done already.
template <int B, int N>
PTO_INLINE void transpose_blocks(char* d, int64_t d_stride, const char* s, int64_t s_stride,
                                 int64_t lines, int64_t length) {
  constexpr int L = kLaneCount<B>;
  for (int64_t next = 0, strip; next < lines; next += strip) {
    const int64_t rest = lines - next, i = rest < L ? lines - L : next;
    strip = rest < L ? L : rest < 4 * L ? rest / L * L : 4 * L;
    char* to = d + i * d_stride;
    const char* from = s + i * B;
    int64_t left = length;
    for (; left >= N; left -= N, to += N * B, from += N * s_stride)
      transpose_strip<B, N>(to, d_stride, from, s_stride, strip);
    if (left > 0)
      transpose_strip<B, N>(to - (N - left) * B, d_stride, from - (N - left) * s_stride, s_stride,
                            strip);
  }
}

// Lines, or their elements, are fewer than a block has: they lie few steps apart, or come in turn.
template <int B>
PTO_INLINE void transpose_few(char* d, int64_t d_stride, const char* s, int64_t s_stride,
                              int64_t lines, int64_t length) {
  auto* const to = reinterpret_cast<Bits<B>*>(d);
  auto* const from = reinterpret_cast<const Bits<B>*>(s);
  if (d_stride == length * B && length < lines && s_stride % B == 0)
    return lanes::join_rows(to, from, s_stride / B, length, lines);
  for (int64_t i = 0; i < lines; ++i) {
    if (s_stride % B == 0 && d_stride % B == 0)
      lanes::gather_words(to + i * (d_stride / B), from + i, s_stride / B, length, length);
    else
      for (int64_t j = 0; j < length; ++j)
        copy_element<B>(d + i * d_stride + j * B, s + j * s_stride + i * B);
  }
}

// Computes d[i][j] = s[j][i] for `lines` rows i of `length` elements.
template <int B>
__attribute__((noinline)) inline void transpose_lines(char* d, int64_t d_stride, const char* s,
                                                      int64_t s_stride, int64_t lines,
                                                      int64_t length) {
  constexpr int L = kLaneCount<B>;
  if (lines < L || length < L) return transpose_few<B>(d, d_stride, s, s_stride, lines, length);
  if constexpr (kVectorBytes >= 64) {
    if (length >= 4 * L) return transpose_blocks<B, 4 * L>(d, d_stride, s, s_stride, lines, length);
  }
  if constexpr (kVectorBytes >= 32) {
    if (length >= 2 * L) return transpose_blocks<B, 2 * L>(d, d_stride, s, s_stride, lines, length);
  }
  transpose_blocks<B, L>(d, d_stride, s, s_stride, lines, length);
}

}  // namespace moves
PTO_NAMESPACE_END
