// SPDX-License-Identifier: Apache-2.0
// Region reductions: the accumulators of a row in compiled regions, and the loops that end the
// blocks of sums.
//
//     Accumulator<sum_of, float, kStep> a;
//     RegionSums<float, kTail> blocks;
//     for_each_tile<kStep>(n, [&](int64_t j, auto w) PTO_LAMBDA_INLINE {
//       auto v = load<float>(w, x + j);
//       a.add(w, v);
//     }, [&]() PTO_LAMBDA_INLINE { a.close(blocks); });
//     a.value(blocks);
//
// Invariant: the order of a reduction depends on its sizes only; block_sums.hpp states the error of
// a sum of floats. Down columns the blocks are shorter: kColumnSteps.
// Thread safety: a region runs on one thread.
#pragma once
#include "pto/isa/reduce/block_sums.hpp"
#include "pto/isa/region.hpp"

PTO_NAMESPACE_BEGIN
namespace region {

// Rows of a block where sums run down columns: a column of few rows has no other partial sums, as a
// row has its lanes. Up to 4096 rows this is PyTorch's order.
constexpr int64_t kColumnSteps = 16;

// Runs for_each_tile() on a row that is summed: `close` ends each block of kBlockSteps steps but
// the last.
template <int W, class Body, class Close>
PTO_INLINE void for_each_tile(int64_t end, Body body, Close close) {
  for (int64_t begin = 0;; begin += kBlockSteps * W) {
    const int64_t stop = min_size(end, begin + kBlockSteps * W);
    for_each_tile<W>(begin, stop, body);
    if (__builtin_expect(stop == end, 1)) return;
    close();
  }
}
// Does the same where rows are summed together: `open` counts the steps since the last block, those
// of earlier rows too.
template <int W, class Body, class Close>
PTO_INLINE void for_each_tile(int64_t end, int64_t& open, Body body, Close close) {
  int64_t begin = 0;
  do {
    const int64_t stop = min_size(end, begin + kBlockSteps * W);
    for_each_tile<W>(begin, stop, body);
    const auto length = uint64_t(stop - begin);
    open += int64_t(length / W + (length % W + kTail - 1) / kTail);
    begin = stop;
    if (open >= kBlockSteps) {
      close();
      open = 0;
    }
  } while (begin < end);
}

// One reduction: its identity, tile with tile, within a tile; `pick` chooses one of two floats and
// may skip NaN, sums and products have none.
#define PTO_REGION_REDUCTION(op, TILE, ROW, neutral, picks, pick_of) \
  struct op##_of {                                                   \
    static constexpr bool kPicks = picks;                            \
    template <class T>                                               \
    static PTO_INLINE T identity() {                                 \
      return isa::identity<T>(neutral);                              \
    }                                                                \
    template <class D, class S>                                      \
    static PTO_INLINE void whole(D& d, S& s) {                       \
      TILE(d, s, d);                                                 \
    }                                                                \
    template <class T, class S>                                      \
    static PTO_INLINE T row(S& s) {                                  \
      MicroTile<T, kTail, 1> r;                                      \
      ROW(r, s, s);                                                  \
      return r.GetValue(0);                                          \
    }                                                                \
    template <class V>                                               \
    static PTO_INLINE V pick(V a, V b) {                             \
      return pick_of;                                                \
    }                                                                \
  };
PTO_REGION_REDUCTION(sum, TADD, TROWSUM, kZero, false, a)
PTO_REGION_REDUCTION(prod, TMUL, TROWPROD, kOne, false, a)
PTO_REGION_REDUCTION(amax, TMAX, TROWMAX, kLowest, true, lanes::max_or_second(a, b))
PTO_REGION_REDUCTION(amin, TMIN, TROWMIN, kHighest, true, lanes::min_or_second(a, b))
#undef PTO_REGION_REDUCTION

// Sums that run down the columns of a tile. Its elements are copied a vector at a time: a tile that
// is copied as a whole, or named out of line, does not stay in registers.
template <class T, int W>
class RegionSums {
  static constexpr int kLane = kLanes<T>, kVectors = W / kLane;

