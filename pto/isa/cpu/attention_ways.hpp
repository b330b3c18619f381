// SPDX-License-Identifier: Apache-2.0
// Attention ways: how the loops of attention hold and multiply elements. Floats are widened, and
// the queries scaled, while they are packed. Pairs of bf16 stay as they are: the two elements of a
// unit follow each other along the width, or are of two keys; scores are scaled, and weights are
// rounded after their sum is taken.
//
//     using Way = Floats<half>;   // PairsOf<HardwarePairs> where job.type is bf16
//     Way::pack_keys(job.k, 0, 32, job.width, panel);   // keys 0 to 31
//
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/attention_products.hpp"
#include "pto/isa/cpu/attention_softmax.hpp"
#include "pto/isa/cpu/matmul_pack_bytes.hpp"

PTO_NAMESPACE_BEGIN
namespace attention {

// A way has Element, of the operands; Dot; Blocks, the sizes of blocks; Weights, of the softmax.
template <class T>
struct Floats {
  using Element = T;
  using Dot = FloatDot;
  using Blocks = Sizes;
  using Weights = PanelWeights;

  // The factors of queries, while they are packed, and of scores.
  static float query_factor(const pto_attention_job& job) { return job.scale * lanes::kLog2E; }
  static float score_factor(const pto_attention_job&) { return 1; }

  static PTO_INLINE void pack_query(const T* from, int64_t stride, int width, float factor,
                                    float* to, int rows) {
    pack_row(from, stride, width, factor, to, rows);
  }
  static void pack_keys(const pto_attention_operand& k, int first, int count, int width,
                        float* to) {
    pack_columns<T>(k, first, count, width, to);
  }
  // Rows of values are read whole, eight at a time.
  static void pack_values(const KeyBlock& b) {
    const auto& v = b.job.v;
    const T* const from = static_cast<const T*>(v.data) + b.key * v.row_stride;
    for (int first = 0; first < b.keys; first += kGroup)
      for (int col = 0; col < b.job.value_width; col += kPanel)
        for (int at = first; at < smaller(first + kGroup, b.keys); ++at)
          pack_part(from + at * v.row_stride, v.col_stride, col, b.job.value_width,
                    b.value_panel(at, col));
  }
};

static_assert(2 * kMostKeys <= kMostKeysEver);
constexpr int kPairGroup = 2 * kGroup;  // elements of a row that lie together in a left panel

struct PairSizes : Sizes {
  explicit PairSizes(const pto_attention_job& job) : Sizes(job) {
    depth = rounded_up(job.width, kPairGroup);
    panel = larger(kPanel, kPairGroup);
    keys *= 2;  // half as large
    element_bytes = sizeof(uint16_t);
  }
};

// Weights of a row, rounded by Pairs, in the left panel of its sliver.
template <class Pairs>
class PairWeights {
  static constexpr int kBytes = sizeof(uint16_t), kGroupBytes = kPairGroup * kBytes;

 public:
  static constexpr int kMostRows = kRows;  // of a sliver

  PairWeights(const KeyBlock& b, int first_row, const Sliver& s, int i)
      : to_(reinterpret_cast<char*>(b.weights(s.row - first_row)) +
            (s.keys.first * s.rows + i * kPairGroup) * kBytes),
        step_(s.rows * kGroupBytes) {}

  static PTO_INLINE V exp2(V x) { return lanes::exp2_to_one_roughly(x); }
  template <int At>
  PTO_INLINE void put(V x) const {
    const auto narrow = Pairs::rounded(x);
    __builtin_memcpy(to_ + At / kPairGroup * step_ + At % kPairGroup * kBytes, &narrow,
                     sizeof narrow);
  }
  PTO_INLINE void next() {
    if constexpr (kPanel % kPairGroup == 0) {
      to_ += kPanel / kPairGroup * step_;
    } else {
      at_ = (at_ + kPanel) % kPairGroup;
      to_ += at_ != 0 ? kPanel * kBytes : step_ - (kPairGroup - kPanel) * kBytes;
    }
  }

 private:
  char* to_;
  const int64_t step_;  // from a group to the next
  int at_ = 0;          // in a group
};

template <class Pairs>
struct PairsOf {
  using Element = bfloat16_t;
  using Dot = matmul::Bf16Dot<Pairs>;
  using Blocks = PairSizes;
  using Weights = PairWeights<Pairs>;

  static float query_factor(const pto_attention_job&) { return 1; }
  static float score_factor(const pto_attention_job& job) { return job.scale * lanes::kLog2E; }

  static PTO_INLINE void pack_query(const bfloat16_t* from, int64_t stride, int width, float,
                                    float* to, int rows) {
    for (int k = 0; k < width; k += kPairGroup, to += rows * kGroup) {
      bfloat16_t part[kPairGroup] = {};
      const int count = smaller(width - k, kPairGroup);
      if (stride == 1 && count == kPairGroup)
        __builtin_memcpy(part, from + k, sizeof part);
      else
        for (int i = 0; i < count; ++i) part[i] = from[(k + i) * stride];
      __builtin_memcpy(to, part, sizeof part);
    }
  }
  static void pack_keys(const pto_attention_operand& k, int first, int count, int width,
                        float* to) {
    const auto keys = right(k.data, width, first + count, k.col_stride, k.row_stride);
    matmul::pack_right_bytes<Dot, int16_t>(keys, to,
                                           {first, count, kPanel, 0, quotient_up(width, 2)});
  }
  static void pack_values(const KeyBlock& b) {
    const auto& v = b.job.v;
    const auto values = right(static_cast<const bfloat16_t*>(v.data) + b.key * v.row_stride, b.keys,
                              b.job.value_width, v.row_stride, v.col_stride);
    const int64_t next = b.sizes.floats(int64_t{kPanel} * b.sizes.keys) * int64_t(sizeof(float));
    matmul::pack_right_bytes<Dot, int16_t>(
        values, b.value_panel(0, 0),
        {0, b.job.value_width, kPanel, 0, quotient_up(b.keys, 2), next});
  }

 private:
  static pto_matmul_job right(const void* data, int depth, int cols, int64_t row_stride,
                              int64_t col_stride) {
    pto_matmul_job job = {};
    job.depth = depth, job.cols = cols;
    job.b = pto_matmul_plain(data, PTO_MATMUL_BF16, row_stride, col_stride);
    return job;
  }
};

}  // namespace attention
PTO_NAMESPACE_END
