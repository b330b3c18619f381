// SPDX-License-Identifier: Apache-2.0
// Fixpipe: changes an accumulator on its way out: scale, offset, relu, and rounding to a narrower
// type, in pure functions on vectors; and the words that kernels use for it.
//
//     const auto one = fixpipe::same<N>(preQuantScalar);              // one entry for all columns
//     const auto p = fixpipe::each<N>(fp.data() + col, columns_left);   // or one for each
//     auto v = fixpipe::quantise<int8_t, ReluPreMode::NormalRelu>(lanes::load<N>(acc), p);
//     auto w = fixpipe::plain<half, ReluPreMode::NoRelu>(lanes::load<N>(acc));   // not quantised
//     lanes::store_part<N>(out, v, columns_left);                 // rounds to the element type
//
// An entry has 64 bits: in bits 0..31 the scale, a binary32, of which a column's entry does not use
// the low 13 bits; from bit 37 on 9 bits of unsigned offset; in bit 46 whether 8-bit results are
// signed; and in bits 32..35 one less than the shift from 32-bit to 16-bit integers.
//   i8, u8   rint(x * scale + offset), clamped to [-128, 127] or [0, 255]; NaN is 0
//   i16      x >> shift, clamped;  from f32 as above with [-32768, 32767]
//   f16      x * scale, finite results clamped to 65504;  bf16, f32 and others   x * scale
// Relu comes last, or first where nothing is quantised; NaN becomes 0 there.
//
// Invariant: product and sum are rounded one by one on every target.
// Thread safety: pure functions.
#pragma once
#include "pto/isa/cpu/leaves.hpp"
#include "pto/isa/sync/control.hpp"

PTO_NAMESPACE_BEGIN

enum QuantMode_t {
#define PTO_QUANT_MODE(name, number, ...) name = number,
#include "pto/isa/matrix/quant_modes.def"
};
enum ClipReluMode_t { NOCLIP_RELU, CLIP_RELU };
enum class ReluPreMode : uint8_t { NoRelu, NormalRelu };
enum class AtomicType : uint8_t { AtomicNone, AtomicAdd };
enum class LayoutMode_t : uint8_t { NZ2NZ, NZ2ND, NZ2DN };
// Says whether more partial results follow; all are complete here when the instruction ends.
enum class STPhase : uint8_t { Unspecified, Partial = 2, Final };
enum class AccPhase : uint8_t { Unspecified, Unknown = Unspecified, Partial = 2, Final };
// Names the vector core of the pair that receives an accumulator, or each core's half of it.
enum class AccToVecMode : uint8_t {
  SingleModeVec0,
  SingleModeVec1,
  DualModeSplitM,
  DualModeSplitN
};

// The configuration of TPUSH<..., TConfig>.
template <LayoutMode_t Out = LayoutMode_t::NZ2ND, QuantMode_t Quant = NoQuant,
          ReluPreMode Relu = ReluPreMode::NoRelu, STPhase When = STPhase::Unspecified,
          uint8_t SubBlock = 0, AtomicType Atomic = AtomicType::AtomicNone,
          ClipReluMode_t Clip = NOCLIP_RELU, bool Split = false>
struct FixpipeParams {
  static constexpr LayoutMode_t LayoutMode = Out;
  static constexpr QuantMode_t QuantPre = Quant;
  static constexpr ReluPreMode ReluMode = Relu;
  static constexpr STPhase Phase = When;
  static constexpr uint8_t SubBlockId = SubBlock;
  static constexpr AtomicType AtomicT = Atomic;
  static constexpr ClipReluMode_t ClipReluMode = Clip;
  static constexpr bool IsChannelSplit = Split;
};

namespace fixpipe {

// The source of entries: none, one for all columns, or one for each.
enum class Quant { None, Scalar, Columns };
constexpr Quant quant_of(QuantMode_t mode) {
  switch (mode) {
#define PTO_QUANT_MODE(name, number, entries, element) \
  case name:                                           \
    return Quant::entries;
#include "pto/isa/matrix/quant_modes.def"
  }
  return Quant::None;
}

// One entry, decoded. low and high bound 8-bit results.
struct Entry {
  float scale, offset, low, high;
  int shift;

