// SPDX-License-Identifier: Apache-2.0
// Lines of floats that parts of bf16 do not stand for: each is flagged, wherever its element lies,
// and no other.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "pto/isa/cpu/split_product.hpp"
#include "tests/matmul_cases.hpp"

namespace pto::tile_split_test {
using namespace isa;

pto_matmul_matrix row_of(const std::vector<float>& x) {
  return {const_cast<float*>(x.data()),
          PTO_MATMUL_F32,
          PTO_MATMUL_UNBOXED,
          PTO_MATMUL_UNBOXED,
          0,
          0,
          int64_t(x.size()),
          1};
}
bool is_flagged(const std::vector<float>& x) {
  uint8_t as_row = 0, as_col = 0;
  const matmul::SplitSource<3> row(row_of(x), true, int(x.size()));
  row.flag_rows(0, 1, 0, 2, &as_row);
  pto_matmul_matrix turned = row_of(x);
  std::swap(turned.row_stride, turned.col_stride);
  const matmul::SplitSource<3> col(turned, false, int(x.size()));
  col.flag_columns(0, 1, 0, 2, &as_col);
  EXPECT_EQ(as_row, as_col);
  return as_row != 0;
}

TEST(TileSplit, FlagsLinesThatPartsDoNotStandFor) {
  EXPECT_FALSE(is_flagged({0, -0.0f, 1, -1e14f, 0x1p-50f, -0x1.fffffep46f}));
  for (const float x : {INFINITY, -INFINITY, NAN, -NAN, 0x1p47f, -3e38f, 0x1.fffffep-51f,
                        -0x1p-103f, 0x1p-126f, -0x1p-127f, 0x1p-149f})
    for (const size_t place : {0u, 17u, 40u}) {
      std::vector<float> line(41, 1.0f);
      line[place] = x;
      EXPECT_TRUE(is_flagged(line)) << x << " at " << place;
    }
}

// Splits a matrix of ones with one other element, from rows or from columns, whose elements lie
// together along the depth or beside each other, and returns the flags of its lines.
std::vector<uint8_t> flags_of(int lines, int depth, bool is_along, int line, int k, float x) {
  const int64_t step = is_along ? depth : 1, down = is_along ? 1 : lines;
  std::vector<float> ones(size_t(lines * depth), 1.0f);
  ones[size_t(line * step + k * down)] = x;
  const auto matrix = [&](int64_t row, int64_t col) {
    return pto_matmul_matrix{
        ones.data(), PTO_MATMUL_F32, PTO_MATMUL_UNBOXED, PTO_MATMUL_UNBOXED, 0, 0, row, col};
  };
  const int steps = int(matmul::split_steps(depth));
  std::vector<char> parts(size_t(steps) * 3 * matmul::kPair);
  std::vector<uint8_t> as_rows(size_t(lines), 0), as_cols(size_t(lines), 0);
  matmul::SplitSource<3>(matrix(step, down), true, depth)
      .rows(0, lines, 2, 0, steps, parts.data(), as_rows.data());
  matmul::SplitSource<3>(matrix(down, step), false, depth)
      .columns(0, lines, 2, 0, steps, parts.data(), as_cols.data());
  EXPECT_EQ(as_rows, as_cols);
  return as_rows;
}

constexpr std::pair<float, bool> kElements[] = {
    {1e-30f, true}, {-1e30f, true}, {NAN, true}, {0.0f, false}, {2.0f, false}};

TEST(TileSplit, FlagsTheLineOfEachAwkwardElementAndNoOther) {
  Random r{6};
  for (const int lines : {1, 5, 16, 17, 31, 32})
    for (const int depth : {1, 2, 31, 32, 33, 64, 75})
      for (const bool is_along : {false, true})
        for (const auto& [x, is_awkward] : kElements) {
          const int line = r.below(lines), k = r.below(2) ? depth - 1 : r.below(depth);
          std::vector<uint8_t> wanted(size_t(lines), 0);
          wanted[size_t(line)] = is_awkward;
          ASSERT_EQ(flags_of(lines, depth, is_along, line, k, x), wanted)
              << lines << " lines, depth " << depth << ", " << x << " at " << line << ", " << k;
        }
}

}  // namespace pto::tile_split_test
