// SPDX-License-Identifier: Apache-2.0
// Matmul coded rows: packs a b of 8 or 4 bits whose rows, not columns, are runs: the weight of a
// layer, outputs x inputs, as the gradient by the layer's input multiplies by it.
//
//     if (CodedRows<NibbleCode>::fit(job)) pack_right_coded_rows<NibbleCode>(job, panel, part);
//
// Invariant: only valid elements are read. Groups with a factor are of columns.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_coded.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

template <class Code>
class CodedRows {
  using Floats = Vec<float, kGroup>;
  static constexpr bool kHasFactors = kSame<Code, NibbleCode>;

 public:
  explicit CodedRows(const pto_matmul_job& job)
      : b_(job.b),
        factor_(job.b_factor),
        zero_(job.b_zero),
        group_(job.b_group > 0 ? job.b_group : 1) {}

  static bool fit(const pto_matmul_job& job) {
    return !job.packed && job.b.row_stride != 1 && job.b.col_stride == 1;
  }

  void pack(float* panel, const Part& part) const {
    for (int u = 0; u < part.units; ++u, panel += part.width) {
      Weights near = {};
      for (int j = 0; j < part.lines; j += kGroup) {
        const int line = part.line + j, count = smaller(part.lines - j, kGroup);
        Floats weights = elements(part.k + u, line, count);
        if constexpr (kHasFactors) weights = weighted(weights, near, part.k + u, line, count);
        *reinterpret_cast<typename VecOf<float, kGroup>::loose*>(panel + j) = weights;
      }
    }
  }

 private:
  // Factors and zeros of the columns below `end`, from a multiple of the group's columns on.
  struct Weights {
    int end;
    Floats factor, zero;
  };

  Floats elements(int k, int line, int count) const {
    const char* const at =
        static_cast<const char*>(b_.data) + (k * b_.row_stride + line) * Code::kBits / 8;
    if constexpr (kSame<Code, ByteCode>) {
      Vec<int8_t, kGroup> bytes = {};
      if (count == kGroup)
        __builtin_memcpy(&bytes, at, sizeof bytes);
      else
        __builtin_memcpy(&bytes, at, size_t(count));
      return lanes::convert<float>(bytes);
    } else {
      uint32_t word = 0;
      if (count == kGroup)
        __builtin_memcpy(&word, at, sizeof word);
      else
        __builtin_memcpy(&word, at, size_t(count + 1) / 2);
      const Vec<uint32_t, kGroup> left = {28, 24, 20, 16, 12, 8, 4, 0};
      const auto high = lanes::splat<Vec<uint32_t, kGroup>>(word) << left;
      return lanes::convert<float>(bit_cast<Vec<int32_t, kGroup>>(high) >> 28);
    }
  }

  Floats weighted(Floats element, Weights& near, int k, int line, int count) const {
    const int first = line / group_, last = (line + count - 1) / group_;
    if (first != last) {  // columns of two groups
      Floats factor = {}, zero = {};
      for (int i = 0; i < count; ++i) {
        factor[i] = value(factor_, (line + i) / group_, k);
        if (zero_.data) zero[i] = value(zero_, (line + i) / group_, k);
      }
      return weight_of(element, factor, zero_.data ? &zero : nullptr);
    }
    if (line >= near.end) {
      near.end = (first + 1) * group_;
      near.factor = lanes::splat<Floats>(value(factor_, first, k));
      if (zero_.data) near.zero = lanes::splat<Floats>(value(zero_, first, k));
    }
    return weight_of(element, near.factor, zero_.data ? &near.zero : nullptr);
  }

  static float value(const pto_matmul_matrix& m, int group, int k) {
    const int64_t at = group * m.row_stride + k;
    switch (m.type) {
      case PTO_MATMUL_F16:
        return float(static_cast<const half*>(m.data)[at]);
      case PTO_MATMUL_BF16:
        return float(static_cast<const bfloat16_t*>(m.data)[at]);
      default:
        return static_cast<const float*>(m.data)[at];
    }
  }

  const pto_matmul_matrix b_, factor_, zero_;
  const int group_;
};

template <class Code>
void pack_right_coded_rows(const pto_matmul_job& job, void* panel, const Part& part) {
  CodedRows<Code>(job).pack(static_cast<float*>(panel), part);
}

// Packs bytes as pairs of bf16, in which they are exact.
inline void pack_right_coded_pairs(const pto_matmul_job& job, void* panel, const Part& part) {
  const CodedRows<ByteCode> from(job);
  for (int first = 0; first < part.lines; first += part.width) {
    auto* to =
        reinterpret_cast<uint32_t*>(static_cast<char*>(panel) + first / part.width * part.next);
    const int lines = smaller(part.lines - first, part.width);
    for (int u = 0; u < part.units; ++u, to += part.width) {
      uint32_t rows[2][kVectors * kLane] = {};
      const int k = part.k + 2 * u;
      from.pack(reinterpret_cast<float*>(rows),
                {part.line + first, lines, kVectors * kLane, k, smaller(job.depth - k, 2)});
      for (int j = 0; j < part.width; ++j) to[j] = rows[0][j] >> 16 | rows[1][j];
    }
  }
}

}  // namespace matmul
PTO_NAMESPACE_END