  PTO_INLINE Entry(uint64_t bits, bool is_column)
      : scale(bit_cast<float>(uint32_t(bits) & (is_column ? 0xffffe000u : 0xffffffffu))),
        offset(float(int(bits >> 37 & 0x1ff))),
        low(bits >> 46 & 1 ? -128.f : 0.f),
        high(bits >> 46 & 1 ? 127.f : 255.f),
        shift(int(bits >> 32 & 15) + 1) {}
};

// Entries of N columns.
template <int N>
struct Parameters {
  Vec<float, N> scale, offset, low, high;
  Vec<int32_t, N> shift;
};

template <int N>
PTO_INLINE Parameters<N> same(uint64_t bits) {
  const Entry e(bits, false);
  using F = Vec<float, N>;
  return {lanes::splat<F>(e.scale), lanes::splat<F>(e.offset), lanes::splat<F>(e.low),
          lanes::splat<F>(e.high), lanes::splat<Vec<int32_t, N>>(e.shift)};
}

// Decodes the first n (at most N) of `entries`, one for each lane; the other lanes become 0.
template <int N>
inline Parameters<N> each(const uint64_t* entries, int n) {
  Parameters<N> p = same<N>(0);
  for (int i = 0; i < N && i < n; ++i) {
    const Entry e(entries[i], true);
    p.scale[i] = e.scale;
    p.offset[i] = e.offset;
    p.low[i] = e.low;
    p.high[i] = e.high;
    p.shift[i] = e.shift;
  }
  return p;
}

template <ReluPreMode Relu, class V>
PTO_INLINE V relu(V v) {
  if constexpr (Relu == ReluPreMode::NormalRelu)
    return lanes::select(v > V{}, v, V{});
  else
    return v;
}

// Returns an accumulator (f32 or i32) as lanes of Compute<To>, relu applied.
template <class To, ReluPreMode Relu = ReluPreMode::NoRelu, class V>
PTO_INLINE Vec<Compute<To>, kCount<V>> plain(V acc) {
  return lanes::convert<Compute<To>>(relu<Relu>(acc));
}

namespace detail {

template <class To, class V, int N>
PTO_INLINE Vec<Compute<To>, N> to_integer(V x, const Parameters<N>& p) {
  using F = Vec<float, N>;
  constexpr bool kIsByte = sizeof(To) == 1;
  const F low = kIsByte ? p.low : lanes::splat<F>(-32768.f);
  const F high = kIsByte ? p.high : lanes::splat<F>(32767.f);
  const F whole = lanes::rint(lanes::rounded(x) + p.offset);
  const F number = lanes::select(whole != whole, F{}, whole);
  const F inside = lanes::min_or_second(lanes::max_or_second(number, low), high);
  return lanes::convert<Compute<To>>(lanes::convert<int32_t>(inside));
}

// Clamps finite results to `largest`; with saturation all of them, and NaN is 0.
template <class V>
PTO_INLINE V to_narrow(V x, float largest, SaturationMode sat) {
  const V most = lanes::splat<V>(largest);
  const V clamped = lanes::min_or_second(lanes::max_or_second(x, -most), most);
  if (sat == SaturationMode::ON) return lanes::select(x != x, V{}, clamped);
  return lanes::select(lanes::abs(x) < lanes::splat<V>(__builtin_inff()), clamped, x);
}

}  // namespace detail

// Quantises an accumulator to To, as lanes of Compute<To>. With saturation an infinite f16 or bf16
// result is clamped too and NaN is 0.
template <class To, ReluPreMode Relu = ReluPreMode::NoRelu, class V, int N>
PTO_INLINE Vec<Compute<To>, N> quantise(V acc, const Parameters<N>& p,
                                        SaturationMode sat = SaturationMode::OFF) {
  static_assert(kCount<V> == N, "quantise: as many parameters as accumulators");
  if constexpr (kSame<To, int16_t> && !kIsFloat<LaneOf<V>>) {
    const V low = lanes::splat<V>(-32768), high = lanes::splat<V>(32767), x = acc >> p.shift;
    const V inside = lanes::select(x < low, low, lanes::select(x > high, high, x));
    return relu<Relu>(lanes::convert<int16_t>(inside));
  } else {
    const Vec<float, N> x = lanes::convert<float>(acc) * p.scale;
    if constexpr (!kIsFloat<To>)
      return relu<Relu>(detail::to_integer<To>(x, p));
    else if constexpr (kSame<To, half>)
      return relu<Relu>(detail::to_narrow(x, 65504.f, sat));
    else if constexpr (kSame<To, bfloat16_t>)
      return relu<Relu>(sat == SaturationMode::ON ? detail::to_narrow(x, 0x1.fep127f, sat) : x);
    else
      return relu<Relu>(x);
  }
}

}  // namespace fixpipe

PTO_NAMESPACE_END
