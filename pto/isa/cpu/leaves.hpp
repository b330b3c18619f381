// SPDX-License-Identifier: Apache-2.0
// Leaves: arithmetic on vectors that operators do not express: min/max, fused multiply-add,
// rounding, square root, division, horizontal reduction.
//
//     auto m = maximum(a, b);            // NaN if either is NaN
//     auto y = fma(a, b, c);             // one rounding on AVX2 and AVX-512, two on portable
//
// Invariant: no leaf traps, whatever its lanes hold; a lane depends on the same lanes only.
// Thread safety: pure functions.
#pragma once
#include "pto/isa/cpu/integer_division.hpp"

PTO_NAMESPACE_BEGIN
namespace lanes {

#if defined(PTO_TARGET_AVX512) || defined(PTO_TARGET_AVX2)
constexpr bool kHasFma = true;
#else
constexpr bool kHasFma = false;
#endif

template <class V>
constexpr bool kIsF32 = kSame<LaneOf<V>, float>;
template <class V>
constexpr bool kIsF64 = kSame<LaneOf<V>, double>;
// True for vectors of floats that fill a register of this target, and so have instructions.
template <class V>
constexpr bool kIsNative = kHasFma && (kIsF32<V> || kIsF64<V>)&&sizeof(V) >= 16;

// Calls f on every lane, for functions without vector code.
template <class V, class F>
PTO_INLINE V each_lane(V v, F f) {
  for (int i = 0; i < kCount<V>; ++i) v[i] = f(v[i]);
  return v;
}
template <class V, class F>
PTO_INLINE V each_lane(V a, V b, F f) {
  for (int i = 0; i < kCount<V>; ++i) a[i] = f(a[i], b[i]);
  return a;
}

template <class V>
PTO_INLINE V fma(V a, V b, V c) {
#if defined(PTO_TARGET_AVX512)
  if constexpr (kIsF32<V> && sizeof(V) == 64)
    return __builtin_ia32_vfmaddps512_mask(a, b, c, uint16_t(-1), 4);
  if constexpr (kIsF64<V> && sizeof(V) == 64)
    return __builtin_ia32_vfmaddpd512_mask(a, b, c, uint8_t(-1), 4);
#endif
#if defined(PTO_TARGET_AVX512) || defined(PTO_TARGET_AVX2)
  if constexpr (kIsF32<V> && sizeof(V) == 32) return __builtin_ia32_vfmaddps256(a, b, c);
  if constexpr (kIsF64<V> && sizeof(V) == 32) return __builtin_ia32_vfmaddpd256(a, b, c);
  if constexpr (kIsF32<V> && sizeof(V) == 16) return __builtin_ia32_vfmaddps(a, b, c);
  if constexpr (kIsF64<V> && sizeof(V) == 16) return __builtin_ia32_vfmaddpd(a, b, c);
#endif
  return a * b + c;
}
template <class V>
PTO_INLINE V fma(V a, V b, LaneOf<V> c) {
  return fma(a, b, splat<V>(c));
}

// Reduces by halves, f(f(lane 0, lane 1), ...): 16 lanes take four steps. The last two stay in a
// register of 16 bytes, where f has its instruction.
template <class F, class V>
PTO_INLINE LaneOf<V> reduce(F f, V v) {
  if constexpr (kCount<V> == 2) {
    const V swapped = {v[1], v[0]};
    return f(v, swapped)[0];
  } else if constexpr (kCount<V> == 4 && sizeof(V) == 16) {
    const V swapped = {v[2], v[3], v[0], v[1]};
    v = f(v, swapped);
    const V pairs = {v[1], v[0], v[3], v[2]};
    return f(v, pairs)[0];
  } else {
    const Halves<V> half(v);
    return reduce(f, f(half.low, half.high));
  }
}

// Writes one instruction on floats, or its twin on doubles.
#define PTO_FLOAT_ASM(name, ...) \
  if constexpr (kIsF32<V>)       \
    asm(name "ps" __VA_ARGS__);  \
  else                           \
    asm(name "pd" __VA_ARGS__)

// NAME_or_second returns b where either is NaN or both are zero: one instruction. Put the operand
// that must survive last. NAME##imum propagates NaN: where a is NaN it stays, elsewhere the
// instruction takes b if b is NaN or both are zero. In a chain the new value stands first, so that
// its look for NaN is no part of the chain.
#if defined(PTO_TARGET_AVX512)
#define PTO_EXTREME_OF_F32(name)                                       \
  if constexpr (kIsNative<V> && kIsF32<V>) {                           \
    uint16_t ordered;                                                  \
    asm("vcmpps $7, %1, %1, %0" : "=Yk"(ordered) : "v"(a));            \
    asm(name "ps %1, %0, %0%{%2%}" : "+v"(a) : "v"(b), "Yk"(ordered)); \
    return a;                                                          \
  }
#else
#define PTO_EXTREME_OF_F32(name)
#endif
#define PTO_EXTREMES(name, precedes)                                      \
  template <class V>                                                      \
  PTO_INLINE V name##_or_second(V a, V b) {                               \
    if constexpr (kIsNative<V>) {                                         \
      PTO_FLOAT_ASM("v" #name, " %2, %1, %0" : "=v"(a) : "v"(a), "v"(b)); \
      return a;                                                           \
    } else {                                                              \
      return a precedes b ? a : b;                                        \
    }                                                                     \
  }                                                                       \
  template <class V>                                                      \
  PTO_INLINE V name##imum(V a, V b) {                                     \
    PTO_EXTREME_OF_F32("v" #name)                                         \
    if constexpr (kIsF32<V> || kIsF64<V>)                                 \
      return a != a ? a : name##_or_second(a, b);                         \
    else                                                                  \
      return a precedes b ? a : b;                                        \
  }
PTO_EXTREMES(max, >)
PTO_EXTREMES(min, <)
#undef PTO_EXTREMES
#undef PTO_EXTREME_OF_F32

// True where a lane is not zero.
template <class V>
PTO_INLINE bool any(V v) {
#if defined(PTO_TARGET_AVX512)
  if constexpr (kIsNative<V> && sizeof(V{}[0]) == 4) {
    uint16_t bits;
    asm("vptestmd %1, %1, %0" : "=Yk"(bits) : "v"(v));
    return bits != 0;
  }
#endif
  return reduce([](auto a, auto b) { return a | b; }, v) != 0;
}

// Remembers whether a NaN passed: one comparison for two vectors, outside the chain of a maximum
// that skips NaN.
template <class V>
class NanWatch {
 public:
  PTO_INLINE void see(V a, V b) {
#if defined(PTO_TARGET_AVX512)
    if constexpr (kIsNative<V> && kIsF32<V>) {
      uint16_t unordered;
      asm("vcmpps $3, %2, %1, %0" : "=Yk"(unordered) : "v"(a), "v"(b));
      bits_ |= unordered;
      return;
    }
#endif
    lanes_ |= (a != a) | (b != b);
  }
  PTO_INLINE bool any() const { return bits_ != 0 || lanes::any(lanes_); }