 public:
  PTO_INLINE RegionSums() { TEXPANDS(recent_, T(0)); }
  explicit PTO_INLINE RegionSums(const MicroTile<T, W>&) : RegionSums() {}
  PTO_INLINE void close(MicroTile<T, W>& open) {
    TADD(recent_, recent_, open);
    TEXPANDS(open, T(0));
    if (__builtin_expect(++closed_ % kRecent != 0, 1)) return;
    detail::copy_unrolled<kLane, kVectors>(copy_, recent_.data());
    sums_.add(copy_);
    TEXPANDS(recent_, T(0));
  }
  PTO_INLINE void add_all_to(MicroTile<T, W>& last) {
    if (__builtin_expect(closed_ == 0, 1)) return;
    TADD(last, last, recent_);
    if (__builtin_expect(!sums_.any(), 1)) return;
    detail::copy_unrolled<kLane, kVectors>(copy_, last.data());
    sums_.add_all_to(copy_);
    detail::copy_unrolled<kLane, kVectors>(last.data(), copy_);
  }

 private:
  static constexpr int64_t kRecent = 16;

  MicroTile<T, W> recent_;  // the sum of the last blocks, at most kRecent of them
  int64_t closed_ = 0;
  BlockSums<T, W> sums_;  // the sums of kRecent blocks
  alignas(64) T copy_[W];
};

// A reduction along a row: W partial results, one vector more for tails, folded once at the end in
// pairs, in an order that depends on the row's length only. A sum of floats is folded after each
// block, too: see block_sums.hpp. A maximum or minimum of floats looks for NaN beside its chain of
// instructions and is NaN if it saw one.
template <class Reduction, class T, int W>
class Accumulator {
 public:
  PTO_INLINE Accumulator() {
    TEXPANDS(whole_, Reduction::template identity<T>());
    TEXPANDS(rest_, Reduction::template identity<T>());
  }
  template <class S>
  PTO_INLINE void add(Whole<W>, S& s) {
    watch_and_combine(whole_, s);
  }
  template <class S>
  PTO_INLINE void add(Rest w, S& s) {
    using V = Vec<Compute<T>, kTail>;
    auto valid = make<T>(w);
    const V identity = lanes::splat<V>(Reduction::template identity<T>());
    const V values = lanes::load<kTail>(s.data());
    lanes::store<kTail>(valid.data(),
                        lanes::select(lanes::first<V>(w.elements()), values, identity));
    watch_and_combine(rest_, valid);
  }
  // Adds a product, which is not rounded first but at the end of a row.
  template <class A, class B>
  PTO_INLINE void add_product(Whole<W>, A& a, B& b) {
    multiply_add(whole_, a, b, whole_);
  }
  template <class A, class B>
  PTO_INLINE void add_product(Rest w, A& a, B& b) {
    auto product = make<T>(w);
    TMUL(product, a, b);
    add(w, product);
  }
  PTO_INLINE void close(RegionSums<T, kTail>& sums) {
    auto block = folded();
    sums.close(block);
    *this = Accumulator();
  }
  PTO_INLINE T value(RegionSums<T, kTail>& sums) {
    auto all = folded();
    sums.add_all_to(all);
    return Reduction::template row<T>(all);
  }
  PTO_INLINE T value() {
    auto all = folded();
    if constexpr (kPicks) {
      if (nan_.any()) return T(__builtin_nanf(""));
      auto last = fold<kLanes<T>>(all);
      return lanes::reduce([](auto a, auto b) { return Reduction::pick(a, b); },
                           lanes::load<kLanes<T>>(last.data()));
    } else {
      return Reduction::template row<T>(all);
    }
  }

 private:
  PTO_INLINE MicroTile<T, kTail> folded() {
    auto all = fold<kTail>(whole_);
    combine(all, rest_);
    return all;
  }

  static constexpr bool kPicks = Reduction::kPicks && kIsFloat<T>;

