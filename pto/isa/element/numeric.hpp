// SPDX-License-Identifier: Apache-2.0
// Numeric: the element types half, bfloat16_t, mask32, and the type that each one computes in.
//
//     half h = 0.1f;       // rounds to nearest even
//     float f = h;
//     Compute<half> sum;   // float: an instruction computes in it, then rounds once
//
// Invariant: an element type is trivially copyable; memory holds its bits.
// Thread safety: values.
#pragma once
#include "pto/isa/tile/types.hpp"

PTO_NAMESPACE_BEGIN

template <class To, class From>
PTO_INLINE To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From),
                "bit_cast: both types must have the same size; convert the value first");
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}

// Conversions on bit patterns. U is uint32_t or a vector of them, F float or a vector of them.
namespace bits {

template <class U>
PTO_INLINE U select(bool condition, U a, U b) {
  return condition ? a : b;
}
template <class M, class U>
PTO_INLINE U select(M condition, U a, U b) {
  return condition ? a : b;
}

// binary16 in the low half of each lane -> float. Multiplying by 2^112 moves the exponent and
// normalises subnormals at once; infinities and NaN get their exponent afterwards.
template <class F, class U>
PTO_INLINE F float_from_half(U h) {
  U magnitude = (h & 0x7fffu) << 13;
  U scaled = bit_cast<U>(bit_cast<F>(magnitude) * 0x1p112f);
  U special = magnitude | 0x7f800000u;
  U value = select(magnitude >= 0x0f800000u, special, scaled);
  return bit_cast<F>(value | ((h & 0x8000u) << 16));
}

// float -> binary16 in the low half of each lane, ties to even. Adding 0.5 to a value below 2^-14
// rounds it to a multiple of 2^-24, the spacing of half's subnormals.
template <class F, class U>
PTO_INLINE U half_from_float(F x) {
  U all = bit_cast<U>(x);
  U magnitude = all & 0x7fffffffu;
  U normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  U tiny = bit_cast<U>(bit_cast<F>(magnitude) + 0.5f) - 0x3f000000u;
  U finite = select(magnitude < 0x38800000u, tiny, normal);
  U nan = ((magnitude >> 13) & 0x3ffu) | 0x7e00u;
  U infinite = (magnitude & 0u) + 0x7c00u;
  U special = select(magnitude > 0x7f800000u, nan, infinite);
  return select(magnitude >= 0x477ff000u, special, finite) | ((all >> 16) & 0x8000u);
}

template <class F, class U>
PTO_INLINE F float_from_bfloat16(U b) {
  return bit_cast<F>(b << 16);
}

// float -> bfloat16 in the low half of each lane, ties to even; NaN stays NaN.
template <class F, class U>
PTO_INLINE U bfloat16_from_float(F x) {
  U all = bit_cast<U>(x);
  U rounded = (all + 0x7fffu + ((all >> 16) & 1u)) >> 16;
  U nan = (all >> 16) | 0x40u;
  return select(x != x, nan, rounded);
}

}  // namespace bits

// Members of both types of 16 bits. Each result of an operator is rounded to the type.
#define PTO_SIXTEEN_BITS(Type, name, encode, decode)                                    \
  static constexpr const char* kElementName = name;                                     \
  uint16_t raw;                                                                         \
                                                                                        \
  Type() = default;                                                                     \
  PTO_INLINE Type(float value) : raw(uint16_t(bits::encode<float, uint32_t>(value))) {} \
  PTO_INLINE operator float() const { return bits::decode<float, uint32_t>(raw); }      \
  static constexpr Type FromRaw(uint16_t raw) { return Type(raw, nullptr); }            \
  PTO_INLINE uint16_t RawData() const { return raw; }                                   \
  PTO_INLINE Type& operator+=(float v) { return *this = Type(float(*this) + v); }       \
  PTO_INLINE Type& operator-=(float v) { return *this = Type(float(*this) - v); }       \
  PTO_INLINE Type& operator*=(float v) { return *this = Type(float(*this) * v); }       \
  PTO_INLINE Type& operator/=(float v) { return *this = Type(float(*this) / v); }       \
  PTO_INLINE Type operator-() const { return FromRaw(uint16_t(raw ^ 0x8000u)); }        \
  PTO_INLINE Type& operator++() { return *this += 1.f; }                                \
  PTO_INLINE Type operator++(int) {                                                     \
    const Type before = *this;                                                          \
    ++*this;                                                                            \
    return before;                                                                      \
  }                                                                                     \
                                                                                        \
 private:                                                                               \
  constexpr Type(uint16_t bits, decltype(nullptr)) : raw(bits) {}

