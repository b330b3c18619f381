// SPDX-License-Identifier: Apache-2.0
// Matmul coded: products of floats with columns of 8 or 4 bits, which are widened while they are
// loaded. A word of 32 bits holds four or eight elements of a column; eight words of eight columns
// are turned at once, and then each word of a vector gives its elements one after another. Packed
// columns lie as words, [cols / 32][words][32], and need no turning.
//
//     pack_words<ByteCode>(job);
//     Coded<ByteCode>(job).words(col, 8, k, ahead, words);   // eight of each of eight columns
//
// Invariant: only valid elements are read; words beyond them are zeros.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_stream.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kCodedCols = 32;   // of a panel of words
constexpr int kCodedWords = 64;  // of a column that are staged at once

// kAhead: rows of packed words, from those read to those asked for. A CPU that waits for many of
// them forgets requests for others: so where reading takes longer than adding up, each is repeated.
struct ByteCode {
  static constexpr int kBits = 8, kPerWord = 4, kAhead = 48;
  static constexpr bool kAsksAgain = true;
};
// Bytes for one row, on a CPU that multiplies quads of bytes: where the sums of other rows need the
// units that multiply, ByteCode is faster.
struct QuadByteCode : ByteCode {};
struct NibbleCode {  // with a factor for each group, and perhaps a zero
  static constexpr int kBits = 4, kPerWord = 8, kAhead = 32;
  static constexpr bool kAsksAgain = false;
};

// Returns the job with its packed words, if any, as b: row_stride is 0.
inline pto_matmul_job unpacked(pto_matmul_job job) {
  if (!job.packed) return job;
  job.b.data = job.packed;
  job.b.row_stride = 0;
  job.packed = nullptr;
  return job;
}

#if defined(PTO_TARGET_AVX512)
// An instruction takes four bits of each word.
PTO_INLINE Vec<float, kLane> nibble_of(Units words, int place) {
  const Vec<float, kLane> table = {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};
  Vec<float, kLane> all;
  asm("vpermps %2, %1, %0" : "=v"(all) : "v"(words >> (4 * place)), "v"(table));
  return all;
}
// Makes the byte, with its top bit turned, the last digits of a float, and takes from that what it
// has too much. The upper two bytes of a word are shifted once for both.
PTO_INLINE Vec<float, kLane> byte_of(Units words, int place) {
  if (place >= 2) words >>= 16;
  const int at = place % 2 * 8, units_at = 127 + 23;  // the exponent whose last digit counts 1
  const uint32_t exponent = uint32_t(units_at - at) << 23;
  const Units mask = lanes::splat<Units>(0xffu << at);
  const Units number = lanes::splat<Units>(exponent ^ 0x80u << at);
  asm("vpternlogd $0x6a, %2, %1, %0"
      : "+v"(words)
      : "v"(mask), "v"(number));  // words & mask ^ number
  const float excess = float(1 << (23 - at)) + 128;
  return bit_cast<Vec<float, kLane>>(words) - lanes::splat<Vec<float, kLane>>(excess);
}
// Picks a byte by multiplying it by 1 and the others by 0, which takes an instruction less.
PTO_INLINE Vec<float, kLane> picked_byte_of(Units words, int place) {
  using Signed = Vec<int32_t, kLane>;
  if (place == 0) return byte_of(words, 0);
  if (place == 3) return lanes::convert<float>(bit_cast<Signed>(words) >> 24);
  const Units ones = lanes::splat<Units>(1u << (8 * place));
  return lanes::convert<float>(bit_cast<Signed>(QuadDot<int8_t>::add(Units{}, ones, words)));
}
#endif

// Returns the element at a place of each word.
template <class Code>
PTO_INLINE Vec<float, kLane> element_of(Units words, int place) {
#if defined(PTO_TARGET_AVX512)
  if constexpr (kSame<Code, NibbleCode>) return nibble_of(words, place);
  if constexpr (kSame<Code, ByteCode>) return byte_of(words, place);
  if constexpr (kSame<Code, QuadByteCode>) return picked_byte_of(words, place);
#endif
  using Signed = Vec<int32_t, kLane>;
  const Signed high = bit_cast<Signed>(words << (32 - Code::kBits * (place + 1)));
  return lanes::convert<float>(high >> (32 - Code::kBits));
}

// Returns what an element counts as: `zero` may be null.
template <class V>
PTO_INLINE V weight_of(V element, V factor, const V* zero) {
  return zero ? multiply_add(element, factor, *zero) : element * factor;
}

// The columns of b, eight at a time.
template <class Code>
class Coded {
 public:
  using Floats = Vec<float, kGroup>;
  static constexpr int kUnits = kGroup * Code::kPerWord;  // of a column at once: 32 bytes
  static constexpr bool kHasFactors = kSame<Code, NibbleCode>;

  explicit Coded(const pto_matmul_job& job)
      : data_(static_cast<const char*>(job.b.data)),
        stride_(job.b.col_stride * Code::kBits / 8),
        step_(job.b.row_stride),
        first_(job.packed_first),
        depth_(job.depth),
        group_shift_(job.b_group > 0 ? __builtin_ctz(unsigned(job.b_group)) : 0),
        factor_(job.b_factor),
        zero_(job.b_zero) {}

