// SPDX-License-Identifier: Apache-2.0
// Products of floats by parts of bf16, by an emulation of the tile operations: the parts
// themselves, all layouts, tails, packing and blocks against a plain loop, bit by bit, and errors
// against sums in double.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "pto/isa/cpu/matmul_types.hpp"
#include "pto/isa/cpu/split_product.hpp"
#include "tests/deep.hpp"
#include "tests/matmul_cases.hpp"
#include "tests/tile_emulation.hpp"

namespace pto::split_test {
using namespace isa;

constexpr int kPrecisions[] = {PTO_MATMUL_HIGHEST, PTO_MATMUL_HIGH, PTO_MATMUL_MEDIUM};

void run(const pto_matmul_job& job) {
  matmul::run_split<EmulatedTiles>(job);
  EXPECT_TRUE(EmulatedTiles::is_released());
}

// The nearest bf16, of two the one away from zero.
float nearest(float x) { return bit_cast<float>((bit_cast<uint32_t>(x) + 0x8000u) & 0xffff0000u); }
float part_of(float x, int part) {
  for (int i = 0; i < part; ++i) x -= nearest(x);
  return nearest(x);
}
bool is_awkward(float x) { return x != 0 && !(std::fabs(x) >= 0x1p-50f && std::fabs(x) < 0x1p47f); }

TEST(Split, ThreePartsAreTheFloatAndNormal) {
  Random r{1};
  for (int i = 0; i < rounds_of(20000, 2000000); ++i) {
    const uint32_t bits = uint32_t(r.below(1 << 16)) << 16 | uint32_t(r.below(1 << 16));
    const auto x = bit_cast<float>(bits);
    if (is_awkward(x)) continue;
    const float first = part_of(x, 0), second = part_of(x, 1), third = part_of(x, 2);
    ASSERT_EQ(double(first) + double(second) + double(third), double(x)) << std::hexfloat << x;
    for (const float part : {first, second, third})
      ASSERT_EQ(part, without_subnormal(part)) << std::hexfloat << x;
  }
}

// The plain loop: in each 32 of depth the products of parts in turn, each as two chains.
struct Wanted {
  using Product = Matmul<float, float>;
  int parts;
  bool is_turned;
  std::vector<float> a, b;       // [line][k][part]
  std::vector<bool> rows, cols;  // flagged
  int depth;

  Wanted(const Product& p, int precision, bool turned)
      : parts(matmul::split_parts(precision)), is_turned(turned), depth(p.sizes.k) {
    const auto add = [this](std::vector<float>& all, std::vector<bool>& flags, int lines, auto at) {
      for (int i = 0; i < lines; ++i) {
        flags.push_back(false);
        for (int k = 0; k < depth; ++k) {
          const float x = at(i, k);
          if (parts > 1 && is_awkward(x)) flags.back() = true;
          for (int s = 0; s < 3; ++s)
            all.push_back(parts == 1 ? float(bfloat16_t(x)) : part_of(x, s));
        }
      }
    };
    add(a, rows, p.sizes.m, [&](int i, int k) { return p.a.at(i, k); });
    add(b, cols, p.sizes.n, [&](int j, int k) { return p.b.at(k, j); });
  }

