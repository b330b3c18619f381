// SPDX-License-Identifier: Apache-2.0
// Products of rows of floats that lie anywhere, against a plain loop of fused multiply-adds, bit by
// bit: each engine of libpto that this CPU has reads its operands where they lie, and no more.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "pto/isa/cpu/engine.hpp"
#include "pto/isa/cpu/matmul_job.hpp"
#include "tests/at_the_edge.hpp"
#include "tests/deep.hpp"

namespace pto::matmul_rows_test {
struct Sizes {
  int m, k, n;
};

pto_matmul_matrix matrix(const AtTheEdge& x) {
  return {x.data(), PTO_MATMUL_F32, PTO_MATMUL_UNBOXED, PTO_MATMUL_UNBOXED, 0, 0, x.stride(), 1};
}

void check_rows_of_floats(const Sizes& s, unsigned seed, int engine, bool has_start,
                          int apart = 5) {
  const bool is_turned = seed % 3 == 0;  // b's columns lie together, as a weight's rows do
  const bool is_left_turned = seed % 5 == 2;
  const AtTheEdge a(is_left_turned ? s.k : s.m, is_left_turned ? s.m : s.k,
                    (is_left_turned ? s.m : s.k) + seed % 3, seed);
  const AtTheEdge b(is_turned ? s.n : s.k, is_turned ? s.k : s.n, apart + (is_turned ? s.k : s.n),
                    seed);
  const AtTheEdge c(s.m, s.n, s.n + seed % 2, seed + 2), start(s.m, s.n, s.n, seed + 3);
  pto_matmul_job job = {};
  job.engine = engine;
  job.rows = s.m, job.depth = s.k, job.cols = s.n;
  job.a = matrix(a), job.b = matrix(b), job.c = matrix(c);
  if (is_turned) std::swap(job.b.row_stride, job.b.col_stride);
  if (is_left_turned) std::swap(job.a.row_stride, job.a.col_stride);
  if (has_start) job.start = matrix(start);
  pto_runs soon = {b.data(), 100, 300, int64_t(seed % 7), nullptr, 0, 0};
  if (seed % 2) job.soon = &soon, job.is_asked = seed % 4 == 1;
  if (pto_matmul(&job) != 0) return;
  for (int i = 0; i < s.m; ++i)
    for (int j = 0; j < s.n; ++j) {
      float sum = has_start ? start.at(i, j) : 0;
      for (int k = 0; k < s.k; ++k)
        sum = std::fma(is_left_turned ? a.at(k, i) : a.at(i, k),
                       is_turned ? b.at(j, k) : b.at(k, j), sum);
      ASSERT_EQ(sum, c.at(i, j)) << s.m << " x " << s.k << " x " << s.n << " engine " << engine
                                 << " at " << i << ", " << j;
    }
}

TEST(MatmulRows, ReadsRowsOfFloatsWhereTheyLieAndNothingBeyond) {
  unsigned n = 1;
  const auto below = [&n](unsigned limit) {
    n = n * 1664525u + 1013904223u;
    return int((n >> 8) % limit) + 1;
  };
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AVX512; ++engine)
    for (unsigned seed = 0; seed < 60; ++seed) {
      const Sizes sizes = {below(20), below(seed % 4 ? 40 : 300), below(seed % 5 ? 70 : 420)};
      ASSERT_NO_FATAL_FAILURE(check_rows_of_floats(sizes, seed, engine, seed % 2));
    }
  ASSERT_NO_FATAL_FAILURE(check_rows_of_floats({2, 9, 2100}, 7, PTO_MATMUL_BEST, true));
}

// Columns that fit a vector, of one and of more rows than fit the loops without panels.
TEST(MatmulRows, MultipliesTinyMatricesWithinTheirRows) {
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AVX512; ++engine)
    for (int rows = 1; rows <= 17; ++rows)
      for (const int cols : {1, 3, 8, 9, 16})
        for (const int depth : {1, 7, 64, 65})
          ASSERT_NO_FATAL_FAILURE(check_rows_of_floats({rows, depth, cols}, 4, engine, false));
}

// The least sizes at which rows of b pass by a few rows of a, and wider ones.
TEST(MatmulRows, StreamsByAFewRows) {
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AVX512; ++engine)
    for (const int rows : {1, 2, 3, 4, 5, 7, is_deep() ? 16 : 11})
      for (const int cols : {37, 7003 / rows}) {
        const int depth = 4096 * rows * rows / cols + 1 + rows % 3;
        const auto seed = unsigned(3 * cols + 1);  // b's rows lie together
        ASSERT_NO_FATAL_FAILURE(check_rows_of_floats({rows, depth, cols}, seed, engine, rows % 2));
      }
  for (const int rows : {1, 3, 5})  // by a b that no near cache holds
    ASSERT_NO_FATAL_FAILURE(check_rows_of_floats({rows, 2101, 1003}, 1, PTO_MATMUL_BEST, rows % 2));
}

