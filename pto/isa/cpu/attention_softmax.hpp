// SPDX-License-Identifier: Apache-2.0
// Attention softmax: turns rows of scores into weights 2^(score - largest so far), after softcap,
// slopes and mask, and rescales the sums of the rows so far to the new largest score. Dropout
// changes the weights, not their sum.
//
//     Softmax<float>(block).weigh(first_row, sliver);
//
// Scores are logarithms to base 2.
// Thread safety: pure functions on the memory of the block.
#pragma once
#include "pto/isa/cpu/attention_dropout.hpp"
#include "pto/isa/cpu/math.hpp"

PTO_NAMESPACE_BEGIN
namespace attention {

constexpr float kLowest = -__builtin_inff(), kLargest = 3.40282347e38f;

// Stores kLane elements of a row, from number `At` of a multiple of eight on, in its left panel.
template <int At, class W>
PTO_INLINE void put(float* to, int rows, W x) {
  to += At / kGroup * (rows * kGroup) + At % kGroup;
  if constexpr (kLane <= kGroup) {
    lanes::store<kLane>(to, x);
  } else {
    const lanes::Halves<W> half(x);
    lanes::store<kGroup>(to, half.low);
    lanes::store<kGroup>(to + rows * kGroup, half.high);
  }
}

// T: the type of the mask's numbers.
template <class T>
class Softmax {
 public:
  explicit Softmax(const KeyBlock& block) : b_(block), job_(block.job), dropout_(job_) {}

  // Weighs all rows of a sliver, step by step: rows do not wait for each other then. `first_row`:
  // of those whose scores were computed together.
  void weigh(int first_row, const Sliver& s) const {
    if (!s.keys.any()) return;
    const int first = s.keys.first, end = rounded_up(s.keys.last, kPanel);
    float now[kRows];
    for (int i = 0; i < s.rows; ++i) {
      float* const score = b_.scores(s.row + i - first_row);
      prepare(score, s.row + i, first, end);
      now[i] = largest_of(score + first, score + end, b_.largest(s.row + i));
    }
    for (int i = 0; i < s.rows; ++i) rescale(s.row + i, now[i]);
    float* const to = b_.weights(s.row - first_row) + first * s.rows;
    for (int i = 0; i < s.rows; ++i) {
      const float* const score = b_.scores(s.row + i - first_row);
      const float shift = now[i] == kLowest ? 0 : now[i];
      float* const left = to + i * kGroup;
      if (dropout_.is_active()) {
        float factors[kMostKeys];
        dropout_.find(b_, s.row + i, first, end, factors);
        b_.sum(s.row + i) +=
            exponentials<true>(score + first, score + end, shift, left, s.rows, factors + first);
      } else {
        b_.sum(s.row + i) +=
            exponentials<false>(score + first, score + end, shift, left, s.rows, nullptr);
      }
    }
  }

  // Applies softcap, slopes and mask to the scores of a row for the keys first to end, and gives
  // those that the row does not see -infinity.
  void prepare(float* score, int row, int first, int end) const {
    const Seen keys = b_.seen(row);
    change(score, row, keys);
    fill(score, first, smaller(keys.first, end), kLowest);
    fill(score, larger(keys.last, first), end, kLowest);
  }

  static PTO_INLINE void fill(float* to, int first, int last, float value) {
    for (; first < last && first % kLane != 0; ++first) to[first] = value;
    for (; first + kLane <= last; first += kLane)
      lanes::store<kLane>(to + first, lanes::splat<V>(value));
    for (; first < last; ++first) to[first] = value;
  }

 private:
  static PTO_INLINE float largest_of(const float* score, const float* end, float start) {
    V even = lanes::splat<V>(start), odd = even;
    for (; score < end; score += kPanel) {
      even = lanes::max_or_second(lanes::load<kLane>(score), even);
      odd = lanes::max_or_second(lanes::load<kLane>(score + kLane), odd);
    }
    const auto larger = [](auto a, auto b) { return lanes::max_or_second(a, b); };
    return lanes::reduce(larger, larger(even, odd));
  }

  // Stores 2^(score - shift), times a factor if it drops, in a row of a panel; returns their sum
  // without the factors.
  template <bool Drops>
  static PTO_INLINE float exponentials(const float* score, const float* end, float shift, float* to,
                                       int rows, const float* factor) {
    V even = {}, odd = {};
    for (; score < end; score += kPanel, to += kPanel * rows) {
      const V first = lanes::exp2_to_one(lanes::load<kLane>(score) - shift);
      const V second = lanes::exp2_to_one(lanes::load<kLane>(score + kLane) - shift);
      even += first;
      odd += second;
      if constexpr (Drops) {
        put<0>(to, rows, first * lanes::load<kLane>(factor));
        put<kLane>(to, rows, second * lanes::load<kLane>(factor + kLane));
        factor += kPanel;
      } else {
        put<0>(to, rows, first);
        put<kLane>(to, rows, second);
      }
    }
    return lanes::reduce([](auto a, auto b) { return a + b; }, even + odd);
  }

  void rescale(int row, float now) const {
    if (now == b_.largest(row)) return;
    const float factor = lanes::exp2_to_one(lanes::splat<V>(b_.largest(row) - now))[0];
    b_.largest(row) = now;
    b_.sum(row) *= factor;
    for (int col = 0; col < b_.sizes.outs; col += kLane)
      lanes::store<kLane>(b_.outs(row) + col, lanes::load<kLane>(b_.outs(row) + col) * factor);
  }

  // Applies what changes the scores of the keys that the row sees.
  void change(float* score, int row, Seen keys) const {
    if (job_.softcap == 0 && !job_.slopes.data && !job_.mask.data) return;
    const float cap = job_.softcap * lanes::kLog2E;
    const auto& slopes = job_.slopes;
    const float slope =
        slopes.data ? static_cast<const float*>(slopes.data)[b_.head(row) * slopes.head_stride] *
                          lanes::kLog2E
                    : 0;
    const float place = float(b_.query(row) + job_.position - b_.key);
    for (int k = keys.first / kLane * kLane; k < keys.last; k += kLane) {
      V x = lanes::load<kLane>(score + k);
      if (job_.softcap != 0) x = lanes::tanh(x / cap) * cap;
      if (slopes.data)
        x -= lanes::abs(lanes::convert<float>(lanes::iota<int32_t, kLane>() + k) - place) * slope;
      if (job_.mask.data) x = masked(x, row, k);
      lanes::store<kLane>(score + k, x);
    }
  }
  PTO_INLINE V masked(V x, int row, int k) const {
    const auto& mask = job_.mask;
    const int64_t at = b_.head(row) * mask.head_stride + b_.query(row) * mask.row_stride +
                       int64_t(b_.key) * mask.col_stride;
    if (!job_.mask_hides) {
      const V m = read<kLane>(static_cast<const T*>(mask.data) + at, k, mask.col_stride, b_.keys);
      // The least finite number stays finite: a row that it masks whole is a mean, as in PyTorch.
      const V finite = lanes::max_or_second(lanes::splat<V>(-kLargest), m * lanes::kLog2E);
      return x + lanes::select(m == kLowest, m, finite);
    }
    const auto shows =
        read<kLane>(static_cast<const uint8_t*>(mask.data) + at, k, mask.col_stride, b_.keys);
    return lanes::select(lanes::convert<int32_t>(shows) != 0, x, lanes::splat<V>(kLowest));
  }

  const KeyBlock& b_;
  const pto_attention_job& job_;
  const Dropout dropout_;
};

}  // namespace attention
PTO_NAMESPACE_END
