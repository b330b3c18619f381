// SPDX-License-Identifier: Apache-2.0
// Products of floats with columns of 8 and 4 bits, through each engine of the CPU and an emulation
// of AVX512_BF16: the whole range of codes, rows of any type and layout, against plain chains.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "pto/isa/cpu/engine.hpp"
#include "pto/isa/cpu/matmul_types.hpp"
#include "pto/isa/element/numeric.hpp"
#include "tests/at_the_edge.hpp"
#include "tests/deep.hpp"
#include "tests/tile_emulation.hpp"

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

// Engines of a job: those of libpto, and the emulation where a is bf16.
constexpr int kEmulation = PTO_MATMUL_AMX + 1;
bool has_pairs(const pto_matmul_job& job) {
  return job.engine == kEmulation || engine_of(job) == PTO_MATMUL_AVX512_BF16;
}
int run(const pto_matmul_job& job) {
  if (job.engine != kEmulation) return pto_matmul(&job);
  if (job.a.type != PTO_MATMUL_BF16 || job.rows <= 0 || job.cols <= 0) return 1;
  isa::matmul::run_pairs<EmulatedPairs>(job);
  return 0;
}

// Adds a pair of each operand to a sum, given as floats that are exact in bf16.
float with_pair(float sum, float a0, float a1, float b0, float b1) {
  const auto pair = [](float low, float high) {
    return isa::bit_cast<uint32_t>(low) >> 16 | isa::bit_cast<uint32_t>(high);
  };
  return added_pair(sum, pair(a0, a1), pair(b0, b1));
}

// A product, and what each element of it is.
struct Codings {
  Codings(Random& random, int bits, int rows, int depth, int cols, int group)
      : depth(depth),
        group(group),
        a(random, kTypes[below(random, 3)], rows, depth, below(random, 3)),
        b(random, bits, depth, cols, below(random, 2) * 3),
        factor(random, kTypes[below(random, 3)], group ? depth / group : 1, cols, below(random, 3)),
        zero(random, kTypes[below(random, 3)], group ? depth / group : 1, cols),
        c(random, PTO_MATMUL_F32, rows, cols, below(random, 3)),
        bias(random, PTO_MATMUL_F32, 1, cols),
        has_start(random() % 2),
        has_zero(group && random() % 2),
        has_bias(random() % 4 == 0) {}

  float zero_of(int k, int j) const { return has_zero ? zero.at(k / group, j) : 0; }
  float start(int i, int j) const { return has_start ? c.at(i, j) : 0; }

  float chain(int i, int j) const {
    float sum = start(i, j);
    for (int k = 0; k < depth; ++k) {
      float weight = float(b.at(k, j));
      if (group) weight = std::fma(weight, factor.at(k / group, j), zero_of(k, j));
      sum = std::fma(a.at(i, k), weight, sum);
    }
    return sum;
  }
  float pairs(int i, int j) const {
    float sum = start(i, j);
    for (int k = 0; k < depth && !group; k += 2) {
      const bool is_whole = k + 1 < depth;
      sum = with_pair(sum, a.at(i, k), is_whole ? a.at(i, k + 1) : 0, float(b.at(k, j)),
                      is_whole ? float(b.at(k + 1, j)) : 0);
    }
    for (int first = 0; first < depth && group; first += group) {
      float here = 0;
      for (int k = first; k < first + group; k += k % 8 == 3 ? 5 : 1)
        here =
            with_pair(here, a.at(i, k), a.at(i, k + 4), float(b.at(k, j)), float(b.at(k + 4, j)));
      sum = std::fma(here, factor.at(first / group, j), sum);
      if (has_zero) sum = std::fma(row_sum(i, first), zero_of(first, j), sum);
    }
    return sum;
  }
  // Sums up a row of a in a group: sixteen chains, halved by adding.
  float row_sum(int i, int first) const {
    float chains[16] = {};
    for (int k = 0; k < group; ++k) chains[k % 16] += a.at(i, first + k);
    for (int l = 0; l < 8; ++l) chains[l] = chains[2 * l] + chains[2 * l + 1];
    for (int half = 4; half > 0; half /= 2)
      for (int l = 0; l < half; ++l) chains[l] += chains[l + half];
    return chains[0];
  }
  // True where a sum is as near to the product as docs/products.md has it.
  bool is_near(float sum, int i, int j) const {
    double exact = start(i, j), all = std::fabs(exact);
    for (int k = 0; k < depth; ++k) {
      const double number = b.at(k, j) * (group ? double(factor.at(k / group, j)) : 1.0);
      const double given = group ? zero_of(k, j) : 0;
      exact += a.at(i, k) * (number + given);
      all += std::fabs(a.at(i, k)) * (std::fabs(number) + std::fabs(given));
    }
    return std::fabs(sum - exact) <= (1.1 * depth + 4) * 0x1p-23 * all;
  }