// Rows of bytes, which lie four to a float at the end of accessible memory.
void check_rows_of_bytes(const Sizes& s, int engine, int a_type, int apart = 3) {
  const AtTheEdge a(s.m, (s.k + 3) / 4, (s.k + 3) / 4, 1), b(s.k, s.n / 4, s.n / 4 + apart, 2),
      c(s.m, s.n, s.n + 1, 3);
  const auto bytes = [](const AtTheEdge& x, int type) {
    return pto_matmul_matrix{x.data(), type, PTO_MATMUL_UNBOXED, PTO_MATMUL_UNBOXED,
                             0,        0,    4 * x.stride(),     1};
  };
  pto_matmul_job job = {};
  job.engine = engine;
  job.rows = s.m, job.depth = s.k, job.cols = s.n;
  job.a = bytes(a, a_type), job.b = bytes(b, PTO_MATMUL_I8), job.c = matrix(c);
  job.c.type = PTO_MATMUL_I32;
  const auto* const left = reinterpret_cast<const int8_t*>(a.data());
  const auto* const right = reinterpret_cast<const int8_t*>(b.data());
  if (pto_matmul(&job) != 0) return;
  for (int i = 0; i < s.m; ++i)
    for (int j = 0; j < s.n; ++j) {
      int32_t sum = 0;
      for (int k = 0; k < s.k; ++k) {
        const int8_t x = left[i * job.a.row_stride + k];
        sum +=
            (a_type == PTO_MATMUL_I8 ? int(x) : int(uint8_t(x))) * right[k * job.b.row_stride + j];
      }
      int32_t found = 0;
      const float at = c.at(i, j);
      std::memcpy(&found, &at, sizeof found);
      ASSERT_EQ(sum, found) << s.m << " x " << s.k << " x " << s.n << " engine " << engine;
    }
}

// Rows of b that are long enough to pass by, and shorter ones.
TEST(MatmulRows, StreamsBytesByAFewRows) {
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AVX512_VNNI; ++engine)
    for (const int rows : {1, 3, 6, 8, 13, 17})
      for (const Sizes b : {Sizes{0, 259, 2052}, Sizes{0, 128, 4096}, Sizes{0, 300, 36},
                            Sizes{0, 67, 64}, Sizes{0, 65, 200}}) {
        if (!is_deep() && (rows % 2 == 0 || rows > 16) && b.k == 128) continue;
        const Sizes sizes = {rows, b.k, b.n};
        ASSERT_NO_FATAL_FAILURE(check_rows_of_bytes(sizes, engine, PTO_MATMUL_I8));
        ASSERT_NO_FATAL_FAILURE(check_rows_of_bytes(sizes, engine, PTO_MATMUL_U8));
      }
  for (int rows = 1; rows <= 7; ++rows)  // by a b without gaps
    for (const int cols : {64, 200, 768})
      ASSERT_NO_FATAL_FAILURE(
          check_rows_of_bytes({rows, 67, cols}, PTO_MATMUL_AVX512_VNNI, PTO_MATMUL_I8, 0));
  for (const int rows : {1, 5, 6})  // runs that are too long for the first cache, and blocks
    for (const int cols : {4224, 8264})
      ASSERT_NO_FATAL_FAILURE(
          check_rows_of_bytes({rows, 43, cols}, PTO_MATMUL_AVX512_VNNI, PTO_MATMUL_I8));
  for (const int rows : {32, 33, 96})  // by a b from far
    ASSERT_NO_FATAL_FAILURE(
        check_rows_of_bytes({rows, 515, 2052}, PTO_MATMUL_AVX512_VNNI, PTO_MATMUL_I8));
}

// How b of bf16 lies: its rows, or else columns, so many floats of two apart.
struct Way {
  int engine = PTO_MATMUL_AVX512_BF16, apart = 3;
  bool has_columns = false;
};

