// SPDX-License-Identifier: Apache-2.0
// JoinedAxes: a tensor of which several axes, from `axis` on, are one.
//
//     const JoinedAxes rows(cache, 0, 2);       // cache[pages, page, row]
//     rows.tensor();                            // [pages * page, row]
//     if (!rows.is_dense()) place = rows.distance(slot);
//
// Where no stride leads from each row to the next one, the joined axis has the step 1, and
// distance() says for a position along it how many elements away its row begins.
// Thread safety: immutable; it refers to the tensor.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "pto/abi/host.h"
#include "pto/abi/limits.h"

namespace pto {

class JoinedAxes {
 public:
  JoinedAxes(const pto_tensor& x, int axis, int count) : x_(x), axis_(axis), count_(count) {
    std::copy_n(x.sizes, x.rank, sizes_.begin());
    std::copy_n(x.strides, x.rank, strides_.begin());
    for (int d = axis + 1; d < axis + count; ++d) {
      sizes_[size_t(axis)] *= x.sizes[d];
      is_dense_ &= x.strides[d - 1] == x.strides[d] * x.sizes[d];
    }
    const int last = axis + count - 1, behind = x.rank - last - 1;
    std::copy_n(x.sizes + last + 1, behind, sizes_.begin() + axis + 1);
    std::copy_n(x.strides + last + 1, behind, strides_.begin() + axis + 1);
    strides_[size_t(axis)] = is_dense_ ? x.strides[last] : 1;
    for (int d = axis; !is_dense_ && d <= last; ++d)  // distances count from the lowest address
      if (x.strides[d] < 0) before_ -= (x.sizes[d] - 1) * x.strides[d];
  }

  bool is_dense() const { return is_dense_; }
  int64_t distance(int64_t position) const {
    int64_t found = before_;
    for (int d = axis_ + count_ - 1; d >= axis_; position /= x_.sizes[d--])
      found += position % x_.sizes[d] * x_.strides[d];
    return found;
  }
  // As long as this object lives.
  pto_tensor tensor() const {
    pto_tensor joined = x_;
    joined.data = static_cast<char*>(x_.data) - before_ * (x_.type_bits / 8);
    joined.rank = x_.rank - count_ + 1;
    joined.sizes = sizes_.data();
    joined.strides = strides_.data();
    return joined;
  }

 private:
  const pto_tensor& x_;
  const int axis_, count_;
  std::array<int64_t, PTO_MAX_RANK> sizes_{}, strides_{};
  bool is_dense_ = true;
  int64_t before_ = 0;
};

}  // namespace pto
