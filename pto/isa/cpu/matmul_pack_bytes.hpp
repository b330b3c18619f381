// SPDX-License-Identifier: Apache-2.0
// Matmul pack bytes: gathers parts of the operands of a product of bytes or int16 into panels.
// Rows of a become units as they are multiplied; columns of b stay bytes and are only turned.
//
//     pack_left_bytes<PairDot<int8_t>, uint8_t, int8_t>(job, panel, part);  // a is uint8
//     pack_right_bytes<PairDot<int8_t>, int8_t>(job, panel, part);
//
// Invariant: only valid elements are read. Beyond the depth a panel of b holds zeros up to whole
// units.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_pack.hpp"
#include "pto/isa/cpu/shuffle.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

// Interleaves the lower or upper lanes of each 16 bytes of a and b.
template <int Part, class V, int... I>
PTO_INLINE V zip(V a, V b, Indices<I...>) {
  constexpr int N = kCount<V>,
                kBox = 16 / int(sizeof(LaneOf<V>)) < N ? 16 / int(sizeof(LaneOf<V>)) : N;
  return __builtin_shufflevector(a, b,
                                 (I / kBox * kBox + Part * kBox / 2 + I % kBox / 2 + I % 2 * N)...);
}
template <int Part, class V>
PTO_INLINE V zip(V a, V b) {
  return zip<Part>(a, b, typename IndicesTo<kCount<V>>::type());
}

// Exchanges v[i] lane j and v[j] lane i of each 16 bytes, of as many vectors as these have lanes:
// each round interleaves the two halves of the vectors.
template <class V>
PTO_INLINE void turn(V* v) {
  constexpr int N = 16 / int(sizeof(LaneOf<V>));
  PTO_UNROLL
  for (int round = 1; round < N; round *= 2) {
    V t[N];
    PTO_UNROLL
    for (int i = 0; i < N / 2; ++i) {
      t[2 * i] = zip<0>(v[i], v[i + N / 2]);
      t[2 * i + 1] = zip<1>(v[i], v[i + N / 2]);
    }
    PTO_UNROLL
    for (int i = 0; i < N; ++i) v[i] = t[i];
  }
}

// Reads elements along the depth, zeros beyond its end.
template <class T, int N>
PTO_INLINE Vec<T, N> run_of(const Operand<T>& from, bool is_run, int line, int k) {
  Vec<T, N> v = {};
  const int count = smaller(from.end - k, N);
  const int64_t at = from.lines.at(line);
  if (is_run && count == N) {
    __builtin_memcpy(&v, from.data + at + from.depth.at(k), sizeof v);
  } else {
    T part[N] = {};
    for (int i = 0; i < count; ++i) part[i] = from.data[at + from.depth.at(k + i)];
    __builtin_memcpy(&v, part, sizeof v);
  }
  return v;
}

// Makes the units that a multiplies by; R: the type of b.
template <class Dot, class R, class V>
PTO_INLINE Group left_units(V v) {
  if constexpr (Dot::kPerUnit == 2)
    return bit_cast<Group>(lanes::convert<int16_t>(v));
  else  // the other sign than that of b
    return bit_cast<Group>(kSame<LaneOf<V>, R> ? v ^ LaneOf<V>(0x80) : v);
}

template <class Dot, class T, class R>
void pack_left_bytes(const pto_matmul_job& job, void* panel, const Part& part) {
  constexpr int kRun = kGroup * Dot::kPerUnit;
  const Operand<T> from(job.a, job.a_scale, true, job.depth);
  const bool is_run = from.has_depth_runs(kRun);
  const T* rows[kRows];
  for (int r = 0; r < part.lines; ++r) rows[r] = from.data + from.lines.at(part.line + r);
  auto* to = static_cast<int32_t*>(panel);
  int k = part.k;
  for (; is_run && k + kRun <= from.end && k < part.k + part.units * Dot::kPerUnit; k += kRun) {
    const int64_t at = from.depth.at(k);
    for (int r = 0; r < part.lines; ++r, to += kGroup) {
      const Vec<T, kRun> v = *reinterpret_cast<const typename VecOf<T, kRun>::loose*>(rows[r] + at);
      *reinterpret_cast<LooseGroup*>(to) = left_units<Dot, R>(v);
    }
  }
  for (; k < part.k + part.units * Dot::kPerUnit; k += kRun)
    for (int r = 0; r < part.lines; ++r, to += kGroup)
      *reinterpret_cast<LooseGroup*>(to) =
          left_units<Dot, R>(run_of<T, kRun>(from, is_run, part.line + r, k));
}

template <class Dot, class T>
class RightBytes {
  static constexpr int kPerUnit = Dot::kPerUnit, kRun = kGroup * kPerUnit;
  static constexpr int kUnit = Dot::kRightBytes;
  // Elements of a row of b at once; more where the layout has them together.
  static constexpr int kBeside = 16 / int(sizeof(T));
  static constexpr int kWide = sizeof(T) == 1 ? kVectorBytes / 2 : kVectorBytes / int(sizeof(T));
  using Word = typename WordOf<kUnit>::Unsigned;
  using Turned = typename Choose<kUnit == 4, Group, Vec<Word, kGroup>>::type;  // eight units

 public:
  explicit RightBytes(const pto_matmul_job& job) : from_(job.b, job.b_scale, false, job.depth) {}

  void pack(char* panel, const Part& part) const {
    const bool is_run = from_.has_depth_runs(kRun);
    if (!is_run && has_rows(kBeside, part)) {
      if (part.width % kWide == 0 && has_rows(kWide, part)) return across<kWide>(panel, part);
      return across<kBeside>(panel, part);
    }
    for (int first = 0; first < part.lines; first += part.width, panel += part.next)
      for (int j = 0; j < smaller(part.lines - first, part.width); j += kGroup)
        turned(panel + j * kUnit, is_run, first + j, part);
  }