// Compares a few rows with the same ones of many, bit by bit; of bf16, two to a float.
void check_rows_of_pairs(int rows, int depth, int cols, int c_type, const Way& way = {}) {
  constexpr int kMany = 2 * PTO_MATMUL_FEW_ROWS + 1;
  const int runs = way.has_columns ? cols : depth, run = (way.has_columns ? depth + 1 : cols) / 2;
  const AtTheEdge a(kMany, (depth + 1) / 2, (depth + 1) / 2 + way.apart % 2, 1),
      b(runs, run, run + way.apart, 2), few(rows, cols, cols + 2, 3), many(kMany, cols, cols, 4);
  const auto pairs = [](const AtTheEdge& x, int type) {
    pto_matmul_matrix m = matrix(x);
    if (type == PTO_MATMUL_BF16) m.type = type, m.row_stride *= 2;
    return m;
  };
  pto_matmul_job job = {};
  job.engine = way.engine;
  job.rows = rows, job.depth = depth, job.cols = cols;
  job.a = pairs(a, PTO_MATMUL_BF16), job.b = pairs(b, PTO_MATMUL_BF16), job.c = pairs(few, c_type);
  if (way.has_columns) std::swap(job.b.row_stride, job.b.col_stride);
  if (pto_matmul(&job) != 0) return;
  job.rows = kMany, job.c = pairs(many, c_type);
  ASSERT_EQ(pto_matmul(&job), 0);
  const size_t bytes = size_t(cols) * (c_type == PTO_MATMUL_BF16 ? 2 : 4);
  for (int i = 0; i < rows; ++i)
    ASSERT_EQ(std::memcmp(few.data() + i * few.stride(), many.data() + i * many.stride(), bytes), 0)
        << rows << " x " << depth << " x " << cols << ", row " << i << ", engine " << way.engine;
}
TEST(MatmulRows, StreamsPairsByAFewRowsAsManyRowsPassPanels) {
  for (const int type : {PTO_MATMUL_F32, PTO_MATMUL_BF16})
    for (const int rows : {1, 2, 3, 4, 7, 11, 16, 28})
      for (const int cols : {256, 300, 578})
        for (const int depth : {33, 64, 130})
          for (const int apart : {0, 3}) {
            const Way way = {PTO_MATMUL_AVX512_BF16, apart};
            ASSERT_NO_FATAL_FAILURE(check_rows_of_pairs(rows, depth, cols, type, way));
          }
  for (const int rows : {1, 6, 8, 9})  // runs that are too long for the first cache, and blocks
    for (const int cols : {2112, 4230})
      ASSERT_NO_FATAL_FAILURE(check_rows_of_pairs(rows, 77, cols, PTO_MATMUL_F32));
}

// Sizes beyond a block of the loops: of rows and columns, and of the depth.
TEST(MatmulRows, CrossesItsBlocksWithRowsOfFloats) {
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AVX512; ++engine)
    for (unsigned seed = 0; seed < 3; ++seed) {  // b's columns lie together in the first
      ASSERT_NO_FATAL_FAILURE(check_rows_of_floats({205, 23, 1100}, seed, engine, seed % 2));
      ASSERT_NO_FATAL_FAILURE(check_rows_of_floats({13, 1030, 37}, seed, engine, seed % 2));
    }
}

// Rows of a of 4 KB, which share sets of a cache, by few columns and by many; and other rows.
TEST(MatmulRows, ReadsManyRowsOfFloatsAtAnyDistance) {
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AVX512; ++engine)
    for (const Sizes sizes : {Sizes{130, 1023, 60}, Sizes{130, 1023, 530}, Sizes{160, 1000, 70}})
      ASSERT_NO_FATAL_FAILURE(check_rows_of_floats(sizes, 1, engine, sizes.n == 60));
}

// A few rows by keys (columns) and values (rows) of one of several heads, of any width.
TEST(MatmulRows, AFewReadRowsAndColumnsThatLieApart) {
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AVX512; ++engine)
    for (int rows = 1; rows <= 17; ++rows)
      for (const int length : {16, 64, 40, 100, 128, 256, 272}) {
        const int count = rows * 37 % 61 + (length == 64 ? 0 : 4), apart = length + rows % 3;
        const Sizes keys = {rows, length, count}, values = {rows, count, length};
        const auto seed = unsigned(3 * (rows + length));  // b's columns lie together
        ASSERT_NO_FATAL_FAILURE(check_rows_of_floats(keys, seed, engine, false, apart));
        ASSERT_NO_FATAL_FAILURE(check_rows_of_floats(values, seed + 1, engine, rows == 5, apart));
      }
}

