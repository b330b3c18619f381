// SPDX-License-Identifier: Apache-2.0
// Packed masks, one bit per element: TCMP writes and TSEL reads them where the mask is not mask32.
//
//     write_packed<8>(mask, rows, cols, [&](int row, int col, int n) { return 0u; });
//     BitStream stream(mask);
//     const uint32_t sixteen = stream.next(16);
//
// Invariant: bit k of word w of row r belongs to column w * bits + k, least significant bit first;
// words that no column fills are 0. Memory is little-endian, so that words of 8 and of 32 bits are
// the same bytes.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/cpu/bits.hpp"
#include "pto/isa/elementwise/elementwise.hpp"

PTO_NAMESPACE_BEGIN
namespace detail {

template <class D>
constexpr int kMaskRowBytes = D::Cols* int(sizeof(typename D::DType));

template <class D>
constexpr bool check_packed_mask() {
  static_assert(
      kIsRows<D> && (kSame<typename D::DType, uint8_t> || kSame<typename D::DType, uint32_t>),
      "TCMP, TSEL: a mask has elements of mask32, or is row-major of uint8_t or "
      "uint32_t; declare it so");
  return true;
}

// `bits_of(row, col, n)` returns the bits of n <= Step columns from col on; the others are ignored.
template <int Step, class D, class Bits>
PTO_INLINE void write_packed(D& mask, int rows, int cols, Bits bits_of) {
  static_assert(check_packed_mask<D>());
  uint8_t* to = reinterpret_cast<uint8_t*>(mask.data());
  rows = rows < D::Rows ? rows : D::Rows;
  cols = cols < 8 * kMaskRowBytes<D> ? cols : 8 * kMaskRowBytes<D>;
  for (int r = 0; r < rows; ++r, to += kMaskRowBytes<D>) {
    int c = 0;
    for (; c + Step <= cols; c += Step) {
      const uint64_t bits = bits_of(r, c, Step);
      __builtin_memcpy(to + c / 8, &bits, Step / 8);
    }
    const int n = cols - c, bytes = (n + 7) / 8;
    if (n > 0) {
      const uint64_t bits = bits_of(r, c, n) & lanes::low_bits(n);
      for (int i = 0; i < bytes; ++i) to[c / 8 + i] = uint8_t(bits >> (8 * i));
    }
    const int used = c / 8 + (n > 0 ? bytes : 0);
    __builtin_memset(to + used, 0, size_t(kMaskRowBytes<D> - used));
  }
  __builtin_memset(to, 0, size_t(D::Rows - rows) * kMaskRowBytes<D>);
}

// A mask of R rows of C bytes, one after another.
template <int R, int C>
struct MaskBytes {
  using DType = uint8_t;
  static constexpr int Rows = R, Cols = C;
  static constexpr bool isRowMajor = true, isBoxedLayout = false;
  uint8_t bytes[R * C];
  PTO_INLINE uint8_t* data() { return bytes; }
};

// Sets the mask's valid bytes to those of `from`, as one stream, and all others to 0.
template <class D, int R, int C>
PTO_INLINE void pour(D& mask, const MaskBytes<R, C>& from) {
  const int valid = mask.GetValidCol() * int(sizeof(typename D::DType));
  auto* to = reinterpret_cast<uint8_t*>(mask.data());
  for (int r = 0, at = 0; r < D::Rows; ++r, to += kMaskRowBytes<D>) {
    const int left = r < mask.GetValidRow() ? R * C - at : 0, n = left < valid ? left : valid;
    __builtin_memcpy(to, from.bytes + at, size_t(n));
    __builtin_memset(to + n, 0, size_t(kMaskRowBytes<D> - n));
    at += n;
  }
}

// Reads the elements of a tile of any layout, by rows, as bits. It keeps the tile's address, which
// stores of bytes would make the compiler read again.
template <class S>
class TileRows {
 public:
  using T = typename S::DType;
  explicit PTO_INLINE TileRows(S& s) : data_(s.data()) {}