// IEEE 754 binary16.
struct half {
  PTO_SIXTEEN_BITS(half, "f16", half_from_float, float_from_half)
};
// The upper half of a binary32.
struct bfloat16_t {
  PTO_SIXTEEN_BITS(bfloat16_t, "bf16", bfloat16_from_float, float_from_bfloat16)
};
#undef PTO_SIXTEEN_BITS

// A boolean in a 32-bit lane: all ones or zero. Comparisons write it and TSEL reads it in
// registers.
struct mask32 {
  static constexpr const char* kElementName = "mask32";
  int32_t raw;

  mask32() = default;
  PTO_INLINE mask32(bool value) : raw(value ? -1 : 0) {}
  PTO_INLINE operator bool() const { return raw != 0; }
};

// Raw<T>: the scalar that holds T's bits in memory. Compute<T>: the scalar that T computes in.
template <class R, class C>
struct HeldAs {
  using Raw = R;
  using Compute = C;
};
template <class T>
struct ElementTraits : HeldAs<T, T> {};
template <>
struct ElementTraits<half> : HeldAs<uint16_t, float> {};
template <>
struct ElementTraits<bfloat16_t> : HeldAs<uint16_t, float> {};
template <>
struct ElementTraits<mask32> : HeldAs<int32_t, int32_t> {};
template <>
struct ElementTraits<bool> : HeldAs<uint8_t, uint8_t> {};
template <class T>
using Raw = typename ElementTraits<T>::Raw;
template <class T>
using Compute = typename ElementTraits<T>::Compute;

// Codec<T> converts T's bits to Compute<T> and back, for element types of other headers:
// Codec<T>::widen<N>(Vec<Raw<T>, N>) and Codec<T>::narrow<N>(Vec<Compute<T>, N>).
template <class T>
struct Codec;
// True where one T holds two numbers, the first in its low bits.
template <class T>
constexpr bool kIsTwin = false;

template <class T>
constexpr bool kIsFloat = kSame<Compute<T>, float> || kSame<Compute<T>, double>;
template <class T>
constexpr bool kIsSigned = Compute<T>(-1) < Compute<T>(0);

// The integers of so many bytes.
template <class S, class U>
struct Integers {
  using Signed = S;
  using Unsigned = U;
};
template <int Bytes>
struct WordOf : Integers<int64_t, uint64_t> {};
template <>
struct WordOf<4> : Integers<int32_t, uint32_t> {};
template <>
struct WordOf<2> : Integers<int16_t, uint16_t> {};
template <>
struct WordOf<1> : Integers<int8_t, uint8_t> {};
// The unsigned integer of a compute type's size; a float stays.
template <class C>
using UnsignedOf = typename Choose<kIsFloat<C>, C, typename WordOf<sizeof(C)>::Unsigned>::type;

// Elements of T in one vector step. Types narrower than four bytes step like float, so that a
// conversion moves whole registers and tiles of every type are cut at the same columns.
template <class T>
constexpr int kLanes = kVectorBytes / (sizeof(T) < 4 ? 4 : int(sizeof(T)));

// A micro-tile: the most elements that a chain of instructions keeps in registers.
template <class T>
constexpr int kMicro = 8 * kLanes<T>;

// The row's element types in instructions.def.
enum ElementSet { kFloat, kInteger, kArithmetic, kOrdered, kBool };

// A bool is in none: the vectors would keep 1 + 1 in it.
template <class T>
constexpr bool is_in(ElementSet set) {
  return set == kFloat ? kIsFloat<T> : !kSame<T, bool> && (set != kInteger || !kIsFloat<T>);
}

// The value that a reduction starts from.
enum Identity { kZero, kOne, kLowest, kHighest };

template <class C>
constexpr C lowest() {
  if constexpr (kSame<C, float>)
    return -__builtin_inff();
  else if constexpr (kSame<C, double>)
    return -__builtin_inf();
  else if constexpr (kIsSigned<C>)
    return C(uint64_t(1) << (8 * sizeof(C) - 1));
  else
    return C(0);
}
template <class C>
constexpr C highest() {
  if constexpr (kSame<C, float>)
    return __builtin_inff();
  else if constexpr (kSame<C, double>)
    return __builtin_inf();
  else
    return C(~lowest<C>());
}
template <class C>
constexpr C identity(Identity which) {
  return which == kZero     ? C(0)
         : which == kOne    ? C(1)
         : which == kLowest ? lowest<C>()
                            : highest<C>();
}

PTO_NAMESPACE_END
