// SPDX-License-Identifier: Apache-2.0
// Matmul dots: the ways to multiply units and add the products to sums, for matmul_kernel.hpp.
//
//     sum = FloatDot::add(sum, a, FloatDot::load(b));   // in every lane
//
// A unit is what a lane multiplies at once: one number, two int16 or bf16, or four int8. A way has
// Sum, a vector of outputs; Unit, of a; Vector, of units of b, each kRightBytes in a panel.
//
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/leaves.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kLane = kVectorBytes / 4;  // units of 32 bits, and their outputs, of a vector
using Units = Vec<uint32_t, kLane>;      // unsigned: sums of integers wrap
using LooseUnits = typename VecOf<uint32_t, kLane>::loose;

// Computes a * b + c with one rounding, without the instruction: the product is exact in double and
// the sum is rounded to odd there, so that rounding it again to float rounds correctly. A call, or
// all loops would hold 2 MB of copies, which take half a minute to compile.
template <class V>
__attribute__((noinline)) V multiply_add_in_double(V a, V b, V c) {
  using Wide = Vec<double, kCount<V>>;
  using Bits = Vec<int64_t, kCount<V>>;
  const Wide product = lanes::convert<double>(a) * lanes::convert<double>(b);
  const Wide addend = lanes::convert<double>(c), sum = product + addend;
  const Wide part = sum - product;
  const Wide lost = (product - (sum - part)) + (addend - part);
  const Bits bits = bit_cast<Bits>(sum);
  const Bits is_even = (bits & 1) - 1;  // all ones or zero
  const Bits inexact = (lost > Wide{}) | (lost < Wide{});
  const Bits towards_zero = (lost > Wide{}) ^ (sum > Wide{});
  const Bits step = (towards_zero & -2) + 1;  // -1 or 1
  return lanes::convert<float>(bit_cast<Wide>(bits + (step & is_even & inexact)));
}

