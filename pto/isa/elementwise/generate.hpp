// SPDX-License-Identifier: Apache-2.0
// Generate: makes tiles from nothing: sequences, triangles, random numbers.
//
//     TCI<D, int32_t, 0>(d, 5);          // 5 6 7 ...;  <D, int32_t, 1>: 5 4 3 ...
//     TTRI<D, 0>(d, 0);                  // 1 on and below the diagonal, else 0
//     TRANDOM(d, key, counter);          // Philox 4x32, 10 rounds
//
// Each run of 256 columns of a row has 64 counters side by side (128 bits, lowest word first):
// column 64 w + i is word w of the block of the i-th. The next run begins max(Cols, 256) / 4
// counters later, so that no counter serves twice.
//
// Invariant: only the valid region is written. Equal keys and counters give equal numbers on every
// target.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/cpu/philox.hpp"
#include "pto/isa/elementwise/elementwise.hpp"

PTO_NAMESPACE_BEGIN

using TRandomKey = uint32_t[2];
using TRandomCounter = uint32_t[4];

namespace detail {

constexpr int kCounters = kVectorBytes / 4;  // at once, at most 16

constexpr int kRandomLanes = 64;  // counters side by side: word w of lane i is in column 64 w + i

// Fills the columns of four words of 64 lanes, `left` of them at most; lane i from counter + i.
template <int Rounds>
PTO_INLINE void random_columns(uint32_t* to, int left, const uint32_t* key,
                               const uint32_t* counter) {
  using V = Vec<uint32_t, kCounters>;
  for (int lane = 0; lane < kRandomLanes && lane < left; lane += kCounters) {
    V word[4], carry = lanes::iota<uint32_t, kCounters>() + uint32_t(lane);
    for (int i = 0; i < 4; ++i) {
      word[i] = carry + counter[i];
      carry = bit_cast<V>(word[i] < carry) & 1u;
    }
    lanes::philox<Rounds>(word, key[0], key[1]);
    for (int i = 0, column = lane; i < 4 && column < left; ++i, column += kRandomLanes)
      lanes::store_part<kCounters>(to + column, word[i],
                                   left - column < kCounters ? left - column : kCounters);
  }
}

PTO_INLINE void advance_counter(uint32_t* counter, uint32_t by) {
  for (int i = 0; i < 4; ++i) {
    counter[i] += by;
    by = counter[i] < by ? 1 : 0;
  }
}

// Writes a row of consecutive integers from `start`, counting up or down, wrapping.
template <bool Descending, class T>
PTO_INLINE void count_line(T* d, T start, int length) {
  using U = UnsignedOf<T>;
  constexpr int N = kVectorBytes / int(sizeof(T));
  using V = Vec<U, N>;
  const V steps = lanes::iota<U, N>();
  V value = Descending ? U(start) - steps : U(start) + steps;
  U* to = reinterpret_cast<U*>(d);
  int i = 0;
  for (; i + N <= length; i += N) {
    *reinterpret_cast<typename VecOf<U, N>::loose*>(to + i) = value;
    value = Descending ? value - U(N) : value + U(N);
  }
  __builtin_memcpy(static_cast<void*>(to + i), &value, size_t(length - i) * sizeof(T));
}

}  // namespace detail

// Computes d[0, j] = start + j, or start - j.
template <class D, class T, int Descending, class... X>
PTO_INLINE RecordEvent TCI(D& d, T start, const X&...) {
  static_assert(kSame<T, typename D::DType> && kSame<T, Raw<T>> && !kIsFloat<T>,
                "TCI: the start must have the tile's element type, an integer; cast the start");
  static_assert(D::Rows == 1 && kIsRows<D>,
                "TCI: the destination must be one row; take one with TSUBVIEW");
  PTO_INSTRUCTION(TCI, "d, start, [tmp], <descending>", out(d));
  if (d.GetValidRow() > 0) detail::count_line<Descending != 0>(d.data(), start, d.GetValidCol());
  return {};
}
template <class D, class Tmp, class T, int Descending, class... X>
PTO_INLINE RecordEvent TCI(D& d, T start, const Tmp&, const X&... events) {
  static_assert(check_trailing<Tmp, X...>());
  return TCI<D, T, Descending>(d, start, events...);
}

// Upper 0: d[i, j] = j <= i + diag; upper 1: d[i, j] = j >= i + diag; as 1 and 0.
template <class D, int Upper, class... X>
PTO_INLINE RecordEvent TTRI(D& d, int diag, const X&...) {
  static_assert(Upper == 0 || Upper == 1, "TTRI: upper must be 0 or 1; 0 is the lower triangle");
  PTO_INSTRUCTION(TTRI, "d, diag, <upper>", out(d));
  using T = typename D::DType;
  const int cols = d.GetValidCol();
  for (int r = 0; r < d.GetValidRow(); ++r) {
    const int64_t edge = int64_t(r) + diag + (Upper ? 0 : 1);  // the first column beyond
    const int split = edge < 0 ? 0 : edge > cols ? cols : int(edge);
    const T below = T(Upper ? 0.f : 1.f), above = T(Upper ? 1.f : 0.f);
    for (int c = 0; c < split; ++c) d.SetElement(r, c, below);
    for (int c = split; c < cols; ++c) d.SetElement(r, c, above);
  }
  return {};
}

// Writes random 32-bit words. The counter keeps its value: add the blocks used, or change the key.
template <uint16_t Rounds = 10, class D, class... X>
PTO_INLINE RecordEvent TRANDOM(D& d, const TRandomKey& key, const TRandomCounter& counter,
                               const X&...) {
  using T = typename D::DType;
  static_assert(Rounds == 7 || Rounds == 10,
                "TRANDOM: rounds must be 7 or 10; leave them out for 10");
  static_assert((kSame<T, int32_t> || kSame<T, uint32_t>)&&kIsRows<D>,
                "TRANDOM: the destination must be row-major, of int32_t or uint32_t; convert "
                "afterwards with TCVT");
  PTO_INSTRUCTION(TRANDOM, "d, key, counter, <rounds>", out(d));
  constexpr int kColumns = 4 * detail::kRandomLanes;
  constexpr uint32_t kStep = (D::Cols > kColumns ? D::Cols : kColumns) / 4;
  uint32_t block[4] = {counter[0], counter[1], counter[2], counter[3]};
  for (int r = 0; r < d.GetValidRow(); ++r)
    for (int c = 0; c < d.GetValidCol(); c += kColumns) {
      detail::random_columns<Rounds>(reinterpret_cast<uint32_t*>(d.data()) + D::Offset(r, c),
                                     d.GetValidCol() - c, key, block);
      detail::advance_counter(block, kStep);
    }
  return {};
}

PTO_NAMESPACE_END
