// SPDX-License-Identifier: Apache-2.0
// Matmul stream woven: units of a b of bytes or bf16, made in registers of rows of b that lie below
// each other.
//
//     using Woven = WovenRows<PairDot<int8_t>, int8_t>;
//     Woven::weave({b, b_row, 2}, Woven::ToPanel{panel});   // units of kOnce columns
//
// ToSums multiplies them instead, where they are boxed.
//
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_pack_bytes.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

// T: the type of b's elements.
template <class Dot, class T>
struct WovenRows {
  using Sum = typename Dot::Sum;
  static constexpr int kPerUnit = Dot::kPerUnit;
  // Vectors of AVX-512 interleave elements fastest within boxes of 16 bytes: sums have the columns
  // in that order until the last ones are written.
  static constexpr bool kBoxed = kVectorBytes == 64 && Dot::kRightBytes == 4;
  static constexpr int kOnce = kBoxed ? 64 / sizeof(T) : kVectors * kLane;  // columns
  static constexpr int kWide = kPerUnit;  // vectors of units that they become, where boxed
  // Quads take bytes without a sign: this is added to those of b.
  static constexpr int kExcess = kPerUnit == 4 ? 128 : 0;
  using Row = Vec<T, kOnce>;

  // Rows of b; those from number `rows` on count as zeros.
  struct Right {
    const T* at;
    int64_t row;
    int rows;
  };

  // Writes the units.
  struct ToPanel {
    char* to;
    template <int I, class V>
    PTO_INLINE void put(V v) const {
      __builtin_memcpy(to + I * int(sizeof v), &v, sizeof v);
    }
  };
  // Adds their products with a unit of each of N rows of a, kGroup units apart.
  template <int N>
  struct ToSums {
    Sum* sum;
    const int32_t* a;
    template <int I, class V>
    PTO_INLINE void put(V v) const {
      add<I>(bit_cast<typename Dot::Vector>(v), typename IndicesTo<N>::type());
    }
    template <int I, int... R>
    PTO_INLINE void add(typename Dot::Vector v, Indices<R...>) const {
      ((sum[R * kWide + I] =
            Dot::add(sum[R * kWide + I], lanes::splat<Units>(uint32_t(a[R * kGroup])), v)),
       ...);
    }
  };

  // Without arrays, which g++ 12 would keep in memory too.
  template <class To>
  static PTO_INLINE void weave(const Right& from, const To& to) {
    if constexpr (kPerUnit == 2) {
      const Row a = row_of(from, 0), b = row_of(from, 1);
      to.template put<0>(woven<0>(a, b)), to.template put<1>(woven<1>(a, b));
    } else {
      const Row v0 = row_of(from, 0), v1 = row_of(from, 1), v2 = row_of(from, 2),
                v3 = row_of(from, 3);
      using Halves = Vec<uint16_t, kOnce / 2>;
      const auto a = bit_cast<Halves>(woven<0>(v0, v1)), b = bit_cast<Halves>(woven<0>(v2, v3)),
                 c = bit_cast<Halves>(woven<1>(v0, v1)), d = bit_cast<Halves>(woven<1>(v2, v3));
      to.template put<0>(woven<0>(a, b)), to.template put<1>(woven<1>(a, b));
      to.template put<2>(woven<0>(c, d)), to.template put<3>(woven<1>(c, d));
    }
  }

  // Puts the columns of sums in their order.
  template <int N, int Vectors>
  static PTO_INLINE void order(Sum* sum) {
    using All = typename IndicesTo<kLane>::type;
    constexpr int kApart = kPerUnit == 4 ? 2 : 1;  // vectors whose boxes alternate
    PTO_UNROLL
    for (int round = 1; round < kPerUnit; round *= 2) {
      PTO_UNROLL
      for (int r = 0; r < N; ++r) {
        Sum* const v = sum + r * Vectors;
        Sum next[Vectors];
        PTO_UNROLL
        for (int i = 0; i < Vectors / 2; ++i) {
          const int from = kApart == 2 ? i : 2 * i;
          next[2 * i] = boxes<0>(v[from], v[from + kApart], All());
          next[2 * i + 1] = boxes<1>(v[from], v[from + kApart], All());
        }
        PTO_UNROLL
        for (int i = 0; i < Vectors; ++i) v[i] = next[i];
      }
    }
  }

 private:
  // Interleaves the lower (0) or upper (1) lanes of a and b, or of their boxes.
  template <int Part, class V>
  static PTO_INLINE V woven(V a, V b) {
    if constexpr (kBoxed)
      return zip<Part>(a, b);
    else if constexpr (Part == 0)
      return lanes::zip_low(a, b);
    else
      return lanes::zip_high(a, b);
  }
  static PTO_INLINE Row row_of(const Right& from, int number) {
    Row row = {};
    if (number < from.rows) __builtin_memcpy(&row, from.at + number * from.row, sizeof row);
    return kExcess > 0 ? row ^ T(0x80) : row;
  }
  // Takes the boxes of the lower or upper halves of a and b in turn.
  template <int Half, int... I>
  static PTO_INLINE Sum boxes(Sum a, Sum b, Indices<I...>) {
    constexpr int kBox = 4;
    return __builtin_shufflevector(
        a, b, (I / kBox % 2 * kLane + Half * (kLane / 2) + I / kBox / 2 * kBox + I % kBox)...);
  }
};

// Asks for rows of b that pass next, into the first cache, some lines at a time, in the order of
// memory: CPUs read that far ahead by themselves. A CPU that waits for many lines forgets requests
// for others, so each is repeated, when half of as many rows have passed.
class NextRows {
 public:
  // Runs of so many bytes, of `count` rows of b.
  NextRows(const void* at, int64_t row, int64_t bytes, int count)
      : at_(static_cast<const char*>(at)),
        jump_(row - bytes),
        bytes_(bytes),
        left_(bytes),
        again_(row * (count / 2)) {}
  explicit NextRows(const pto_runs& runs)
      : NextRows(pto_run_at(&runs, 0) + runs.begin, runs.distance, runs.bytes, 0) {}

  // Short runs, and those of a thread's part of the columns, may end between.
  PTO_INLINE void ask(int lines) {
    while (left_ < lines * kLineBytes) {
      const int now = left_ > kLineBytes ? int(left_ / kLineBytes) : 1;
      pass(now);
      lines -= now;
    }
    if (lines > 0) pass(lines);
  }

 private:
  PTO_INLINE void pass(int lines) {
    for (int i = 0; i < lines; ++i) {
      __builtin_prefetch(at_ + i * kLineBytes);
      __builtin_prefetch(at_ + i * kLineBytes - again_);
    }
    at_ += lines * kLineBytes, left_ -= lines * kLineBytes;
    if (left_ <= 0) at_ += jump_ + left_, left_ = bytes_;
  }

  const char* at_;
  int64_t jump_, bytes_, left_, again_;  // from the end of a run to the next, and of a run
};

}  // namespace matmul
PTO_NAMESPACE_END
