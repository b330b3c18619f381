// SPDX-License-Identifier: Apache-2.0
// pto_scan (abi/program.h): elements that join those in front of them, one after another.
#include "pto/abi/program.h"
#include "pto/isa/cpu/wide_totals.hpp"

namespace pto {
namespace {

constexpr int64_t kAtOnce = 256;  // lines whose totals are in the cache
constexpr int64_t kChains = 4;    // lines whose totals are in registers
constexpr int64_t kCheck = 512;   // elements of a line that are searched for NaN at once

template <int fold>
constexpr bool kIsExtreme = fold == PTO_SCAN_LARGEST || fold == PTO_SCAN_SMALLEST;
// The type in which a scan folds: extremes round nothing, so that a float holds short ones.
template <int fold, class T>
using Running = typename isa::Choose<kIsExtreme<fold> && kIsReal<T> && !kSame<T, double>, float,
                                     Total<T>>::type;

template <class R, class T>
R running(T x) {
  if constexpr (kIsShort<T>)
    return R(float(x));
  else
    return R(x);
}
template <class T, class R>
T ended(R x) {
  if constexpr (kIsShort<T> && kSame<R, double>)
    return rounded<T>(x);
  else
    return T(x);
}

template <int fold, class T>
T folded(T a, T b) {
  constexpr bool is_real = kSame<T, double>;
  if constexpr (fold == PTO_SCAN_LARGEST) return a != a || a > b ? a : b;
  if constexpr (fold == PTO_SCAN_SMALLEST) return a != a || a < b ? a : b;
  if constexpr (fold == PTO_SCAN_SUM) return sum_of(a, b);
  if constexpr (fold == PTO_SCAN_PRODUCT && is_real) return a * b;
  return T(uint64_t(a) * uint64_t(b));
}

// Where neither is NaN: an instruction without a branch.
template <int fold, class T>
T folded_numbers(T a, T b) {
  if constexpr (fold == PTO_SCAN_LARGEST) return a > b ? a : b;
  if constexpr (fold == PTO_SCAN_SMALLEST) return a < b ? a : b;
  return folded<fold>(a, b);
}

// The number that a fold leaves as it is: the total before the first element.
template <int fold, class T>
constexpr T neutral() {
  if constexpr (fold == PTO_SCAN_SUM) return 0;
  if constexpr (fold == PTO_SCAN_PRODUCT) return 1;
  constexpr bool is_largest = fold == PTO_SCAN_LARGEST;
  if constexpr (kSame<T, double> || kSame<T, float>) {
    return is_largest ? -__builtin_inf() : __builtin_inf();
  } else {
    constexpr T least = T(-1) < T(0) ? T(uint64_t(1) << (8 * sizeof(T) - 1)) : T(0);
    return is_largest ? least : T(~least);
  }
}

// Lines along the axis; `at_once` of them, along another axis, are folded together: many where
// elements of one line lie further apart than those of neighbours, else as many as hide the time
// that an addition takes.
class Scan {
 public:
  Scan(const pto_tensor& out, const pto_tensor& x, int axis, int32_t threads)
      : out_(out), x_(x), axis_(axis), length_(x.sizes[axis]), threads_(threads) {
    for (int d = 0; d < x.rank; ++d)
      if (d != axis && x.sizes[d] > 1) beside_ = d;
    if (beside_ >= 0) {
      is_far_ = size(x.strides[axis]) > size(x.strides[beside_]);
      const int64_t share = x.sizes[beside_] / threads;
      at_once_ = is_far_ ? kAtOnce : share < kChains ? 1 : kChains;
    }
    for (int d = 0; d < x.rank; ++d)
      count_ *= d == axis ? 1 : d == beside_ ? (x.sizes[d] + at_once_ - 1) / at_once_ : x.sizes[d];
    for (int d = 0; d < x.rank; ++d) elements_ *= x.sizes[d];
  }

  int32_t run(int32_t fold) {
    if (elements_ == 0) return 0;
    fold_ = fold;
    if (threads_ > 1) blocks_ = pto_blocks_of(count_, elements_ * 16);
    return pto_parallel(
        blocks_,
        [](void* self, int32_t block) { return static_cast<Scan*>(self)->run_block(block); }, this);
  }

 private:
  static int64_t size(int64_t stride) { return stride < 0 ? -stride : stride; }

  int32_t run_block(int32_t block) const {
    const int64_t first = count_ * block / blocks_, last = count_ * (block + 1) / blocks_;
    with_type(x_, [&](auto* from) {
      switch (fold_) {
        case PTO_SCAN_SUM:
          return fold_lines<PTO_SCAN_SUM>(from, first, last);
        case PTO_SCAN_PRODUCT:
          return fold_lines<PTO_SCAN_PRODUCT>(from, first, last);
        case PTO_SCAN_LARGEST:
          return fold_lines<PTO_SCAN_LARGEST>(from, first, last);
        default:
          return fold_lines<PTO_SCAN_SMALLEST>(from, first, last);
      }
    });
    return 0;
  }

