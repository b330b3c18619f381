// SPDX-License-Identifier: Apache-2.0
// Box: the bytes of an allocation that a task touches, and whether two boxes share any.
//
//     Box tile = make_box(offset_bytes, {64, 64}, {4096 * 4, 4}, 4);   // 64 x 64 floats of a
//     matrix if (overlap(tile, other) == Overlap::None) ...                    // may run side by
//     side
//
// A box is runs of contiguous bytes at the points of a lattice: item bytes at offset + sum of
// i[k] * stride[k], 0 <= i[k] < size[k]. make_box() brings strides of either sign, of zero and of
// contiguous dimensions into one form, so that equal sets of bytes mostly give equal boxes.
// Invariant: strides are positive and descend; sizes are at least 2; an empty box has item 0.
// Thread safety: values.
#pragma once

#include <cstdint>
#include <span>

namespace pto {

inline constexpr int kBoxRank = 8;

struct Box {
  int64_t offset = 0;  // of the first byte in the allocation
  int64_t item = 0;    // bytes of a run
  int32_t rank = 0;
  int64_t size[kBoxRank];    // of `rank` dimensions, as strides
  int64_t stride[kBoxRank];  // in bytes

  int64_t end() const;  // one beyond the last byte
  bool is_empty() const { return item == 0; }
  bool operator==(const Box& other) const;
};

// Of a tensor: sizes and strides in elements, of item_bytes each. At most kBoxRank dimensions.
Box make_box(int64_t offset_bytes, std::span<const int64_t> sizes, std::span<const int64_t> strides,
             int64_t item_bytes);

// Unknown: to prove either would cost too much; to be treated as Some, and counted.
enum class Overlap { None, Some, Unknown };
Overlap overlap(const Box& a, const Box& b);

// Whether every byte of b is in a; false also where the proof would cost too much.
bool covers(const Box& a, const Box& b);

bool same_strides(const Box& a, const Box& b);

// The box's first byte in the lattice of its strides: at[k] strides of dimension k, then at[rank]
// bytes. False where the box wraps around a row of that lattice. Two boxes with coordinates and the
// same strides share a byte exactly where they do in every dimension.
struct Coordinates {
  int64_t at[kBoxRank + 1];
};
bool coordinates(const Box& box, Coordinates* out);

}  // namespace pto