  float operator()(const Product& p, int row, int col) const {
    float sum = p.has_start ? p.start.at(row, col) : 0;
    sum = rows[size_t(row)] || cols[size_t(col)] ? floats(p, row, col, sum) : split(row, col, sum);
    return p.has_bias ? sum + p.bias.at(0, col) : sum;
  }
  float floats(const Product& p, int row, int col, float sum) const {
    const auto rounded = [this](float x, bool is_flagged) {
      if (parts != 2 || is_flagged) return x;
      return part_of(x, 1) == 0 ? part_of(x, 0) : part_of(x, 0) + part_of(x, 1);
    };
    for (int k = 0; k < depth; ++k)
      sum = std::fma(rounded(p.a.at(row, k), rows[size_t(row)]),
                     rounded(p.b.at(k, col), cols[size_t(col)]), sum);
    return sum;
  }
  float split(int row, int col, float sum) const {
    static constexpr int kOrder[3][6][2] = {
        {{0, 0}}, {{0, 1}, {1, 0}, {0, 0}}, {{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}}};
    for (int k = 0; k < depth; k += 32)
      for (int term = 0; term < parts * (parts + 1) / 2; ++term) {
        const int s = kOrder[parts - 1][term][is_turned], t = kOrder[parts - 1][term][!is_turned];
        float chains[2] = {};
        for (int i = k; i < k + 32 && i < depth; ++i)
          chains[i % 2] = flushed_multiply_add(a[size_t((row * depth + i) * 3 + s)],
                                               b[size_t((col * depth + i) * 3 + t)], chains[i % 2]);
        sum = flushed_add(sum, flushed_add(chains[0], chains[1]));
      }
    return sum;
  }
};

// Packs b by parts, as threads do. The job reads columns of it; with b too where it may.
std::vector<char> pack(pto_matmul_job& job, unsigned seed) {
  const int64_t bytes =
      matmul::split_packed_bytes(matmul::split_parts(job.precision), job.depth, job.cols);
  std::vector<char> packed(size_t(bytes) + 1, 77);
  pto_matmul_job part = job;
  part.packs = 1, part.packed = packed.data(), part.packed_cols = job.cols, part.rows = 0;
  const int width = seed % 2 ? 32 : 96;
  for (int col = 0; col < job.cols; col += width) {
    part.packed_first = col;
    part.cols = std::min(width, job.cols - col);
    part.b = matmul::moved(job.b, 0, col);
    run(part);
  }
  EXPECT_EQ(packed.back(), 77) << "beyond what was promised";
  job.packed = packed.data();
  if (seed % 4 > 1) job.b.data = nullptr;
  return packed;
}

void check(const Sizes& sizes, unsigned seed, int precision) {
  Matmul<float, float> p(sizes, seed);
  pto_matmul_job job = p.job();
  job.precision = precision, job.is_turned = seed % 5 == 0;
  std::vector<char> packed;
  if (seed % 3 == 0) packed = pack(job, seed / 3);
  run(job);
  const Wanted wanted(p, precision, job.is_turned != 0);
  ASSERT_EQ(p.wrong(wanted), "") << sizes << ", seed " << seed << ", precision " << precision;
}

TEST(SplitProduct, AddsProductsOfPartsInOneOrder) {
  for (int seed = 0; seed < rounds_of(60, 3000); ++seed) {
    Random r{unsigned(seed) * 77 + 1};
    const Sizes sizes = {1 + r.below(50), r.below(71), 1 + r.below(50)};
    for (const int precision : kPrecisions)
      ASSERT_NO_FATAL_FAILURE(check(sizes, unsigned(seed), precision));
  }
}

TEST(SplitProduct, CrossesItsBlocks) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    ASSERT_NO_FATAL_FAILURE(check({37, 1100, 5}, seed, PTO_MATMUL_HIGHEST));  // cut depth
    ASSERT_NO_FATAL_FAILURE(check({2, 700, 9}, seed, PTO_MATMUL_HIGHEST));    // pieces of b
    ASSERT_NO_FATAL_FAILURE(check({135, 7, 33}, seed, PTO_MATMUL_HIGH));      // rows of a
    ASSERT_NO_FATAL_FAILURE(check({3, 5, 801}, seed, PTO_MATMUL_HIGHEST));    // blocks of b
  }
  ASSERT_NO_FATAL_FAILURE(check({1, 8300, 3}, 1, PTO_MATMUL_HIGHEST));
  ASSERT_NO_FATAL_FAILURE(check({matmul::kSplitFlags + 3, 2, 1}, 2, PTO_MATMUL_MEDIUM));
}

// Dense matrices, c = a b, or c + a b in place.
struct Dense {
  Sizes s;
  std::vector<float> a, b, c;
  Dense(const Sizes& sizes)
      : s(sizes), a(size_t(s.m * s.k)), b(size_t(s.k * s.n)), c(size_t(s.m * s.n)) {}

