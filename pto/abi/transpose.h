// SPDX-License-Identifier: Apache-2.0
// Transpose: a matrix whose elements lie beside each other in the other direction.
//
//     pto_transpose(to, 64 * 4, from, 128 * 4, 128, 64, 4);   // f32 to[128][64] = from[64][128]
//
// Thread safety: any thread; pure functions on memory of the caller.
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Element j of line i of `to` becomes element i of line j of `from`, for `lines` lines i of
// `length` elements of 1, 2, 4 or 8 bytes. Strides count bytes from line to line, of any sign; the
// matrices do not overlap.
void pto_transpose(void* to, int64_t to_stride, const void* from, int64_t from_stride,
                   int64_t lines, int64_t length, int32_t element_bytes);

#ifdef __cplusplus
}
#endif
