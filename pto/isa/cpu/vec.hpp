// SPDX-License-Identifier: Apache-2.0
// Vec: vectors of lanes: splat, select, conversion between types, masks of lanes, halves.
//
//     auto v = splat<Vec<float, 8>>(2.0f);
//     auto w = select(first<Vec<float, 8>>(3), v, v * v);   // 2 2 2 4 4 4 4 4
//
// Invariant: no standard header, no intrinsics header; a leaf is one builtin or one instruction.
// Thread safety: pure functions on values.
#pragma once
#include "pto/isa/element/numeric.hpp"

PTO_NAMESPACE_BEGIN

template <class T, int N>
struct VecOf {
  typedef T type __attribute__((vector_size(N * sizeof(T))));
  typedef T loose __attribute__((vector_size(N * sizeof(T)), aligned(1), may_alias));
};
template <class T, int N>
using Vec = typename VecOf<T, N>::type;

template <class A>
A make_value();
template <class A>
struct RemoveReference : TypeIs<A> {};
template <class A>
struct RemoveReference<A&> : TypeIs<A> {};

// The element type and lane count of a vector.
template <class V>
using LaneOf = typename RemoveReference<decltype(make_value<V&>()[0])>::type;
template <class V>
constexpr int kCount = int(sizeof(V) / sizeof(LaneOf<V>));

