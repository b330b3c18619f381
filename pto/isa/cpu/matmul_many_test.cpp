// SPDX-License-Identifier: Apache-2.0
// Batches of small matrices at once have the bits of a product after the other, on each engine.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "pto/isa/cpu/matmul_job.hpp"
#include "tests/deep.hpp"

namespace pto::matmul_many_test {
namespace {

using Random = std::mt19937;
int64_t below(Random& random, int64_t limit) { return int64_t(random() % uint64_t(limit)); }

// An operand of many products: rows x cols elements each, in any order, with gaps; or one matrix.
struct Layout {
  Layout(Random& random, int rows, int cols, bool may_repeat) {
    const int64_t gap = below(random, 3), line = (random() % 2 ? cols : rows) + gap;
    if (line == cols + gap)
      row = line, col = 1, size = row * rows;
    else
      row = 1, col = line, size = col * cols;
    step = may_repeat && random() % 5 == 0 ? 0 : size + below(random, 3);
  }
  int64_t row = 0, col = 0, size = 0, step = 0;
};

template <class T>
std::vector<T> numbers(Random& random, int64_t count) {
  std::vector<T> made(size_t(count), T(0));
  for (T& x : made) {
    x = T(below(random, 4001) - 2000) / T(977);
    if (random() % 211 == 0) x = std::numeric_limits<T>::infinity();
    if (random() % 223 == 0) x = T(-0.0);
  }
  return made;
}

template <class T>
bool check(Random& random, int type, int engine) {
  const bool is_one = random() % 4 == 0;
  const int rows = is_one ? 1 : 1 + int(below(random, 9)),
            cols = is_one ? 1 : 1 + int(below(random, 9));
  const int depth = 1 + int(below(random, is_one ? 300 : 12));
  const int64_t count = 1 + below(random, 70);
  const Layout a(random, rows, depth, true), b(random, depth, cols, true),
      c(random, rows, cols, false);
  const auto x = numbers<T>(random, a.size + a.step * count);
  const auto y = numbers<T>(random, b.size + b.step * count);
  std::vector<T> many(size_t(c.size + c.step * count), T(7)), alone = many;
  pto_matmul_job job = {};
  job.engine = engine, job.precision = PTO_MATMUL_HIGHEST;
  job.rows = rows, job.cols = cols, job.depth = depth;
  job.a = pto_matmul_plain(x.data(), type, a.row, a.col);
  job.b = pto_matmul_plain(y.data(), type, b.row, b.col);
  job.c = pto_matmul_plain(many.data(), type, c.row, c.col);
  if (!pto_matmul_many(&job, count, a.step, b.step, c.step)) return false;
  for (int64_t i = 0; i < count; ++i) {
    job.a = pto_matmul_plain(x.data() + i * a.step, type, a.row, a.col);
    job.b = pto_matmul_plain(y.data() + i * b.step, type, b.row, b.col);
    job.c = pto_matmul_plain(alone.data() + i * c.step, type, c.row, c.col);
    EXPECT_EQ(pto_matmul(&job), 0);
  }
  for (size_t i = 0; i < many.size(); ++i) {
    const bool is_same = std::memcmp(&many[i], &alone[i], sizeof(T)) == 0;
    EXPECT_TRUE(is_same || (many[i] != many[i] && alone[i] != alone[i]))
        << "engine " << engine << ": " << count << " of " << rows << " x " << depth << " x " << cols
        << ", element " << i << ": " << many[i] << " for " << alone[i];
    if (testing::Test::HasFailure()) break;
  }
  return true;
}

TEST(MatmulMany, HasTheBitsOfAProductAfterTheOther) {
  Random random(1);
  int found = 0;
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AVX512; ++engine)
    for (int i = 0; i < rounds_of(400, 20000) && !HasFailure(); ++i) {
      found += check<float>(random, PTO_MATMUL_F32, engine);
      found += check<double>(random, PTO_MATMUL_F64, engine);
    }
  EXPECT_GT(found, 400) << "small matrices are done at once";
}

TEST(MatmulMany, LeavesLargerMatricesAndOtherTypesAlone) {
  std::vector<float> x(1 << 16);
  pto_matmul_job job = {};
  job.rows = job.cols = job.depth = 16;
  const auto matrix = [&](int type) { return pto_matmul_plain(x.data(), type, 16, 1); };
  job.a = job.b = job.c = matrix(PTO_MATMUL_F32);
  EXPECT_FALSE(pto_matmul_many(&job, 64, 256, 256, 256));
  job.rows = job.cols = job.depth = 2;
  job.a = job.b = matrix(PTO_MATMUL_BF16);
  EXPECT_FALSE(pto_matmul_many(&job, 64, 4, 4, 4));
}

}  // namespace
}  // namespace pto::matmul_many_test