// The same in bf16, with odd numbers of values too.
TEST(MatmulRows, AFewReadPairsThatLieApartAsManyRowsPassPanels) {
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AVX512_BF16; ++engine)
    for (int rows = 1; rows <= PTO_MATMUL_FEW_ROWS; rows += is_deep() ? 1 : 3)
      for (const int length : {16, 80, 128, 256})
        for (const int count : {3, 7, 16, 61, 130}) {
          const Way keys = {engine, length + count % 3, true}, values = {engine, length, false};
          ASSERT_NO_FATAL_FAILURE(check_rows_of_pairs(rows, length, count, PTO_MATMUL_F32, keys));
          ASSERT_NO_FATAL_FAILURE(check_rows_of_pairs(rows, count, length, PTO_MATMUL_F32, values));
        }
}

// The loops of few rows ask for all of it, however much that is; others leave it to the next ones.
TEST(MatmulRows, AFewRowsByWhatLiesApartAskForWhatComesNext) {
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AVX512; ++engine)
    for (const int rows : {1, 8, 16, 17})
      for (const bool by_columns : {false, true})
        for (const int64_t count : {1, 128, 5000}) {
          const int depth = by_columns ? 128 : 100, cols = by_columns ? 100 : 128;
          const AtTheEdge a(rows, depth, depth, 1), b(100, 128, 512, 2), c(rows, cols, cols, 3);
          pto_runs soon = {b.data(), 2048, 512, count, nullptr, 0, 0};
          pto_matmul_job job = {};
          job.engine = engine;
          job.rows = rows, job.depth = depth, job.cols = cols;
          job.a = matrix(a), job.b = matrix(b), job.c = matrix(c), job.soon = &soon;
          if (by_columns) std::swap(job.b.row_stride, job.b.col_stride);
          if (pto_matmul(&job) != 0) continue;
          EXPECT_EQ(soon.count, rows <= PTO_MATMUL_FEW_ROWS ? 0 : count)
              << rows << " rows, engine " << engine << ", by columns " << by_columns;
        }
}

// Keys, or values, of the second of two heads in pages of so many rows, the last one first.
struct Paged {
  int per_page, count, length;
  bool has_columns, is_short;  // keys; numbers of 32 bits
};

// Compares a product whose b lies in pages with that of b in one piece, bit by bit. `type`: of b.
void check_pages(int rows, const Paged& x, int a_type, int type, int engine) {
  const int pages = (x.count + x.per_page - 1) / x.per_page, row = 2 * x.length;
  const int item = type == PTO_MATMUL_I8 ? 1 : type == PTO_MATMUL_BF16 ? 2 : 4;
  const size_t page = size_t(x.per_page * row * item);
  const auto floats = [&](unsigned seed) {
    return AtTheEdge(pages, int(page / 4), int64_t(page / 4), seed);
  };
  const AtTheEdge whole = floats(1), apart = floats(2), copy = floats(3);
  std::vector<int64_t> places;
  for (int i = 0; i < pages; ++i) {
    places.push_back(pages - 1 - i);
    std::memcpy(apart.data() + size_t(places[size_t(i)]) * page / 4,
                whole.data() + size_t(i) * page / 4, page);
  }
  const std::vector<int32_t> shorts(places.begin(), places.end());
  const int depth = x.has_columns ? x.length : x.count, cols = x.has_columns ? x.count : x.length;
  const AtTheEdge a(rows, depth, depth, 4), want(rows, cols, cols, 5), got(rows, cols, cols, 6);
  pto_matmul_job job = {};
  job.engine = engine;
  job.rows = rows, job.depth = depth, job.cols = cols;
  job.a = matrix(a), job.b = matrix(whole), job.c = matrix(want);
  job.a.type = a_type, job.b.type = type;
  job.b.row_stride = row;
  if (x.has_columns) std::swap(job.b.row_stride, job.b.col_stride);
  const auto at_head = [&](const AtTheEdge& b) {
    return reinterpret_cast<char*>(b.data()) + x.length * item;
  };
  job.b.data = at_head(whole);
  if (pto_matmul(&job) != 0) return;
  pto_pages in = {copy.data(),
                  {apart.data(), int64_t(page), int64_t(page), pages, places.data(), 8, 0}};
  if (x.is_short) in.runs.places = shorts.data(), in.runs.place_bytes = 4;
  job.b.data = at_head(copy), job.c = matrix(got), job.b_pages = &in;
  ASSERT_EQ(pto_matmul(&job), 0);
  ASSERT_EQ(std::memcmp(want.data(), got.data(), size_t(rows * cols) * 4), 0)
      << rows << " rows, " << x.count << " of " << x.length << " in pages of " << x.per_page
      << ", columns " << x.has_columns << ", types " << a_type << " and " << type << ", engine "
      << engine;
}

