// SPDX-License-Identifier: Apache-2.0
// Products of integers and of doubles, through each engine of the CPU: the full range of each type,
// rows and columns in any layout, against plain sums.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "pto/isa/cpu/matmul_job.hpp"
#include "tests/deep.hpp"

namespace pto::matmul_test {
namespace {

template <class T>
constexpr int kType = std::is_same_v<T, int8_t>    ? PTO_MATMUL_I8
                      : std::is_same_v<T, uint8_t> ? PTO_MATMUL_U8
                      : std::is_same_v<T, int16_t> ? PTO_MATMUL_I16
                      : std::is_same_v<T, int32_t> ? PTO_MATMUL_I32
                      : std::is_same_v<T, int64_t> ? PTO_MATMUL_I64
                                                   : PTO_MATMUL_F64;
using Random = std::mt19937;

int below(Random& random, int limit) { return static_cast<int>(random() % unsigned(limit)); }

template <class T>
T element(Random& random) {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(below(random, 2001) - 1000) / 7;
  else  // the least number often, where products are widest
    return random() % 4 ? static_cast<T>(uint64_t(random()) << 32 ^ random())
                        : std::numeric_limits<T>::min();
}

// Rows lie together, or columns, or no two elements.
template <class T>
struct Stored {
  Stored(Random& random, int rows, int cols) {
    const int step = below(random, 3) ? 1 : 2, apart = below(random, 4);
    const bool is_turned = random() % 2;
    row = is_turned ? step : int64_t(cols) * step + apart;
    col = is_turned ? int64_t(rows) * step + apart : step;
    elements.resize(size_t(rows * row + cols * col + 1));
    for (T& one : elements) one = element<T>(random);
  }
  T& at(int i, int j) { return elements[size_t(i * row + j * col)]; }
  pto_matmul_matrix matrix() {
    return {elements.data(), kType<T>, PTO_MATMUL_UNBOXED, PTO_MATMUL_UNBOXED, 0, 0, row, col};
  }
  int64_t row, col;
  std::vector<T> elements;
};

template <class A, class B, class C>
C plain(Stored<A>& a, Stored<B>& b, int i, int j, int depth, C start) {
  if constexpr (std::is_floating_point_v<C>) {
    for (int k = 0; k < depth; ++k) start = std::fma(a.at(i, k), b.at(k, j), start);
    return start;
  } else {
    auto sum = static_cast<uint64_t>(start);
    for (int k = 0; k < depth; ++k)
      sum += static_cast<uint64_t>(a.at(i, k)) * static_cast<uint64_t>(b.at(k, j));
    return static_cast<C>(sum);
  }
}

template <class T>
T total(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a + b;
  else
    return static_cast<T>(uint64_t(a) + uint64_t(b));
}

template <class A, class B, class C>
void check(Random& random, int rows, int depth, int cols, bool packs) {
  Stored<A> a(random, rows, depth);
  Stored<B> b(random, depth, cols);
  Stored<C> c(random, rows, cols), bias(random, 1, cols);
  const bool has_start = random() % 2, has_bias = random() % 2;
  const std::vector<C> before = c.elements;
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AMX; ++engine) {
    c.elements = before;
    pto_matmul_job job = {};
    job.engine = engine, job.rows = rows, job.depth = depth, job.cols = cols;
    job.a = a.matrix(), job.b = b.matrix(), job.c = c.matrix();
    if (has_start) job.start = job.c;
    if (has_bias) job.bias = bias.matrix();
    std::vector<char> packed;
    if (packs) {
      packed.assign(size_t(pto_matmul_packed_bytes(&job)) + 1, 77);
      job.packed = packed.data(), job.packs = 1;
      if (pto_matmul(&job) != 0) continue;
      ASSERT_EQ(c.elements, before);
      ASSERT_EQ(packed.back(), 77) << "beyond what was promised";
      job.packs = 0, job.b.data = nullptr;
    }
    if (pto_matmul(&job) != 0) continue;
    std::vector<C> wanted = before;
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < cols; ++j) {
        C& to = wanted[size_t(i * c.row + j * c.col)];
        to = plain<A, B, C>(a, b, i, j, depth, has_start ? to : C(0));
        if (has_bias) to = total(to, bias.at(0, j));
      }
    ASSERT_EQ(c.elements, wanted) << "engine " << engine << ": " << rows << " x " << depth << " x "
                                  << cols;
  }
}

// Small sizes of all kinds; a few that cross the blocks of the loops.
template <class A, class B, class C>
void check_sizes(unsigned seed, bool packs = false) {
  Random random(seed);
  const int rounds = rounds_of(60, 3000);
  for (int i = 0; i < rounds; ++i)
    ASSERT_NO_FATAL_FAILURE((check<A, B, C>(random, below(random, 21), below(random, 40),
                                            below(random, i % 8 ? 21 : 120), packs)));
  ASSERT_NO_FATAL_FAILURE((check<A, B, C>(random, 211, 37, 41, packs)));
  ASSERT_NO_FATAL_FAILURE((check<A, B, C>(random, 3, 2111, 13, packs)));
  ASSERT_NO_FATAL_FAILURE((check<A, B, C>(random, 2, 19, 1103, false)));
}

TEST(MatmulOfBytes, IsExactForEachPairOfSigns) {
  check_sizes<int8_t, int8_t, int32_t>(1);
  check_sizes<uint8_t, int8_t, int32_t>(2);
  check_sizes<int8_t, uint8_t, int32_t>(3);
  check_sizes<uint8_t, uint8_t, int32_t>(4);
}

TEST(MatmulOfWhole, ReadsPackedColumnsAsThoseThatTheyWerePackedFrom) {
  check_sizes<int8_t, int8_t, int32_t>(5, true);
  check_sizes<int8_t, uint8_t, int32_t>(6, true);
  check_sizes<int16_t, int16_t, int32_t>(11, true);
  check_sizes<int64_t, int64_t, int64_t>(12, true);
  check_sizes<double, double, double>(13, true);
}

TEST(MatmulOfIntegers, Wraps) {
  check_sizes<int16_t, int16_t, int32_t>(7);
  check_sizes<int32_t, int32_t, int32_t>(8);
  check_sizes<int64_t, int64_t, int64_t>(9);
}

TEST(MatmulOfDoubles, IsAChainOfFusedMultiplyAdds) { check_sizes<double, double, double>(10); }

}  // namespace
}  // namespace pto::matmul_test
