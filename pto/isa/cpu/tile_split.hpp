// SPDX-License-Identifier: Apache-2.0
// Tile split: gathers the operands of a product of floats as parts of bf16, x = first + second +
// third, each the nearest bf16 to what is left, and finds lines that parts cannot represent.
//
//     const SplitSource<3> a(job.a, true, job.depth), b(job.b, false, job.depth);
//     a.rows(first, 32, 2, k, steps, to, flags);      // [step][part][32 rows][64 bytes]
//     b.columns(first, 32, 2, k, steps, to, flags);   // [step][part][2 tiles][16 pairs][64 bytes]
//     SplitSource<3>::join(to, 2, steps, flags, floats);   // [32 steps][32 columns], from columns
//
// Three parts are the float itself: 24 = 8 + 8 + 8 bits. A tie goes away from zero. Flags: a line
// with an element that is not finite, or not zero and outside 2^-50 to 2^47, gets one. For
// two lines without flags no part is subnormal, no product of parts loses more than 2^-26 of its
// factors', and no sum overflows. One part is the float rounded to bf16, ties to even, whatever it
// is; there are no flags.
//
// Invariant: only elements of the operand are read. Beyond the depth there are zeros.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/tile_pack.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

using SplitFloats = Vec<float, kTileCols>;
using SplitWords = Vec<uint32_t, kTileCols>;
constexpr int kSplitAhead = 128;  // of depth, of b that is asked for
constexpr uint32_t kSplitLeast = (127u - 50) << 23, kSplitEnd = (127u + 47) << 23;

// Bounds of the elements of a line, or, lane by lane, of as many lines.
struct SplitExtent {
  SplitWords least = ~SplitWords{}, most = {};
  // Zeros count as the largest of the least.
  PTO_INLINE void add(SplitFloats x) {
    const SplitWords size = bit_cast<SplitWords>(x) & 0x7fffffffu;
    least = lanes::minimum(least, size - 1u), most = lanes::maximum(most, size);
  }
  PTO_INLINE SplitWords awkward() const {
    return SplitWords((least < kSplitLeast - 1) | (most >= kSplitEnd));
  }
};

// Bounds of the first parts, at a third of that work: where it finds nothing no line is awkward.
// Zeros and the ends of the range are doubtful; beyond the operand stand ones, for its zeros.
using SplitUnits = Vec<uint16_t, 2 * kTileCols>;
struct SplitSeen {
  static constexpr uint16_t kFirst = (kSplitLeast >> 15) + 2, kSpan = (kSplitEnd >> 15) - kFirst;
  static constexpr uint16_t kOne = 0x3f80;
  SplitUnits most = {};
  PTO_INLINE void add(SplitUnits first) {
    most = lanes::maximum(most, SplitUnits(first + first - kFirst));
  }
  PTO_INLINE void add(const SplitSeen& other) { most = lanes::maximum(most, other.most); }
  PTO_INLINE bool is_doubtful() const {
    const SplitUnits found = SplitUnits(most >= kSpan);
    const auto words = bit_cast<Vec<uint64_t, 8>>(found);
    uint64_t any = 0;
    PTO_UNROLL
    for (int i = 0; i < 8; ++i) any |= words[i];
    return any != 0;
  }
};

// Ones where a row of a tile lies beyond the depth.
PTO_INLINE SplitUnits ones_from(int depth) {
  return ~SplitUnits(lanes::first<SplitUnits>(depth)) & SplitSeen::kOne;
}
// The same for pairs of `depth` elements of so many lines beside each other.
PTO_INLINE SplitUnits ones_beside(int lines, int depth) {
  constexpr uint32_t kBoth = SplitSeen::kOne * 0x10001u, kSecond = SplitSeen::kOne << 16;
  const SplitWords inside = SplitWords(lanes::first<SplitWords>(lines));
  const uint32_t ones = depth >= 2 ? 0 : depth == 1 ? kSecond : kBoth;
  return bit_cast<SplitUnits>((inside & ones) | (~inside & kBoth));
}

