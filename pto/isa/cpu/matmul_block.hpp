// SPDX-License-Identifier: Apache-2.0
// Matmul block: how much of a and b the loops of products keep near at once, and the memory for it.
//
//     BlockPanels& panels = of_thread<BlockPanels>();
//
// Thread safety: each thread has its own panels.
#pragma once
#include "pto/isa/cpu/matmul_kernel.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

// Units of a block. AVX-512 takes its panels of 128 KB from the second cache, so that outputs,
// which come from farther, pass seldom; others keep those of 32 KB in the first.
constexpr int kDepth = kVectorBytes == 64 ? PTO_MATMUL_WIDE_BLOCK : PTO_MATMUL_BLOCK;
constexpr int kBlockCols = 1024;                           // columns of a block
constexpr int kBlockRows = kVectorBytes == 64 ? 144 : 96;  // rows of a block: 576 or 192 KB
constexpr int kBlockSlivers = kBlockRows / kRows;
constexpr int kSmallUnits = 10 << 10;  // of a b that is read again and again where it lies
constexpr int kNearUnits = 128 << 10;  // of an a that is read where it lies; AVX-512 reads any,
constexpr int kFewRows = 48;           // others one with so few rows if b is packed
constexpr int kFewCols = 256;          // of a b whose panels may read rows that share cache sets
constexpr int kSetUnits = 1 << 10;     // between units that share a set of the first cache
constexpr int kAheadBytes = 20 << 10;  // of packed panels that each tile reads once
constexpr int kFewSlivers = 2, kFewDepth = 128;  // they pass panels that the first cache has

// The memory of a thread.
struct BlockPanels {
  int32_t left[kBlockRows * kDepth];
  int32_t right[kDepth * kBlockCols];
  int64_t beyond[kGroup];                       // whole groups of columns are written
  int64_t first[kBlockCols], last[kBlockCols];  // as outputs: of 32 bits in the first halves
};

}  // namespace matmul
PTO_NAMESPACE_END
