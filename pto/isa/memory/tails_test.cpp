// SPDX-License-Identifier: Apache-2.0
// Tails: each family computes a valid region that fills no register, on heap arrays of exactly that
// size. The file is small enough to compile for the sanitizers too, which see every access outside.
#include <gtest/gtest.h>

#include <memory>

#include "pto/isa/elementwise/compare.hpp"
#include "pto/isa/elementwise/expand.hpp"
#include "pto/isa/memory/transfer.hpp"

namespace pto::tails_test {
using namespace isa;

constexpr int kRows = 3, kCols = 64;
template <class T>
using Region = Tile<TileType::Vec, T, kRows, kCols, BLayout::RowMajor, -1, -1>;

// Makes rows x cols elements 1, 2, ..., on the heap without room behind them.
template <class T>
std::unique_ptr<T[]> numbers(int count) {
  std::unique_ptr<T[]> all(new T[static_cast<size_t>(count)]);
  for (int i = 0; i < count; ++i) all[static_cast<size_t>(i)] = T(i + 1);
  return all;
}

template <class T>
void check(int rows, int cols) {
  const int count = rows * cols;
  const auto x = numbers<T>(count), row = numbers<T>(cols), column = numbers<T>(rows);
  const auto out = numbers<T>(count);
  Region<T> a(rows, cols), b(1, cols), c(rows, 1), d(rows, cols);
  Region<mask32> mask(rows, cols);
  TLOAD(a, GlobalTensor(x.get(), count));
  TLOAD(b, GlobalTensor(row.get(), cols));
  TLOAD(c, GlobalTensor(column.get(), rows));
  TADD(d, a, a);
  TROWEXPANDADD(d, d, c);
  TCOLEXPANDADD(d, d, b);
  TCMPS(mask, a, T(count / 2), CmpMode::GT);
  TSEL(d, mask, d, a);
  TSTORE(GlobalTensor(out.get(), count), d);
  for (int i = 0; i < count; ++i) {
    const int value = i + 1, sum = 2 * value + (i / cols + 1) + (i % cols + 1);
    ASSERT_EQ(float(out[static_cast<size_t>(i)]), float(value > count / 2 ? sum : value))
        << "element " << i << " of " << rows << " x " << cols;
  }
}

TEST(Tails, no_family_leaves_the_valid_region_of_exact_arrays) {
  for (int rows = 1; rows <= kRows; ++rows)
    for (const int cols : {1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64}) {
      check<float>(rows, cols);
      if (rows * cols < 100) check<half>(rows, cols);  // exact in its 11 bits
    }
}

}  // namespace pto::tails_test