  const int depth, group;
  Floats a;
  Codes b;
  Floats factor, zero, c, bias;
  const bool has_start, has_zero, has_bias;
};

void check(Random& random, int bits, int rows, int depth, int cols, int group, bool packs) {
  Codings p(random, bits, rows, depth, cols, group);
  const std::vector<float> before = p.c.wide;
  std::vector<float> wanted[2] = {before, before};
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < cols; ++j) {
      const float bias = p.has_bias ? p.bias.at(0, j) : 0;
      wanted[0][size_t(i * p.c.row + j)] = p.chain(i, j) + bias;
      if (p.a.type != PTO_MATMUL_BF16) continue;
      const float sum = p.pairs(i, j);
      ASSERT_TRUE(p.is_near(sum, i, j)) << sum << " of depth " << depth;
      wanted[1][size_t(i * p.c.row + j)] = sum + bias;
    }
  for (int engine = PTO_MATMUL_PORTABLE; engine <= kEmulation; ++engine) {
    p.c.wide = before;
    pto_matmul_job job = {};
    job.engine = engine, job.rows = rows, job.depth = depth, job.cols = cols;
    job.a = p.a.matrix(), job.b = p.b.matrix(), job.c = p.c.matrix();
    if (p.has_start) job.start = job.c;
    if (p.has_bias) job.bias = p.bias.matrix();
    job.b_group = group, job.b_factor = p.factor.matrix();
    if (p.has_zero) job.b_zero = p.zero.matrix();
    std::vector<char> packed;
    if (packs) {
      pto_matmul_job best = job;
      best.engine = PTO_MATMUL_BEST;
      packed.assign(size_t(pto_matmul_packed_bytes(&best)) + 1, 77);
      job.packed = packed.data(), job.packs = 1;
      if (run(job) != 0) continue;
      ASSERT_EQ(packed.back(), 77) << "beyond what was promised";
      job.packs = 0, job.b.data = nullptr;
    }
    if (run(job) != 0) continue;
    const std::vector<float>& all = wanted[has_pairs(job)];
    ASSERT_EQ(0, std::memcmp(p.c.wide.data(), all.data(), all.size() * 4))
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
  for (int i = 0; i < 4; ++i)  // more than are packed at once, of any type
    ASSERT_NO_FATAL_FAILURE(check(random, 8, 140, 2307, 5, 0, i % 2));
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
  for (int i = 0; i < 4; ++i) ASSERT_NO_FATAL_FAILURE(check(random, 4, 140, 32 * 75, 5, 32, i % 2));
}

TEST(MatmulOfCodes, AFewRowsReadManyColumns) {
  Random random(5);
  for (int rows = 1; rows <= 4; ++rows)
    for (int i = 0; i < rounds_of(6, 100); ++i) {
      ASSERT_NO_FATAL_FAILURE(check(random, 8, rows, below(random, 600), 300, 0, i % 2));
      ASSERT_NO_FATAL_FAILURE(check(random, 4, rows, 64 * below(random, 9), 300, 64, i % 2));
    }
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
  std::vector<float> sums(size_t(rows) * size_t(cols) + 1), wanted[2] = {sums, sums};
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < cols; ++j) {
      const size_t at = size_t(i) * size_t(cols) + size_t(j);
      for (int k = 0; k < depth; ++k) {
        float weight = float(b.at(j, k));
        if (group)
          weight = std::fma(weight, factor.at(j / group, k), has_zero ? zero.at(j / group, k) : 0);
        wanted[0][at] = std::fma(a.at(i, k), weight, wanted[0][at]);
        if (k % 2 == 0 && k + 1 < depth)
          wanted[1][at] = with_pair(wanted[1][at], a.at(i, k), a.at(i, k + 1), float(b.at(j, k)),
                                    float(b.at(j, k + 1)));
        else if (k % 2 == 0)
          wanted[1][at] = with_pair(wanted[1][at], a.at(i, k), 0, float(b.at(j, k)), 0);
      }
    }
  for (int engine = PTO_MATMUL_PORTABLE; engine <= (group ? PTO_MATMUL_AMX : kEmulation);
       ++engine) {
    pto_matmul_job job = {};
    job.engine = engine, job.rows = rows, job.depth = depth, job.cols = cols;
    job.a = a.matrix(), job.b = b.matrix();
    std::swap(job.b.row_stride, job.b.col_stride);
    job.c = {sums.data(), PTO_MATMUL_F32, PTO_MATMUL_UNBOXED, PTO_MATMUL_UNBOXED, 0, 0, cols, 1};
    job.b_group = group, job.b_factor = factor.matrix();
    if (has_zero) job.b_zero = zero.matrix();
    if (run(job) != 0) continue;
    for (size_t i = 0; i + 1 < sums.size(); ++i)
      ASSERT_EQ(sums[i], wanted[has_pairs(job)][i])
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
