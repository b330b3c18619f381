// SPDX-License-Identifier: Apache-2.0
// Box: the bytes of an allocation that a task touches, and whether two boxes share any.
//
//     const int64_t sizes[] = {64, 64}, strides[] = {4096, 1};
//     const Box tile = make_box(offset_bytes, sizes, strides, 4);   // 64 x 64 floats of a matrix
//     if (overlap(tile, other) == Overlap::None) run_side_by_side();
//
// A box is a lattice of contiguous runs: `item` bytes at offset + sum of i[k] * stride[k] for 0 <=
// i[k] < size[k]. make_box() normalises negative, zero and contiguous strides, so that equal sets
// of bytes mostly give equal boxes.
// Invariant: strides are positive and descend; sizes are at least 2; an empty box has item 0.
// Thread safety: values.
#pragma once

#include <cstdint>
#include <span>

#include "pto/abi/host.h"

namespace pto {

struct Box {
  int64_t offset = 0;  // of the first byte in the allocation
  int64_t item = 0;    // bytes of a run
  int32_t rank = 0;
  int64_t size[PTO_MAX_RANK];    // of the first `rank` dimensions
  int64_t stride[PTO_MAX_RANK];  // in bytes

  int64_t end() const;  // one past the last byte
  bool is_empty() const { return item == 0; }
  bool operator==(const Box& other) const;
};

// Makes the box of a tensor: sizes and strides in elements of item_bytes each; at most PTO_MAX_RANK
// dimensions.
Box make_box(int64_t offset_bytes, std::span<const int64_t> sizes, std::span<const int64_t> strides,
             int64_t item_bytes);

// Makes the box of a tensor in the allocation that begins at `base`.
inline Box box_of(const pto_tensor& view, const char* base) {
  const auto rank = size_t(view.rank);
  const int64_t offset = static_cast<char*>(view.data) - base;
  const int64_t item = view.type_bits < 16 ? 1 : view.type_bits / 8;
  if ((view.flags & PTO_TENSOR_CONTIGUOUS) == 0)
    return make_box(offset, {view.sizes, rank}, {view.strides, rank}, item);
  auto bytes = uint64_t(item);  // wraps to 0 where a size is 0
  for (size_t k = 0; k < rank; ++k) bytes *= uint64_t(view.sizes[k]);
  Box box;
  box.offset = offset, box.item = int64_t(bytes);
  return box;
}

// Unknown: the proof would cost too much; callers treat it as Some and count it.
enum class Overlap { None, Some, Unknown };
Overlap overlap(const Box& a, const Box& b);

// Says whether every byte of b is in a; also false if the proof would cost too much.
bool covers(const Box& a, const Box& b);

bool same_strides(const Box& a, const Box& b);

// Writes the box's first byte as coordinates in the lattice of its strides: at[k] strides of
// dimension k, then at[rank] bytes. Returns false if the box wraps around a row of that lattice.
// Two boxes with coordinates and the same strides share a byte exactly if they do in every
// dimension.
struct Coordinates {
  int64_t at[PTO_MAX_RANK + 1];
};
bool coordinates(const Box& box, Coordinates* out);

}  // namespace pto