// Calls use(pair, x) with two vectors of at most 16 lines for each pair of 32 of the depth; beyond
// the operand stand zeros.
template <class Use>
PTO_INLINE void for_pairs(const TileSource<uint32_t>& from, int first, int count, int k, Use use) {
  constexpr int kDepth = 2 * kTileRows;
  const int depth = from.left(k, kDepth);
  const uint32_t* at = from.beside(first, count, k, depth);
  const int64_t step = from.depth_step();
  if (at && count == kTileCols && depth == kDepth) {
    for (int pair = 0; pair < kTileRows; ++pair, at += 2 * step) {
      SplitFloats x[2];
      __builtin_memcpy(&x[0], at, sizeof x[0]);
      __builtin_memcpy(&x[1], at + step, sizeof x[1]);
      use(pair, x);
    }
  } else if (at) {
    for (int pair = 0; pair < kTileRows; ++pair, at += 2 * step) {
      const auto* const row = reinterpret_cast<const float*>(at);
      SplitFloats x[2] = {};
      if (2 * pair < depth) x[0] = lanes::load_part<kTileCols>(row, count);
      if (2 * pair + 1 < depth) x[1] = lanes::load_part<kTileCols>(row + step, count);
      use(pair, x);
    }
  } else {
    SplitFloats x[kDepth];
    from.columns(first, count, k, 2, reinterpret_cast<char*>(x), kTileBytes);
    for (int pair = 0; pair < kTileRows; ++pair) use(pair, x + 2 * pair);
  }
}

template <int Parts>
class SplitSource {
 public:
  static constexpr int kStep = 2 * kTileCols;  // of depth

  SplitSource(const pto_matmul_matrix& m, bool is_left, int depth) : from_(m, is_left, depth) {}

  // Tells whether elements of a line lie one after another.
  bool is_along() const { return from_.depth_step() == 1; }
  int64_t depth_step() const { return from_.depth_step(); }
  int64_t line_step() const { return from_.line_step(); }
  // Returns the first of some elements, by default of a whole step; null: they lie in boxes.
  const float* plain(int first, int count, int k, int depth = kStep) const {
    return reinterpret_cast<const float*>(from_.plain(first, count, k, depth));
  }

  // Splits lines to rows of `tiles` tiles a part, and flags them.
  void rows(int first, int count, int tiles, int k, int steps, char* to, uint8_t* flags) const {
    const int64_t part = tiles * kTileBytes;
    const int whole = from_.whole_steps(k, steps, kStep),
              left = from_.left(k + whole * kStep, kStep);
    const float* from = is_along() ? plain(first, count, k, whole * kStep + left) : nullptr;
    const int64_t line = line_step();
    SplitSeen seen;
    for (int step = 0; step < steps; ++step, k += kStep, from += from ? kStep : 0) {
      const SplitUnits ones = step < whole ? SplitUnits{} : ones_from(left);
      for (int i = 0; i < count; ++i, to += kTileRowBytes) {
        SplitFloats x[2];
        if (step < whole && from)
          __builtin_memcpy(x, from + i * line, sizeof x);
        else
          load(first + i, k, x);
        seen.add(put_row(x, to, part) | ones);
      }
      to += Parts * part - count * kTileRowBytes;
    }
    if (seen.is_doubtful()) flag_rows(first, count, k - steps * kStep, steps, flags);
  }

  // Splits at most 32 lines to columns of `tiles` tiles a part, where they may be fewer, and flags
  // them.
  void columns(int first, int count, int tiles, int k, int steps, char* to, uint8_t* flags) const {
    const int64_t part = tiles * kTileBytes;
    for (int j = 0; j < count; j += kTileCols) {
      const int width = smaller(count - j, kTileCols);
      SplitSeen seen;
      char* at = to + j / kTileCols * kTileBytes;
      for (int step = 0; step < steps; ++step, at += Parts * part) {
        const int from = k + step * kStep, left = from_.left(from, kStep);
        if (step % 2 == 0 && j == 0) from_.ask(first, count, from + kSplitAhead, 2 * kStep);
        SplitSeen passed;
        const auto split = [&](int pair, const SplitFloats* x) {
          return put_pair(x, at + pair * kTileRowBytes, part);
        };
        if (width == kTileCols && left == kStep)
          for_pairs(from_, first + j, width, from,
                    [&](int pair, const SplitFloats* x) { passed.add(split(pair, x)); });
        else
          for_pairs(from_, first + j, width, from, [&](int pair, const SplitFloats* x) {
            passed.add(split(pair, x) | ones_beside(width, left - 2 * pair));
          });
        seen.add(passed);
      }
      if (seen.is_doubtful()) flag_columns(first + j, width, k, steps, flags + j);
    }
  }

