// SPDX-License-Identifier: Apache-2.0
// Sorting networks on vectors of 64-bit keys.
//
//     sort_descending_32(v);                    // lane by lane: v[0] >= v[1] >= ... >= v[31]
//     end_list(a, na);
//     end_list(b, nb);
//     merge_descending({d, n, a, na, b, nb});   // the n greatest of two descending lists
//
// Invariant: keys only change places. A list that is merged ends with kMergeStep of the smallest
// key, and the destination has room up to a multiple of kMergeStep and the same end again.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/access.hpp"
#include "pto/isa/cpu/shuffle.hpp"

PTO_NAMESPACE_BEGIN
namespace lanes {

constexpr int kSortLanes = kVectorBytes / 8;
using SortKeys = Vec<int64_t, kSortLanes>;

// Puts the greater keys into a, the others into b.
PTO_INLINE void order(SortKeys& a, SortKeys& b) {
#if defined(PTO_TARGET_AVX512)
  SortKeys most;
  asm("vpmaxsq %2, %1, %0" : "=v"(most) : "v"(a), "v"(b));
  asm("vpminsq %1, %0, %0" : "+v"(b) : "v"(a));
  a = most;
#else
  const auto is_greater = a > b;
  const SortKeys most = is_greater ? a : b;
  b = is_greater ? b : a;
  a = most;
#endif
}

// Batcher's odd-even merge sort; the bounds are constants so that every vector has a register.
template <int Low, int N, int Step>
PTO_INLINE void merge_network(SortKeys* v) {
  constexpr int kNext = 2 * Step;
  if constexpr (kNext < N) {
    merge_network<Low, N, kNext>(v);
    merge_network<Low + Step, N, kNext>(v);
    PTO_UNROLL
    for (int i = Low + Step; i + Step < Low + N; i += kNext) order(v[i], v[i + Step]);
  } else {
    order(v[Low], v[Low + Step]);
  }
}
template <int Low, int N>
PTO_INLINE void sort_network(SortKeys* v) {
  if constexpr (N > 1) {
    sort_network<Low, N / 2>(v);
    sort_network<Low + N / 2, N / 2>(v);
    merge_network<Low, N, 1>(v);
  }
}
PTO_INLINE void sort_descending_32(SortKeys* v) { sort_network<0, 32>(v); }

// --- merging two lists ---------------------------------------------------------------------------

// Vectors of one step of a merge.
constexpr int kMergeVectors = 2;
constexpr int kMergeStep = kMergeVectors * kSortLanes;

// Orders lane i and lane i ^ Distance, the greater one below.
template <int Distance>
PTO_INLINE SortKeys order_across(SortKeys v) {
  const SortKeys swapped = swap_across<Distance>(v);
#if defined(PTO_TARGET_AVX512)
  constexpr uint8_t kUpper = Distance == 4 ? 0xf0 : Distance == 2 ? 0xcc : 0xaa;
  SortKeys ordered;
  asm("vpmaxsq %2, %1, %0" : "=v"(ordered) : "v"(v), "v"(swapped));
  asm("vpminsq %2, %1, %0%{%3%}" : "+v"(ordered) : "v"(v), "v"(swapped), "Yk"(kUpper));
  return ordered;
#else
  const auto is_greater = v > swapped;
  return blend_upper<Distance>(is_greater ? v : swapped, is_greater ? swapped : v);
#endif
}

// Sorts a bitonic sequence within a vector, descending.
template <int Distance>
PTO_INLINE SortKeys sort_bitonic(SortKeys v) {
  if constexpr (Distance == 0)
    return v;
  else
    return sort_bitonic<Distance / 2>(order_across<Distance>(v));
}

PTO_INLINE void end_list(int64_t* keys, int count) {
  const SortKeys last = splat<SortKeys>(lowest<int64_t>());
  for (int i = 0; i < kMergeVectors; ++i) store<kSortLanes>(keys + count + i * kSortLanes, last);
}

// A merge under way: keeps the smaller half of what it has seen, emits the greater one.
class Merge {
 public:
  PTO_INLINE Merge(int64_t* d, const int64_t* a, const int64_t* a_end, const int64_t* b,
                   const int64_t* b_end)
      : d_(d), a_(a), a_end_(a_end), b_(b), b_end_(b_end) {
    const int64_t* const from = next_list();
    PTO_UNROLL
    for (int i = 0; i < kMergeVectors; ++i) kept_[i] = load<kSortLanes>(from + i * kSortLanes);
  }
  PTO_INLINE void step() {
    constexpr int L = kSortLanes, K = kMergeVectors;
    const int64_t* const from = next_list();
    SortKeys next[K];
    PTO_UNROLL
    for (int i = 0; i < K; ++i) next[K - 1 - i] = reverse(load<L>(from + i * L));
    PTO_UNROLL
    for (int i = 0; i < K; ++i) order(next[i], kept_[i]);
    static_assert(K == 2, "one exchange between the vectors of a half");
    order(next[0], next[1]);
    order(kept_[0], kept_[1]);
    PTO_UNROLL
    for (int i = 0; i < K; ++i) {
      store<L>(d_ + i * L, sort_bitonic<L / 2>(next[i]));
      kept_[i] = sort_bitonic<L / 2>(kept_[i]);
    }
    d_ += kMergeStep;
  }

