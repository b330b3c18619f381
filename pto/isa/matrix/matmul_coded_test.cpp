// SPDX-License-Identifier: Apache-2.0
// Products of floats with columns of 8 and 4 bits, through each engine of the CPU: the whole range
// of codes, rows of any type and layout, against chains of multiply-adds.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "pto/isa/cpu/matmul_job.hpp"
#include "pto/isa/element/numeric.hpp"
#include "tests/at_the_edge.hpp"
#include "tests/deep.hpp"

namespace pto::matmul_coded_test {
namespace {

using Random = std::mt19937;

int below(Random& random, int limit) { return static_cast<int>(random() % unsigned(limit)); }

// A row-major matrix whose elements are floats in a narrow type.
struct Floats {
  Floats(Random& random, int type, int rows, int cols, int apart = 0)
      : type(type), row(cols + apart) {
    for (int64_t i = 0; i <= rows * row; ++i) {
      float one = float(below(random, 2001) - 1000) / 256;
      if (type == PTO_MATMUL_BF16) {
        uint32_t bits;
        std::memcpy(&bits, &one, 4);
        bits &= 0xffff0000u;
        std::memcpy(&one, &bits, 4);
        narrow.push_back(uint16_t(bits >> 16));
      } else if (type == PTO_MATMUL_F16) {
        const isa::half half(one);
        one = float(half);
        narrow.push_back(isa::bit_cast<uint16_t>(half));
      }
      wide.push_back(one);
    }
  }
  float at(int i, int j) const { return wide[size_t(i * row + j)]; }
  pto_matmul_matrix matrix() {
    void* const data = type == PTO_MATMUL_F32 ? static_cast<void*>(wide.data())
                                              : static_cast<void*>(narrow.data());
    return {data, type, PTO_MATMUL_UNBOXED, PTO_MATMUL_UNBOXED, 0, 0, row, 1};
  }
  int type;
  int64_t row;
  std::vector<float> wide;
  std::vector<uint16_t> narrow;
};

// Columns as runs of codes, a column after the other; no byte behind the last one can be read.
struct Codes {
  Codes(Random& random, int bits, int depth, int cols, int apart)
      : bits(bits),
        column((depth * bits + 7) / 8 + apart),
        count(int(cols > 0 ? cols * column - apart : 0)),
        edge(1, count / 4 + 1, count / 4 + 1, 0),
        bytes(reinterpret_cast<uint8_t*>(edge.data() + count / 4 + 1) - count) {
    for (int i = 0; i < count; ++i) bytes[i] = uint8_t(random() % 5 ? random() : 0x80);
  }
  int at(int k, int j) const {
    const uint8_t byte = bytes[j * column + k * bits / 8];
    return bits == 8 ? int8_t(byte) : int8_t(byte << (k % 2 ? 0 : 4)) >> 4;
  }
  pto_matmul_matrix matrix() {
    return {bytes,
            bits == 8 ? PTO_MATMUL_I8 : PTO_MATMUL_I4X2,
            PTO_MATMUL_UNBOXED,
            PTO_MATMUL_UNBOXED,
            0,
            0,
            1,
            column * 8 / bits};
  }
  int bits;
  int64_t column;
  int count;
  AtTheEdge edge;
  uint8_t* bytes;
};

constexpr int kTypes[] = {PTO_MATMUL_F32, PTO_MATMUL_F16, PTO_MATMUL_BF16};

void check(Random& random, int bits, int rows, int depth, int cols, int group, bool packs) {
  Floats a(random, kTypes[below(random, 3)], rows, depth, below(random, 3));
  Codes b(random, bits, depth, cols, below(random, 2) * 3);
  const int groups = group ? depth / group : 1;
  Floats factor(random, kTypes[below(random, 3)], groups, cols, below(random, 3));
  Floats zero(random, kTypes[below(random, 3)], groups, cols);
  Floats c(random, PTO_MATMUL_F32, rows, cols, below(random, 3));
  const std::vector<float> before = c.wide;
  const bool has_start = random() % 2, has_zero = group && random() % 2;
  std::vector<float> wanted = before;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < cols; ++j) {
      float sum = has_start ? c.at(i, j) : 0;
      for (int k = 0; k < depth; ++k) {
        float weight = float(b.at(k, j));
        if (group)
          weight = std::fma(weight, factor.at(k / group, j), has_zero ? zero.at(k / group, j) : 0);
        sum = std::fma(a.at(i, k), weight, sum);
      }
      wanted[size_t(i * c.row + j)] = sum;
    }
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AMX; ++engine) {
    c.wide = before;
    pto_matmul_job job = {};
    job.engine = engine, job.rows = rows, job.depth = depth, job.cols = cols;
    job.a = a.matrix(), job.b = b.matrix(), job.c = c.matrix();
    if (has_start) job.start = job.c;
    job.b_group = group, job.b_factor = factor.matrix();
    if (has_zero) job.b_zero = zero.matrix();
    std::vector<char> packed;
    if (packs) {
      packed.assign(size_t(pto_matmul_packed_bytes(&job)) + 1, 77);
      job.packed = packed.data(), job.packs = 1;
      if (pto_matmul(&job) != 0) continue;
      ASSERT_EQ(packed.back(), 77) << "beyond what was promised";
      job.packs = 0, job.b.data = nullptr;
    }
    if (pto_matmul(&job) != 0) continue;
    ASSERT_EQ(0, std::memcmp(c.wide.data(), wanted.data(), wanted.size() * 4))
        << "engine " << engine << ": " << rows << " x " << depth << " x " << cols << ", group "
        << group;
  }
}

