// SPDX-License-Identifier: Apache-2.0
// Shuffle: moves the lanes of vectors by patterns known at compile time.
//
//     auto low = zip_low(a, b);        // a0 b0 a1 b1 ...      zip_high: the upper halves
//     auto even = unzip_even(a, b);    // a0 a2 ... b0 b2 ...  unzip_odd: a1 a3 ... b1 b3 ...
//     auto back = reverse(a);          // a[N - 1] ... a0
//
// Invariant: lanes move as bits; one or two instructions each.
// Thread safety: pure functions.
#pragma once
#include "pto/isa/cpu/vec.hpp"

PTO_NAMESPACE_BEGIN
namespace lanes {

// Pattern::at(i, N) is the source of lane i: 0 to N - 1 in a, N to 2 N - 1 in b.
template <class Pattern, class V, int... I>
PTO_INLINE V shuffle(V a, V b, Indices<I...>) {
  return __builtin_shufflevector(a, b, Pattern::at(I, int(sizeof...(I)))...);
}
template <class Pattern, class V>
PTO_INLINE V shuffle(V a, V b) {
  return shuffle<Pattern>(a, b, typename IndicesTo<kCount<V>>::type());
}

// PTO_SHUFFLE(zip_low, ...) makes zip_low(a, b); lane i comes from lane `from`.
#define PTO_SHUFFLE(name, from)                            \
  struct name##_pattern {                                  \
    static constexpr int at(int i, int n) { return from; } \
  };                                                       \
  template <class V>                                       \
  PTO_INLINE V name(V a, V b) {                            \
    return shuffle<name##_pattern>(a, b);                  \
  }
PTO_SHUFFLE(zip_low, (i / 2 + (i & 1) * n + n * 0))
PTO_SHUFFLE(zip_high, (n / 2 + i / 2 + (i & 1) * n))
PTO_SHUFFLE(unzip_even, (2 * i + n * 0))
PTO_SHUFFLE(unzip_odd, (2 * i + 1 + n * 0))
PTO_SHUFFLE(backwards, (n - 1 - i))
#undef PTO_SHUFFLE
template <class V>
PTO_INLINE V reverse(V a) {
  return backwards(a, a);
}

template <int Distance>
struct Across {
  static constexpr int at(int i, int) { return i ^ Distance; }
};
template <int Distance>
struct Upper {
  static constexpr int at(int i, int n) { return i & Distance ? i + n : i; }
};

// Exchanges lane i and lane i ^ Distance; lanes whose index has the bit Distance come from b.
template <int Distance, class V>
PTO_INLINE V swap_across(V a) {
  return shuffle<Across<Distance>>(a, a);
}
template <int Distance, class V>
PTO_INLINE V blend_upper(V a, V b) {
  return shuffle<Upper<Distance>>(a, b);
}

// Exchanges v[i] lane j and v[j] lane i, for as many vectors as they have lanes.
template <class V>
PTO_INLINE void transpose(V* v) {
  constexpr int N = kCount<V>;
  PTO_UNROLL
  for (int step = 1; step < N; step *= 2) {
    V next[N];
    PTO_UNROLL
    for (int i = 0; i < N / 2; ++i) {
      next[2 * i] = zip_low(v[i], v[i + N / 2]);
      next[2 * i + 1] = zip_high(v[i], v[i + N / 2]);
    }
    PTO_UNROLL
    for (int i = 0; i < N; ++i) v[i] = next[i];
  }
}

}  // namespace lanes
PTO_NAMESPACE_END