 private:
  // Advances the list whose next key is the greater, without a branch, which nothing could predict.
  // A list that has ended stays at its end, where the smallest keys stand.
  PTO_INLINE const int64_t* next_list() {
    const int64_t* const a = a_ < a_end_ ? a_ : a_end_;
    const int64_t* const b = b_ < b_end_ ? b_ : b_end_;
    const uintptr_t is_a = -uintptr_t(*a >= *b);
    const uintptr_t from = (uintptr_t(a) & is_a) | (uintptr_t(b) & ~is_a);
    a_ = a + (kMergeStep & ptrdiff_t(is_a));
    b_ = b + (kMergeStep & ~ptrdiff_t(is_a));
    return reinterpret_cast<const int64_t*>(from);
  }

  int64_t* d_;
  const int64_t *a_, *a_end_, *b_, *b_end_;
  SortKeys kept_[kMergeVectors];
};

// Two descending lists, and the place for the n greatest of both.
struct MergeTask {
  int64_t* d;
  int n;
  const int64_t* a;
  int na;
  const int64_t* b;
  int nb;
  PTO_INLINE Merge start() const { return Merge(d, a, a + na, b, b + nb); }
  PTO_INLINE int steps() const { return (n + kMergeStep - 1) / kMergeStep; }
};

// Runs two merges at once: each waits for itself most of the time.
inline __attribute__((noinline)) void merge_both(const MergeTask& first, const MergeTask& second) {
  Merge x = first.start(), y = second.start();
  int i = 0;
  const int both = first.steps() < second.steps() ? first.steps() : second.steps();
  for (; i < both; ++i) {
    x.step();
    y.step();
  }
  for (int k = i; k < first.steps(); ++k) x.step();
  for (int k = i; k < second.steps(); ++k) y.step();
}

// Counts how many of the n greatest of two lists come from a: those of a go first among equals.
inline int taken_from_first(int n, const int64_t* a, int na, const int64_t* b, int nb) {
  int low = n > nb ? n - nb : 0, high = n < na ? n : na;
  while (low < high) {
    const int i = (low + high) / 2;
    if (a[i] >= b[n - i - 1])
      low = i + 1;
    else
      high = i;
  }
  return low;
}

// Splits one merge into two: its second half starts where the first will have ended.
PTO_INLINE void merge_descending(const MergeTask& t) {
  const int half = t.n / 2 / kMergeStep * kMergeStep;
  const int from_a = taken_from_first(half, t.a, t.na, t.b, t.nb), from_b = half - from_a;
  merge_both({t.d, half, t.a, t.na, t.b, t.nb},
             {t.d + half, t.n - half, t.a + from_a, t.na - from_a, t.b + from_b, t.nb - from_b});
  end_list(t.d, t.n);
}

}  // namespace lanes
PTO_NAMESPACE_END