  // Split two vectors of elements to a row of a tile, of one line or of a pair of 16 lines. Both
  // return the first parts.
  static PTO_INLINE SplitUnits put_row(const SplitFloats* x, char* to, int64_t part) {
    return put<false>(x, to, part);
  }
  static PTO_INLINE SplitUnits put_pair(const SplitFloats* x, char* to, int64_t part) {
    return put<true>(x, to, part);
  }

  // Flag lines that parts do not stand for: the first reads line by line, the other 16 lines beside
  // each other.
  void flag_rows(int first, int count, int k, int steps, uint8_t* flags) const {
    for (int i = 0; i < count; ++i) {
      SplitExtent extent;
      for (int step = 0; step < steps; ++step) {
        SplitFloats x[2];
        load(first + i, k + step * kStep, x);
        extent.add(x[0]), extent.add(x[1]);
      }
      if (steps > 0) flag_line(extent, flags + i);
    }
  }
  void flag_columns(int first, int count, int k, int steps, uint8_t* flags) const {
    for (int j = 0; j < count; j += kTileCols) {
      const int width = smaller(count - j, kTileCols);
      SplitExtent extent;
      for (int step = 0; step < steps; ++step)
        for_pairs(from_, first + j, width, k + step * kStep,
                  [&](int, const SplitFloats* x) { extent.add(x[0]), extent.add(x[1]); });
      if (steps > 0) flag_lines(extent, width, flags + j);
    }
  }

  // Writes flagged columns as they are, bit by bit, into two parts of columns().
  void keep(int first, int count, int tiles, int k, int steps, char* to,
            const uint8_t* flags) const {
    const int64_t part = tiles * kTileBytes;
    for (int j = 0; j < count; ++j) {
      if (!flags[j]) continue;
      for (int step = 0; step < steps; ++step) {
        uint32_t x[kStep];
        from_.rows(first + j, 1, k + step * kStep, 2, reinterpret_cast<char*>(x));
        for (int i = 0; i < kStep; ++i) {
          char* const at = to + step * (Parts * part) + j / kTileCols * kTileBytes +
                           i / 2 * kTileRowBytes + j % kTileCols * 4 + i % 2 * 2;
          const uint16_t high = uint16_t(x[i] >> 16), low = uint16_t(x[i]);
          __builtin_memcpy(at, &high, 2);
          if (Parts > 1) __builtin_memcpy(at + part, &low, 2);
        }
      }
    }
  }

  // Writes the sums of two parts of one line's elements.
  void round(int line, int k, int steps, float* to) const {
    for (int i = 0; i < 2 * steps; ++i, to += kTileCols) {
      SplitFloats x;
      from_.rows(line, 1, k + i * kTileCols, 1, reinterpret_cast<char*>(&x));
      SplitWords part[Parts];
      split(x, part);
      const SplitFloats sum = added(part[0], bit_cast<SplitFloats>(part[Parts - 1]));
      __builtin_memcpy(to, &sum, sizeof sum);
    }
  }

  // Makes floats of the parts that columns() and keep() wrote, 32 beside each other.
  static void join(const char* parts, int tiles, int steps, const uint8_t* flags, float* to) {
    const int64_t part = tiles * kTileBytes;
    for (int tile = 0; tile < tiles; ++tile) {
      SplitWords is_kept = {};
      for (int j = 0; j < kTileCols; ++j) is_kept[j] = flags[tile * kTileCols + j] ? ~0u : 0u;
      for (int pair = 0; pair < steps * kTileRows; ++pair) {
        const char* const at = parts + pair / kTileRows * (Parts * part) + tile * kTileBytes +
                               pair % kTileRows * kTileRowBytes;
        for (int half = 0; half < 2; ++half)
          *reinterpret_cast<typename VecOf<float, kTileCols>::loose*>(
              to + (2 * pair + half) * 2 * kTileCols + tile * kTileCols) =
              joined(at, part, half, is_kept);
      }
    }
  }