namespace lanes {

template <class V>
PTO_INLINE V splat(LaneOf<V> s) {
  // s - {} is a pure broadcast; s + {} would turn -0 into 0.
  return s - V{};
}

template <class M, class V>
PTO_INLINE V select(M condition, V a, V b) {
  return condition ? a : b;
}

// Converts 8 to 32 bits and back in packed instructions, which the compiler does not find: bytes
// arrive in the low part of a register and leave from there.
template <class B, int N>
Vec<int32_t, N> widened_bytes(Vec<B, N> raw);
template <class B, int N>
Vec<B, N> narrowed_bytes(Vec<int32_t, N> wide);

#if defined(__SSE2__)
template <int N>
constexpr bool kHasBytes = N == 4 || (N == 8 && kVectorBytes >= 32) || N * 4 == kVectorBytes;

template <class B, int N>
PTO_INLINE Vec<int32_t, N> widened_bytes(Vec<B, N> raw) {
  using Bytes = Vec<int8_t, 16>;
  Bytes bytes;
  if constexpr (N == 16)
    bytes = bit_cast<Bytes>(raw);
  else if constexpr (N == 8)
    bytes = bit_cast<Bytes>(Vec<uint64_t, 2>{bit_cast<uint64_t>(raw), 0});
  else
    bytes = bit_cast<Bytes>(Vec<uint32_t, 4>{bit_cast<uint32_t>(raw), 0, 0, 0});
  Vec<int32_t, N> wide;
#if defined(PTO_TARGET_AVX512) || defined(PTO_TARGET_AVX2)
  if constexpr (kSame<B, int8_t>)
    asm("vpmovsxbd %1, %0" : "=v"(wide) : "v"(bytes));
  else
    asm("vpmovzxbd %1, %0" : "=v"(wide) : "v"(bytes));
#else
  const auto twice = bit_cast<Vec<int16_t, 8>>(
      __builtin_shufflevector(bytes, bytes, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7));
  wide = bit_cast<Vec<int32_t, 4>>(__builtin_shufflevector(twice, twice, 0, 0, 1, 1, 2, 2, 3, 3));
  wide = kSame<B, int8_t> ? wide >> 24 : Vec<int32_t, 4>(Vec<uint32_t, 4>(wide) >> 24);
#endif
  return wide;
}

template <class B, int N>
PTO_INLINE Vec<B, N> narrowed_bytes(Vec<int32_t, N> wide) {
  struct Quarters {
    Vec<int32_t, 4> part[N / 4];
  };
  const Quarters q = bit_cast<Quarters>(Vec<int32_t, N>(wide & 0xff));
  const auto words = __builtin_ia32_packssdw128(q.part[0], q.part[N / 4 - 1]);
  const auto bytes = __builtin_ia32_packuswb128(words, words);
  Vec<B, N> raw;
  __builtin_memcpy(&raw, &bytes, N);
  return raw;
}
#else
template <int N>
constexpr bool kHasBytes = false;
#endif

// Converts half a vector to a whole one in one instruction, for which GCC takes four.
#if defined(PTO_TARGET_AVX512)
template <class To, class From, int N>
constexpr bool kWidensHalf = sizeof(To) == 2 * sizeof(From) && N * sizeof(To) == kVectorBytes &&
                             ((sizeof(From) == 4 && (From(0.5) == From(0) || kSame<To, double>)) ||
                              (sizeof(From) == 2 && From(0.5) == From(0) && To(0.5) == To(0)));
#else
template <class To, class From, int N>
constexpr bool kWidensHalf = false;
#endif

template <class To, class From, int N>
PTO_INLINE Vec<To, N> widened_half(Vec<From, N> narrow) {
  constexpr bool kIsSigned = From(-1) < From(0);
  Vec<To, N> wide;
  if constexpr (kSame<From, float>)
    asm("vcvtps2pd %1, %0" : "=v"(wide) : "v"(narrow));
  else if constexpr (kSame<To, double> && kIsSigned)
    asm("vcvtdq2pd %1, %0" : "=v"(wide) : "v"(narrow));
  else if constexpr (kSame<To, double>)
    asm("vcvtudq2pd %1, %0" : "=v"(wide) : "v"(narrow));
  else if constexpr (sizeof(From) == 4 && kIsSigned)
    asm("vpmovsxdq %1, %0" : "=v"(wide) : "v"(narrow));
  else if constexpr (sizeof(From) == 4)
    asm("vpmovzxdq %1, %0" : "=v"(wide) : "v"(narrow));
  else if constexpr (kIsSigned)
    asm("vpmovsxwd %1, %0" : "=v"(wide) : "v"(narrow));
  else
    asm("vpmovzxwd %1, %0" : "=v"(wide) : "v"(narrow));
  return wide;
}

template <class To, class V>
PTO_INLINE Vec<To, kCount<V>> convert(V v) {
  using From = LaneOf<V>;
  constexpr int N = kCount<V>;
  if constexpr (kSame<To, From>)
    return v;
  else if constexpr (kHasBytes<N> && sizeof(From) == 1 && sizeof(To) == 4)
    return convert<To>(widened_bytes<From, N>(v));
  else if constexpr (kHasBytes<N> && N <= 8 && sizeof(From) == 4 && From(0.5) == From(0) &&
                     sizeof(To) == 1)
    return narrowed_bytes<To, N>((Vec<int32_t, N>)v);
  else if constexpr (kWidensHalf<To, From, N>)
    return widened_half<To, From, N>(v);
  else
    return __builtin_convertvector(v, Vec<To, N>);
}

// A constant for each lane: f(0), f(1), ...
template <class I, int N, uint64_t (*f)(int)>
struct LaneTable {
  I value[N];
  constexpr LaneTable() : value() {
    for (int i = 0; i < N; ++i) value[i] = I(f(i));
  }
};
template <class I, int N, uint64_t (*f)(int)>
inline constexpr LaneTable<I, N, f> kLaneTable;
template <class V, uint64_t (*f)(int)>
PTO_INLINE V lane_table() {
  return bit_cast<V>(kLaneTable<LaneOf<V>, kCount<V>, f>);
}

// The integers 0, 1, 2, ... of a lane's width.
constexpr uint64_t lane_number(int lane) { return uint64_t(lane); }
template <class I, int N>
PTO_INLINE Vec<I, N> iota() {
  return lane_table<Vec<I, N>, lane_number>();
}

template <class V>
using MaskOf = Vec<typename WordOf<sizeof(LaneOf<V>)>::Signed, kCount<V>>;

// Makes the mask of the lanes below n of a vector like V; n may be negative or beyond the vector.
template <class V>
PTO_INLINE MaskOf<V> first(int n) {
  using I = LaneOf<MaskOf<V>>;
  n = n < 0 ? 0 : n > kCount<V> ? kCount<V> : n;
  return iota<I, kCount<V>>() < splat<MaskOf<V>>(I(n));
}

// Converts 16 to 32 bits and back: one instruction where the compiler finds three.
template <class V>
PTO_INLINE Vec<uint32_t, kCount<V>> wide_integers(V raw) {
#if defined(PTO_TARGET_AVX512) || defined(PTO_TARGET_AVX2)
  if constexpr (kCount<V> * 4 == kVectorBytes) {
    Vec<uint32_t, kCount<V>> wide;
    asm("vpmovzxwd %1, %0" : "=v"(wide) : "v"(raw));
    return wide;
  }
#endif
  return convert<uint32_t>(raw);
}
template <class V>
PTO_INLINE Vec<uint16_t, kCount<V>> narrow_integers(V wide) {
#if defined(PTO_TARGET_AVX512)
  if constexpr (sizeof(V) == 64) {
    Vec<uint16_t, kCount<V>> raw;
    asm("vpmovdw %1, %0" : "=v"(raw) : "v"(wide));
    return raw;
  }
#endif
  return convert<uint16_t>(wide);
}

// Converts between the type in memory and the type that computes.
template <class T, int N>
PTO_INLINE Vec<Compute<T>, N> widen(Vec<Raw<T>, N> raw) {
  if constexpr (kSame<T, bfloat16_t>) {
    return bits::float_from_bfloat16<Vec<float, N>>(wide_integers(raw));
  } else if constexpr (kSame<T, half>) {
#if defined(PTO_TARGET_AVX512) || defined(PTO_TARGET_AVX2)
    if constexpr (N >= 8) {
      Vec<float, N> wide;
      asm("vcvtph2ps %1, %0" : "=v"(wide) : "v"(raw));
      return wide;
    }
#endif
    return bits::float_from_half<Vec<float, N>>(convert<uint32_t>(raw));
  } else if constexpr (!kSame<Raw<T>, Compute<T>>) {
    return Codec<T>::template widen<N>(raw);
  } else {
    return raw;
  }
}

template <class T, int N>
PTO_INLINE Vec<Raw<T>, N> narrow(Vec<Compute<T>, N> v) {
  if constexpr (kSame<T, bfloat16_t>) {
    return narrow_integers(bits::bfloat16_from_float<Vec<float, N>, Vec<uint32_t, N>>(v));
  } else if constexpr (kSame<T, half>) {
#if defined(PTO_TARGET_AVX512) || defined(PTO_TARGET_AVX2)
    if constexpr (N >= 8) {
      Vec<uint16_t, N> raw;
      asm("vcvtps2ph $0, %1, %0" : "=v"(raw) : "v"(v));
      return raw;
    }
#endif
    return convert<uint16_t>(bits::half_from_float<Vec<float, N>, Vec<uint32_t, N>>(v));
  } else if constexpr (!kSame<Raw<T>, Compute<T>>) {
    return Codec<T>::template narrow<N>(v);
  } else {
    return v;
  }
}

// Rounds floats to numbers of bfloat16_t, whose bits are the upper half.
template <class V>
PTO_INLINE V rounded_to_bfloat16(V v) {
  using Words = Vec<uint32_t, kCount<V>>;
  return bit_cast<V>(Words(bits::bfloat16_from_float<V, Words>(v) << 16));
}
template <class V>
PTO_INLINE Vec<uint16_t, kCount<V>> upper_halves(V v) {
  return narrow_integers(Vec<uint32_t, kCount<V>>(bit_cast<Vec<uint32_t, kCount<V>>>(v) >> 16));
}

// Bits 0 .. n - 1, n <= 64.
PTO_INLINE uint64_t low_bits(int n) { return n == 64 ? ~uint64_t(0) : (uint64_t(1) << n) - 1; }

// The lower and the upper half of a vector.
template <class V>
struct Halves {
  using Half = Vec<LaneOf<V>, kCount<V> / 2>;
  Half low, high;
  explicit PTO_INLINE Halves(V v) {
    struct Pair {
      Half low, high;
    };
    const Pair pair = bit_cast<Pair>(v);
    low = pair.low;
    high = pair.high;
  }
};

// Joins two halves into one vector.
template <class V>
PTO_INLINE Vec<LaneOf<V>, 2 * kCount<V>> join(V low, V high) {
  struct Pair {
    V low, high;
  };
  return bit_cast<Vec<LaneOf<V>, 2 * kCount<V>>>(Pair{low, high});
}

}  // namespace lanes

PTO_NAMESPACE_END
