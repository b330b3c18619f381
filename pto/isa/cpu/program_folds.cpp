// SPDX-License-Identifier: Apache-2.0
// pto_scan and pto_add_at (abi/program.h): elements that join others one after another. Floats fold
// in double and are rounded once; integers wrap.
#include "pto/abi/program.h"
#include "pto/isa/cpu/element_types.hpp"
#include "pto/isa/elementwise/convert.hpp"

namespace pto {
namespace {

using isa::kSame;

constexpr int64_t kAtOnce = 256;  // lines whose totals are in the cache
constexpr int64_t kChains = 8;    // lines whose totals are in registers

template <class T>
constexpr bool kIsShort = kSame<T, half> || kSame<T, bfloat16_t>;
template <class T>
constexpr bool kIsReal = kIsShort<T> || kSame<T, float> || kSame<T, double>;
template <class T>
using Total = typename isa::Choose<kIsReal<T>, double, T>::type;

template <class T>
Total<T> total_of(T x) {
  if constexpr (kIsShort<T>)
    return double(float(x));
  else
    return Total<T>(x);
}
template <class T>
T rounded(Total<T> x) {
  if constexpr (kIsShort<T>)
    return T(isa::lanes::sticky_float(isa::Vec<double, 2>{x, x})[0]);
  else
    return T(x);
}

template <int fold, class T>
T folded(T a, T b) {
  constexpr bool is_real = kSame<T, double>;
  if constexpr (fold == PTO_SCAN_LARGEST) return a != a || a > b ? a : b;
  if constexpr (fold == PTO_SCAN_SMALLEST) return a != a || a < b ? a : b;
  if constexpr (fold == PTO_SCAN_SUM && is_real) return a + b;
  if constexpr (fold == PTO_SCAN_SUM) return T(uint64_t(a) + uint64_t(b));
  if constexpr (fold == PTO_SCAN_PRODUCT && is_real) return a * b;
  return T(uint64_t(a) * uint64_t(b));
}

// The number that a fold leaves as it is: the total before the first element.
template <int fold, class T>
constexpr T neutral() {
  if constexpr (fold == PTO_SCAN_SUM) return 0;
  if constexpr (fold == PTO_SCAN_PRODUCT) return 1;
  constexpr bool is_largest = fold == PTO_SCAN_LARGEST;
  if constexpr (kSame<T, double>) {
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
      const bool is_far = size(x.strides[axis]) > size(x.strides[beside_]);
      const int64_t share = x.sizes[beside_] / threads;
      at_once_ = is_far ? kAtOnce : share < 1 ? 1 : share < kChains ? share : kChains;
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
      if (width == kChains && x_.strides[axis_] == 1 && out_.strides[axis_] == 1)
        fold_chains<fold>(to, from + in);
      else
        fold_together<fold>(to, from + in, width);
    }
  }

  // Folds `width` lines an element of each after another.
  template <int fold, class T>
  void fold_together(T* to, const T* from, int64_t width) const {
    Total<T> totals[kAtOnce];
    for (int64_t j = 0; j < width; ++j) totals[j] = neutral<fold, Total<T>>();
    const int64_t in = beside_ < 0 ? 0 : x_.strides[beside_],
                  out = beside_ < 0 ? 0 : out_.strides[beside_];
    for (int64_t k = 0; k < length_; ++k) {
      const T* const x = from + k * x_.strides[axis_];
      T* const y = to + k * out_.strides[axis_];
      for (int64_t j = 0; j < width; ++j) {
        totals[j] = folded<fold>(totals[j], total_of(x[j * in]));
        y[j * out] = rounded<T>(totals[j]);
      }
    }
  }

  // Folds kChains lines whose elements lie one after another, a cache line of each at a time: lines
  // may be a power of two apart, where the first cache keeps few of them.
  template <int fold, class T>
  void fold_chains(T* to, const T* from) const {
    constexpr int64_t kRun = 64 / sizeof(T);
    const int64_t in = x_.strides[beside_], out = out_.strides[beside_];
    Total<T> totals[kChains];
    T block[kChains][kRun];
    for (Total<T>& total : totals) total = neutral<fold, Total<T>>();
    for (int64_t k = 0; k < length_; k += kRun) {
      const int64_t count = length_ - k < kRun ? length_ - k : kRun;
      const size_t bytes = static_cast<size_t>(count) * sizeof(T);
      for (int64_t j = 0; j < kChains; ++j) __builtin_memcpy(block[j], from + j * in + k, bytes);
      for (int64_t i = 0; i < count; ++i)
#pragma GCC unroll 8
        for (int64_t j = 0; j < kChains; ++j) {
          totals[j] = folded<fold>(totals[j], total_of(block[j][i]));
          block[j][i] = rounded<T>(totals[j]);
        }
      for (int64_t j = 0; j < kChains; ++j) __builtin_memcpy(to + j * out + k, block[j], bytes);
    }
  }

  const pto_tensor &out_, &x_;
  const int axis_;
  const int64_t length_;
  const int32_t threads_;
  int beside_ = -1;
  int64_t at_once_ = 1, count_ = 1, elements_ = 1;
  int32_t fold_ = 0, blocks_ = 1;
};

template <class T>
void add_at(T* first, const pto_tensor& to, const pto_tensor& part, const int64_t* places,
            int64_t count) {
  const int64_t length = to.sizes[0], out = to.strides[0], in = part.strides[0];
  const T* const from = static_cast<const T*>(part.data);
  Total<T> totals[kAtOnce];
  for (int64_t start = 0; start < length; start += kAtOnce) {
    const int64_t width = length - start < kAtOnce ? length - start : kAtOnce;
    for (int64_t j = 0; j < width; ++j) totals[j] = total_of(first[(start + j) * out]);
    for (int64_t k = 0; k < count; ++k)
      for (int64_t j = 0; j < width; ++j)
        totals[j] = folded<PTO_SCAN_SUM>(totals[j], total_of(from[places[k] + (start + j) * in]));
    for (int64_t j = 0; j < width; ++j) first[(start + j) * out] = rounded<T>(totals[j]);
  }
}

}  // namespace
}  // namespace pto

int32_t pto_scan(const pto_tensor* out, const pto_tensor* x, int32_t axis, int32_t fold,
                 int32_t threads) {
  return pto::Scan(*out, *x, axis, threads).run(fold);
}

void pto_add_at(const pto_tensor* to, const pto_tensor* part, const int64_t* places,
                int64_t count) {
  pto::with_type(*to, [&](auto* first) { pto::add_at(first, *to, *part, places, count); });
}