 private:
  uint32_t bits_ = 0;
  MaskOf<V> lanes_ = {};
};

template <class V>
PTO_INLINE V sign_bits() {
  return splat<V>(LaneOf<V>(-0.0));
}
template <class V>
PTO_INLINE V abs(V a) {
  using E = LaneOf<V>;
  if constexpr (kIsF32<V> || kIsF64<V>) {
    using M = MaskOf<V>;
    return bit_cast<V>(bit_cast<M>(a) & ~bit_cast<M>(sign_bits<V>()));
  } else if constexpr (kIsSigned<E>) {
    using U = Vec<E, kCount<V>>;
    const U negative = a >> U(splat<U>(E(8 * sizeof(E) - 1)));  // 0 or -1
    return (a ^ negative) - negative;
  } else {
    return a;
  }
}

template <class V>
PTO_INLINE V with_sign_of(V magnitude, V sign) {
  using M = MaskOf<V>;
  return bit_cast<V>(bit_cast<M>(magnitude) | (bit_cast<M>(sign) & bit_cast<M>(sign_bits<V>())));
}

template <class V>
PTO_INLINE V relu(V a) {
  // NaN is the second operand, so it survives.
  if constexpr (kIsF32<V> || kIsF64<V>)
    return max_or_second(V{}, a);
  else
    return a > V{} ? a : V{};
}

template <class V>
PTO_INLINE V if_positive(V a, V then, V otherwise) {
  return a > V{} ? then : otherwise;
}

// The instruction's immediate: 0 nearest even, 1 down, 2 up, 3 towards zero.
enum Rounding { kNearest = 0, kDown = 1, kUp = 2, kTowardsZero = 3 };

template <Rounding R, class V>
PTO_INLINE V round_to(V a) {
  constexpr int kImmediate = int(R) | 8;  // no inexact exception
  if constexpr (kIsNative<V> && sizeof(V) == 64) {
    PTO_FLOAT_ASM("vrndscale", " %2, %1, %0" : "=v"(a) : "v"(a), "i"(kImmediate));
  } else if constexpr (kIsNative<V>) {
    PTO_FLOAT_ASM("vround", " %2, %1, %0" : "=x"(a) : "x"(a), "i"(kImmediate));
  } else {
    // Adding 2^23 (or 2^52) rounds to whole numbers, nearest even; one less or more follows. Larger
    // values are whole already, or NaN.
    const V big = splat<V>(kIsF32<V> ? LaneOf<V>(0x1p23) : LaneOf<V>(0x1p52)), size = abs(a);
    V whole = (size + big) - big;
    if constexpr (R == kTowardsZero) whole = whole > size ? whole - 1 : whole;
    whole = with_sign_of(whole, a);
    if constexpr (R == kDown) whole = whole > a ? whole - 1 : whole;
    if constexpr (R == kUp) whole = with_sign_of(whole < a ? whole + 1 : whole, a);
    a = size < big ? whole : a;
  }
  return a;
}
template <class V>
PTO_INLINE V rint(V a) {
  return round_to<kNearest>(a);
}
template <class V>
PTO_INLINE V floor(V a) {
  return round_to<kDown>(a);
}
template <class V>
PTO_INLINE V ceil(V a) {
  return round_to<kUp>(a);
}
template <class V>
PTO_INLINE V trunc(V a) {
  return round_to<kTowardsZero>(a);
}

template <class V>
PTO_INLINE V sqrt(V a) {
  if constexpr (kIsNative<V>) {
    PTO_FLOAT_ASM("vsqrt", " %1, %0" : "=v"(a) : "v"(a));
    return a;
  } else if constexpr (kIsF32<V>) {
    return each_lane(a, [](float x) { return __builtin_sqrtf(x); });
  } else {
    return each_lane(a, [](double x) { return __builtin_sqrt(x); });
  }
}

#undef PTO_FLOAT_ASM

template <class V>
PTO_INLINE V divide(V a, V b) {
  if constexpr (kIsFloat<LaneOf<V>>)
    return a / b;
  else
    return integer_quotient(a, b);
}
template <class V>
PTO_INLINE V reciprocal(V a) {
  return divide(splat<V>(1), a);
}

// Keeps a product from being fused with the sum that follows.
template <class V>
PTO_INLINE V rounded(V v) {
#if defined(PTO_TARGET_AVX512) || defined(PTO_TARGET_AVX2)
  if constexpr (sizeof(V) >= 16 && sizeof(V) <= size_t(kVectorBytes)) asm("" : "+v"(v));
#endif
  return v;
}

// Shifts integers by 0 to bits - 1.
template <class V>
PTO_INLINE V shift_left(V a, V b) {
  using E = LaneOf<V>;
  return each_lane(a, b, [](E x, E n) { return E(uint64_t(x) << (unsigned(n) & 63u)); });
}
template <class V>
PTO_INLINE V shift_right(V a, V b) {
  using E = LaneOf<V>;
  return each_lane(a, b, [](E x, E n) { return E(x >> (unsigned(n) & (8 * sizeof(E) - 1))); });
}

}  // namespace lanes
PTO_NAMESPACE_END
