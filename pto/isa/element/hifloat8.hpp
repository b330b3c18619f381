// SPDX-License-Identifier: Apache-2.0
// hifloat8_t: HiFloat8, 8 bits whose precision tapers off from 1 towards both ends.
//
//     hifloat8_t x = 0.3f;             // rounds to nearest even
//     float f = x;
//     uint8_t raw = x.RawData();
//
// A code is the sign S, the dot field, the exponent and the mantissa M. The dot field, a prefix
// code, says how many bits the exponent has: the sign of the exponent and its magnitude without
// the leading one. The other bits are mantissa.
//   S 11   s eee m    exponent +-(8..15)   1 bit of mantissa
//   S 10   s ee  mm   exponent +-(4..7)    2 bits
//   S 01   s e   mmm  exponent +-(2..3)    3 bits
//   S 001  s     mmm  exponent +-1         3 bits
//   S 0001       mmm  exponent 0           3 bits
//   S 0000       mmm  2^(mmm - 23), from 2^-22 to 2^-16; 000 is zero, with the sign NaN
// The value is 2^exponent * 1.M. Infinity is S 11 0 111 1, so the largest number is 2^15. There is
// one zero, 0x00, and one NaN, 0x80. (Ascend HiFloat8 Format for Deep Learning, arXiv 2409.16626.)
//
// Invariant: codes of either sign are ordered as their exponents and mantissas are.
// Thread safety: values.
#pragma once
#include "pto/isa/element/narrow_float.hpp"

PTO_NAMESPACE_BEGIN
namespace bits {

struct HiF8 {
  static constexpr const char* kElementName = "hif8";
  static constexpr Top kTop = Top::kInfinity;
  static constexpr int kSmallestExponent = -22;
  static constexpr uint32_t kMaxFloat = 0x47000000u;  // 2^15

  // Counts the mantissa bits of a number with this exponent; negative below 2^-22. I is int32_t,
  // int64_t or a vector of them.
  template <class I>
  static PTO_INLINE I width(I exponent) {
    const I zero = exponent & 0, size = select(exponent < 0, -exponent, exponent);
    const I normal = select(size < 4, zero + 3, select(size < 8, zero + 2, zero + 1));
    return select(exponent < -22, exponent + 22, select(exponent < -15, zero, normal));
  }

  // Returns the code of a number with at most its width's mantissa bits; infinity when too large.
  template <class U>
  static PTO_INLINE U pack(U all) {
    const U magnitude = all & 0x7fffffffu, zero = all & 0u;
    const U biased = magnitude >> 23, fraction = magnitude & 0x7fffffu;
    const U is_low = biased < 127u, below = zero + 127u - biased, above = biased - 127u;
    const U size = select(is_low != 0u, below, above);
    const U one = zero + 1u, s = select(is_low != 0u, one, zero);
    const U eight = 0x60u | s << 4 | (size & 7u) << 1 | fraction >> 22;
    const U four = 0x40u | s << 4 | (size & 3u) << 2 | fraction >> 21;
    const U two = 0x20u | s << 4 | (size & 1u) << 3 | fraction >> 20;
    const U unit = select(size == 1u, 0x10u | s << 3, zero + 0x08u) | fraction >> 20;
    U code = select(size >= 8u, eight, select(size >= 4u, four, select(size >= 2u, two, unit)));
    code = select(biased < 112u, biased - 104u, code);
    code = select(magnitude > 0x47000000u, zero + 0x6fu, code) | ((all >> 24) & 0x80u);
    code = select(biased < 105u, zero, code);
    return select(magnitude > 0x7f800000u, zero + 0x80u, code);
  }

  // Rounds to nearest even: half of the last place minus one, plus the last bit, carries into the
  // kept bits.
  template <class F, class U>
  static PTO_INLINE U encode(F x) {
    const U all = bit_cast<U>(x), magnitude = all & 0x7fffffffu, zero = all & 0u;
    const U biased = magnitude >> 23;
    const U size = select(biased < 127u, zero + 127u - biased, biased - 127u);
    const U normal = select(size < 4u, zero + 20u, select(size < 8u, zero + 21u, zero + 22u));
    const U last =
        select(size < 4u, magnitude >> 20, select(size < 8u, magnitude >> 21, magnitude >> 22)) &
        1u;
    const U half = select(normal == 20u, zero + 0x7ffffu,
                          select(normal == 21u, zero + 0xfffffu, zero + 0x1fffffu));
    const U kept = select(normal == 20u, zero + 0x7ff00000u,
                          select(normal == 21u, zero + 0x7fe00000u, zero + 0x7fc00000u));
    const U rounded = (magnitude + half + last) & kept;
    // Powers of two alone: 1.5 is a tie, and the even one of M = exponent + 23 is where the biased
    // exponent is even. Half of 2^-22 is a tie with zero.
    const U power = (magnitude + 0x3fffffu + (biased & 1u)) & 0x7f800000u;
    const U tiny = select(magnitude > 0x34000000u, zero + 0x34800000u, zero);
    const U number =
        select(biased < 105u, tiny, select(biased < 112u, power, rounded)) | (all & 0x80000000u);
    return pack(select(magnitude > 0x7f800000u, all, number));
  }

  // A table of 1 KB beats the selects of a decoder.
  struct Table {
    uint32_t value[256];
    constexpr Table() : value() {
      for (uint32_t code = 0; code < 256; ++code) value[code] = unpack(code);
    }
    static constexpr uint32_t unpack(uint32_t code) {
      const uint32_t sign = (code & 0x80u) << 24, low = code & 0x7fu;
      if (low == 0) return sign ? 0x7fc00000u : 0u;
      if (low == 0x6fu) return sign | 0x7f800000u;
      if (low < 8) return sign | (low + 104u) << 23;
      const int dot = low >= 0x60 ? 4 : low >= 0x40 ? 3 : low >= 0x20 ? 2 : low >= 0x10 ? 1 : 0;
      const int width = dot == 4 ? 1 : dot == 3 ? 2 : 3;
      const uint32_t mantissa = low & ((1u << width) - 1);
      int exponent = 0;
      if (dot > 0) {
        const uint32_t field = (low >> width) & ((1u << dot) - 1), leading = 1u << (dot - 1);
        exponent = int(leading | (field & (leading - 1)));
        if (field & leading) exponent = -exponent;
      }
      return sign | uint32_t(exponent + 127) << 23 | mantissa << (23 - width);
    }
  };
  static const Table kTable;

  template <class F, class U>
  static PTO_INLINE F decode(U code) {
    if constexpr (kSame<U, uint32_t>) {
      return bit_cast<F>(kTable.value[code]);
    } else {
      for (int i = 0; i < kCount<U>; ++i) code[i] = kTable.value[code[i]];
      return bit_cast<F>(code);
    }
  }
};
inline constexpr HiF8::Table HiF8::kTable{};

}  // namespace bits

using hifloat8_t = NarrowFloat<bits::HiF8>;

PTO_NAMESPACE_END
