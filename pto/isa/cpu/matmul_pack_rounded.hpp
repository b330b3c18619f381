// SPDX-License-Identifier: Apache-2.0
// Matmul pack rounded: gathers parts of the operands of a product of floats as pairs of bf16, the
// floats rounded to nearest.
//
//     Product<Bf16Dot<Pairs>>(job, pack_left_rounded, pack_right_rounded).run();
//
// Invariant: only valid elements are read. Beyond the depth a panel holds zeros up to whole units.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_pack.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kRoundedDepth = 2 * kGroup;  // of eight pairs

PTO_INLINE Vec<uint32_t, kGroup> rounded(const int32_t* floats) {
  const auto x = bit_cast<Vec<float, kGroup>>(*reinterpret_cast<const LooseGroup*>(floats));
  return bits::bfloat16_from_float<Vec<float, kGroup>, Vec<uint32_t, kGroup>>(x);
}

// Packs floats of 16 of depth, zeros beyond its end, to `floats`.
inline void pack_floats(const pto_matmul_job& job, Pack pack, const Part& part, int32_t* floats,
                        int64_t count) {
  const int left = job.depth - part.k;
  // Rows of b beyond the end stay as they are, and the last pair may have one.
  if (left < kRoundedDepth) __builtin_memset(floats, 0, size_t(count) * sizeof(int32_t));
  Part some = part;
  some.units = smaller(quotient_up(left, kGroup) * kGroup, kRoundedDepth);
  if (some.units > 0) pack(job, floats, some);
}

#if defined(PTO_TARGET_AVX512)
// Rounds floats that lie together to eight pairs.
PTO_INLINE Group pairs_of(const float* at) {
  using Floats = VecOf<float, kRoundedDepth>;
  const typename Floats::type x = *reinterpret_cast<const typename Floats::loose*>(at);
  using Words = Vec<uint32_t, kRoundedDepth>;
  return bit_cast<Group>(
      lanes::convert<uint16_t>(bits::bfloat16_from_float<typename Floats::type, Words>(x)));
}

// Packs the first whole groups of rows whose depth lies together; returns how many units those are.
inline int pack_left_rows(const pto_matmul_job& job, int32_t* panel, const Part& part) {
  const Operand<float> a(job.a, job.a_scale, true, job.depth);
  const int left = job.depth - part.k;
  if (left < kRoundedDepth || part.k % kRoundedDepth) return 0;
  if (a.scale || !a.has_depth_runs(kRoundedDepth)) return 0;
  const int whole = smaller(left / kRoundedDepth * kGroup, part.units);
  const int64_t next = part.lines * a.lines.stride;
  for (int r = 0; r < part.lines; ++r) {
    const float* const row = a.data + a.lines.at(part.line + r);
    for (int unit = 0; unit < whole; unit += kGroup) {
      const float* const at = row + a.depth.at(part.k + 2 * unit);
      __builtin_prefetch(at + next);
      *reinterpret_cast<LooseGroup*>(panel + unit * part.lines + r * kGroup) = pairs_of(at);
    }
  }
  return whole;
}
#else
inline int pack_left_rows(const pto_matmul_job&, int32_t*, const Part&) { return 0; }
#endif

inline void pack_left_rounded(const pto_matmul_job& job, void* panel, const Part& part) {
  using Words = Vec<uint32_t, kGroup>;
  int32_t floats[kRoundedDepth * kRows];
  const int first = pack_left_rows(job, static_cast<int32_t*>(panel), part);
  int32_t* to = static_cast<int32_t*>(panel) + first * part.lines;
  for (int unit = first; unit < part.units; unit += kGroup) {
    const Part some = {part.line, part.lines, part.lines, part.k + 2 * unit, 0};
    pack_floats(job, pack_left<float>, some, floats, kRoundedDepth * part.lines);
    for (int r = 0; r < part.lines; ++r, to += kGroup) {
      // [2 groups][rows][8]: elements beside each other become a pair.
      const int32_t* const at = floats + r * kGroup;
      const Words low = rounded(at), high = rounded(at + part.lines * kGroup);
      const Words even = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14);
      const Words odd = __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15);
      *reinterpret_cast<LooseGroup*>(to) = bit_cast<Group>(even | odd << 16);
    }
  }
}

inline void pack_right_rounded(const pto_matmul_job& job, void* panel, const Part& part) {
  constexpr int kWidth = kVectors * kLane;
  int32_t floats[kRoundedDepth * kWidth];
  auto* beside = static_cast<char*>(panel);
  for (int first = 0; first < part.lines; first += part.width, beside += part.next) {
    const int lines = smaller(part.lines - first, part.width);
    auto* to = reinterpret_cast<int32_t*>(beside);
    for (int unit = 0; unit < part.units; unit += kGroup) {
      const Part some = {part.line + first, lines, part.width, part.k + 2 * unit, 0};
      pack_floats(job, pack_right<float>, some, floats, kRoundedDepth * part.width);
      for (int pair = 0; pair < kGroup; ++pair, to += part.width)
        for (int j = 0; j < lines; j += kGroup) {  // whole groups are written
          const int32_t* const at = floats + 2 * pair * part.width + j;
          *reinterpret_cast<LooseGroup*>(to + j) =
              bit_cast<Group>(rounded(at) | rounded(at + part.width) << 16);
        }
    }
  }
}

}  // namespace matmul
PTO_NAMESPACE_END
