// SPDX-License-Identifier: Apache-2.0
// AskedRows: prefetches the rows that a loop over known positions reads next, a piece in each turn
// of the loop. No CPU predicts their addresses.
//
//     AskedRows asked(positions, count, step, row_bytes, far_bytes);
//     asked.take_turn(from, i, bytes);   // before each piece of the row at positions[i]
//
// Thread safety: an object belongs to one thread.
#pragma once
#include <algorithm>
#include <cstdint>

namespace pto {

class AskedRows {
 public:
  static constexpr int64_t kPiece = 1024;  // bytes that a turn prefetches at most

  // Row k has `row_bytes` bytes and lies positions[k * step] * far_bytes behind position 0. `count`
  // is the number of positions.
  AskedRows(const int64_t* positions, int64_t count, int64_t step, int64_t row_bytes,
            int64_t far_bytes)
      : positions_(positions),
        count_(count),
        step_(step),
        row_bytes_(row_bytes),
        far_bytes_(far_bytes) {}

  // Prefetches as many bytes as the caller uses now, kAhead bytes ahead of the row at positions[i].
  // `from` is the address of position 0.
  void take_turn(const char* from, int64_t i, int64_t bytes) {
    if (i < used_ || next_ < i) next_ = i, offset_ = 0, bytes = kAhead;
    used_ = i;
    while (bytes > 0 && next_ < count_) {
      const int64_t now = std::min(bytes, row_bytes_ - offset_);
      const char* const at = from + positions_[next_] * far_bytes_ + offset_;
      for (int64_t line = 0; line < now; line += kLine) __builtin_prefetch(at + line, 0, 2);
      bytes -= now, offset_ += now;
      if (offset_ == row_bytes_) next_ += step_, offset_ = 0;
    }
  }

 private:
  static constexpr int64_t kAhead = 8192, kLine = 64;

  const int64_t* const positions_;
  const int64_t count_, step_, row_bytes_, far_bytes_;
  int64_t used_ = 0, next_ = -1, offset_ = 0;
};

}  // namespace pto