 private:
  // Loads 32 elements of a line; beyond the depth stand zeros.
  PTO_INLINE void load(int line, int k, SplitFloats* x) const {
    const int left = from_.left(k, kStep);
    if (const uint32_t* const run = from_.run(line, k, left)) {
      const auto* const at = reinterpret_cast<const float*>(run);
      if (left == kStep) {
        __builtin_memcpy(x, at, 2 * sizeof *x);
      } else {
        x[0] = lanes::load_part<kTileCols>(at, smaller(left, kTileCols));
        x[1] = SplitFloats{};
        if (left > kTileCols) x[1] = lanes::load_part<kTileCols>(at + kTileCols, left - kTileCols);
      }
    } else {
      from_.rows(line, 1, k, 2, reinterpret_cast<char*>(x));
    }
  }

  static void flag_lines(const SplitExtent& extent, int count, uint8_t* flags) {
    const SplitWords found = extent.awkward();
    for (int i = 0; Parts > 1 && i < count; ++i) flags[i] |= uint8_t(found[i] & 1);
  }
  static void flag_line(const SplitExtent& extent, uint8_t* flag) {
    const auto words = bit_cast<Vec<uint64_t, 8>>(extent.awkward());
    uint64_t any = 0;
    PTO_UNROLL
    for (int j = 0; j < 8; ++j) any |= words[j];
    if (Parts > 1 && any) *flag = 1;
  }

  template <bool IsPair>
  static PTO_INLINE SplitUnits put(const SplitFloats* x, char* to, int64_t part) {
    SplitWords first[Parts], second[Parts];
    split(x[0], first), split(x[1], second);
    SplitUnits row[Parts];
    PTO_UNROLL
    for (int s = 0; s < Parts; ++s) {
      if constexpr (IsPair)
        row[s] = bit_cast<SplitUnits>(first[s] >> 16 | second[s]);
      else
        row[s] = upper_halves(typename IndicesTo<2 * kTileCols>::type(), first[s], second[s]);
      __builtin_memcpy(to + s * part, &row[s], sizeof row[s]);
    }
    return row[0];
  }

  // Makes each part a float. The rest of three parts has the bits of a bf16.
  static PTO_INLINE void split(SplitFloats x, SplitWords* part) {
    if constexpr (Parts == 1) {
      part[0] = bits::bfloat16_from_float<SplitFloats, SplitWords>(x) << 16;
      return;
    }
    PTO_UNROLL
    for (int s = 0; s < Parts; ++s) {
      part[s] = bit_cast<SplitWords>(x);
      if (s == 2) break;
      part[s] = (part[s] + 0x8000u) & 0xffff0000u;
      x = x - bit_cast<SplitFloats>(part[s]);
    }
  }
  template <int... I>
  static PTO_INLINE Vec<uint16_t, 2 * kTileCols> upper_halves(Indices<I...>, SplitWords a,
                                                              SplitWords b) {
    using Halves = Vec<uint16_t, 2 * kTileCols>;
    return __builtin_shufflevector(bit_cast<Halves>(a), bit_cast<Halves>(b), (2 * I + 1)...);
  }
  // A sum with 0 would turn -0 into 0.
  static PTO_INLINE SplitFloats added(SplitWords part, SplitFloats rest) {
    const SplitFloats first = bit_cast<SplitFloats>(part);
    return lanes::select(rest == SplitFloats{}, first, first + rest);
  }
  static PTO_INLINE SplitFloats joined(const char* at, int64_t part, int half, SplitWords is_kept) {
    SplitWords word[3] = {};
    for (int s = 0; s < Parts; ++s) {
      __builtin_memcpy(&word[s], at + s * part, sizeof word[s]);
      word[s] = half ? word[s] & 0xffff0000u : word[s] << 16;
    }
    const SplitFloats rest = bit_cast<SplitFloats>(word[1]) + bit_cast<SplitFloats>(word[2]);
    const SplitWords sum = bit_cast<SplitWords>(added(word[0], rest));
    const SplitWords kept = word[0] | word[1] >> 16;
    return bit_cast<SplitFloats>((kept & is_kept) | (sum & ~is_kept));
  }

  const TileSource<uint32_t> from_;
};

}  // namespace matmul
PTO_NAMESPACE_END
