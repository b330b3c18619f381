// SPDX-License-Identifier: Apache-2.0
// Matrix cut: cuts the results of products into parts, the least that a thread takes.
//
//     const MatrixCut cut(batches, rows, cols, in.threads());   // of each of the batches
//     const auto [first, last] = in.items(batches * cut.count());
//     for (int64_t i = first; i < last; ++i) multiply(i / cut.count(), cut.part(i % cut.count()));
//
// Every part packs its columns of the right operand and its rows of the left one, so each thread
// gets one large part of about equal sides first. One large matrix keeps an eighth of each part for
// the end, for the thread that comes to it first. Many matrices stay whole.
//
// Invariant: the parts cover the result once; some may be empty.
// Thread safety: immutable.
#pragma once
#include <stdint.h>

namespace pto {

struct Rectangle {
  int64_t row, rows, col, cols;
};

class MatrixCut {
  // Parts lie at whole tiles of libpto's loops, and are high enough for b to be packed in passing.
  static constexpr int64_t kHeight = 12, kWidth = 32, kLeastHeight = 48, kLeastWidth = 32;
  static constexpr int64_t kRest = 8, kMatricesWanted = 4;
  static constexpr int64_t kRestHeight = 48,
                           kRestWidth = 96;  // a lower or narrower rest costs more
  static constexpr double kPackCost = 16;    // of an element, in multiply-adds

 public:
  MatrixCut(int64_t batches, int64_t rows, int64_t cols, int threads) : rows_(rows), cols_(cols) {
    if (batches >= kMatricesWanted * threads) threads = 1;
    double least = 0;
    for (int64_t down = 1; down <= threads; ++down) {
      if (down > 1 && rows < down * kLeastHeight) break;
      const int64_t wanted = quotient_up(threads, down);
      const int64_t across = clamp(cols / kLeastWidth, 1, wanted);
      const double turns = static_cast<double>(quotient_up(down * across, threads));
      const auto height = static_cast<double>(quotient_up(rows, down));
      const auto width = static_cast<double>(quotient_up(cols, across));
      const double cost = turns * (height * width + kPackCost * (height + width));
      if (down_ > 0 && cost >= least) continue;
      least = cost, down_ = down, across_ = across;
    }
    if (batches > 1 || down_ * across_ == 1) return;
    const int64_t height = rows / down_, width = cols / across_;
    if (height > width && height >= kRest * kRestHeight)
      rest_of_rows_ = kRest;
    else if (width >= height && width >= kRest * kRestWidth)
      rest_of_cols_ = kRest;
  }

  int64_t count() const { return down_ * across_ * (has_rest() ? 2 : 1); }

  Rectangle part(int64_t i) const {
    const int64_t whole = down_ * across_;
    const bool is_rest = i >= whole;
    i %= whole;
    const Range down = range(rows_, i % down_, down_, kHeight, rest_of_rows_, is_rest);
    const Range across = range(cols_, i / down_, across_, kWidth, rest_of_cols_, is_rest);
    return {down.first, down.last - down.first, across.first, across.last - across.first};
  }

 private:
  struct Range {
    int64_t first, last;
  };
  bool has_rest() const { return rest_of_rows_ + rest_of_cols_ > 0; }
  static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
  static int64_t clamp(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
  }
  static int64_t quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
  // Part i of `count`, from multiples of `step`; of it the rest, or what precedes the rest.
  static Range range(int64_t size, int64_t i, int64_t count, int64_t step, int64_t rest,
                     bool is_rest) {
    const int64_t steps = quotient_up(size, step);
    const int64_t begin = steps * i / count, end = steps * (i + 1) / count;
    const int64_t middle = rest > 0 ? end - (end - begin) / rest : end;
    const int64_t first = is_rest && rest > 0 ? middle : begin;
    return {least(first * step, size), least((is_rest ? end : middle) * step, size)};
  }

  int64_t rows_, cols_, down_ = 0, across_ = 1;
  int64_t rest_of_rows_ = 0, rest_of_cols_ = 0;  // one of so many
};

}  // namespace pto
