// SPDX-License-Identifier: Apache-2.0
// Packed right: a tensor whose matrices products read on their right, and their packed copies.
//
//     pto_packed_right w = {PTO_PACKED_RIGHT_TAG, tensor, 0, 1, precision};   // f32[depth, cols]
//     w.matrix_bytes = pto_packed_right_bytes(&w);          // 0: it is not packed
//     w.data = memory;                                      // of so many bytes for each matrix
//     pto_pack_right(&w);
//     // pto_multiply(..., &c, &a, &b, &w, ...) of abi/program.h reads it; b: the tensor or a part
//
// Law: a product has the same bits packed or not.
// Thread safety: any thread; a packed copy is only read once it is made.
#pragma once
#include "pto/abi/host.h"

#ifdef __cplusplus
extern "C" {
#endif

// Tells records of a program's params from the params of others.
#define PTO_PACKED_RIGHT_TAG UINT64_C(0x7468676972746b70)

// The axes beside that of the depth and that of the columns count matrices, row-major.
typedef struct pto_packed_right {
  uint64_t tag;
  pto_tensor tensor;
  int32_t depth_axis, col_axis;
  int32_t precision;  // of products by it
  void* data;         // null: it is not packed
  int64_t matrix_bytes;
} pto_packed_right;

// Returns the bytes of the packed copy of one matrix. 0: the tensor is not packed, since it has
// another type than f32, f16, bf16 and i8, one axis alone, or places that may share memory.
int64_t pto_packed_right_bytes(const pto_packed_right* packed);

// Packs all matrices into data, on the threads of the pool. Returns 0, or a non-zero code.
int32_t pto_pack_right(const pto_packed_right* packed);

#ifdef __cplusplus
}
#endif
