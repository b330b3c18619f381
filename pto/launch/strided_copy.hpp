// SPDX-License-Identifier: Apache-2.0
// Strided copy: copies the elements of a tensor from one layout into another on the resident pool.
//
//     copy_strided(dense, dense_strides, x.data, x.strides, x.sizes, x.rank, bytes(x.dtype));
//
// Invariant: source and destination do not overlap. Strides are in elements, of any sign.
// Thread safety: any thread may call.
#pragma once

#include <cstdint>

namespace pto {

// item_bytes is 1, 2, 4 or 8.
void copy_strided(void* to, const int64_t* to_strides, const void* from,
                  const int64_t* from_strides, const int64_t* sizes, int rank, int item_bytes);

}  // namespace pto
