// SPDX-License-Identifier: Apache-2.0
// Attention softmax: turns rows of scores into weights 2^(score - largest so far), after softcap,
// slopes and mask, and rescales the sums of the rows so far to the new largest score. Dropout
// changes the weights, not their sum.
//
//     Softmax<float>(block).weigh(first_row, sliver);
//
// Scores, times the factor that is still to be applied, are logarithms to base 2.
// Thread safety: pure functions on the memory of the block.
#pragma once
#include "pto/isa/cpu/attention_dropout.hpp"
#include "pto/isa/cpu/math.hpp"

PTO_NAMESPACE_BEGIN
namespace attention {

constexpr float kLargest = 3.40282347e38f;

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

// Weights of a row in the left panel of its sliver, a panel of keys after another.
class PanelWeights {
 public:
  static constexpr int kMostRows = kRows;  // of a sliver

  PanelWeights(const KeyBlock& b, int first_row, const Sliver& s, int i)
      : to_(b.weights(s.row - first_row) + s.keys.first * s.rows + i * kGroup), rows_(s.rows) {}

  static PTO_INLINE V exp2(V x) { return lanes::exp2_to_one(x); }
  // Stores kLane weights, from number `At` of the panel of keys on.
  template <int At>
  PTO_INLINE void put(V x) const {
    attention::put<At>(to_, rows_, x);
  }
  PTO_INLINE void next() { to_ += kPanel * rows_; }

 private:
  float* to_;
  const int rows_;
};

// T: the type of the mask's numbers.
template <class T, class Weights = PanelWeights>
class Softmax {
 public:
  // `factor`: of scores, where the queries do not have it.
  explicit Softmax(const KeyBlock& block, float factor = 1)
      : b_(block), job_(block.job), dropout_(job_), factor_(factor) {
    changes_ = job_.softcap != 0 || job_.slopes.data || job_.mask.data;
    applies_factor_ = factor != 1 && (changes_ || !(factor > 0));
  }

  // Weighs all rows of a sliver, step by step: rows do not wait for each other then. `first_row`:
  // of those whose scores were computed together.
  void weigh(int first_row, const Sliver& s) const {
    if (!s.keys.any()) return;
    const int first = s.keys.first, end = rounded_up(s.keys.last, b_.sizes.panel);
    const float factor = applies_factor_ ? 1 : factor_;
    float now[Weights::kMostRows];
    for (int i = 0; i < s.rows; ++i) {
      float* const score = b_.scores(s.row + i - first_row);
      prepare(score, s.row + i, first, end);
      const float most = largest_of(score + first, score + end) * factor;
      now[i] = most > b_.largest(s.row + i) ? most : b_.largest(s.row + i);
    }
    for (int i = 0; i < s.rows; ++i) rescale(s.row + i, now[i]);
    for (int i = 0; i < s.rows; ++i) {
      const float* const score = b_.scores(s.row + i - first_row);
      const float shift = now[i] == kLowest ? 0 : now[i];
      const Weights to(b_, first_row, s, i);
      float factors[kMostKeysEver];
      if (dropout_.is_active()) dropout_.find(b_, s.row + i, first, end, factors);
      b_.sums(s.row + i) +=
          dropout_.is_active()
              ? exponentials<true>(score + first, score + end, factor, shift, to, factors + first)
              : exponentials<false>(score + first, score + end, factor, shift, to, nullptr);
    }
  }

  // Applies softcap, slopes and mask to the scores of a row for the keys first to end, and gives
  // those that the row does not see -infinity.
  void prepare(float* score, int row, int first, int end) const {
    const Seen keys = b_.seen(row);
    if (applies_factor_)
      for (int k = first; k < end; k += kLane)
        lanes::store<kLane>(score + k, lanes::load<kLane>(score + k) * factor_);
    if (changes_) change(score, row, keys);
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
  static PTO_INLINE float largest_of(const float* score, const float* end) {
    V even = lanes::splat<V>(kLowest), odd = even;
    for (; score < end; score += kPanel) {
      even = lanes::max_or_second(lanes::load<kLane>(score), even);
      odd = lanes::max_or_second(lanes::load<kLane>(score + kLane), odd);
    }
    const auto most = [](auto a, auto b) { return lanes::max_or_second(a, b); };
    return lanes::reduce(most, most(even, odd));
  }

  // Stores 2^(score * factor - shift), times dropout's factors if it drops; returns their sums
  // without these, for each lane.
  template <bool Drops>
  static PTO_INLINE V exponentials(const float* score, const float* end, float factor, float shift,
                                   Weights to, const float* kept) {
    const V by = lanes::splat<V>(factor), less = lanes::splat<V>(-shift);
    V even = {}, odd = {};
    for (; score < end; score += kPanel, to.next()) {
      const V first = Weights::exp2(lanes::fma(lanes::load<kLane>(score), by, less));
      const V second = Weights::exp2(lanes::fma(lanes::load<kLane>(score + kLane), by, less));
      even += first;
      odd += second;
      if constexpr (Drops) {
        to.template put<0>(first * lanes::load<kLane>(kept));
        to.template put<kLane>(second * lanes::load<kLane>(kept + kLane));
        kept += kPanel;
      } else {
        to.template put<0>(first);
        to.template put<kLane>(second);
      }
    }
    return even + odd;
  }

  void rescale(int row, float now) const {
    const float before = b_.largest(row);
    b_.largest(row) = now;
    if (now == before || before == kLowest) return;  // before the first weight all sums are 0
    const float factor = lanes::exp2_to_one(lanes::splat<V>(before - now))[0];
    b_.sums(row) *= lanes::splat<V>(factor);
    for (int col = 0; col < b_.sizes.outs; col += kLane)
      lanes::store<kLane>(b_.outs(row) + col, lanes::load<kLane>(b_.outs(row) + col) * factor);
  }

  // Applies what changes the scores of the keys that the row sees.
  void change(float* score, int row, Seen keys) const {
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
  const float factor_;
  bool changes_, applies_factor_;
};

}  // namespace attention
PTO_NAMESPACE_END