 private:
  // Turns eight columns that are runs along the depth: whole groups of units and columns.
  void turned(char* to, bool is_run, int column, const Part& part) const {
    const int count = smaller(part.lines - column, kGroup), line = part.line + column;
    const int64_t row = int64_t(part.width) * kUnit;
    int64_t lines[kGroup] = {};
    for (int i = 0; i < count; ++i) lines[i] = from_.lines.at(line + i);
    for (int k = part.k; k < part.k + part.units * kPerUnit; k += kRun, to += kGroup * row) {
      Turned v[kGroup] = {};
      if (is_run && count == kGroup && from_.end - k >= kRun) {
        const int64_t at = from_.depth.at(k);
        PTO_UNROLL
        for (int i = 0; i < kGroup; ++i)
          __builtin_memcpy(&v[i], from_.data + at + lines[i], sizeof v[i]);
      } else {
        for (int i = 0; i < count; ++i)
          v[i] = bit_cast<Turned>(run_of<T, kRun>(from_, is_run, line + i, k));
      }
      if constexpr (kUnit == 4)
        transpose(v);
      else
        turn(v);
      PTO_UNROLL
      for (int i = 0; i < kGroup; ++i) __builtin_memcpy(to + i * row, &v[i], kGroup * kUnit);
    }
  }

  bool has_rows(int beside, const Part& part) const {
    return from_.lines.stride == 1 && from_.lines.box % beside == 0 && part.line % beside == 0;
  }

  // Interleaves rows of b: eight units of a panel before the next panel, which may lie where the
  // first cache keeps it in the same place. Meanwhile the rows of the next eight are asked for.
  template <int Beside>
  void across(char* panel, const Part& part) const {
    const int64_t row = int64_t(part.width) * kUnit;
    for (int unit = 0; unit < part.units; unit += kGroup) {
      const int k = part.k + unit * kPerUnit;
      const T *rows[kRun], *soon[kRun];
      for (int i = 0; i < kRun; ++i) rows[i] = row_at(k + i), soon[i] = row_at(k + kRun + i);
      char* to = panel + unit * row;
      for (int first = 0; first < part.lines; first += part.width, to += part.next)
        for (int j = 0; j < smaller(part.lines - first, part.width); j += Beside) {
          const int64_t at = from_.lines.at(part.line + first + j);
          for (int u = 0; u < kGroup; ++u) {
            PTO_UNROLL
            for (int i = 0; i < kPerUnit; ++i)
              if (const T* const next = soon[u * kPerUnit + i]) __builtin_prefetch(next + at, 0, 2);
            interleave<Beside>(to + u * row + j * kUnit, rows + u * kPerUnit, at,
                               part.lines - first - j, part.width - j);
          }
        }
    }
  }
  // A row of b; null behind the last one.
  const T* row_at(int k) const { return k < from_.end ? from_.data + from_.depth.at(k) : nullptr; }
  // Elements of a row from a place on: `count` of them at most, then zeros.
  template <int Beside>
  static PTO_INLINE Vec<T, Beside> beside(const T* row, int64_t at, int count) {
    Vec<T, Beside> v = {};
    if (!row) return v;
    if (count >= Beside)
      __builtin_memcpy(&v, row + at, sizeof v);
    else
      __builtin_memcpy(&v, row + at, size_t(count) * sizeof(T));
    return v;
  }
  // `width`: how many columns the panel still has.
  template <int Beside>
  static PTO_INLINE void interleave(char* to, const T* const* rows, int64_t at, int count,
                                    int width) {
    using Row = Vec<T, Beside>;
    using Words = Vec<Word, int(sizeof(Row)) / kUnit>;
    Row v[kPerUnit];
    PTO_UNROLL
    for (int i = 0; i < kPerUnit; ++i) v[i] = beside<Beside>(rows[i], at, count);
    Words units[kPerUnit];
    units[0] = bit_cast<Words>(lanes::zip_low(v[0], v[1]));
    units[1] = bit_cast<Words>(lanes::zip_high(v[0], v[1]));
    if constexpr (kPerUnit == 4) {
      using Halves = Vec<uint16_t, int(sizeof(Row)) / 2>;
      const auto a = bit_cast<Halves>(units[0]), c = bit_cast<Halves>(units[1]);
      const auto b = bit_cast<Halves>(lanes::zip_low(v[2], v[3]));
      const auto d = bit_cast<Halves>(lanes::zip_high(v[2], v[3]));
      units[0] = bit_cast<Words>(lanes::zip_low(a, b));
      units[1] = bit_cast<Words>(lanes::zip_high(a, b));
      units[2] = bit_cast<Words>(lanes::zip_low(c, d));
      units[3] = bit_cast<Words>(lanes::zip_high(c, d));
    }
    // Whole groups of eight columns are written.
    constexpr int kWords = kCount<Words>;
    const int columns = quotient_up(smaller(count, width), kGroup) * kGroup;
    PTO_UNROLL
    for (int i = 0; i < kPerUnit; ++i)
      if (i * kWords < columns) __builtin_memcpy(to + i * sizeof(Words), &units[i], sizeof(Words));
  }

  const Operand<T> from_;
};

template <class Dot, class T>
void pack_right_bytes(const pto_matmul_job& job, void* panel, const Part& part) {
  RightBytes<Dot, T>(job).pack(static_cast<char*>(panel), part);
}

}  // namespace matmul
PTO_NAMESPACE_END