  template <int fold, class T>
  void fold_lines(const T* from, int64_t first, int64_t last) const {
    for (int64_t item = first; item < last; ++item) {
      int64_t rest = item, in = 0, out = 0, width = 1;
      for (int d = x_.rank - 1; d >= 0; --d) {
        if (d == axis_) continue;
        const int64_t count = d == beside_ ? (x_.sizes[d] + at_once_ - 1) / at_once_ : x_.sizes[d];
        int64_t at = rest % count;
        rest /= count;
        if (d == beside_) {
          at *= at_once_;
          width = x_.sizes[d] - at < at_once_ ? x_.sizes[d] - at : at_once_;
        }
        in += at * x_.strides[d];
        out += at * out_.strides[d];
      }
      T* const to = static_cast<T*>(out_.data) + out;
      if (is_far_)
        fold_together<fold>(to, from + in, width);
      else if (width == kChains)
        fold_chains<fold, kChains>(to, from + in);
      else
        for (int64_t j = 0; j < width; ++j)
          fold_chains<fold, 1>(to + j * beside(out_), from + in + j * beside(x_));
    }
  }

  // Folds `width` lines an element of each after another.
  template <int fold, class T>
  void fold_together(T* to, const T* from, int64_t width) const {
    using R = Running<fold, T>;
    R totals[kAtOnce];
    for (int64_t j = 0; j < width; ++j) totals[j] = neutral<fold, R>();
    const int64_t in = beside(x_), out = beside(out_);
    for (int64_t k = 0; k < length_; ++k) {
      const T* const x = from + k * x_.strides[axis_];
      T* const y = to + k * out_.strides[axis_];
      for (int64_t j = 0; j < width; ++j) {
        totals[j] = folded<fold>(totals[j], running<R>(x[j * in]));
        y[j * out] = ended<T>(totals[j]);
      }
    }
  }

  // Folds a few lines side by side, whose totals are in registers: an addition of one starts while
  // that of another goes on.
  template <int fold, int64_t chains, class T>
  void fold_chains(T* to, const T* from) const {
    using R = Running<fold, T>;
    R totals[chains];
    for (R& total : totals) total = neutral<fold, R>();
    if (x_.strides[axis_] == 1 && out_.strides[axis_] == 1) {
      for (int64_t k = 0; k < length_; k += kCheck) {
        const int64_t count = length_ - k < kCheck ? length_ - k : kCheck;
        if (kIsExtreme<fold> && kIsReal<T> && has_nan<chains>(totals, from + k, count))
          fold_run<folded<fold, R>, chains>(totals, to + k, 1, from + k, 1, count);
        else
          fold_run<folded_numbers<fold, R>, chains>(totals, to + k, 1, from + k, 1, count);
      }
    } else {
      fold_run<folded<fold, R>, chains>(totals, to, out_.strides[axis_], from, x_.strides[axis_],
                                        length_);
    }
  }

  template <auto join, int64_t chains, class R, class T>
  PTO_INLINE void fold_run(R* totals, T* to, int64_t out, const T* from, int64_t in,
                           int64_t count) const {
    const int64_t x = beside(x_), y = beside(out_);
    R now[chains];
    for (int64_t j = 0; j < chains; ++j) now[j] = totals[j];
    for (int64_t k = 0; k < count; ++k)
#pragma GCC unroll 4
      for (int64_t j = 0; j < chains; ++j) {
        now[j] = join(now[j], running<R>(from[j * x + k * in]));
        to[j * y + k * out] = ended<T>(now[j]);
      }
    for (int64_t j = 0; j < chains; ++j) totals[j] = now[j];
  }

  template <int64_t chains, class R, class T>
  bool has_nan(const R* totals, const T* from, int64_t count) const {
    int found = 0;
    for (int64_t j = 0; j < chains; ++j, from += beside(x_)) {
      found |= totals[j] != totals[j];
      for (int64_t k = 0; k < count; ++k) found |= running<R>(from[k]) != running<R>(from[k]);
    }
    return found != 0;
  }

  // The step from one line to the next.
  int64_t beside(const pto_tensor& of) const { return beside_ < 0 ? 0 : of.strides[beside_]; }

  const pto_tensor &out_, &x_;
  const int axis_;
  const int64_t length_;
  const int32_t threads_;
  int beside_ = -1;
  bool is_far_ = false;
  int64_t at_once_ = 1, count_ = 1, elements_ = 1;
  int32_t fold_ = 0, blocks_ = 1;
};

}  // namespace
}  // namespace pto

int32_t pto_scan(const pto_tensor* out, const pto_tensor* x, int32_t axis, int32_t fold,
                 int32_t threads) {
  return pto::Scan(*out, *x, axis, threads).run(fold);
}
