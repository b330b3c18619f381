// SPDX-License-Identifier: Apache-2.0
// EvenRun: how many matrices of a batch follow each other evenly in all three tensors of a product.
//
//     EvenRun run;
//     run.add(3, 9, 0, 3);     // the last axis of the batch: 3 matrices, one b for all
//     run.add(5, 27, 0, 9);    // the axis in front: true, run.count == 15
//
// Batches count in row-major order; strides count elements, 0 where a matrix serves all of an axis.
// Thread safety: a value.
#pragma once
#include <stdint.h>

namespace pto {

struct EvenRun {
  int64_t count = 1, a = 0, b = 0, c = 0;  // matrices, and elements between them

  // Adds the next axis outwards; false: it does not go on evenly.
  bool add(int64_t size, int64_t a_stride, int64_t b_stride, int64_t c_stride) {
    if (size == 1) return true;
    if (count == 1)
      *this = {size, a_stride, b_stride, c_stride};
    else if (a_stride == a * count && b_stride == b * count && c_stride == c * count)
      count *= size;
    else
      return false;
    return true;
  }
};

constexpr int64_t kManyProducts = 16;  // small matrices that pay for being one call

}  // namespace pto
