// SPDX-License-Identifier: Apache-2.0
// Types: the words of the instruction set: tile locations, layouts, modes, and the build target.
//
//     PTO_INLINE void scale(TileT& t) { pto::TMULS(t, t, 2.0f); }
//
// Invariant: everything whose code depends on the target lives in an inline namespace of that
// target (of checked builds: avx2_checked), so that objects of different ones never merge.
// Thread safety: constants only.
#pragma once
#include <stddef.h>
#include <stdint.h>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define PTO_TARGET_AVX512 1
#define PTO_TARGET(variant) avx512##variant
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define PTO_TARGET_AVX2 1
#define PTO_TARGET(variant) avx2##variant
#else
#define PTO_TARGET(variant) portable##variant
#endif
#ifdef PTO_CHECKED  // see checked.hpp
#define PTO_TARGET_NAMESPACE PTO_TARGET(_checked)
#else
#define PTO_TARGET_NAMESPACE PTO_TARGET()
#endif

#define PTO_TEXT_OF(x) #x
#define PTO_TEXT(x) PTO_TEXT_OF(x)
#define PTO_TARGET_NAME PTO_TEXT(PTO_TARGET_NAMESPACE)

// Everything lies in pto::isa; names.hpp lifts the names that kernels call into pto, so that a
// kernel's own names (kCount, Vec, map) do not meet ours.
#define PTO_NAMESPACE_BEGIN \
  namespace pto {           \
  namespace isa {           \
  inline namespace PTO_TARGET_NAMESPACE {
#define PTO_NAMESPACE_END \
  }                       \
  }                       \
  }

// Instructions disappear into their caller: a call would force operands through memory. Tests that
// are not optimised define it as `inline`, and code that instructions share is compiled once.
#ifndef PTO_INLINE
#define PTO_INLINE inline __attribute__((always_inline))
#endif
#define PTO_INST PTO_INLINE
#define PTO_INTERNAL PTO_INLINE
#define PTO_UNROLL _Pragma("GCC unroll 32")

PTO_NAMESPACE_BEGIN

#if defined(PTO_TARGET_AVX512)
constexpr int kVectorBytes = 64;
#elif defined(PTO_TARGET_AVX2)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

// A size known only at run time.
constexpr int DYNAMIC = -1;

// Reg is ours: a Vec tile that TASSIGN cannot bind, so that the compiler keeps it in registers even
// across the iterations of a loop.
enum class TileType { Vec, Mat, Left, Right, Acc, Bias, Scaling, ScaleLeft, ScaleRight, Ctrl, Reg };
enum class BLayout { RowMajor, ColMajor };
enum class SLayout { NoneBox, RowMajor, ColMajor };
enum class CompactMode { Null, Normal, RowPlusOne, RowAlignedPadding };
// From CustomBase on the value is its own bits, see PadValueCustom.
enum class PadValue : uint64_t { Null, Zero, Max, Min, CustomBase = uint64_t(1) << 32 };
// Layout maps the five dimensions of a view to the rows and columns of a tile: see
// moves::kLayoutDims.
enum class Layout {
  ND,
  DN,
  NZ,
  SCALE,
  MX_A_ND,
  MX_A_DN,
  MX_A_ZZ,
  MX_B_ND,
  MX_B_DN,
  MX_B_NN,
  HIF4_A_ZZ,
  HIF4_B_NN,
  NC1HWC0,
  GNC1HWC0,
  NCHW,
  GNCHW,
  NHWC,
  NDC1HWC0,
  NCDHW,
  FRACTAL_Z,
  FRACTAL_Z_S16S8,
  FRACTAL_Z_3D,
  MAX
};

// CAST_RINT rounds ties to even, CAST_ROUND away from zero, CAST_ODD to odd. CAST_NONE is RINT
// towards a floating-point type and TRUNC towards an integer.
enum class RoundMode {
  CAST_NONE,
  CAST_RINT,
  CAST_ROUND,
  CAST_FLOOR,
  CAST_CEIL,
  CAST_TRUNC,
  CAST_ODD
};
enum class SaturationMode : uint8_t { ON, OFF };

enum class CmpMode {
#define PTO_COMPARE(mode, op, value, numpy, dtypes) mode,
#include "pto/isa/instructions.def"
};

// Accepted before the operands, as in TEXP<ExpAlgorithm::HIGH_PRECISION>(d, s); one algorithm
// serves both precisions here.
enum class ExpAlgorithm { DEFAULT, HIGH_PRECISION };
enum class LogAlgorithm { DEFAULT, HIGH_PRECISION };
enum class SqrtAlgorithm { DEFAULT, HIGH_PRECISION };
enum class RsqrtAlgorithm { DEFAULT, HIGH_PRECISION };
enum class RecipAlgorithm { DEFAULT, HIGH_PRECISION };
enum class DivAlgorithm { DEFAULT, HIGH_PRECISION };
enum class PowAlgorithm { DEFAULT, HIGH_PRECISION };
enum class FmodAlgorithm { DEFAULT, HIGH_PRECISION };
enum class FmodSAlgorithm { DEFAULT, HIGH_PRECISION };
enum class RemAlgorithm { DEFAULT, HIGH_PRECISION };
enum class RemSAlgorithm { DEFAULT, HIGH_PRECISION };

// Plain stores stay in the cache; Stream stores bypass it (see TSTORE).
enum class CacheHint { Plain, Stream };

// Instructions on tiles return it. They complete in order here, so waiting does nothing.
struct RecordEvent {
  PTO_INLINE void Wait() const {}
};

template <class A, class B>
constexpr bool kSame = false;
template <class A>
constexpr bool kSame<A, A> = true;

template <class T>
struct TypeIs {
  using type = T;
};
template <bool Condition, class A, class B>
struct Choose : TypeIs<A> {};
template <class A, class B>
struct Choose<false, A, B> : TypeIs<B> {};

// Makes a custom padding value from a float, or from bits of the element type.
constexpr PadValue padding_of_bits(uint32_t bits) {
  return PadValue(uint64_t(PadValue::CustomBase) | bits);
}
constexpr PadValue PadValueCustom(float value) {
  return padding_of_bits(__builtin_bit_cast(uint32_t, value));
}
constexpr PadValue PadValueCustom(double value) { return PadValueCustom(float(value)); }
constexpr PadValue PadValueCustom(int32_t value) { return padding_of_bits(uint32_t(value)); }
constexpr PadValue PadValueCustom(uint32_t value) { return padding_of_bits(value); }
constexpr PadValue PadValueCustom(int16_t value) { return padding_of_bits(uint16_t(value)); }
constexpr PadValue PadValueCustom(int8_t value) { return padding_of_bits(uint8_t(value)); }
constexpr PadValue PadValueCustom(uint8_t value) { return padding_of_bits(value); }
constexpr PadValue PadValueCustom16(uint16_t bits) { return padding_of_bits(bits); }
constexpr bool isCustomPadValue(PadValue pad) { return uint64_t(pad) >> 32 != 0; }
constexpr uint32_t getCustomPadBits(PadValue pad) { return uint32_t(pad); }

// Passes 0 to N - 1 as template arguments: f(typename IndicesTo<N>::type()) for f(Indices<I...>).
template <int... I>
struct Indices {};
template <int N, int... I>
struct IndicesTo : IndicesTo<N - 1, N - 1, I...> {};
template <int... I>
struct IndicesTo<0, I...> : TypeIs<Indices<I...>> {};

template <bool Condition>
struct Enable {};
template <>
struct Enable<true> : TypeIs<int> {};

PTO_NAMESPACE_END