TEST(MatmulOfCodes, BytesCountAsTheirNumbersAndEveryEngineGivesTheSameBits) {
  Random random(1);
  for (int i = 0; i < rounds_of(150, 5000); ++i)
    ASSERT_NO_FATAL_FAILURE(check(random, 8, below(random, i % 8 ? 21 : 120),
                                  below(random, i % 8 ? 90 : 700), below(random, i % 8 ? 40 : 150),
                                  0, i % 4 == 0));
  ASSERT_NO_FATAL_FAILURE(check(random, 8, 3, 30011, 5, 0, false));
}

TEST(MatmulOfCodes, NibblesCountByTheFactorAndZeroOfTheirGroup) {
  Random random(2);
  for (int i = 0; i < rounds_of(150, 5000); ++i) {
    const int group = 32 << below(random, 3);
    ASSERT_NO_FATAL_FAILURE(check(random, 4, below(random, i % 8 ? 21 : 120),
                                  group * below(random, i % 8 ? 4 : 12),
                                  below(random, i % 8 ? 40 : 150), group, i % 4 == 0));
  }
  ASSERT_NO_FATAL_FAILURE(check(random, 4, 3, 128 * 200, 5, 128, false));
}

TEST(MatmulOfCodes, BytesInAnyLayoutCountTheSame) {
  Random random(3);
  for (int i = 0; i < rounds_of(40, 2000); ++i) {
    const int rows = below(random, 20), depth = below(random, 70), cols = below(random, 40);
    Floats a(random, PTO_MATMUL_F32, rows, depth);
    std::vector<int8_t> b(size_t(depth * cols) * 2 + 1);
    for (auto& byte : b) byte = int8_t(random());
    std::vector<float> sums(size_t(rows * cols) + 1);
    pto_matmul_job job = {};
    job.rows = rows, job.depth = depth, job.cols = cols;
    job.a = a.matrix();
    const int64_t step = 1 + below(random, 2);
    job.b = {b.data(),    PTO_MATMUL_I8, PTO_MATMUL_UNBOXED, PTO_MATMUL_UNBOXED, 0, 0,
             cols * step, step};
    job.c = {sums.data(), PTO_MATMUL_F32, PTO_MATMUL_UNBOXED, PTO_MATMUL_UNBOXED, 0, 0, cols, 1};
    ASSERT_EQ(pto_matmul(&job), 0);
    for (int row = 0; row < rows; ++row)
      for (int j = 0; j < cols; ++j) {
        float sum = 0;
        for (int k = 0; k < depth; ++k)
          sum = std::fma(a.at(row, k), float(b[size_t(k * cols + j) * size_t(step)]), sum);
        ASSERT_EQ(sums[size_t(row * cols + j)], sum);
      }
  }
}

// b lies as its transposition does in `check`: rows are runs, and groups are of columns.
void check_rows(Random& random, int bits, int rows, int depth, int cols, int group) {
  Floats a(random, kTypes[below(random, 3)], rows, depth, below(random, 3));
  Codes b(random, bits, cols, depth, below(random, 2) * 3);
  const int groups = group ? cols / group : 1;
  Floats factor(random, kTypes[below(random, 3)], groups, depth, below(random, 3));
  Floats zero(random, kTypes[below(random, 3)], groups, depth);
  const bool has_zero = group && random() % 2;
  std::vector<float> sums(size_t(rows) * size_t(cols) + 1), wanted = sums;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < cols; ++j) {
      float& sum = wanted[size_t(i) * size_t(cols) + size_t(j)];
      for (int k = 0; k < depth; ++k) {
        float weight = float(b.at(j, k));
        if (group)
          weight = std::fma(weight, factor.at(j / group, k), has_zero ? zero.at(j / group, k) : 0);
        sum = std::fma(a.at(i, k), weight, sum);
      }
    }
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AMX; ++engine) {
    pto_matmul_job job = {};
    job.engine = engine, job.rows = rows, job.depth = depth, job.cols = cols;
    job.a = a.matrix(), job.b = b.matrix();
    std::swap(job.b.row_stride, job.b.col_stride);
    job.c = {sums.data(), PTO_MATMUL_F32, PTO_MATMUL_UNBOXED, PTO_MATMUL_UNBOXED, 0, 0, cols, 1};
    job.b_group = group, job.b_factor = factor.matrix();
    if (has_zero) job.b_zero = zero.matrix();
    if (pto_matmul(&job) != 0) continue;
    for (size_t i = 0; i + 1 < sums.size(); ++i)
      ASSERT_EQ(sums[i], wanted[i])
          << "engine " << engine << ": " << rows << " x " << depth << " x " << cols << ", group "
          << group << ", row " << int(i) / cols << ", column " << int(i) % cols;
  }
}

TEST(MatmulOfCodes, RowsThatAreRunsCountAsColumnsDo) {
  Random random(4);
  for (int i = 0; i < rounds_of(100, 5000); ++i) {
    const int rows = below(random, i % 8 ? 21 : 120), depth = 2 + below(random, i % 8 ? 90 : 700);
    const int group = 32 << below(random, 3);
    ASSERT_NO_FATAL_FAILURE(check_rows(random, 8, rows, depth, below(random, 150), 0));
    ASSERT_NO_FATAL_FAILURE(check_rows(random, 4, rows, depth, group * below(random, 5), group));
  }
  ASSERT_NO_FATAL_FAILURE(check_rows(random, 4, 5, 3, 128 * 20, 128));
}

}  // namespace
}  // namespace pto::matmul_coded_test
