// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/strided_copy.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "pto/abi/limits.h"
#include "pto/base/error.hpp"
#include "pto/launch/pool.hpp"

namespace pto {
namespace {

constexpr int64_t kBlockBytes = 128 << 10;

// A copy as rows along its last axis.
struct StridedRows {
  char* to;
  const char* from;
  std::array<int64_t, PTO_MAX_RANK> sizes{}, to_strides{}, from_strides{};  // of the other axes
  int rank = 0;
  int64_t rows = 1, length = 1, to_stride = 1, from_stride = 1;
  int item_bytes;
  int32_t blocks = 1;

  void copy_row(char* out, const char* in) const {
    if (to_stride == 1 && from_stride == 1) {
      std::memcpy(out, in, static_cast<size_t>(length * item_bytes));
    } else if (item_bytes == 4) {
      copy_items<4>(out, in);
    } else if (item_bytes == 2) {
      copy_items<2>(out, in);
    } else if (item_bytes == 8) {
      copy_items<8>(out, in);
    } else {
      copy_items<1>(out, in);
    }
  }

  template <int kBytes>
  void copy_items(char* out, const char* in) const {
    for (int64_t i = 0; i < length; ++i) {
      std::memcpy(out + i * to_stride * kBytes, in + i * from_stride * kBytes, kBytes);
    }
  }

  void copy_block(int32_t block) const {
    const int64_t first = rows * block / blocks, last = rows * (block + 1) / blocks;
    for (int64_t row = first; row < last; ++row) {
      int64_t rest = row, out = 0, in = 0;
      for (int axis = rank - 1; axis >= 0; --axis) {
        const auto a = static_cast<size_t>(axis);
        out += rest % sizes[a] * to_strides[a];
        in += rest % sizes[a] * from_strides[a];
        rest /= sizes[a];
      }
      copy_row(to + out * item_bytes, from + in * item_bytes);
    }
  }
};

}  // namespace

void copy_strided(void* to, const int64_t* to_strides, const void* from,
                  const int64_t* from_strides, const int64_t* sizes, int rank, int item_bytes) {
  PTO_ASSERT(rank <= PTO_MAX_RANK);
  StridedRows all{.to = static_cast<char*>(to),
                  .from = static_cast<const char*>(from),
                  .item_bytes = item_bytes};
  for (int axis = 0; axis < rank; ++axis) {
    if (sizes[axis] == 0) return;
    if (sizes[axis] == 1) continue;  // its strides say nothing
    const auto last = static_cast<size_t>(all.rank);
    const bool joins = all.rank > 0 && all.to_strides[last - 1] == to_strides[axis] * sizes[axis] &&
                       all.from_strides[last - 1] == from_strides[axis] * sizes[axis];
    const size_t at = joins ? last - 1 : last;
    all.sizes[at] = (joins ? all.sizes[at] : 1) * sizes[axis];
    all.to_strides[at] = to_strides[axis];
    all.from_strides[at] = from_strides[axis];
    if (!joins) ++all.rank;
  }
  if (all.rank > 0) {
    const auto last = static_cast<size_t>(--all.rank);
    all.length = all.sizes[last];
    all.to_stride = all.to_strides[last];
    all.from_stride = all.from_strides[last];
  }
  for (int axis = 0; axis < all.rank; ++axis) all.rows *= all.sizes[static_cast<size_t>(axis)];
  const int64_t blocks = all.rows * all.length * item_bytes / kBlockBytes;
  all.blocks =
      static_cast<int32_t>(std::clamp<int64_t>(blocks, 1, std::min<int64_t>(all.rows, 64)));
  const auto run = [](void* context, int32_t block) -> int32_t {
    static_cast<const StridedRows*>(context)->copy_block(block);
    return 0;
  };
  if (parallel_for(all.blocks, run, &all) != 0) {
    fail({"a copy between two layouts failed", "a thread of the host framework threw",
          "run it again"},
         ErrorKind::Runtime);
  }
}

}  // namespace pto