  static pto_matmul_matrix matrix(std::vector<float>& x, int row, int col) {
    return {x.data(), PTO_MATMUL_F32, PTO_MATMUL_UNBOXED, PTO_MATMUL_UNBOXED, 0, 0, row, col};
  }
  pto_matmul_job job(int precision) {
    pto_matmul_job job = {};
    job.precision = precision;
    job.rows = s.m, job.depth = s.k, job.cols = s.n;
    job.a = matrix(a, s.k, 1), job.b = matrix(b, s.n, 1), job.c = matrix(c, s.n, 1);
    return job;
  }
  pto_matmul_job transposed(int precision) {
    pto_matmul_job job = {};
    job.precision = precision, job.is_turned = 1;
    job.rows = s.n, job.depth = s.k, job.cols = s.m;
    job.a = matrix(b, 1, s.n), job.b = matrix(a, 1, s.k), job.c = matrix(c, 1, s.n);
    return job;
  }
};

float gauss(Random& r) {
  float sum = 0;
  for (int i = 0; i < 12; ++i) sum += float(r.below(1 << 20)) * 0x1p-20f;
  return sum - 6;
}

TEST(SplitProduct, TransposedHasTheSameBits) {
  Random r{5};
  for (const int precision : kPrecisions) {
    Dense p({35, 67, 18});
    for (float& x : p.a) x = gauss(r);
    for (float& x : p.b) x = gauss(r);
    p.a[3 * 67 + 5] = NAN, p.b[18 * 9 + 2] = 1e-30f;
    run(p.job(precision));
    const std::vector<float> straight = p.c;
    run(p.transposed(precision));
    for (size_t i = 0; i < straight.size(); ++i)
      EXPECT_EQ(bit_cast<uint32_t>(straight[i]), bit_cast<uint32_t>(p.c[i])) << i;
  }
}

// Across pieces of the depth, groups and blocks of columns, of which some lines are flagged.
TEST(SplitProduct, FewRowsHaveTheBitsThatTheyHaveAmongMany) {
  const int many = is_deep() ? 768 : 432;
  const auto few = is_deep() ? std::vector{1, 16, 17, 19, 31, 32} : std::vector{16, 19};
  for (const Sizes& sizes : {Sizes{40, 610, 150}, Sizes{35, 290, many}}) {
    Random r{7};
    Dense p(sizes);
    for (float& x : p.a) x = gauss(r);
    for (float& x : p.b) x = gauss(r);
    const auto b_at = [&](int k, int j) -> float& { return p.b[size_t(k * sizes.n + j)]; };
    b_at(280, 5) = 1e-30f, b_at(10, 70) = -1e30f, b_at(270, 100) = INFINITY, b_at(20, 140) = NAN;
    for (int k = 0; k < sizes.k; ++k) b_at(k, 40) *= 0x1p-40f;
    b_at(77, 40) = 1e-30f;
    p.a[size_t(2 * sizes.k + 7)] = 1e-30f;
    std::vector<float> weight(p.b.size());
    for (int k = 0; k < sizes.k; ++k)
      for (int j = 0; j < sizes.n; ++j) weight[size_t(j * sizes.k + k)] = b_at(k, j);
    for (const int precision : kPrecisions)
      for (const bool is_weight : {false, true}) {
        pto_matmul_job job = p.job(precision);
        if (is_weight) job.b = Dense::matrix(weight, 1, sizes.k);
        run(job);
        const std::vector<float> among_many = p.c;
        for (const int rows : few) {
          job.rows = rows;
          std::fill(p.c.begin(), p.c.end(), 7.0f);
          run(job);
          for (size_t i = 0; i < size_t(rows * sizes.n); ++i) {
            if (p.c[i] != p.c[i] && among_many[i] != among_many[i]) continue;
            ASSERT_EQ(bit_cast<uint32_t>(p.c[i]), bit_cast<uint32_t>(among_many[i]))
                << rows << " rows, place " << i << ", precision " << precision << is_weight;
          }
        }
      }
  }
}

