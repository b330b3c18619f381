// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/strided_copy.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "pto/abi/limits.h"
#include "pto/abi/transpose.h"
#include "pto/base/error.hpp"
#include "pto/launch/pool.hpp"
#include "pto/launch/short_rows.hpp"

namespace pto {
namespace {

constexpr int64_t kBlockBytes = 128 << 10, kMostBlocks = 64, kLineBytes = 64, kRowBytes = 2048;
constexpr int64_t kShortRow = 16;                        // elements
constexpr int64_t kAsideBytes = 8192, kStepBytes = 256;  // of short rows, and of their lines, aside

struct Axis {
  int64_t size, to, from;  // strides in bytes
};

// Lists the axes as the destination lies in memory, the outermost first; axes that continue each
// other in both tensors are one.
std::vector<Axis> axes_of(const int64_t* to_strides, const int64_t* from_strides,
                          const int64_t* sizes, int rank, int item_bytes) {
  std::vector<Axis> axes;
  for (int i = 0; i < rank; ++i)
    if (sizes[i] != 1)  // else its strides say nothing
      axes.push_back({sizes[i], to_strides[i] * item_bytes, from_strides[i] * item_bytes});
  std::stable_sort(axes.begin(), axes.end(),
                   [](const Axis& a, const Axis& b) { return std::abs(a.to) > std::abs(b.to); });
  std::vector<Axis> joined;
  for (const Axis& axis : axes) {
    const bool joins = !joined.empty() && joined.back().to == axis.to * axis.size &&
                       joined.back().from == axis.from * axis.size;
    if (joins)
      joined.back() = {joined.back().size * axis.size, axis.to, axis.from};
    else
      joined.push_back(axis);
  }
  return joined;
}

// Copies from the last element of a row to its first one, 16 bytes at a time; returns how many.
template <class T>
int64_t copy_backwards(char* to, const char* from, int64_t count) {
  constexpr int64_t kBytes = sizeof(T), kOnce = 16 / kBytes;
  using Some [[gnu::vector_size(16)]] = T;
  int64_t done = 0;
  for (; done + kOnce <= count; done += kOnce) {
    Some x;
    std::memcpy(&x, from - (done + kOnce - 1) * kBytes, sizeof(x));
    if constexpr (kOnce == 2)
      x = __builtin_shufflevector(x, x, 1, 0);
    else if constexpr (kOnce == 4)
      x = __builtin_shufflevector(x, x, 3, 2, 1, 0);
    else if constexpr (kOnce == 8)
      x = __builtin_shufflevector(x, x, 7, 6, 5, 4, 3, 2, 1, 0);
    else
      x = __builtin_shufflevector(x, x, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    std::memcpy(to + done * kBytes, &x, sizeof(x));
  }
  return done;
}

// A copy in parts: single rows along the destination's innermost axis; or matrices, pieces of such
// rows, which are transposed where the source's innermost axis is another. Short rows, one behind
// another in the destination, are one row there: the pieces are brought beside each other first.
class StridedCopy {
 public:
  StridedCopy(char* to, const char* from, std::vector<Axis> axes, int item_bytes)
      : to_(to), from_(from), outer_(std::move(axes)), item_bytes_(item_bytes) {
    row_ = taken(outer_.size() - 1);
    piece_ = row_.size;
    if (row_.to == item_bytes && row_.from != item_bytes) find_lines();
    parts_ = quotient_up(lines_.size, step_) * quotient_up(row_.size, piece_);
    for (const Axis& axis : outer_) parts_ *= axis.size;
  }

  int32_t blocks() const {
    const int64_t bytes = parts_ * step_ * piece_ * item_bytes_;
    return int32_t(std::clamp<int64_t>(bytes / kBlockBytes, 1, std::min(parts_, kMostBlocks)));
  }
  void copy_block(int32_t block, int32_t blocks) const {
    const int64_t first = parts_ * block / blocks, last = parts_ * (block + 1) / blocks;
    const int64_t cuts = quotient_up(lines_.size, step_) * quotient_up(row_.size, piece_);
    // Parts of the innermost outer axis follow each other in steps, unless they are cut.
    const Axis inner = outer_.empty() || cuts > 1 ? Axis{1, 0, 0} : outer_.back();
    const auto for_parts = [&](const auto& copy) {
      for (int64_t part = first; part < last;) {
        auto [to, from] = place_of(part / cuts);
        const int64_t end = std::min(last, part - part % inner.size + inner.size);
        for (; part < end; ++part, to += inner.to, from += inner.from) copy(part, to, from);
      }
    };
    const bool are_dense = row_.to == item_bytes_ && row_.from == item_bytes_;
    const int64_t bytes = row_.size * item_bytes_;
    if (is_transposed_)
      for_parts(
          [&](int64_t part, char* to, const char* from) { copy_matrix(part % cuts, to, from); });
    else if (are_dense)
      with_copy_of(bytes, [&](const auto& copy) {
        for_parts([&](int64_t, char* to, const char* from) { copy(to, from, bytes); });
      });
    else
      for_parts([&](int64_t, char* to, const char* from) { copy_row(to, from); });
  }

 private:
  Axis taken(size_t at) {
    const Axis axis = outer_[at];
    outer_.erase(outer_.begin() + static_cast<std::ptrdiff_t>(at));
    return axis;
  }
  // Takes the axis along which the source's elements lie beside each other: a part is a matrix
  // then.
  void find_lines() {
    const auto beside = std::find_if(outer_.begin(), outer_.end(),
                                     [&](const Axis& axis) { return axis.from == item_bytes_; });
    if (beside == outer_.end()) return;
    lines_ = taken(static_cast<size_t>(beside - outer_.begin()));
    const int64_t few = kLineBytes / item_bytes_;  // that the source has in a cache line
    is_transposed_ = true;
    if (joins_short_rows()) return;
    piece_ = std::min(row_.size, std::max(kRowBytes, kBlockBytes / lines_.size) / item_bytes_);
    step_ = std::max(kBlockBytes / (piece_ * item_bytes_) / few * few, few);
  }
  // Takes the axis along which short rows lie one behind another in the destination.
  bool joins_short_rows() {
    const auto next = std::find_if(outer_.begin(), outer_.end(), [&](const Axis& axis) {
      return axis.to == row_.size * item_bytes_;
    });
    if (row_.size > kShortRow || next == outer_.end()) return false;
    short_ = row_;
    row_ = taken(static_cast<size_t>(next - outer_.begin()));
    row_ = {row_.size * short_.size, item_bytes_, row_.from};
    step_ = std::min(lines_.size, kStepBytes / item_bytes_);
    piece_ = kAsideBytes / (step_ * item_bytes_) / short_.size * short_.size;
    piece_ = std::min(piece_, row_.size);
    return true;
  }
  static int64_t quotient_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

  struct Place {
    char* to;
    const char* from;
  };
  Place place_of(int64_t part) const {
    Place found{to_, from_};
    for (size_t i = outer_.size(); i-- > 0; part /= outer_[i].size) {
      found.to += part % outer_[i].size * outer_[i].to;
      found.from += part % outer_[i].size * outer_[i].from;
    }
    return found;
  }

  void copy_matrix(int64_t cut, char* to, const char* from) const {
    const int64_t steps = quotient_up(lines_.size, step_), line = cut % steps * step_;
    const int64_t first = cut / steps * piece_;
    const int64_t lines = std::min(step_, lines_.size - line);
    const int64_t length = std::min(piece_, row_.size - first);
    alignas(64) char aside[kAsideBytes];
    int64_t apart = row_.from;
    from += line * lines_.from;
    if (short_.size > 1) {
      bring_together(aside, from + first / short_.size * row_.from, lines, length / short_.size);
      from = aside;
      apart = lines * item_bytes_;
    } else {
      from += first * apart;
    }
    pto_transpose(to + line * lines_.to + first * row_.to, lines_.to, from, apart, lines, length,
                  item_bytes_);
  }
  // Copies elements of some lines of short rows one behind another.
  void bring_together(char* to, const char* from, int64_t lines, int64_t rows) const {
    int64_t bytes = lines * item_bytes_, count = short_.size;
    if (short_.from == bytes) bytes *= std::exchange(count, 1);
    with_copy_of(bytes, [&](const auto& copy) {
      for (int64_t row = 0; row < rows; ++row, from += row_.from)
        for (int64_t i = 0; i < count; ++i, to += bytes) copy(to, from + i * short_.from, bytes);
    });
  }
  void copy_row(char* to, const char* from) const {
    if (item_bytes_ == 4)
      copy_items<uint32_t>(to, from);
    else if (item_bytes_ == 2)
      copy_items<uint16_t>(to, from);
    else if (item_bytes_ == 8)
      copy_items<uint64_t>(to, from);
    else
      copy_items<uint8_t>(to, from);
  }
  template <class T>
  void copy_items(char* to, const char* from) const {
    constexpr int64_t kBytes = sizeof(T);
    const Axis row = row_;
    int64_t i = 0;
    if (row.to == kBytes && row.from == -kBytes) i = copy_backwards<T>(to, from, row.size);
#pragma GCC unroll 8
    for (; i < row.size; ++i) std::memcpy(to + i * row.to, from + i * row.from, kBytes);
  }

  char* const to_;
  const char* const from_;
  std::vector<Axis> outer_;  // besides those of a part
  Axis row_{1, 0, 0}, lines_{1, 0, 0}, short_{1, 0, 0};
  const int item_bytes_;
  bool is_transposed_ = false;
  int64_t step_ = 1, piece_ = 1, parts_ = 1;  // lines and elements of a row in a part; parts
};

}  // namespace

void copy_strided(void* to, const int64_t* to_strides, const void* from,
                  const int64_t* from_strides, const int64_t* sizes, int rank, int item_bytes) {
  PTO_ASSERT(rank <= PTO_MAX_RANK);
  if (std::find(sizes, sizes + rank, 0) != sizes + rank) return;
  std::vector<Axis> axes = axes_of(to_strides, from_strides, sizes, rank, item_bytes);
  if (axes.empty()) axes.push_back({1, item_bytes, item_bytes});
  const StridedCopy copy(static_cast<char*>(to), static_cast<const char*>(from), std::move(axes),
                         item_bytes);
  struct Shared {
    const StridedCopy& copy;
    int32_t blocks;
  } shared{copy, copy.blocks()};
  const auto run = [](void* context, int32_t block) -> int32_t {
    const Shared& all = *static_cast<Shared*>(context);
    all.copy.copy_block(block, all.blocks);
    return 0;
  };
  if (parallel_for(shared.blocks, run, &shared) != 0) {
    fail({"a copy between two layouts failed", "a thread of the host framework threw",
          "run it again"},
         ErrorKind::Runtime);
  }
}

}  // namespace pto