  // Reads n columns (at most N) of row r from c on; lanes beyond are 0.
  template <int N>
  PTO_INLINE Vec<Raw<T>, N> part(int r, int c, int n) const {
    if constexpr (kIsPlain) {
      const auto* from = reinterpret_cast<const Raw<T>*>(data_ + S::Offset(r, c));
      return n >= N ? lanes::load<N>(from) : lanes::load_part<N>(from, n < 0 ? 0 : n);
    } else {
      Raw<T> lane[N] = {};
      for (int i = 0; i < N && i < n; ++i)
        __builtin_memcpy(lane + i, data_ + S::Offset(r, c + i), sizeof(T));
      return bit_cast<Vec<Raw<T>, N>>(lane);
    }
  }
  template <int N>
  PTO_INLINE void set_part(int r, int c, int n, Vec<Raw<T>, N> v) const {
    if constexpr (kIsPlain) {
      auto* to = reinterpret_cast<Raw<T>*>(data_ + S::Offset(r, c));
      if (n >= N) return lanes::store<N>(to, v);
      lanes::store_part<N>(to, v, n);
    } else {
      for (int i = 0; i < N && i < n; ++i) {
        const Raw<T> lane = v[i];
        __builtin_memcpy(static_cast<void*>(data_ + S::Offset(r, c + i)), &lane, sizeof(T));
      }
    }
  }

 private:
  static constexpr bool kIsPlain = kIsRows<S>;
  decltype(make_value<S&>().data()) data_;
};

// Puts a number in the place of rows.
template <class E>
class Everywhere {
 public:
  using T = E;
  explicit PTO_INLINE Everywhere(E value) : raw_(bit_cast<Raw<E>>(value)) {}
  template <int N>
  PTO_INLINE Vec<Raw<E>, N> part(int, int, int) const {
    return lanes::splat<Vec<Raw<E>, N>>(raw_);
  }

 private:
  Raw<E> raw_;
};

// Reads the bits of a mask from the start of a row on, and goes on in the next row at the end of
// the row's valid bytes.
template <class M>
class BitStream {
 public:
  explicit PTO_INLINE BitStream(const M& mask, int row = 0)
      : row_(reinterpret_cast<const uint8_t*>(mask.data()) + row * kMaskRowBytes<M>),
        last_(reinterpret_cast<const uint8_t*>(mask.data()) + (M::Rows - 1) * kMaskRowBytes<M>),
        bytes_(mask.GetValidCol() * int(sizeof(typename M::DType))) {
    static_assert(check_packed_mask<M>());
    if (row >= M::Rows) row_ = last_, at_ = bytes_;  // nothing is left
  }

  // Returns the place of the next `bits` bits where they are whole bytes of one row, and skips
  // them; else null.
  PTO_INLINE const uint8_t* whole_bytes(int bits) {
    if (held_ != 0 || bits % 8 != 0) return nullptr;
    if (at_ == bytes_ && row_ != last_) row_ += kMaskRowBytes<M>, at_ = 0;
    if (bits / 8 > bytes_ - at_) return nullptr;
    at_ += bits / 8;
    return row_ + at_ - bits / 8;
  }

  // Returns the next n bits, n <= 32; 0 beyond the last row.
  PTO_INLINE uint32_t next(int n) {
    while (held_ < n) {
      if (at_ + 4 <= bytes_ && held_ <= 32) {
        uint32_t word;
        __builtin_memcpy(&word, row_ + at_, 4);
        take(word, 4);
      } else if (at_ < bytes_) {
        take(row_[at_], 1);
      } else if (row_ != last_ && bytes_ > 0) {
        row_ += kMaskRowBytes<M>;
        at_ = 0;
      } else {
        held_ = n;
      }
    }
    const uint32_t bits = uint32_t(buffer_);
    buffer_ >>= n;
    held_ -= n;
    return bits;
  }

 private:
  PTO_INLINE void take(uint64_t bits, int bytes) {
    buffer_ |= bits << held_;
    held_ += 8 * bytes;
    at_ += bytes;
  }

  const uint8_t *row_, *last_;
  int bytes_;     // valid in a row
  int at_ = 0;    // next byte of the row
  int held_ = 0;  // bits in the buffer
  uint64_t buffer_ = 0;
};

}  // namespace detail
PTO_NAMESPACE_END