// Squares are written in parts, of which none may cross the boxes of their rows. Few rows are
// written by another class.
TEST(SplitProduct, BoxesHaveTheBitsOfFewRows) {
  Random r{8};
  for (const int depth : {20, 70, 200, 300})
    for (const bool has_bias : {false, true}) {
      Dense p({70, depth, 80});
      std::vector<float> bias(80), boxes(5 * 5 * 16 * 16);
      for (std::vector<float>* const all : {&p.a, &p.b, &bias})
        for (float& x : *all) x = gauss(r);
      pto_matmul_job job = p.job(PTO_MATMUL_HIGHEST);
      if (has_bias) job.bias = Dense::matrix(bias, 0, 1);
      pto_matmul_job few = job;
      few.rows = 14;
      for (int row = 0; row < 70; row += 14) {
        few.a.data = &p.a[size_t(row * depth)], few.c.data = &p.c[size_t(row * 80)];
        run(few);
      }
      job.c = {boxes.data(), PTO_MATMUL_F32, 16, 16, 5 * 16 * 16, 16 * 16, 16, 1};
      run(job);
      for (int i = 0; i < 70; ++i)
        for (int j = 0; j < 80; ++j) {
          const int at = (i / 16 * 5 + j / 16) * 16 * 16 + i % 16 * 16 + j % 16;
          ASSERT_EQ(boxes[size_t(at)], p.c[size_t(i * 80 + j)])
              << depth << " at " << i << ", " << j;
        }
    }
}

// Where the sums start in c itself, what is flagged is still added once.
TEST(SplitProduct, AddsToWhatItStartsFrom) {
  Random r{6};
  for (const Sizes& sizes : {Sizes{35, 67, 40}, Sizes{35, 1100, 40}, Sizes{5, 8300, 3}}) {
    Dense p(sizes);
    for (std::vector<float>* const all : {&p.a, &p.b, &p.c})
      for (float& x : *all) x = gauss(r);
    p.a[size_t(2 * sizes.k + sizes.k - 1)] = 1e-30f,
                                       p.b[size_t((sizes.k - 1) * sizes.n + 1)] = 1e30f;
    const std::vector<float> start = p.c;
    pto_matmul_job job = p.job(PTO_MATMUL_HIGHEST);
    std::vector<float> beside(p.c.size());
    job.start = job.c, job.start.data = const_cast<float*>(start.data());
    job.c.data = beside.data();
    run(job);
    job.c = job.start = p.job(0).c;
    run(job);
    for (size_t i = 0; i < beside.size(); ++i)
      EXPECT_EQ(bit_cast<uint32_t>(beside[i]), bit_cast<uint32_t>(p.c[i])) << i;
  }
}

// Matrices on which errors differ: the elements of a and b by row or column and by depth.
struct Kind {
  const char* name;
  float (*element)(Random& r, int line, int k);
  bool cancels;  // half of the depth takes back the other but for 2^-12 of it
};
const Kind kKinds[] = {
    {"normal", [](Random& r, int, int) { return gauss(r); }, false},
    {"uniform from 0 to 1",
     [](Random& r, int, int) { return float(r.below(1 << 23) + 1) * 0x1p-23f; }, false},
    {"lognormal, sigma 5",
     [](Random& r, int, int) { return std::exp(5 * gauss(r)) * (r.below(2) ? 1.0f : -1.0f); },
     false},
    {"graded along lines", [](Random& r, int line, int) { return std::ldexp(gauss(r), line - 16); },
     false},
    {"graded along the depth",
     [](Random& r, int, int k) { return std::ldexp(gauss(r), k % 41 - 20); }, false},
    {"ill-conditioned", [](Random& r, int, int) { return gauss(r); }, true},
    {"Hilbert", [](Random&, int line, int k) { return 1.0f / float(line + k + 1); }, false},
};

// Errors of sums by |a| |b|.
struct Errors {
  double largest = 0, squares = 0;
  int count = 0;
  void add(double error) { largest = std::max(largest, error), squares += error * error, ++count; }
  double rms() const { return std::sqrt(squares / count); }
};

