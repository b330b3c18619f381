// SPDX-License-Identifier: Apache-2.0
// Tiles: the operations of AMX that products need. A thread has eight tiles, T = 0 to 7, of at most
// 16 rows of 64 bytes; a configuration gives them their sizes and zeros them.
//
//     TileConfig config;
//     config.set(0, 16, 64), config.set(4, 16, 64), config.set(6, 16, 64);
//     Tiles::configure(config);
//     Tiles::zero<0>(), Tiles::load<4>(a, a_stride), Tiles::load<6>(b, 64);
//     Tiles::add_bf16<0, 4, 6>();   // tile 0 += tile 4 times tile 6
//     Tiles::store<0>(c, c_stride), Tiles::release();
//
// Loops take the class of these operations as a parameter: HardwareTiles, or that of
// tests/tile_emulation.hpp, with which they run on any CPU. Strides are in bytes, of any sign.
//
// Invariant: a thread that has released its tiles has none to save.
// Thread safety: the tiles are the thread's.
#pragma once
#include "pto/isa/cpu/vec.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kTileRows = 16, kTileRowBytes = 64, kTileBytes = kTileRows * kTileRowBytes;
constexpr int kTileCols = kTileRowBytes / 4;  // of sums

// The operand of ldtilecfg; Intel's manual, volume 2. Tiles without a size do not exist.
struct TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void set(int tile, int row_count, int bytes_of_row) {
    const bool exists = row_count > 0 && bytes_of_row > 0;
    rows[tile] = exists ? uint8_t(row_count) : uint8_t(0);
    row_bytes[tile] = exists ? uint16_t(bytes_of_row) : uint16_t(0);
  }
};
static_assert(sizeof(TileConfig) == 64);  // as ldtilecfg reads it

#if defined(__x86_64__)
// Only for CPUs with AMX, by leave of the kernel: see engine.hpp. The compiler knows nothing of
// tiles, so each operation is volatile and names the memory that it may read or write.
struct HardwareTiles {
  static PTO_INLINE void configure(const TileConfig& config) {
    asm volatile("ldtilecfg %0" : : "m"(config) : "memory");
  }
  static PTO_INLINE void release() { asm volatile("tilerelease" : : : "memory"); }

  template <int T>
  static PTO_INLINE void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(T));
  }
  template <int T>
  static PTO_INLINE void load(const void* from, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(T) : "memory");
  }
  template <int T>
  static PTO_INLINE void store(void* to, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(T) : "memory");
  }

  template <int C, int A, int B>
  static PTO_INLINE void add_bf16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
  }
  // Quads of bytes, each of a and of b signed or not.
  template <int C, int A, int B, bool IsLeftSigned, bool IsRightSigned>
  static PTO_INLINE void add_bytes() {
    if constexpr (IsLeftSigned && IsRightSigned)
      asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
    else if constexpr (IsLeftSigned)
      asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
    else if constexpr (IsRightSigned)
      asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
    else
      asm volatile("tdpbuud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
  }
};
#endif

}  // namespace matmul
PTO_NAMESPACE_END
