// SPDX-License-Identifier: Apache-2.0
// Tile emulation: the tile operations of pto/isa/cpu/tiles.hpp in plain C++, bit by bit as the
// pseudo-code of Intel's manual (volume 2, LDTILECFG to TILEZERO) has them, for any CPU. Where the
// CPU would fault, the test fails. Also one lane of vdpbf16ps.
//
//     run_tiles<EmulatedTiles>(job);
//     EXPECT_TRUE(EmulatedTiles::is_released());
//
// The bits of a NaN are not those of the hardware, which the manual does not tell for tiles.
//
// Thread safety: each thread has its own tiles.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "pto/isa/cpu/matmul_dot.hpp"
#include "pto/isa/cpu/tiles.hpp"

namespace pto {

// Else the sums below take half of the time of tests that are compiled without optimisation.
#ifdef __clang__
#define PTO_TEST_OPTIMIZED inline
#else
#define PTO_TEST_OPTIMIZED __attribute__((optimize("O2"))) inline
#endif
#define PTO_TEST_WITHIN __attribute__((always_inline)) inline

// Denormals count as zeros of their sign.
PTO_TEST_WITHIN float without_subnormal(float x) {
  constexpr float kLeast = std::numeric_limits<float>::min();
  return __builtin_fabsf(x) < kLeast ? __builtin_copysignf(0.0f, x) : x;
}

// Returns a b + c with one rounding to nearest even; a and b are bf16, so that a b is exact in
// double. Results that are tiny after rounding, as if exponents had no bound, become zeros.
PTO_TEST_OPTIMIZED float flushed_multiply_add(float a, float b, float c) {
  a = without_subnormal(a), b = without_subnormal(b), c = without_subnormal(c);
  const float sum = __builtin_fmaf(a, b, c);
  constexpr float kLeast = std::numeric_limits<float>::min();
  if (__builtin_fabsf(sum) != kLeast) return without_subnormal(sum);
  // Perhaps from below: then it was rounded as a subnormal, at twice the distance.
  const double product = double(a) * double(b), wide = product + double(c);
  const double part = wide - product, lost = (product - (wide - part)) + (double(c) - part);
  const double least = 0x1p-126 - 0x1p-151;  // a tie, which goes to 2^-126
  const bool is_tiny = std::fabs(wide) < least ||
                       (std::fabs(wide) == least && lost != 0 && (lost < 0) == (wide > 0));
  return is_tiny ? std::copysign(0.0f, sum) : sum;
}
inline float flushed_add(float a, float b) { return flushed_multiply_add(a, 1.0f, b); }

PTO_TEST_WITHIN float float_of_bf16(uint32_t bits) {
  bits <<= 16;
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

// Lane of vdpbf16ps: the second elements of the pairs first.
PTO_TEST_OPTIMIZED float added_pair(float sum, uint32_t a, uint32_t b) {
  sum = flushed_multiply_add(float_of_bf16(a >> 16), float_of_bf16(b >> 16), sum);
  return flushed_multiply_add(float_of_bf16(a & 0xffff), float_of_bf16(b & 0xffff), sum);
}
#undef PTO_TEST_OPTIMIZED
#undef PTO_TEST_WITHIN

// vdpbf16ps, as matmul_dot.hpp wants it.
struct EmulatedPairs {
  using Sum = isa::Vec<float, isa::matmul::kLane>;
  static Sum add(Sum sum, isa::matmul::Units a, isa::matmul::Units b) {
    for (int i = 0; i < isa::matmul::kLane; ++i) sum[i] = added_pair(sum[i], a[i], b[i]);
    return sum;
  }
  static isa::Vec<uint16_t, isa::matmul::kLane> rounded(Sum sum) {
    isa::Vec<uint16_t, isa::matmul::kLane> narrow;
    for (int i = 0; i < isa::matmul::kLane; ++i)
      narrow[i] = isa::bit_cast<uint16_t>(isa::bfloat16_t(sum[i]));
    return narrow;
  }
};

class EmulatedTiles {
  using TileConfig = isa::matmul::TileConfig;
  static constexpr int kTiles = 8, kRows = 16, kBytes = 64, kPalettes = 1;

  struct State {
    bool is_configured = false;
    TileConfig config;
    unsigned char data[kTiles][kRows][kBytes] = {};
  };
  static State& state() {
    static thread_local State state;
    return state;
  }

 public:
  static bool is_released() { return !state().is_configured; }
  static void interrupt(int row) { state().config.start_row = uint8_t(row); }

  static void configure(const TileConfig& config) {
    const std::string fault = fault_of(config);
    if (!fault.empty()) {
      ADD_FAILURE() << "ldtilecfg: #GP: " << fault;
      return;
    }
    state() = State();
    state().is_configured = config.palette != 0;
    if (config.palette != 0) state().config = config;
  }
  // Returns why ldtilecfg would fault; empty: it would not.
  static std::string fault_of(const TileConfig& config) {
    if (config.palette > kPalettes) return "palette";
    if (config.palette == 0) return "";
    for (const uint8_t byte : config.reserved)
      if (byte != 0) return "reserved byte";
    for (int t = 0; t < 16; ++t) {
      const int rows = config.rows[t], bytes = config.row_bytes[t];
      if (t >= kTiles && (rows != 0 || bytes != 0)) return "tile beyond the palette's";
      if (rows > kRows) return "rows";
      if (bytes > kBytes) return "bytes of a row";
      if ((rows == 0) != (bytes == 0)) return "either rows or bytes of a row";
    }
    return "";
  }
  static void release() { state() = State(); }

  template <int T>
  static void zero() {
    zero(T);
  }
  template <int T>
  static void load(const void* from, int64_t stride) {
    load(T, from, stride);
  }
  template <int T>
  static void store(void* to, int64_t stride) {
    store(T, to, stride);
  }
  template <int C, int A, int B>
  static void add_bf16() {
    static_assert(C != A && A != B && B != C, "#UD");
    add_bf16(C, A, B);
  }
  template <int C, int A, int B, bool IsLeftSigned, bool IsRightSigned>
  static void add_bytes() {
    static_assert(C != A && A != B && B != C, "#UD");
    add_bytes(C, A, B, IsLeftSigned, IsRightSigned);
  }

 private:
  // No compiler copies these into loops, which call them in many places.
  __attribute__((noinline)) static void zero(int t) {
    if (!exists(t, "tilezero")) return;
    std::memset(state().data[t], 0, sizeof state().data[t]);
    state().config.start_row = 0;
  }
  __attribute__((noinline)) static void load(int t, const void* from, int64_t stride) {
    if (!exists(t, "tileloadd")) return;
    for (int i = state().config.start_row; i < rows(t); ++i) {
      std::memset(state().data[t][i], 0, kBytes);
      std::memcpy(state().data[t][i], static_cast<const char*>(from) + i * stride,
                  size_t(bytes(t)));
    }
    end(t);
  }
  __attribute__((noinline)) static void store(int t, void* to, int64_t stride) {
    if (!exists(t, "tilestored")) return;
    for (int i = state().config.start_row; i < rows(t); ++i)
      std::memcpy(static_cast<char*>(to) + i * stride, state().data[t][i], size_t(bytes(t)));
    state().config.start_row = 0;
  }

  // For each sum a chain over the first elements of the pairs and one over the second, from zero;
  // these are added, then the sum.
  __attribute__((noinline)) static void add_bf16(int c, int a, int b) {
    if (!fit(c, a, b, "tdpbf16ps")) return;
    for (int i = 0; i < rows(c); ++i)
      for (int j = 0; j < bytes(c) / 4; ++j) {
        float first = 0, second = 0;
        for (int k = 0; k < bytes(a) / 4; ++k) {
          const uint32_t x = unit<uint32_t>(a, i, k), y = unit<uint32_t>(b, k, j);
          first = flushed_multiply_add(float_of_bf16(x & 0xffff), float_of_bf16(y & 0xffff), first);
          second = flushed_multiply_add(float_of_bf16(x >> 16), float_of_bf16(y >> 16), second);
        }
        put(c, i, j, flushed_add(unit<float>(c, i, j), flushed_add(first, second)));
      }
    end(c);
  }
  __attribute__((noinline)) static void add_bytes(int c, int a, int b, bool is_left_signed,
                                                  bool is_right_signed) {
    if (!fit(c, a, b, "tdpb..d")) return;
    for (int i = 0; i < rows(c); ++i)
      for (int j = 0; j < bytes(c) / 4; ++j) {
        uint32_t sum = unit<uint32_t>(c, i, j);
        for (int k = 0; k < bytes(a); ++k) {
          const uint8_t x = state().data[a][i][k], y = state().data[b][k / 4][j * 4 + k % 4];
          sum += uint32_t((is_left_signed ? int8_t(x) : int(x)) *
                          (is_right_signed ? int8_t(y) : int(y)));
        }
        put(c, i, j, sum);
      }
    end(c);
  }

  static int rows(int t) { return state().config.rows[t]; }
  static int bytes(int t) { return state().config.row_bytes[t]; }
  template <class U>
  static U unit(int t, int row, int col) {
    U value;
    std::memcpy(&value, state().data[t][row] + 4 * col, 4);
    return value;
  }
  template <class U>
  static void put(int t, int row, int col, U value) {
    std::memcpy(state().data[t][row] + 4 * col, &value, 4);
  }

  static bool exists(int t, const char* instruction) {
    const bool found = state().is_configured && rows(t) != 0;
    if (!found) ADD_FAILURE() << instruction << ": #UD: tile " << t << " is not configured";
    return found;
  }
  // What lies beyond a tile's size becomes zero.
  static void end(int t) {
    for (int i = 0; i < kRows; ++i)
      std::memset(state().data[t][i] + (i < rows(t) ? bytes(t) : 0), 0,
                  size_t(kBytes - (i < rows(t) ? bytes(t) : 0)));
    state().config.start_row = 0;
  }
  static bool fit(int c, int a, int b, const char* instruction) {
    if (!exists(c, instruction) || !exists(a, instruction) || !exists(b, instruction)) return false;
    const char* const fault = bytes(c) % 4 || bytes(a) % 4 || bytes(b) % 4 ? "bytes of a row"
                              : bytes(c) != bytes(b)                       ? "columns"
                              : rows(c) != rows(a)                         ? "rows"
                              : bytes(a) / 4 != rows(b)                    ? "depth"
                              : state().config.start_row != 0              ? "start row"
                                                                           : nullptr;
    if (fault) ADD_FAILURE() << instruction << ": #UD: " << fault;
    return !fault;
  }
};

}  // namespace pto