Errors errors(const Dense& p, int precision) {
  Errors found;
  for (int i = 0; i < p.s.m; ++i)
    for (int j = 0; j < p.s.n; ++j) {
      double sum = 0, absolute = 0;
      float chain = 0;
      for (int k = 0; k < p.s.k; ++k) {
        const float x = p.a[size_t(i * p.s.k + k)], y = p.b[size_t(k * p.s.n + j)];
        sum += double(x) * double(y), absolute += std::fabs(double(x) * double(y));
        chain = std::fma(x, y, chain);
      }
      const float got = precision == PTO_MATMUL_CHAIN ? chain : p.c[size_t(i * p.s.n + j)];
      found.add(std::fabs(double(got) - sum) / absolute);
    }
  return found;
}

Dense matrices(const Kind& kind, int depth) {
  Dense p({32, depth, 32});
  Random r{unsigned(depth)};
  const auto fill = [&](int lines, auto at) {
    for (int i = 0; i < lines; ++i)
      for (int k = 0; k < depth; ++k) at(i, k) = kind.element(r, i, k);
  };
  fill(p.s.m, [&](int i, int k) -> float& { return p.a[size_t(i * depth + k)]; });
  fill(p.s.n, [&](int j, int k) -> float& { return p.b[size_t(k * p.s.n + j)]; });
  for (int k = depth / 2; kind.cancels && k < depth; ++k) {
    for (int i = 0; i < p.s.m; ++i)
      p.a[size_t(i * depth + k)] = -p.a[size_t(i * depth + k - depth / 2)];
    for (int j = 0; j < p.s.n; ++j)
      p.b[size_t(k * p.s.n + j)] =
          p.b[size_t((k - depth / 2) * p.s.n + j)] * (1 + 0x1p-12f * gauss(r));
  }
  return p;
}

// At most that of a chain of multiply-adds, or where a few products make up the sums, which a chain
// rounds but a few times, about one rounding.
TEST(SplitProduct, HasTheErrorOfAProductOfFloats) {
  for (const Kind& kind : kKinds)
    for (const int depth : {8, 64, 512}) {
      Dense p = matrices(kind, depth);
      run(p.job(PTO_MATMUL_HIGHEST));
      const Errors floats = errors(p, PTO_MATMUL_CHAIN), parts = errors(p, PTO_MATMUL_HIGHEST);
      if (std::getenv("PTO_PRINT_ERRORS"))
        std::printf("%s, depth %d: %.2g, %.2g; floats %.2g, %.2g\n", kind.name, depth, parts.rms(),
                    parts.largest, floats.rms(), floats.largest);
      EXPECT_LE(parts.rms(), std::max(floats.rms(), 0x1p-24)) << kind.name << ", depth " << depth;
      EXPECT_LE(parts.largest, std::max(floats.largest, 0x1.8p-23)) << kind.name << ", " << depth;
    }
}

TEST(SplitProduct, HasAsManyBytesAsTheMostColumnsTake) {
  EXPECT_EQ(matmul::quotient_up(INT32_MAX, 16), 1 << 27);
  EXPECT_EQ(matmul::quotient_up(0, 16) + matmul::quotient_up(1, 16) + matmul::quotient_up(16, 16),
            2);
  constexpr int64_t kCols = int64_t{1} << 31;
  EXPECT_EQ(matmul::split_packed_bytes(1, 1, INT32_MAX),
            kCols / matmul::kTileCols * matmul::kTileBytes + kCols);
}

TEST(SplitProduct, DiffersFromTheSumByTheStatedBound) {
  for (const Kind& kind : kKinds)
    for (const int depth : {1, 8, 33, 512})
      for (const int precision : kPrecisions) {
        Dense p = matrices(kind, depth);
        run(p.job(precision));
        const double left_out = precision == PTO_MATMUL_MEDIUM ? 0x1.1p-7
                                : precision == PTO_MATMUL_HIGH ? 0x1p-14
                                                               : 0;
        EXPECT_LE(errors(p, precision).largest, (depth / 4 + 24) * 0x1p-24 + left_out)
            << kind.name << ", depth " << depth << ", precision " << precision;
      }
}

