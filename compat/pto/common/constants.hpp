// SPDX-License-Identifier: Apache-2.0
// Sizes of the chips that kernels name: blocks of 32 bytes, boxes of 512, repeats of 256.
//
//     constexpr int kFloatsOfBlock = pto::BLOCK_BYTE_SIZE / sizeof(float);
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
constexpr int MX_COL_LEN = 2, MX_ROW_LEN = 16, MX_BLOCK_SIZE = 32, FRACTAL_ZZ_ROW = 16;
constexpr int B8_DATA_TYPE_OFFSET = 8, PAD_SHIFT_LENGTH = 32;
constexpr int MAD_MODE_BIT = 46, MAD_ROUND_MODE_BIT = 47;
constexpr int TROW_PROD_LOOP_B16 = 7, TROW_PROD_LOOP_B32 = 6;

// Numbers by name.
constexpr int NUM_1 = 1, NUM_4 = 4, NUM_8 = 8, NUM_12 = 12, NUM_16 = 16, NUM_32 = 32, NUM_64 = 64;
constexpr int NUM_77 = 77, NUM_96 = 96, NUM_128 = 128, NUM_256 = 256, NUM_512 = 512;
constexpr uint16_t PTO_TIME_1 = 1, PTO_TIME_2 = 2, PTO_TIME_4 = 4;
constexpr uint16_t PTO_IDX_0 = 0, PTO_IDX_1 = 1, PTO_IDX_2 = 2, PTO_IDX_3 = 3;

namespace TileConfig {
constexpr int alignedSize = 32, fixedRowSize = 16, fixedColSize = 16;
constexpr int fixedMxRowSize = 16, fixedMxColSize = 2;
constexpr int fractalABSize = 512, fractalCSize = 1024, fractalMxSize = 32;
}  // namespace TileConfig

}  // namespace pto