template <class V>
PTO_INLINE V multiply_add(V a, V b, V c) {
  if constexpr (lanes::kHasFma) {
    asm("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));  // g++ 12 would copy outputs
    return c;
  } else {
    return multiply_add_in_double(a, b, c);
  }
}

struct FloatDot {
  using Unit = int32_t;
  using Sum = Vec<float, kLane>;
  using Vector = Units;
  static constexpr int kPerUnit = 1, kRightBytes = 4;
  static PTO_INLINE Vector load(const char* b) { return *reinterpret_cast<const LooseUnits*>(b); }
  static PTO_INLINE Sum add(Sum sum, Vector a, Vector b) {
    return multiply_add(bit_cast<Sum>(a), bit_cast<Sum>(b), sum);
  }
};

struct DoubleDot {
  using Unit = int64_t;
  using Sum = Vec<double, kLane / 2>;
  using Vector = Vec<uint64_t, kLane / 2>;
  static constexpr int kPerUnit = 1, kRightBytes = 8;
  static PTO_INLINE Vector load(const char* b) {
    return *reinterpret_cast<const typename VecOf<uint64_t, kLane / 2>::loose*>(b);
  }
  static PTO_INLINE Sum add(Sum sum, Vector a, Vector b) {
    const Sum x = bit_cast<Sum>(a), y = bit_cast<Sum>(b);
    if constexpr (lanes::kHasFma)
      asm("vfmadd231pd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
    else
      for (int i = 0; i < kCount<Sum>; ++i) sum[i] = __builtin_fma(x[i], y[i], sum[i]);
    return sum;
  }
};

// Multiplies whole integers of 32 or 64 bits: sums wrap.
template <class T>
struct WrappingDot {
  using Unit = T;
  using Sum = Vec<typename WordOf<sizeof(T)>::Unsigned, kVectorBytes / int(sizeof(T))>;
  using Vector = Sum;
  static constexpr int kPerUnit = 1, kRightBytes = sizeof(T);
  static PTO_INLINE Vector load(const char* b) {
    return *reinterpret_cast<const typename VecOf<LaneOf<Sum>, kCount<Sum>>::loose*>(b);
  }
  static PTO_INLINE Sum add(Sum sum, Vector a, Vector b) {
    sum += a * b;
    if constexpr (kVectorBytes >= 32)
      asm("" : "+v"(sum));  // g++ 12 would sum up products at the end
    return sum;
  }
};

// Multiplies pairs of int16: exact, since the sum of two products of bytes fits, and that of int16
// wraps. T: the type of b; bytes are widened while they are loaded.
template <class T>
struct PairDot {
  using Unit = int32_t;
  using Sum = Units;
  using Vector = Units;
  static constexpr int kPerUnit = 2, kRightBytes = 2 * sizeof(T);
  static PTO_INLINE Vector load(const char* b) {
    using Loose = typename VecOf<T, 2 * kLane>::loose;
    const Loose& narrow = *reinterpret_cast<const Loose*>(b);
#if defined(PTO_TARGET_AVX512) || defined(PTO_TARGET_AVX2)
    Units wide;  // with its operand in memory, in one instruction
    if constexpr (kSame<T, int8_t>) {
      asm("vpmovsxbw %1, %0" : "=v"(wide) : "m"(narrow));
      return wide;
    } else if constexpr (kSame<T, uint8_t>) {
      asm("vpmovzxbw %1, %0" : "=v"(wide) : "m"(narrow));
      return wide;
    }
#endif
    return bit_cast<Units>(lanes::convert<int16_t>(Vec<T, 2 * kLane>(narrow)));
  }
  static PTO_INLINE Sum add(Sum sum, Vector a, Vector b) {
#if defined(PTO_TARGET_AVX512) || defined(PTO_TARGET_AVX2)
    Units products;  // one assembly: g++ 12 would sum up the products of all units at the end
    asm("vpmaddwd %3, %2, %0\n\tvpaddd %0, %1, %1" : "=&v"(products), "+v"(sum) : "v"(a), "v"(b));
    return sum;
#elif defined(__SSE2__)
    asm("pmaddwd %1, %0" : "+x"(a) : "x"(b));
    return sum + a;
#else
    using Signed = Vec<int32_t, kLane>;
    const Signed x = bit_cast<Signed>(a), y = bit_cast<Signed>(b);
    return sum +
           bit_cast<Units>((bit_cast<Signed>(a << 16) >> 16) * (bit_cast<Signed>(b << 16) >> 16)) +
           bit_cast<Units>((x >> 16) * (y >> 16));
#endif
  }
};

#if defined(PTO_TARGET_AVX512)
// Multiplies quads of bytes, one factor unsigned, the other signed: T is the type of b, and a has
// the other sign. Its assembly needs no compiler flag; the caller has asked the CPU.
template <class T>
struct QuadDot {
  using Unit = int32_t;
  using Sum = Units;
  using Vector = Units;
  static constexpr int kPerUnit = 4, kRightBytes = 4;
  static PTO_INLINE Vector load(const char* b) { return *reinterpret_cast<const LooseUnits*>(b); }
  static PTO_INLINE Sum add(Sum sum, Vector a, Vector b) {
    if constexpr (kSame<T, int8_t>)
      asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    else
      asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(b), "v"(a));
    return sum;
  }
};
#endif

// Multiplies pairs of bf16, the second ones first, as `Pairs` does; subnormals count as zeros.
template <class Pairs>
struct Bf16Dot {
  using Unit = int32_t;
  using Sum = Vec<float, kLane>;
  using Vector = Units;
  static constexpr int kPerUnit = 2, kRightBytes = 4;
  static PTO_INLINE Vector load(const char* b) { return *reinterpret_cast<const LooseUnits*>(b); }
  static PTO_INLINE Sum add(Sum sum, Vector a, Vector b) { return Pairs::add(sum, a, b); }
  static PTO_INLINE Vec<uint16_t, kLane> rounded(Sum sum) { return Pairs::rounded(sum); }
};

#if defined(PTO_TARGET_AVX512)
// Its assembly needs no compiler flag; the caller has asked the CPU.
struct HardwarePairs {
  static PTO_INLINE Vec<float, kLane> add(Vec<float, kLane> sum, Units a, Units b) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
  }
  // Rounds sums of pairs, none of which is subnormal.
  static PTO_INLINE Vec<uint16_t, kLane> rounded(Vec<float, kLane> sum) {
    Vec<uint16_t, kLane> narrow;
    asm("vcvtneps2bf16 %1, %0" : "=v"(narrow) : "v"(sum));
    return narrow;
  }
};
#endif

// True of ways whose operands may be read where they lie: floats, and pairs of bf16.
template <class Dot>
constexpr bool kReadsRows = false;
template <>
constexpr bool kReadsRows<FloatDot> = true;
template <class Pairs>
constexpr bool kReadsRows<Bf16Dot<Pairs>> = true;

// The lanes of a way to multiply.
template <class Dot>
constexpr int kDotLanes = kVectorBytes / int(sizeof(typename Dot::Unit));

}  // namespace matmul
PTO_NAMESPACE_END