float rounded_pairs(const Matmul<float, float>& p, int row, int col) {
  const auto pair = [&p](auto at, int k) {
    const uint32_t low = bfloat16_t(at(k)).RawData();
    return k + 1 < p.sizes.k ? low | uint32_t(bfloat16_t(at(k + 1)).RawData()) << 16 : low;
  };
  float sum = p.has_start ? p.start.at(row, col) : 0;
  for (int k = 0; k < p.sizes.k; k += 2)
    sum = added_pair(sum, pair([&](int i) { return p.a.at(row, i); }, k),
                     pair([&](int i) { return p.b.at(i, col); }, k));
  return p.has_bias ? sum + p.bias.at(0, col) : sum;
}

TEST(PairProduct, RoundsFloatsAtPrecisionMedium) {
  for (int seed = 0; seed < rounds_of(60, 3000); ++seed) {
    Random r{unsigned(seed) * 31 + 7};
    const Sizes sizes = {1 + r.below(50), r.below(seed % 8 ? 71 : 600), 1 + r.below(70)};
    Matmul<float, float> p(sizes, unsigned(seed));
    const pto_matmul_job job = p.job();
    matmul::run_pairs<EmulatedPairs>(job);
    ASSERT_EQ(p.wrong(rounded_pairs), "") << sizes << ", seed " << seed;
  }
}

TEST(PairProduct, EndsAnOddDepthWithAZeroNotWithWhatWasThere) {
  Dense p({3, 31, 40});
  for (float& x : p.a) x = 1;
  for (float& x : p.b) x = 2;
  p.b[15 * 40 + 3] = INFINITY;  // lies in its part where the depth's last pair ends in the next one
  matmul::run_pairs<EmulatedPairs>(p.job(PTO_MATMUL_MEDIUM));
  for (int i = 0; i < 3 * 40; ++i) EXPECT_EQ(p.c[size_t(i)], i % 40 == 3 ? INFINITY : 62) << i;
}

// Runs the same jobs by libpto where the CPU has the instructions, packed or not.
TEST(PairProduct, HasTheBitsOfTheHardwareAtPrecisionMedium) {
  int runs = 0;
  for (int seed = 0; seed < rounds_of(40, 1000); ++seed) {
    Random r{unsigned(seed)};
    const Sizes sizes = {1 + r.below(70), r.below(seed % 8 ? 100 : 700), 1 + r.below(70)};
    Matmul<float, float> p(sizes, unsigned(seed));
    pto_matmul_job job = p.job();
    job.engine = PTO_MATMUL_AVX512_BF16, job.precision = PTO_MATMUL_MEDIUM;
    std::vector<char> packed(size_t(pto_matmul_packed_bytes(&job)) + 1, 77);
    if (seed % 3 == 0) {
      job.packed = packed.data(), job.packs = 1;
      if (pto_matmul(&job) != 0) break;
      EXPECT_EQ(packed.back(), 77);
      job.packs = 0, job.b.data = nullptr;
    }
    if (pto_matmul(&job) != 0) break;
    ++runs;
    ASSERT_EQ(p.wrong(rounded_pairs), "") << sizes << ", seed " << seed;
  }
  if (runs == 0) GTEST_SKIP() << "no AVX512_BF16 on this machine";
}

TEST(SplitProduct, HasTheBitsOfTheHardware) {
  int runs = 0;
  for (int seed = 0; seed < rounds_of(40, 1000); ++seed) {
    Random r{unsigned(seed) + 900};
    const Sizes sizes = {1 + r.below(70), r.below(100), 1 + r.below(70)};
    for (const int precision : kPrecisions) {
      Matmul<float, float> p(sizes, unsigned(seed));
      pto_matmul_job job = p.job();
      job.engine = PTO_MATMUL_AMX, job.precision = precision;
      if (pto_matmul(&job) != 0) continue;
      ++runs;
      ASSERT_EQ(p.wrong(Wanted(p, precision, false)), "") << sizes << ", seed " << seed;
    }
  }
  if (runs == 0) GTEST_SKIP() << "no AMX on this machine";
}

}  // namespace pto::split_test