  template <class D, class S>
  static PTO_INLINE void combine(D& d, S& s) {
    if constexpr (kPicks)
      map([](auto a, auto b) { return Reduction::pick(a, b); }, d, d, s);
    else
      Reduction::whole(d, s);
  }

  template <class D, class S>
  PTO_INLINE void watch_and_combine(D& d, S& s) {
    if constexpr (kPicks) {
      constexpr int N = kLanes<T>;
      PTO_UNROLL
      for (int i = 0; i < S::Numel; i += 2 * N) {
        const int k = i + N < S::Numel ? i + N : i;  // alone where the number of vectors is odd
        const auto a = lanes::load<N>(s.data() + i), b = lanes::load<N>(s.data() + k);
        nan_.see(a, b);
        lanes::store<N>(d.data() + i, Reduction::pick(lanes::load<N>(d.data() + i), a));
        lanes::store<N>(d.data() + k, Reduction::pick(lanes::load<N>(d.data() + k), b));
      }
    } else {
      combine(d, s);
    }
  }

  template <int Elements, int N>
  static PTO_INLINE MicroTile<T, Elements> fold(MicroTile<T, N>& t) {
    if constexpr (N == Elements) {
      return t;
    } else {
      constexpr int kHalf = N / 2, kVectors = kHalf / kLanes<T>;
      MicroTile<T, kHalf> low, high;
      detail::copy_unrolled<kLanes<T>, kVectors>(low.data(), t.data());
      detail::copy_unrolled<kLanes<T>, kVectors>(high.data(), t.data() + kHalf);
      combine(low, high);
      return fold<Elements>(low);
    }
  }

  MicroTile<T, W> whole_;
  MicroTile<T, kTail> rest_;
  lanes::NanWatch<Vec<Compute<T>, kLanes<T>>> nan_;
};

// The least number of a row whose elements are their positions where a condition holds, and `other`
// elsewhere: the first position where it holds, found by a comparison a step.
class FirstPlace {
  static constexpr int64_t kNone = INT64_MAX;  // the least number of an empty row
  static constexpr int kLane = kLanes<int32_t>;
  using V = Vec<int32_t, kLane>;

 public:
  explicit PTO_INLINE FirstPlace(int64_t other) : other_(other) {}

  template <class W, class Mask>
  PTO_INLINE void add(W w, Mask& holds, int64_t start) {
    V some = {};
    PTO_UNROLL
    for (int i = 0; i < Mask::Numel; i += kLane)
      some |= within(w, lanes::load<kLane>(holds.data() + i));
    if (__builtin_expect(first_ == kNone && lanes::any(some), 0)) first_ = start + place_in(holds);
    if (__builtin_expect(other_ < 0, 0)) {  // less than any position
      PTO_UNROLL
      for (int i = 0; i < Mask::Numel; i += kLane)
        fails_ |= within(w, lanes::load<kLane>(holds.data() + i) == 0);
    }
    is_empty_ = false;
  }
  PTO_INLINE int64_t value() const {
    const bool fails = first_ == 0 ? lanes::any(fails_) : !is_empty_;  // somewhere in the row
    return fails && other_ < first_ ? other_ : first_;
  }

 private:
  template <int W>
  static PTO_INLINE V within(Whole<W>, V v) {
    return v;
  }
  static PTO_INLINE V within(Rest w, V v) { return v & V(lanes::first<V>(w.elements())); }

  template <class Mask>
  static PTO_INLINE int64_t place_in(Mask& holds) {
    int32_t lane[Mask::Numel];
    PTO_UNROLL
    for (int i = 0; i < Mask::Numel; i += kLane)
      lanes::store<kLane>(lane + i, lanes::load<kLane>(holds.data() + i));
    int64_t place = 0;
    while (lane[place] == 0) ++place;
    return place;
  }

  const int64_t other_;
  int64_t first_ = kNone;
  bool is_empty_ = true;
  V fails_ = {};
};

}  // namespace region
PTO_NAMESPACE_END
