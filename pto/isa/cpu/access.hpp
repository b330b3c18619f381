// SPDX-License-Identifier: Apache-2.0
// Access: loads and stores vectors: whole, in part, with a stride, and past the cache.
//
//     auto v = load<N>(p);
//     store<N>(q, v * v);
//     store_part<N>(q, v, 3);
//     auto w = load_range<N>(p, LaneRange<Vec<float, N>>{1, 3});   // 0 p[1] p[2] 0 ...
//
// Invariant: elements that memory holds narrow compute wide (Compute<T>); loads and stores of
// parts never touch other elements. Only store_stream needs alignment.
// Thread safety: that of the memory.
#pragma once
#include "pto/isa/cpu/vec.hpp"

PTO_NAMESPACE_BEGIN
namespace lanes {

// Hides from the compiler where the pointer comes from.
template <class T>
PTO_INLINE T* without_history(T* memory) {
  asm("" : "+r"(memory));
  return memory;
}

template <int N, class T>
PTO_INLINE Vec<Compute<T>, N> load(const T* p) {
  using Loose = typename VecOf<Raw<T>, N>::loose;
  if constexpr (kSame<Raw<T>, Compute<T>>)
    return *reinterpret_cast<const Loose*>(p);
  else
    return widen<T, N>(Vec<Raw<T>, N>(*reinterpret_cast<const Loose*>(p)));
}

template <int N, class T>
PTO_INLINE void store(T* p, Vec<Compute<T>, N> v) {
  using Loose = typename VecOf<Raw<T>, N>::loose;
  if constexpr (kSame<Raw<T>, Compute<T>>)
    *reinterpret_cast<Loose*>(p) = v;
  else
    *reinterpret_cast<Loose*>(p) = narrow<T, N>(v);
}

// True where this target loads and stores the first n lanes of V in one instruction.
#if defined(PTO_TARGET_AVX512)
template <class V>
constexpr bool kHasMaskedAccess = sizeof(V) >= 16 && sizeof(V) <= kVectorBytes;
#elif defined(PTO_TARGET_AVX2)
template <class V>
constexpr bool kHasMaskedAccess = sizeof(V) >= 16 && sizeof(V) <= kVectorBytes &&
                                  sizeof(LaneOf<V>) >= 4;
#else
template <class V>
constexpr bool kHasMaskedAccess = false;
#endif

// Neighbouring lanes of V, first..last-1 (0 <= first, last <= N), as loads and stores take them.
template <class V, bool = kHasMaskedAccess<V>>
struct LaneRange {
  int first, last;
};
#if defined(PTO_TARGET_AVX512)
// One bit per lane.
template <int N>
using LaneBits = typename Choose<(N <= 16), uint16_t,
                                 typename Choose<(N <= 32), uint32_t, uint64_t>::type>::type;
template <class V>
struct LaneRange<V, true> {
  LaneBits<kCount<V>> mask = 0;
  LaneRange() = default;
  PTO_INLINE LaneRange(int first, int last)
      : mask(LaneBits<kCount<V>>(low_bits(last) & ~low_bits(first))) {}
};
#elif defined(PTO_TARGET_AVX2)
template <class V>
struct LaneRange<V, true> {
  MaskOf<V> mask = {};
  LaneRange() = default;
  PTO_INLINE LaneRange(int from, int last) : mask(first<V>(last) & ~first<V>(from)) {}
};
#endif

// Declared for kHasMaskedAccess<V> only.
template <class V>
V masked_load(const typename VecOf<LaneOf<V>, kCount<V>>::loose* p, LaneRange<V> range);
template <class V>
void masked_store(typename VecOf<LaneOf<V>, kCount<V>>::loose* p, V v, LaneRange<V> range);

// Compilers warn of these operands at the end of an object, since they are whole vectors.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Warray-bounds"
#if defined(PTO_TARGET_AVX512)
#define PTO_BY_LANE_SIZE(...)                \
  if constexpr (sizeof(LaneOf<V>) == 1)      \
    asm("vmovdqu8" __VA_ARGS__);             \
  else if constexpr (sizeof(LaneOf<V>) == 2) \
    asm("vmovdqu16" __VA_ARGS__);            \
  else if constexpr (sizeof(LaneOf<V>) == 4) \
    asm("vmovups" __VA_ARGS__);              \
  else                                       \
    asm("vmovupd" __VA_ARGS__)
template <class V>
PTO_INLINE V masked_load(const typename VecOf<LaneOf<V>, kCount<V>>::loose* p, LaneRange<V> range) {
  V v;
  PTO_BY_LANE_SIZE(" %1, %0%{%2%}%{z%}" : "=v"(v) : "m"(*p), "Yk"(range.mask));
  return v;
}
template <class V>
PTO_INLINE void masked_store(typename VecOf<LaneOf<V>, kCount<V>>::loose* p, V v,
                             LaneRange<V> range) {
  PTO_BY_LANE_SIZE(" %1, %0%{%2%}" : "+m"(*p) : "v"(v), "Yk"(range.mask));
}
#undef PTO_BY_LANE_SIZE
#elif defined(PTO_TARGET_AVX2)
template <class V>
PTO_INLINE V masked_load(const typename VecOf<LaneOf<V>, kCount<V>>::loose* p, LaneRange<V> range) {
  V v;
  if constexpr (sizeof(LaneOf<V>) == 4)
    asm("vmaskmovps %1, %2, %0" : "=x"(v) : "m"(*p), "x"(range.mask));
  else
    asm("vmaskmovpd %1, %2, %0" : "=x"(v) : "m"(*p), "x"(range.mask));
  return v;
}
template <class V>
PTO_INLINE void masked_store(typename VecOf<LaneOf<V>, kCount<V>>::loose* p, V v,
                             LaneRange<V> range) {
  if constexpr (sizeof(LaneOf<V>) == 4)
    asm("vmaskmovps %1, %2, %0" : "+m"(*p) : "x"(v), "x"(range.mask));
  else
    asm("vmaskmovpd %1, %2, %0" : "+m"(*p) : "x"(v), "x"(range.mask));
}
#endif
#pragma GCC diagnostic pop

// Reads and writes an element of a tile. Memory is shared by tiles of other types, of which a
// compiler would not know where an access has a type.
template <class T>
PTO_INLINE T load_element(const T* p) {
  Raw<T> raw;
  __builtin_memcpy(&raw, p, sizeof raw);
  return bit_cast<T>(raw);
}
template <class T>
PTO_INLINE void store_element(T* p, T value) {
  __builtin_memcpy(static_cast<void*>(p), &value, sizeof value);
}
template <class T>
PTO_INLINE void store_scalar(T* p, Compute<T> value) {
  if constexpr (kSame<T, mask32>)
    __builtin_memcpy(static_cast<void*>(p), &value, sizeof value);
  else
    store_element(p, T(value));
}

// Loads elements first..last-1 of p to their lanes; the others are zero.
template <int N, class T>
PTO_INLINE Vec<Compute<T>, N> load_range(const T* p, LaneRange<Vec<Raw<T>, N>> range) {
  using V = Vec<Raw<T>, N>;
  if constexpr (kHasMaskedAccess<V>) {
    return widen<T, N>(
        masked_load<V>(reinterpret_cast<const typename VecOf<Raw<T>, N>::loose*>(p), range));
  } else {
    Raw<T> lane[N] = {};
    if (range.first < range.last)
      __builtin_memcpy(lane + range.first, p + range.first,
                       size_t(range.last - range.first) * sizeof(T));
    return widen<T, N>(bit_cast<V>(lane));
  }
}

// Loads the first n elements (0 <= n <= N) of p; the other lanes are zero.
template <int N, class T>
PTO_INLINE Vec<Compute<T>, N> load_part(const T* p, int n) {
  return load_range<N>(p, LaneRange<Vec<Raw<T>, N>>{0, n});
}

template <int N, class T>
PTO_INLINE void store_part(T* p, Vec<Compute<T>, N> v, int n) {
  using V = Vec<Raw<T>, N>;
  const V raw = narrow<T, N>(v);
  if constexpr (kHasMaskedAccess<V>) {
    masked_store<V>(reinterpret_cast<typename VecOf<Raw<T>, N>::loose*>(p), raw,
                    LaneRange<V>{0, n});
  } else {
    __builtin_memcpy(static_cast<void*>(p), &raw, size_t(n) * sizeof(T));
  }
}

// Loads the first n elements (0 <= n <= N), `stride` apart; the other lanes are zero.
template <int N, class T>
PTO_INLINE Vec<Compute<T>, N> gather(const T* p, int64_t stride, int n) {
  Raw<T> lane[N] = {};
  for (int i = 0; i < N; ++i)
    if (i < n) __builtin_memcpy(lane + i, p + i * stride, sizeof(T));
  return widen<T, N>(bit_cast<Vec<Raw<T>, N>>(lane));
}

template <int N, class T>
PTO_INLINE void scatter(T* p, int64_t stride, Vec<Compute<T>, N> v, int n) {
  const Vec<Raw<T>, N> raw = narrow<T, N>(v);
  for (int i = 0; i < N; ++i) {
    const Raw<T> lane = raw[i];
    if (i < n) __builtin_memcpy(static_cast<void*>(p + i * stride), &lane, sizeof(T));
  }
}

// Returns the lanes of v at places that are known only as the program runs.
template <class V>
PTO_INLINE V permuted(V v, V places) {
#ifdef __clang__
  V out{};
  for (int i = 0; i < int(sizeof(V) / sizeof(v[0])); ++i) out[i] = v[places[i]];
  return out;
#else
  return __builtin_shuffle(v, places);
#endif
}

// Stores past the cache; p is aligned to the vector.
template <int N, class T>
PTO_INLINE void store_stream(T* p, Vec<Compute<T>, N> v) {
  const Vec<Raw<T>, N> raw = narrow<T, N>(v);
#if defined(PTO_TARGET_AVX512) || defined(PTO_TARGET_AVX2)
  if constexpr (sizeof(raw) >= 16) {
    asm("vmovntps %1, %0" : "=m"(*reinterpret_cast<Vec<Raw<T>, N>*>(p)) : "v"(raw));
    return;
  }
#endif
  *reinterpret_cast<typename VecOf<Raw<T>, N>::loose*>(p) = raw;
}

// Adds to *p atomically; relaxed, so it orders no other access.
template <class T>
PTO_INLINE void add_atomic(T* p, T value) {
  if constexpr (kSame<T, Raw<T>> && !kIsFloat<T>) {
    __atomic_fetch_add(p, value, __ATOMIC_RELAXED);
  } else {
    using U = typename WordOf<sizeof(T)>::Unsigned;
    U* word = reinterpret_cast<U*>(p);
    U old = __atomic_load_n(word, __ATOMIC_RELAXED), sum;
    do sum = bit_cast<U>(T(bit_cast<T>(old) + value));
    while (!__atomic_compare_exchange_n(word, &old, sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  }
}

// Reads and writes number `at` of an array whose elements hold two numbers each, or one.
template <class T>
PTO_INLINE T number_at(const T* data, int64_t at) {
  if constexpr (kIsTwin<T>)
    return T::FromRaw(uint8_t(data[at / 2].RawData() >> (at % 2 * 4) & 15));
  else
    return load_element(data + at);
}
template <class T>
PTO_INLINE void set_number(T* data, int64_t at, T value) {
  if constexpr (kIsTwin<T>) {
    const int shift = int(at % 2) * 4, others = data[at / 2].RawData() & ~(15 << shift);
    data[at / 2] = T::FromRaw(uint8_t(others | (value.RawData() & 15) << shift));
  } else {
    store_element(data + at, value);
  }
}

}  // namespace lanes
PTO_NAMESPACE_END
