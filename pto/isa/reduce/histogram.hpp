// SPDX-License-Identifier: Apache-2.0
// THISTOGRAM: counts the values of one byte in each row, as running totals.
//
//     THISTOGRAM<HistByte::BYTE_1>(d, s, idx);     // d[i, b] = elements of row i with byte 1 <= b
//
// It is the step of a radix search: lower bytes count only the elements whose higher bytes are
// known. For 16-bit elements idx[i, 0] is byte 1 in row i; for 32-bit ones idx[0, 0], idx[1, 0] and
// idx[2, 0] are bytes 3, 2 and 1 in every row.
//
// Invariant: the 256 bins of each row of s are written.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/elementwise/elementwise.hpp"

PTO_NAMESPACE_BEGIN

enum class HistByte : uint8_t { BYTE_0, BYTE_1, BYTE_2, BYTE_3 };

namespace detail {

// Counts in four tables in turn: equal neighbours need not wait for each other's store.
template <class T>
PTO_INLINE void count_bytes(uint32_t (&bins)[4][256], const T* s, int count, int shift, T mask,
                            T wanted) {
  int i = 0;
  for (; i + 4 <= count; i += 4)
    for (int k = 0; k < 4; ++k)
      bins[k][(s[i + k] >> shift) & 255] += (s[i + k] & mask) == wanted ? 1 : 0;
  for (; i < count; ++i) bins[0][(s[i] >> shift) & 255] += (s[i] & mask) == wanted ? 1 : 0;
}

}  // namespace detail

template <HistByte Byte, class D, class S, class I, class... X>
PTO_INLINE RecordEvent THISTOGRAM(D& d, const S& s, const I& idx, const X&...) {
  using T = typename S::DType;
  constexpr int kByte = int(Byte), kBytes = int(sizeof(T));
  static_assert(
      (kSame<T, uint16_t> || kSame<T, uint32_t>)&&kByte < kBytes,
      "THISTOGRAM: the source must be uint16_t (BYTE_0, BYTE_1) or uint32_t; convert with TCVT");
  static_assert(kSame<typename D::DType, uint32_t> && D::isRowMajor && D::Cols >= 256 &&
                    D::Rows >= S::Rows && S::isRowMajor && !D::isBoxedLayout && !S::isBoxedLayout,
                "THISTOGRAM: the destination must be a row-major tile of uint32_t with 256 columns "
                "and every row of the source, the source row-major; lay it out with TMOV");
  static_assert(kSame<typename I::DType, uint8_t>,
                "THISTOGRAM: the index must be uint8_t; convert with TCVT");
  PTO_INSTRUCTION(THISTOGRAM, "d, s, idx, <byte>", out(d), in(s, idx));
  PTO_IF_CHECKED(
      checked::require_filled("THISTOGRAM", "d, s, idx, <byte>", 1, d, s.GetValidRow(), 256);
      checked::require_valid("THISTOGRAM", "d, s, idx, <byte>", 2,
                             kBytes == 2 && kByte == 0 ? s.GetValidRow() : kBytes - 1 - kByte, 1,
                             idx);)
  for (int r = 0; r < s.GetValidRow(); ++r) {
    T mask = 0, wanted = 0;
    for (int higher = kBytes - 1; higher > kByte; --higher) {
      const uint8_t known =
          kBytes == 2 ? idx.GetElement(r, 0) : idx.GetElement(kBytes - 1 - higher, 0);
      mask = T(mask | T(T(255) << (8 * higher)));
      wanted = T(wanted | T(T(known) << (8 * higher)));
    }
    uint32_t bins[4][256] = {};
    detail::count_bytes(bins, s.data() + S::Offset(r, 0), s.GetValidCol(), 8 * kByte, mask, wanted);
    uint32_t* to = d.data() + D::Offset(r, 0);
    uint32_t total = 0;
    for (int b = 0; b < 256; ++b)
      to[b] = total += bins[0][b] + bins[1][b] + bins[2][b] + bins[3][b];
  }
  return {};
}

PTO_NAMESPACE_END
