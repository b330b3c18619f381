// SPDX-License-Identifier: Apache-2.0
// Sizes of the chips that kernels name: blocks of 32 bytes, boxes of 512, repeats of 256.
//
// Thread safety: constants.
#pragma once
#include <pto/pto-inst.hpp>

namespace pto {

constexpr int REPEAT_BYTE = 256, REPEAT_MAX = 255, REPEAT_STRIDE_MAX = 255;
constexpr int BLOCK_BYTE_SIZE = 32, BLOCK_LEN = 16, FIXP_BURST_UNIT_LEN = 64;
constexpr uint32_t SHIFT_BLOCK_LEN = 4, SHIFT_BLOCK_BYTE = 5, SHIFT_FRACTAL_BYTE = 9;
constexpr uint64_t BLOCK_MAX_PER_REPEAT = 8, MASK_LEN = 64;
constexpr uint32_t TMP_UB_SIZE = 8 * 1024, TMP_UB_OFFSET = 184 * 1024;
constexpr int CUBE_BLOCK_SIZE = 512, FRACTAL_NZ_ROW = 16, ACC_C0_SIZE = 16;
constexpr int C0_SIZE_BYTE = 32;
constexpr uint32_t B4_C0_SIZE = 64;
constexpr int MX_COL_LEN = 2, MX_ROW_LEN = 16, MX_BLOCK_SIZE = 32;

namespace TileConfig {
constexpr int alignedSize = 32, fixedRowSize = 16, fixedColSize = 16;
constexpr int fixedMxRowSize = 16, fixedMxColSize = 2;
constexpr int fractalABSize = 512, fractalCSize = 1024, fractalMxSize = 32;
}  // namespace TileConfig

}  // namespace pto
