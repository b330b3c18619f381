// SPDX-License-Identifier: Apache-2.0
#include "pto/isa/cpu/matrix_cut.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/deep.hpp"

namespace pto::matrix_cut_test {

TEST(MatrixCut, CoversTheResultOnce) {
  std::mt19937 random(1);
  const auto below = [&](int limit) { return static_cast<int64_t>(random() % unsigned(limit)); };
  for (int round = 0; round < rounds_of(300, 10000); ++round) {
    const int64_t rows = below(round % 3 ? 60 : 700), cols = below(round % 4 ? 60 : 700);
    const int64_t batches = below(3) + 1;
    const int threads = static_cast<int>(below(round % 2 ? 4 : 70)) + 1;
    const MatrixCut cut(batches, rows, cols, threads);
    std::vector<int> found(static_cast<size_t>(rows * cols));
    for (int64_t i = 0; i < cut.count(); ++i) {
      const Rectangle part = cut.part(i);
      for (int64_t row = part.row; row < part.row + part.rows; ++row)
        for (int64_t col = part.col; col < part.col + part.cols; ++col)
          ++found.at(static_cast<size_t>(row * cols + col));
    }
    ASSERT_EQ(found, std::vector<int>(found.size(), 1))
        << batches << " of " << rows << " x " << cols << " on " << threads << " threads";
  }
}

TEST(MatrixCut, GivesEachThreadAboutTheSameFirst) {
  for (const int threads : {2, 3, 7, 8, 61, 64}) {
    const MatrixCut cut(1, 9000, 6000, threads);
    ASSERT_GE(cut.count(), threads);
    int64_t total = 0;
    for (int64_t i = 0; i < threads; ++i) {
      const Rectangle part = cut.part(i);
      total += part.rows * part.cols;
      EXPECT_NEAR(double(part.rows * part.cols), 9000.0 * 6000 * 7 / 8 / threads,
                  9000.0 * 6000 * 0.25 / threads);
    }
    EXPECT_LT(total, 9000 * 6000);
  }
}

TEST(MatrixCut, LeavesManyMatricesAndOneThreadAlone) {
  EXPECT_EQ(MatrixCut(100, 512, 512, 2).count(), 1);
  EXPECT_EQ(MatrixCut(1, 512, 512, 1).count(), 1);
  EXPECT_EQ(MatrixCut(2, 512, 512, 2).count(), 2);
}

TEST(MatrixCut, KeepsARestThatIsWorthPackingFor) {
  for (int64_t rows = 1; rows < 1200; rows += 37)
    for (int64_t cols = 1; cols < 1800; cols += 53) {
      const MatrixCut cut(1, rows, cols, 2);
      for (int64_t i = 2; i < cut.count(); ++i) {
        const Rectangle before = cut.part(i - 2), rest = cut.part(i);
        const bool is_below = rest.col == before.col;
        EXPECT_GT(is_below ? rest.rows : rest.cols, is_below ? 36 : 64) << rows << " x " << cols;
      }
    }
  EXPECT_EQ(MatrixCut(1, 128, 128, 2).count(), 2);
  EXPECT_EQ(MatrixCut(1, 1024, 1024, 2).count(), 4);
}

}  // namespace pto::matrix_cut_test