  bool is_packed() const { return step_ == 0; }
  bool has_zero() const { return kHasFactors && zero_.data; }

  // Returns the packed words of a column from unit k on; those of the next unit lie kCodedCols on.
  const uint32_t* packed(int line, int k) const {
    const int64_t rows = int64_t(quotient_up(depth_, kUnits)) * kGroup;
    const int64_t col = first_ + line, panel = col / kCodedCols;
    return reinterpret_cast<const uint32_t*>(data_) +
           (panel * rows + k / Code::kPerWord) * kCodedCols + col % kCodedCols;
  }

  // Reads eight words of each of some columns, a vector a word; zeros beyond the depth and for
  // missing columns. Prefetches what lies `ahead` bytes on.
  PTO_INLINE void words(int line, int count, int k, int64_t ahead, Group* v) const {
    const char* const at = data_ + line * stride_ + int64_t(k) * Code::kBits / 8 * step_;
    if (step_ == 1 && count == kGroup && depth_ - k >= kUnits) {
      PTO_UNROLL
      for (int i = 0; i < kGroup; ++i) {
        __builtin_prefetch(at + i * stride_ + ahead, 0, 2);
        v[i] = *reinterpret_cast<const LooseGroup*>(at + i * stride_);
      }
    } else if (is_packed()) {
      const uint32_t* const words = packed(line, k);
      const int left = quotient_up(depth_ - k, Code::kPerWord);
      for (int w = 0; w < kGroup; ++w)
        v[w] = w < left ? *reinterpret_cast<const LooseGroup*>(words + w * kCodedCols) : Group{};
      return;
    } else {
      for (int i = 0; i < kGroup; ++i) v[i] = i < count ? part(at + i * stride_, k) : Group{};
    }
    transpose(v);
  }

  // Asks for the factors and zeros of some columns.
  PTO_INLINE void ask(int line, int count, int k) const {
    ask(factor_, line, count, k);
    if (zero_.data) ask(zero_, line, count, k);
  }
  Floats factor(int line, int count, int k) const { return row_of(factor_, line, count, k); }
  Floats zero(int line, int count, int k) const { return row_of(zero_, line, count, k); }

 private:
  // Returns the words of a column that end with the depth, or whose bytes lie apart.
  Group part(const char* at, int k) const {
    constexpr int kBytes = int(sizeof(Group));
    const int left = quotient_up((depth_ - k) * Code::kBits, 8);
    alignas(Group) char bytes[kBytes] = {};
    for (int i = 0; i < smaller(left, kBytes); ++i) bytes[i] = at[i * step_];
    Group v;
    __builtin_memcpy(&v, bytes, sizeof v);
    return v;
  }

  PTO_INLINE void ask(const pto_matmul_matrix& m, int line, int count, int k) const {
    const int64_t bytes = m.type == PTO_MATMUL_F32 ? sizeof(float) : sizeof(half);
    const auto* const at =
        static_cast<const char*>(m.data) + ((k >> group_shift_) * m.row_stride + line) * bytes;
    for (int64_t i = 0; i < count * bytes; i += kLineBytes) __builtin_prefetch(at + i);
    __builtin_prefetch(at + count * bytes - 1);
  }
  Floats row_of(const pto_matmul_matrix& m, int line, int count, int k) const {
    const int64_t at = (k >> group_shift_) * m.row_stride + line;
    switch (m.type) {
      case PTO_MATMUL_F16:
        return loaded(static_cast<const half*>(m.data) + at, count);
      case PTO_MATMUL_BF16:
        return loaded(static_cast<const bfloat16_t*>(m.data) + at, count);
      default:
        return loaded(static_cast<const float*>(m.data) + at, count);
    }
  }
  template <class T>
  static Floats loaded(const T* p, int count) {
    return count >= kGroup ? lanes::load<kGroup>(p) : lanes::load_part<kGroup>(p, count);
  }

  const char* const data_;
  const int64_t stride_, step_;  // bytes, from a column to the next and in a column
  const int first_, depth_, group_shift_;
  const pto_matmul_matrix factor_, zero_;
};

// Writes b as words.
template <class Code>
void pack_words(const pto_matmul_job& job) {
  const Coded<Code> from(job);
  pto_matmul_job packed = job;
  packed.packs = 0;
  const Coded<Code> to(unpacked(packed));
  const int cols = quotient_up(job.cols, kCodedCols) * kCodedCols;
  for (int j = 0; j < cols; j += kGroup) {
    const int count = smaller(job.cols - j, kGroup);
    for (int k = 0; k < job.depth; k += Coded<Code>::kUnits) {
      Group v[kGroup];
      from.words(j, count, k, 4 * sizeof(Group), v);
      auto* const words = const_cast<uint32_t*>(to.packed(j, k));
      for (int w = 0; w < kGroup; ++w)
        *reinterpret_cast<LooseGroup*>(words + w * kCodedCols) = v[w];
    }
  }
}

}  // namespace matmul
PTO_NAMESPACE_END