TEST(MatmulRows, ReadPagesAsTheyReadOnePiece) {
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AVX512_BF16; ++engine)
    for (const auto& [a_type, type] : {std::pair{PTO_MATMUL_F32, PTO_MATMUL_F32},
                                       {PTO_MATMUL_BF16, PTO_MATMUL_BF16},
                                       {PTO_MATMUL_F32, PTO_MATMUL_I8},
                                       {PTO_MATMUL_BF16, PTO_MATMUL_I8}})
      for (const int rows : {1, 4, 9, 16, 17})
        for (const int length : {16, 40, 128})
          for (const Paged& x : {Paged{16, 64, length, true, false},
                                 {16, 61, length, true, true},
                                 {128, 100, length, true, false},
                                 {3, 40, length, true, false},
                                 {16, 64, length, false, true},
                                 {16, 61, length, false, false},
                                 {128, 101, length, false, false},
                                 {3, 40, length, false, false}})
            ASSERT_NO_FATAL_FAILURE(check_pages(rows, x, a_type, type, engine));
}

// A few rows by bytes of one of two heads, as by the numbers that they are.
void check_bytes(int rows, int length, int count, bool has_columns, int type, int engine) {
  const int row = 2 * length, item = type == PTO_MATMUL_BF16 ? 2 : 4;
  const int depth = has_columns ? length : count, cols = has_columns ? count : length;
  std::vector<int8_t> bytes(size_t(row * count));
  std::vector<float> floats;
  std::vector<uint16_t> halves;  // the upper ones of floats: bf16
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = int8_t(i * 89 % 256 - 128);
    floats.push_back(float(bytes[i]));
    uint16_t half[2];
    std::memcpy(half, &floats.back(), sizeof half);
    halves.push_back(half[1]);
  }
  const AtTheEdge a(rows, depth, depth, 4), want(rows, cols, cols, 5), got(rows, cols, cols, 6);
  void* const numbers = item == 2 ? static_cast<void*>(halves.data()) : floats.data();
  for (const bool has_bytes : {false, true}) {
    pto_matmul_job job = {};
    job.engine = engine;
    job.rows = rows, job.depth = depth, job.cols = cols;
    job.a = matrix(a), job.c = matrix(has_bytes ? got : want);
    job.a.type = type;
    job.b = has_bytes ? pto_matmul_plain(bytes.data() + length, PTO_MATMUL_I8, row, 1)
                      : pto_matmul_plain(static_cast<char*>(numbers) + length * item, type, row, 1);
    if (has_columns) std::swap(job.b.row_stride, job.b.col_stride);
    if (pto_matmul(&job) != 0) return;
  }
  ASSERT_EQ(std::memcmp(want.data(), got.data(), size_t(rows * cols) * 4), 0)
      << rows << " rows, " << count << " of " << length << ", columns " << has_columns << ", type "
      << type << ", engine " << engine;
}

TEST(MatmulRows, AFewReadBytesThatLieApartAsTheirNumbers) {
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AVX512_BF16; ++engine)
    for (const int type : {PTO_MATMUL_F32, PTO_MATMUL_BF16})
      for (const int rows : {1, 3, 4, 9, 16, 17})
        for (const int length : {16, 40, 80, 128, 256})
          for (const int count : {1, 4, 37, 130})
            for (const bool has_columns : {false, true})
              ASSERT_NO_FATAL_FAILURE(check_bytes(rows, length, count, has_columns, type, engine));
}

// Each of several products asks for its share of what comes next, also within a run.
TEST(MatmulRows, ProductsShareWhatTheyAskFor) {
  const AtTheEdge a(4, 128, 128, 1), b(100, 128, 512, 2), c(4, 128, 128, 3);
  const std::vector<int32_t> places = {3, 0, 2};
  for (const bool has_places : {false, true}) {
    pto_runs soon = {b.data(), 32768, 32768, 3, has_places ? places.data() : nullptr, 4, 0};
    int64_t left = 3 * 32768;
    for (int parts = 4; parts > 0; --parts) {
      pto_matmul_job job = {};
      job.rows = 4, job.depth = 100, job.cols = 128;
      job.a = matrix(a), job.b = matrix(b), job.c = matrix(c);
      job.soon = &soon, job.soon_parts = parts;
      ASSERT_EQ(pto_matmul(&job), 0);
      const int64_t now = soon.count * soon.bytes - soon.begin;
      EXPECT_LT(now, left) << parts << " parts";
      EXPECT_TRUE(parts == 1 || now > 0) << parts << " parts";
      left = now;
    }
    EXPECT_EQ(soon.count, 0);
  }
}

}  // namespace pto::matmul_rows_test
