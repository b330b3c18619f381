// SPDX-License-Identifier: Apache-2.0
// PackedRight: where a packed copy (abi/packed_right.h) has what a product reads as b.
//
//     const PackedRight right(packed, a, b, job.precision);   // packed may be null
//     const auto found = right.at(data, 500);      // the first element of 500 columns of b
//     if (found.cols > 0) right.set(&job, found);  // a job of the first so many of them
//
// Thread safety: immutable.
#pragma once
#include "pto/abi/packed_right.h"
#include "pto/isa/cpu/matmul_job.hpp"

namespace pto {

class PackedRight {
 public:
  struct Columns {
    int64_t matrix = 0, col = 0;
    int64_t cols = 0;  // of one strip; 0: they are read from b
  };

  // It finds nothing where b is no matrix, or range of columns, of the packed tensor as it was
  // packed; where a has another type; or where the product has another precision.
  PackedRight(const pto_packed_right* packed, const pto_tensor& a, const pto_tensor& b,
              int precision);

  Columns at(const void* data, int64_t wanted) const;
  // Lets a job of these types and this depth, whose columns begin there, read the packed copy.
  void set(pto_matmul_job* job, const Columns& columns) const;

 private:
  const pto_packed_right* packed_ = nullptr;  // null: it finds nothing
  int32_t order_[PTO_MAX_RANK];               // axes, those with long strides first
};

}  // namespace pto
